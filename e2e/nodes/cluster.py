"""The nodes of a control plane: started together, asked for one by one, ended with all that they started."""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

from e2e.controlplane.access import RequestError
from e2e.controlplane.build import cache_folder
from e2e.controlplane.plane import REPOSITORY, ControlPlane
from e2e.controlplane.processes import Stoppable
from e2e.nodes import image
from e2e.nodes.node import SLICES, Json, Node, NodeSpec, Place
from e2e.nodes.programs import Programs

CGROUPS: Final = Path("/sys/fs/cgroup")
_PREFIX: Final = "dovetail-nodes-"
"""Of a folder with the state of nodes; the id of the process that started them follows."""
HIDDEN: Final = (Path("/var/lib"), Path("/var/log"), Path("/run"))
"""Where a node sees its own files in place of the machine's."""


class Nodes(Stoppable):
    """
    Real nodes with kubelet, containerd and driver; `start` makes them, the end of a `with` block ends them.

    Should this process die without it, each node's holder notices, ends all processes of the node and removes its
    cgroup and its folder. Where that one is killed too, the processes die with it, and the next start removes the rest.
    """

    def __init__(self, plane: ControlPlane, nodes: dict[str, Node], ends: contextlib.ExitStack) -> None:
        """Use `start`."""
        self._plane = plane
        self._nodes = nodes
        self._ends = ends

    @classmethod
    def start(
        cls,
        plane: ControlPlane,
        count: int,
        *,
        prefix: str = "node",
        kubernetes: str | None = None,
        labels: Mapping[str, str] | None = None,
        kubeconfigs: Mapping[str, Path] | None = None,
        kubelet: Json | None = None,
    ) -> Self:
        """
        Start nodes and wait until they are ready and their drivers have published (about 5 s).

        They are named PREFIX-0 and so on. Kubelets are of the plane's Kubernetes, unless `kubernetes` names another
        minor version, and come as administrators, unless `kubeconfigs` has another way for a node's name; `kubelet`
        has fields of their KubeletConfiguration. Raises BuildError or ComponentError, with nothing left running.
        """
        specs = [
            NodeSpec(name=f"{prefix}-{index}", labels=labels or {}, kubelet=kubelet or {}) for index in range(count)
        ]
        return cls.start_each(plane, specs, kubernetes=kubernetes, kubeconfigs=kubeconfigs)

    @classmethod
    def start_each(
        cls,
        plane: ControlPlane,
        specs: Sequence[NodeSpec],
        *,
        kubernetes: str | None = None,
        kubeconfigs: Mapping[str, Path] | None = None,
        images: Sequence[str] = (),
    ) -> Self:
        """Start nodes that differ, as `start` does; the one image has the names in `images`, too."""
        programs = Programs.built(kubernetes or plane.kubernetes)
        _remove_stale()
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        with contextlib.ExitStack() as ends:
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
            nodes: dict[str, Node] = {}
            for index, spec in enumerate(specs):
                place = Place(
                    index=index,
                    folder=folder / spec.name,
                    cgroup=f"dovetail-node-{os.getpid()}-{folder.name[-8:]}{index}",
                    kubeconfig=(kubeconfigs or {}).get(spec.name, plane.kubeconfig),
                    kubernetes=kubernetes or plane.kubernetes,
                    spec=spec,
                )
                place.folder.mkdir()
                names = (image.NAME, *images)
                image.write(programs.container, place.folder / "image.tar", platform.machine(), names)
                nodes[spec.name] = Node(plane, programs, place)
            ends.callback(_remove, plane, nodes.values())
            with ThreadPoolExecutor(len(nodes)) as pool:
                list(pool.map(Node.boot, nodes.values()))
            return cls(plane, nodes, ends.pop_all())

    def stop(self) -> None:
        """End all nodes and remove what the API server has of them; a second call does nothing."""
        self._ends.close()

    @property
    def folder(self) -> Path:
        """Where logs and state of nodes are, each in a folder with its name."""
        return next(iter(self)).folder.parent

    def check(self) -> None:
        """Raise ComponentError, with the end of its log, where a program has ended that should run."""
        for node in self:
            node.check()

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())


def _remove_stale() -> None:
    """Remove folders of processes that are gone, as are their nodes' holders."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        if not Path("/proc", path.name.removeprefix(_PREFIX).partition("-")[0]).exists():
            shutil.rmtree(path, ignore_errors=True)


def _remove(plane: ControlPlane, nodes: Collection[Node]) -> None:
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(Node.power_off, nodes))
    for node in nodes:
        with contextlib.suppress(RequestError, OSError):  # the control plane may be gone
            slices = (each for driver in node.drivers for each in node.slices(driver))
            for path in (*(f"{SLICES}/{each['metadata']['name']}" for each in slices), f"/api/v1/nodes/{node.name}"):
                plane.request("DELETE", path)


def unusable(*hidden_too: Path) -> str:
    """
    Say why this machine cannot have real nodes, an empty string where it can.

    `hidden_too` are folders of which nodes have their own besides those that every node has.
    """
    if sys.platform != "linux":
        return "real nodes need Linux"
    if os.geteuid() != 0:
        return "real nodes need root"
    for path in hidden_too:
        if not path.is_dir():
            return f"{path} is no folder of this machine, and a node is to have one of its own there"
    for path in (REPOSITORY, cache_folder("node"), Path(tempfile.gettempdir())):
        for hidden in (*HIDDEN, *hidden_too):
            if path.resolve().is_relative_to(hidden):
                return f"{path} is beneath {hidden}, where a node has files of its own"
    return _without_namespaces() or _without_cgroups()


def _without_namespaces() -> str:
    command = ("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc", "true")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"whether namespaces can be made is not known: {error}"
    return f"no namespaces can be made: {done.stderr.strip()}" if done.returncode else ""


def _without_cgroups() -> str:
    """Try what a node does: make a cgroup, and with cgroup v2 hand controllers down to it."""
    is_unified = (CGROUPS / "cgroup.controllers").exists()
    roots = [CGROUPS] if is_unified else [path for path in CGROUPS.glob("*") if (path / "cgroup.procs").exists()]
    if not roots:
        return f"no cgroups are mounted beneath {CGROUPS}"
    for root in roots:
        tried = root / f"dovetail-node-{os.getpid()}-tried"
        try:
            tried.mkdir()
            tried.rmdir()
        except OSError as error:
            return f"no cgroup can be made in {root}: {error.strerror}"
    try:
        if is_unified:
            (CGROUPS / "cgroup.subtree_control").write_text("+cpuset +cpu +memory +pids")
    except OSError as error:
        return f"controllers cannot be handed down from {CGROUPS}: {error.strerror}"
    return ""
