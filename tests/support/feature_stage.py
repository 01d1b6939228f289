"""
One feature of DRA as a small scene on the API server, played twice: for Dovetail and for kube-scheduler.

A scene is a list of stages. Each creates, replaces and deletes objects and then says where its pods end: on a node (by
its short name), `bound` (anywhere), `pending` (told that it is unschedulable), `ended`, or `?` (not looked at). All
names of a scene begin with its side's word, so that nothing meets the other side's.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from e2e.audit import Finding, audit, read
from e2e.controlplane import versions
from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane

Json = dict[str, Any]

ANY: Final = "*"
"""Matches whatever is there, as long as something is."""
SECONDS: Final = 30.0
_PATHS: Final = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceTaintRule": f"/apis/{versions.taint_rules()}/devicetaintrules",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
}


@dataclass(frozen=True, slots=True)
class Side:
    """The scheduler under test: `word` begins all names and is the namespace."""

    word: str
    scheduler: str
    is_peer: bool

    def name(self, short: str) -> str:
        """Make a name of this side's: of a node, a class, a pool."""
        return f"{self.word}-{short}"


@dataclass(frozen=True, slots=True)
class Stage:
    """
    What happens, and what comes of it.

    `results` gives the devices of a claim or of a pod's claims, each as `request=pool/device` with the pool's short
    name; `allocations` gives a part of the AllocationResult, which has to be in it. Before all that it waits for
    `after_seconds`.
    """

    after_seconds: float = 0.0
    create: Sequence[Json] = ()
    replace: Sequence[Json] = ()
    delete: Sequence[Json] = ()
    ends: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, Sequence[str]] = field(default_factory=dict)
    allocations: Mapping[str, Json] = field(default_factory=dict)


Scene = Callable[[Side], Sequence[Stage]]


class Theatre:
    """Plays one side of a scene; `outcomes` tells where the pods ended, stage by stage."""

    def __init__(self, plane: ControlPlane, side: Side) -> None:
        self.side = side
        self.outcomes: list[str] = []
        self._plane = plane
        self._made: list[Json] = []

    def begin(self, stage: Stage) -> None:
        """Make a stage's changes."""
        time.sleep(stage.after_seconds)
        for each in stage.delete:
            self._plane.request("DELETE", self._path(each), {"gracePeriodSeconds": 0})
        for each in stage.replace:
            self._plane.request("PATCH", self._path(each), each, content="application/merge-patch+json")
        for each in stage.create:
            self._create(each)

    def finish(self, stage: Stage) -> list[str]:
        """Wait for the ends of a stage and say what is otherwise than it says."""
        wrong = [self._await(pod, end) for pod, end in stage.ends.items() if end != "?"]
        self.outcomes.append(", ".join(f"{pod}: {self._end(pod)}" for pod in stage.ends))
        for name, expected in stage.results.items():
            found = self._results(name)
            if found != list(expected):
                wrong.append(f"{name} has {found}, expected {list(expected)}")
        for name, part in stage.allocations.items():
            wrong += [f"{name}: {each}" for each in _mismatches(part, self._allocations(name)[0], "allocation")]
        return [each for each in wrong if each]

    def findings(self) -> list[Finding]:
        """Audit what there is of this side's."""
        objects = read(self._plane.request)
        mine = objects._replace(
            pods=[each for each in objects.pods if self._is_mine(each)],
            claims=[each for each in objects.claims if self._is_mine(each)],
            nodes=[each for each in objects.nodes if each["metadata"]["name"].startswith(f"{self.side.word}-")],
        )
        return audit(mine)

    def clear(self) -> None:
        """Delete everything; what no namespace holds last made first."""
        for each in sorted(self._made, key=lambda made: made["kind"] != "Pod"):
            with contextlib.suppress(RequestError):
                self._plane.request("DELETE", self._path(each), {"gracePeriodSeconds": 0})

    def _create(self, made: Json) -> None:
        path = self._path(made).rpartition("/")[0]
        self._plane.request("POST", path, made)
        self._made.append(made)
        if made["kind"] == "Node":
            room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
            ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "ready"}
            status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
            self._plane.request("PATCH", f"{self._path(made)}/status", status, content="application/merge-patch+json")

    def _path(self, made: Json) -> str:
        return f"{_PATHS[made['kind']].format(self.side.word)}/{made['metadata']['name']}"

    def _is_mine(self, each: Json) -> bool:
        return bool(each["metadata"]["namespace"] == self.side.word)

    def _await(self, pod: str, end: str) -> str:
        limit = time.monotonic() + SECONDS
        while (found := self._end(pod)) != end and not (end == "bound" and found not in {"waiting", "pending"}):
            if time.monotonic() > limit:
                return f"{pod} is {found}, expected {end}: {self._condition(pod).get('message', '')}"
            time.sleep(0.05)
        return ""

    def _end(self, name: str) -> str:
        pod = self._get("Pod", name)
        if pod.get("status", {}).get("phase") == "Succeeded":
            return "ended"
        if node := pod.get("spec", {}).get("nodeName"):
            return str(node).removeprefix(f"{self.side.word}-")
        return "pending" if self._condition(name).get("status") == "False" else "waiting"

    def _condition(self, name: str) -> Json:
        conditions: list[Json] = self._get("Pod", name).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == "PodScheduled"), {})

    def _allocations(self, name: str) -> list[Json]:
        """Give the allocations of a claim, or of a pod's claims in the order of its entries."""
        return [
            self._get("ResourceClaim", each).get("status", {}).get("allocation", {}) for each in self._claim_names(name)
        ]

    def _claim_names(self, name: str) -> Iterator[str]:
        pod = self._get("Pod", name)
        if not pod:
            yield name
            return
        made = {each["name"]: each["resourceClaimName"] for each in pod["status"].get("resourceClaimStatuses", [])}
        for entry in pod["spec"]["resourceClaims"]:
            yield entry.get("resourceClaimName") or made.get(entry["name"], "none")

    def _results(self, name: str) -> list[str]:
        return [
            f"{each['request']}={each['pool'].removeprefix(f'{self.side.word}-')}/{each['device']}"
            for allocation in self._allocations(name)
            for each in allocation.get("devices", {}).get("results", ())
        ]

    def _get(self, kind: str, name: str) -> Json:
        try:
            found: Json = self._plane.request("GET", f"{_PATHS[kind].format(self.side.word)}/{name}")
        except RequestError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return {}
        return found


def _mismatches(expected: object, found: object, where: str) -> Iterator[str]:
    """Compare a part with the whole: mappings may have more, lists may not."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            yield from _mismatches(value, found.get(key), f"{where}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _mismatches(one, other, f"{where}[{index}]")
    elif not (expected == found or (expected == ANY and found)):
        yield f"{where} is {found}, expected {expected}"
