"""One real node: namespaces, containerd, kubelet and driver as processes, and a handle for what tests do to them."""

import contextlib
import http.client
import json
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.controlplane.access import RequestError
from e2e.controlplane.gates import gate_flags
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import Component, ComponentError
from e2e.nodes import records, settings
from e2e.nodes.processes import Holder, Inside
from e2e.nodes.programs import Programs, kubelet

READY_SECONDS: Final = 60.0
OWN: Final = Path("/mnt")
"""Where a node that has disks sees them in place of the machine's folder."""
POLL_SECONDS: Final = 0.05
POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
_REGISTERED: Final = b"NotifyRegistrationStatus"
"""What the driver logs when the kubelet knows it."""
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What a node is to be: a name is enough."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 0
    """How many CPUs the kubelet reports; 0: those of the machine."""
    kubelet: Json = field(default_factory=dict)
    """Fields of the KubeletConfiguration that differ, such as registerWithTaints."""
    drivers: Mapping[str, Sequence[Json]] = field(default_factory=lambda: {settings.DRIVER: ({"devices": []},)})
    """The slices that each driver publishes at first, as in a ResourceSlice's spec, by its name."""
    disks: Sequence[str] = ()
    """Folders beneath `OWN`, which are the node's own."""
    has_large_images: bool = False
    """Whether its images are large, so that copying them takes long."""
    has_network: bool = False
    """Whether pods and their node reach each other; the node hands on what they send to the Service `kubernetes`."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a node is made of: `cgroup` is the name beneath which its pods are, `kubeconfig` its kubelet's way in."""

    index: int
    folder: Path
    cgroup: str
    kubeconfig: Path
    kubernetes: str
    """The minor version of the kubelet at first."""
    spec: "NodeSpec"

    @property
    def address(self) -> str:
        """The node's address, of a network for documentation (RFC 5737): no packet is sent to it from outside."""
        return f"192.0.2.{self.index + 1}"


