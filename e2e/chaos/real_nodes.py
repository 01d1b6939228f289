"""The real nodes of a run, and what is done to them: by one thread at a time, which leaves them running."""

import contextlib
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from e2e.audit.reading import Finding, Json
from e2e.chaos.cluster import TAINTS, Cluster
from e2e.chaos.for_kubelets import DISK
from e2e.chaos.progress import report
from e2e.controlplane.processes import ComponentError
from e2e.nodes.cluster import Nodes
from e2e.nodes.node import Node
from e2e.run.real import spec_of

SYNC_SECONDS: Final = 2
"""A kubelet, a real one or the stand-in, tries again after 2 to 3 s what failed, not after 60 to 90 s."""
_SYNC: Final[Json] = {"syncFrequency": f"{SYNC_SECONDS}s"}


class RealNodes:
    """Some of the nodes with whole GPUs, or none."""

    def __init__(self, cluster: Cluster, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.failures: list[Finding] = []
        """Nodes that did not do what they were told."""
        self._cluster = cluster
        self._by_name = {each.name: each for each in nodes}
        self._lock = threading.Lock()
        self._up = dict.fromkeys(self._by_name, time.monotonic())

    @classmethod
    @contextlib.contextmanager
    def start(cls, cluster: Cluster, logs: Path) -> Iterator[Self]:
        """Start those of the cluster's nodes that are to be real, for the time of a block; their logs stay."""
        with contextlib.ExitStack() as ends:
            fleet, nodes = cluster.fleet, list[Node]()
            if cluster.real:
                there = [each for each in fleet.nodes if each["metadata"]["name"] in cluster.real]
                specs = [spec_of(each, fleet, (DISK,), kubelet=_SYNC) for each in there]
                nodes = list(ends.enter_context(Nodes.start_each(cluster.plane, specs)))
                report(f"{len(nodes)} real nodes")
                ends.callback(_keep_logs, nodes, logs)
            yield cls(cluster, nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def names(self) -> list[str]:
        """Their names."""
        return list(self._by_name)

    def up(self) -> dict[str, float]:
        """Since when nodes have run undisturbed, by the monotonic clock, without those that do not."""
        return dict(self._up)

    def publish(self, name: str, *, without: int = 0, tainted: int = 0) -> None:
        """Let the driver publish its devices: without some of the first, and some of these tainted."""
        with self._tried(name) as node:
            self._publish(node, without, tainted)

    def kill_driver(self, name: str, seconds: float) -> None:
        """Kill the driver and start it again after a while."""
        with self._disturbed(name, f"SIGKILL to the driver of {name}, back after {seconds:.1f} s") as node:
            node.kill_driver()
            time.sleep(seconds)
            node.start_driver()

    def kill_kubelet(self, name: str, seconds: float) -> None:
        """Kill the kubelet and start it again after a while."""
        with self._disturbed(name, f"SIGKILL to the kubelet of {name}, back after {seconds:.1f} s") as node:
            node.kill_kubelet()
            time.sleep(seconds)
            node.restart_kubelet()

    def reboot(self, name: str, seconds: float) -> None:
        """Power a node off and boot it after a while, with its pods."""
        with self._disturbed(name, f"reboot {name}, off for {seconds:.1f} s") as node:
            node.power_off()
            time.sleep(seconds)
            node.boot()

    def remove(self, name: str, seconds: float) -> None:
        """Power a node off and delete what the API server has of it, its pods too; boot it again after a while."""
        with self._disturbed(name, f"power off {name} for {seconds:.1f} s") as node:
            node.power_off()
            self._cluster.request("DELETE", f"/api/v1/nodes/{name}")
            self._cluster.delete_slices(name)
            for pod in self._cluster.pods():
                if pod["spec"].get("nodeName") == name:
                    # At once, as pod garbage collection does: all containers have ended with the node.
                    self._cluster.forget_pod(pod)
            time.sleep(seconds)
            node.boot()
            self._publish(node)

    def restore(self) -> None:
        """Let all nodes run and publish all of their devices; what does not run by itself any more is a failure."""
        for name in self.names:
            with self._tried(name) as node:
                if name in self._up:
                    node.check()
            if name not in self._up:
                self.reboot(name, 0)
            self.publish(name)

    @contextlib.contextmanager
    def _disturbed(self, name: str, how: str) -> Iterator[Node]:
        with self._tried(name) as node:
            report(how)
            self._up.pop(name, None)
            yield node
            self._up[name] = time.monotonic()

    @contextlib.contextmanager
    def _tried(self, name: str) -> Iterator[Node]:
        """Give the node to this thread alone; where it fails it counts as down until something starts it again."""
        with self._lock:
            try:
                yield self._by_name[name]
            except ComponentError as error:
                self._up.pop(name, None)
                self.failures.append(Finding("node", name, str(error)))
                report(f"WRONG node {name}: {error}")

    def _publish(self, node: Node, without: int = 0, tainted: int = 0) -> None:
        (slice_,) = (each for each in self._cluster.fleet.slices if each["spec"].get("nodeName") == node.name)
        devices = slice_["spec"]["devices"][without:]
        node.publish([*({**each, "taints": list(TAINTS)} for each in devices[:tainted]), *devices[tainted:]])


def _keep_logs(nodes: Sequence[Node], folder: Path) -> None:
    """Copy what programs of nodes have written, which goes with the nodes."""
    for node in nodes:
        kept = folder / node.name
        kept.mkdir(parents=True, exist_ok=True)
        for path in (*node.folder.glob("*.log"), *node.folder.glob("driver*/calls.jsonl")):
            shutil.copy(path, kept)
