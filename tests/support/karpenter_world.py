"""
Real Karpenter beside Dovetail: a NodePool of one test, and pods that run on its nodes only.

Each test has a namespace and a NodePool whose nodes have a label of the test's own.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.fleet import nvidia
from e2e.fleet.shape import Fleet, Machine, node
from e2e.neighbours.karpenter import NODE_POOLS, InstanceType, Karpenter
from tests.support.controlplane import wait_until
from tests.support.shell_world import World

CLASS: Final = nvidia.DRIVER
GPUS_8: Final = InstanceType(nvidia.gpu_node("eight"), 10.0, zones=("zone-a", "zone-b"))
GPUS_4: Final = InstanceType(nvidia.gpu_node("four", model=nvidia.L40S, gpus=4), 3.0)
CPUS: Final = InstanceType(
    Fleet((node("cpus", Machine(instance_type="cpu-16", cpu=16, memory_gib=64, disk_gib=100)),)), 1.0
)
TYPES: Final = (GPUS_8, GPUS_4, CPUS)
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

Json = dict[str, Any]


class KarpenterWorld(World):
    """A world whose nodes Karpenter makes, when its pods need them."""

    def __init__(self, plane: ControlPlane, namespace: str, scheduler: str, karpenter: Karpenter) -> None:
        super().__init__(plane, namespace)
        self.scheduler = scheduler
        self.driver = CLASS
        self.karpenter = karpenter
        self._pools: list[str] = []

    def pool(
        self,
        *types: InstanceType,
        name: str = "",
        zones: Sequence[str] = (),
        consolidate_after: str = "Never",
        limits: Mapping[str, str] | None = None,
    ) -> str:
        """Create a NodePool of the world and return its name: the world's word, or with `name` behind it."""
        made = f"{self.word}-{name}" if name else self.word
        self.karpenter.node_pool(
            made,
            [each.name for each in types],
            zones=zones,
            labels={"world": self.word},
            consolidate_after=consolidate_after,
            limits=limits,
        )
        self._pools.append(made)
        return made

    def made(self, pool: str = "") -> int:
        """Count the nodes that Karpenter has asked for, of one pool or of all of the world."""
        return sum(len(self.karpenter.node_claims(each)) for each in ([pool] if pool else self._pools))

    def ready_nodes(self) -> list[str]:
        """Name the nodes of the world whose slices are there."""
        names = [each["metadata"]["name"] for pool in self._pools for each in self.karpenter.nodes(pool)]
        return [each for each in names if each in self.karpenter.driver.published]

    def train(
        self,
        name: str,
        gpus: int = 1,
        *,
        gang: str = "",
        size: int = 0,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        owner: Json | None = None,
        **spec: Any,
    ) -> Json:
        """Create a pod that asks for some GPUs of a node of the world; with `gang`, as one of `size`."""
        with contextlib.suppress(RequestError):
            self.template(f"gpus-{gpus}", gpus)
        marks = {"dovetail.dev/gang": gang} if gang else {}
        notes = {"dovetail.dev/gang-minimum": str(size)} if gang else {}
        body = {
            "metadata": {
                "name": name,
                "labels": {**marks, **(labels or {})},
                "annotations": {**notes, **(annotations or {})},
                "ownerReferences": [owner] if owner else [],
            },
            "spec": {**self.pod_spec(f"gpus-{gpus}"), **spec},
        }
        made: Json = self.plane.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
        return made

    def gang(self, name: str, size: int, gpus: int, *, annotations: Mapping[str, str] | None = None) -> list[str]:
        """Create a gang of equal pods and return their names."""
        names = [f"{name}-{number}" for number in range(size)]
        for each in names:
            self.train(each, gpus, gang=name, size=size, annotations=annotations)
        return names

    def pod_spec(self, template: str) -> Json:
        """Return the spec of a pod with one claim of a template, which runs on nodes of the world."""
        container = {
            "name": "main",
            "image": "example.com/none",
            "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]},
        }
        return {
            "schedulerName": self.scheduler,
            "nodeSelector": {"world": self.word},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        }

    def reasons(self, *pods: str) -> set[str]:
        """The reasons of the condition of some pods, "" for one that has none."""
        return {self.condition(each).get("reason", "") for each in pods}

    def wait_for(self, reason: str, *pods: str) -> None:
        """Wait until these pods have this reason."""
        wait_until(lambda: self.reasons(*pods) == {reason})

    def run(self, *pods: str) -> float:
        """Wait until these pods run, and return when that was seen."""
        wanted = set(pods)
        wait_until(lambda: wanted <= self.running())
        return time.monotonic()

    def let_karpenter_look(self) -> None:
        """
        Wait until Karpenter has looked at every pod that waits now.

        It looks at all of them in one pass: a pod that needs a node of its own gets one in the pass after this moment.
        """
        name = f"{self.word}-look"
        self.karpenter.node_pool(name, [CPUS.name], labels={"looks": self.word})
        spec = {
            "schedulerName": "nobody",
            "nodeSelector": {"looks": self.word},
            "containers": [{"name": "main", "image": "example.com/none"}],
        }
        self.plane.request(
            "POST", f"/api/v1/namespaces/{self.namespace}/pods", {"metadata": {"name": "look"}, "spec": spec}
        )
        self.say("look", "Unschedulable")
        wait_until(lambda: bool(self.karpenter.node_claims(name)))
        self.plane.request("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/look", {"gracePeriodSeconds": 0})
        self.plane.request("DELETE", f"{NODE_POOLS}/{name}")
        wait_until(lambda: not self.karpenter.node_claims(name) and self.get_pod("look") is None)

    def say(self, pod: str, reason: str, *, nominated: str = "") -> None:
        """Write the condition of a pod that no scheduler looks at."""
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "a test says so"}
        status: Json = {"conditions": [condition]}
        if nominated:
            status["nominatedNodeName"] = nominated
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status"
        self.plane.request("PATCH", path, {"status": status}, content="application/strategic-merge-patch+json")

    def clear(self) -> None:
        """Delete the pods, then the pools, with which their nodes go."""
        for group, collection in (("apps", "deployments"), ("policy", "poddisruptionbudgets")):
            self.plane.request("DELETE", f"/apis/{group}/v1/namespaces/{self.namespace}/{collection}")
        for pod in self.pods():
            with contextlib.suppress(RequestError):
                self.delete_pod(pod["metadata"]["name"])
        wait_until(lambda: not self.pods())
        for pool in self._pools:
            self.plane.request("DELETE", f"{NODE_POOLS}/{pool}")
        wait_until(lambda: self.made() == 0)
        self.plane.request("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def running(self) -> set[str]:
        """Name the pods that run."""
        return {each["metadata"]["name"] for each in self.pods() if each["status"].get("phase") == "Running"}