class Node:
    """A running node; `Nodes.start` makes it."""

    def __init__(self, plane: ControlPlane, programs: Programs, place: Place) -> None:
        self.name = place.spec.name
        self.folder = place.folder
        self._plane = plane
        self._programs = programs
        self._kubernetes = place.kubernetes
        self._place = place
        self._holder: Holder | None = None
        self._containerd: Inside | None = None
        self._kubelet: Inside | None = None
        self._drivers: dict[str, list[Inside]] = {}
        self._ends: list[datetime] = []
        """When all of the node's processes had ended."""

    # what tests do

    @property
    def drivers(self) -> tuple[str, ...]:
        """The names of the node's drivers; what else has a driver's name means the first of them without it."""
        return tuple(self._place.spec.drivers)

    def publish(self, devices: Sequence[Json], *counters: Json, driver: str = "", **fields: Any) -> None:
        """
        Let the driver publish these devices, and wait until the API server has them.

        Devices, counter sets and `fields`, such as skipNodeOperations, are as in a ResourceSlice's spec. A driver that
        does not run publishes them when it starts. Raises ComponentError, with the driver's log, where the slices do
        not come.
        """
        slices = [{"devices": list(devices), **fields}]
        if counters:  # a slice has either
            slices.append({"sharedCounters": list(counters)})
        self.steer("resources.yaml", yaml.safe_dump({"slices": slices}), driver)
        instances = self._drivers.get(driver or self.drivers[0], ())
        for each in instances:
            each.tell(signal.SIGHUP)
        if instances:
            wait(instances[-1], lambda: self._has_published(devices, counters, driver))

    def steer(self, name: str, text: str | None, driver: str = "") -> None:
        """Write a file that steers the driver, as `go/driver/main.go` lists them; None removes it."""
        path = self._driver_folder(driver) / name
        if text is None:
            path.unlink(missing_ok=True)
            return
        staged = path.with_name(f".{name}")
        staged.write_text(text)
        staged.rename(path)

    def published(self, driver: str = "") -> list[Json]:
        """Return the devices of the driver's slices as the API server has them."""
        return _listed(self.slices(driver), "devices")

    def slices(self, driver: str = "") -> list[Json]:
        """Return the slices of the driver."""
        items: list[Json] = self._plane.request("GET", f"{SLICES}?fieldSelector=spec.nodeName={self.name}")["items"]
        return [each for each in items if each["spec"]["driver"] == (driver or self.drivers[0])]

    def calls(self, driver: str = "") -> list[records.Call]:
        """Return what the driver was asked for."""
        return records.calls(self._driver_folder(driver) / "calls.jsonl")

    def boots(self, driver: str = "") -> list[list[records.Call]]:
        """Return what the driver was asked for, by boot: what was prepared before a boot is in no container since."""
        return records.by_boot(self.calls(driver), self._ends)

    def containers(self) -> list[records.Container]:
        """Return the containers that have started and whose pods are there, by what they printed."""
        return records.containers(self.folder / "log" / "pods")

    def pod_resources(self) -> list[Json]:
        """Return what the kubelet says that its containers have, by pod (PodResources API). Raises ComponentError."""
        answer: Json = json.loads(self._run(self._programs.pod_resources, POD_RESOURCES))
        return list(answer.get("podResources", ()))

    def load(self, archive: Path) -> None:
        """Give the node an image: an OCI layout as a tar file, or what `docker save` writes. Raises ComponentError."""
        flags = ("--local", f"--snapshotter={self._snapshotter()}")
        self._run(self._programs.ctr, "-n=k8s.io", "images", "import", *flags, str(archive))

    def kill_driver(self, driver: str = "") -> None:
        """Kill every instance of the driver."""
        for each in self._drivers.pop(driver or self.drivers[0], ()):
            each.stop()

    @contextlib.contextmanager
    def stopped_driver(self, driver: str = "") -> Iterator[None]:
        """Stop the driver for the block, as one that hangs: it answers no call, and publishes nothing."""
        instances = self._drivers.get(driver or self.drivers[0], ())
        for each in instances:
            each.tell(signal.SIGUSR2)
        try:
            yield
        finally:
            for each in instances:
                each.tell(signal.SIGCONT)

    def start_driver(self, instance: str = "", driver: str = "") -> Inside:
        """
        Start the driver and wait until it is called by the kubelet.

        Two run at once where each has an `instance`, as pods of a rolling update do: `end` ends the older one.
        """
        driver, folder = driver or self.drivers[0], self._driver_folder(driver)
        name = f"{folder.name}-{instance}" if instance else folder.name
        log = self._log(name)
        before = log.stat().st_size if log.exists() else 0  # an earlier one has written so much
        started = self._program(
            name,
            self._programs.driver,
            f"--name={driver}",
            f"--node={self.name}",
            f"--folder={folder}",
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--pod={instance}",
        )
        others = (each for each in self._drivers.get(driver, ()) if each.is_running())
        self._drivers[driver] = [*others, started]
        wait(started, lambda: _REGISTERED in log.read_bytes()[before:] and bool(self.slices(driver)))
        return started

    def kill_kubelet(self) -> None:
        """Kill the kubelet; containers go on."""
        if self._kubelet:
            self._kubelet.stop()

    def restart_kubelet(self, kubernetes: str | None = None) -> None:
        """
        Kill the kubelet, start it again, and wait until the node is ready; containers go on meanwhile.

        With `kubernetes`, a minor version, it is that version's from now on, which is built first where the cache has
        none. Raises BuildError or ComponentError.
        """
        if kubernetes:
            self._programs = replace(self._programs, kubelet=kubelet(kubernetes))
            self._kubernetes = kubernetes
        self.kill_kubelet()
        self._start_kubelet()

    def reboot(self) -> None:
        """Let all processes of the node end at once, containers too, and boot it again with the same disk."""
        self.power_off()
        self.boot()

    def power_off(self) -> None:
        """Let all processes of the node end at once."""
        for each in self._all():  # the first takes the others along
            each.stop()
        self._drivers.clear()
        self._ends.append(datetime.now(UTC))

    def check(self) -> None:
        """Raise ComponentError where a program has ended that should run."""
        for each in self._all():
            each.check()

    # how it starts

    def boot(self) -> None:
        """Start everything and wait until the node is ready. Raises ComponentError."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)  # a file system in memory on a real node
        (self.folder / "pid").unlink(missing_ok=True)
        place = self._place
        for disk in place.spec.disks:
            (self.folder / "own" / Path(disk).relative_to(OWN)).mkdir(parents=True, exist_ok=True)
        arguments = {
            "folder": self.folder,
            "name": self.name,
            "address": place.address,
            "cgroup": place.cgroup,
            "server": f"{self._plane.admin.host}:{self._plane.admin.port}",
            "service": settings.SERVICE if place.spec.has_network else "",
            "own": OWN if place.spec.disks else "",
            "cpus": place.spec.cpus,
        }
        flags = (f"-{name}={value}" for name, value in arguments.items())
        self._holder = Holder("node", [self._programs.node, "hold", *flags], self._log("node"), cwd=self.folder)
        wait(self._holder, (self.folder / "pid").exists)
        self._containerd = self._start_containerd()
        self._start_kubelet()
        for driver, slices in place.spec.drivers.items():
            folder = self._driver_folder(driver)
            folder.mkdir(exist_ok=True)
            if not (folder / "resources.yaml").exists():
                self.steer("resources.yaml", yaml.safe_dump({"slices": list(slices)}), driver)
            self.start_driver(driver=driver)

    def _all(self) -> Iterator[Component]:
        """Yield what runs, the holder first."""
        instances = (each for running in self._drivers.values() for each in running)
        yield from filter(None, (self._holder, self._containerd, self._kubelet, *instances))

    def _driver_folder(self, driver: str) -> Path:
        return self.folder / ("driver" if driver in ("", self.drivers[0]) else f"driver-{driver}")

    def _has_published(self, devices: Sequence[Json], counters: Sequence[Json], driver: str) -> bool:
        slices = self.slices(driver)
        return holds(_listed(slices, "devices"), devices) and holds(_listed(slices, "sharedCounters"), counters)

    def _start_containerd(self) -> Inside:
        path = settings.write_containerd(self.folder, self._programs, self._network(), self._snapshotter())
        containerd = self._program("containerd", self._programs.containerd, f"--config={path}")
        wait(containerd, (self.folder / "run" / "containerd" / "containerd.sock").exists)
        archive = self.folder / "image.tar"
        if archive.exists():  # else an earlier boot has imported it
            self.load(archive)
            archive.unlink()
        return containerd

    def _network(self) -> settings.Network:
        return (settings.reached if self._place.spec.has_network else settings.unreached)(self._place.index)

    def _snapshotter(self) -> str:
        return settings.snapshotter(self.folder, has_large_images=self._place.spec.has_large_images)

    def _start_kubelet(self) -> None:
        if self._kubelet:  # what an earlier one has said must not count, and the API has whole seconds
            time.sleep(1 - time.time() % 1)
        began = time.time()
        config = settings.write_kubelet(self.folder, self._place.cgroup, self._place.spec.kubelet)
        self._kubelet = self._program(
            "kubelet",
            self._programs.kubelet,
            f"--config={config}",
            f"--kubeconfig={self._place.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self._place.address}",
            "--node-labels=" + ",".join(f"{key}={value}" for key, value in self._place.spec.labels.items()),
            *gate_flags(self._plane.feature_gates, self._kubernetes),
        )
        wait(self._kubelet, lambda: self._is_ready(began))

    def _is_ready(self, since: float) -> bool:
        """Say whether the kubelet has said that the node is ready after a moment (seconds of `time.time`)."""
        node = self._plane.request("GET", f"/api/v1/nodes/{self.name}")
        conditions = {each["type"]: each for each in node["status"].get("conditions", ())}
        ready = conditions.get("Ready", {})
        if ready.get("status") != "True":
            return False
        beat = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
        return str(ready["lastHeartbeatTime"]) >= beat

    def _program(self, name: str, binary: Path, *arguments: str) -> Inside:
        pid = (self.folder / "pid").read_text()
        command: list[str | Path] = [self._programs.node, "enter", pid, binary, *arguments]
        return Inside(f"{name} of {self.name}", command, self._log(name), cwd=self.folder)

    def _run(self, binary: Path, *arguments: str) -> str:
        """Run a program inside until it ends and return what it prints. Raises ComponentError."""
        pid = (self.folder / "pid").read_text()
        command = [str(self._programs.node), "enter", pid, str(binary), *arguments]
        # Its standard input stays open: `node enter` ends with it.
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
            assert run.stdout is not None
            output = run.stdout.read().decode(errors="replace")
        if run.returncode:
            raise ComponentError(f"{binary.name} {' '.join(arguments)} on {self.name} failed:\n{output}")
        return output

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


def wait(component: Component, is_ready: Callable[[], bool]) -> None:
    """Wait until a program is ready; an API server that is away for a moment counts as not yet."""

    def is_known_to_be_ready() -> bool:
        try:
            return is_ready()
        except (RequestError, OSError, http.client.HTTPException):
            return False

    component.wait_until(is_known_to_be_ready, READY_SECONDS, poll_seconds=POLL_SECONDS)


def new_instance() -> str:
    """Return a name for an instance of a driver."""
    return secrets.token_hex(4)


def _listed(slices: Iterable[Json], field: str) -> list[Json]:
    return [each for published in slices for each in published["spec"].get(field) or ()]


def holds(published: Sequence[Json], wanted: Sequence[Json]) -> bool:
    """Say whether exactly the wanted devices, or counter sets, are published; the API server adds fields."""
    found, expected = (sorted(each, key=lambda item: str(item["name"])) for each in (published, wanted))
    return len(found) == len(expected) and all(map(_contains, found, expected))


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_contains(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_contains, found, wanted))
    return bool(found == wanted)
