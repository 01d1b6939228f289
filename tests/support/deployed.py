"""Dovetail as its manifests deploy it onto real nodes: its pods, their processes, what they log, and the Lease."""

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from e2e.audit.reading import Key
from e2e.audit.writes import Write, read_writes
from e2e.controlplane.plane import REPOSITORY, ControlPlane, KubectlError
from e2e.dovetail import NAMESPACE
from e2e.nodes import image
from e2e.nodes.cluster import Nodes
from tests.support.controlplane import wait_until
from tests.support.shell_world import Json

OVERLAY: Final = REPOSITORY / "deploy" / "overlays" / "example"
DEPLOYMENT: Final = "deployment/dovetail"
LEASE: Final = Key(NAMESPACE, "dovetail")
START_SECONDS: Final = 180
"""How long all replicas may take until they are ready, one after the other in a rollout."""
END_SECONDS: Final = 60.0


class Process(NamedTuple):
    """A process of a container: its id on this machine, its command, and fields of its /proc/PID/status."""

    pid: int
    command: tuple[str, ...]
    status: dict[str, str]

    def can_write(self, path: str) -> bool:
        """Say whether a file can be made in the container's file system, by root too."""
        made = Path(f"/proc/{self.pid}/root{path}")
        try:
            made.touch()
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            return False
        made.unlink()
        return True


class Deployed:
    """The Deployment of `deploy/overlays/example` on the nodes of a control plane."""

    def __init__(self, plane: ControlPlane, nodes: Nodes) -> None:
        self._plane = plane
        self._nodes = nodes

    def apply(self) -> None:
        """Apply the manifests as a user does it, and wait until all replicas are ready."""
        self._plane.kubectl("apply", "--server-side", "-k", str(OVERLAY))
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until all replicas are of the newest revision and ready."""
        try:
            self.kubectl("rollout", "status", DEPLOYMENT, f"--timeout={START_SECONDS}s")
        except KubectlError as error:
            raise AssertionError(f"{error}\n{self.kubectl('get', 'pods,events', '-o', 'wide')}") from None

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in Dovetail's namespace."""
        return self._plane.kubectl("-n", NAMESPACE, *arguments)

    def pods(self) -> dict[str, Json]:
        """Return the pods by their names, also those that end."""
        items = self._plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
        return {each["metadata"]["name"]: each for each in items}

    def leader(self) -> str:
        """Return the name of the pod that has the Lease, empty where none has it."""
        lease = self._plane.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE.name}")
        return str(lease["spec"].get("holderIdentity", "")).partition("_")[0]

    def delete(self) -> None:
        """Delete the Deployment and wait until its pods are gone."""
        self.kubectl("delete", DEPLOYMENT)
        wait_until(lambda: not self.pods(), seconds=END_SECONDS)

    def log(self, pod: str) -> list[Json]:
        """Return the events that a pod has logged, which are gone with it."""
        paths = (each for node in self._nodes for each in (node.folder / "log" / "pods").glob(f"{NAMESPACE}_{pod}_*"))
        lines = (line for each in paths for file in sorted(each.glob("*/*.log")) for line in _lines(file))
        return [json.loads(each) for each in lines if each.startswith("{")]

    def processes(self, pod: Json) -> list[Process]:
        """Return the processes of a pod's containers, without the one of its sandbox."""
        uid = pod["metadata"]["uid"]
        found = (process for process in _processes() if uid in process.status["cgroup"])
        return [each for each in found if each.command[:1] != (image.PROGRAM,)]

    def writes(self) -> list[Write]:
        """Return the acknowledged writes of the whole cluster."""
        assert self._plane.audit_log is not None
        with self._plane.audit_log.open(encoding="utf-8") as lines:
            return read_writes(lines)


def image_name(plane: ControlPlane) -> str:
    """Return the name of the image in the manifests."""
    manifests = yaml.safe_load_all(plane.kubectl("kustomize", str(OVERLAY)))
    (deployment,) = (each for each in manifests if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def _lines(log: Path) -> Iterator[str]:
    """Yield what a container wrote; the container runtime splits lines and marks the parts (F: the last one)."""
    line = ""
    for written in log.read_text().splitlines():
        _, _, kind, content = written.split(" ", 3)
        line += content
        if kind == "F":
            yield line
            line = ""


def _processes() -> Iterator[Process]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().decode().split("\0")
            status: dict[str, Any] = {"cgroup": (folder / "cgroup").read_text()}
            for line in (folder / "status").read_text().splitlines():
                name, _, value = line.partition(":")
                status[name] = value.strip()
        except OSError:  # it has ended
            continue
        yield Process(int(folder.name), tuple(command), status)
