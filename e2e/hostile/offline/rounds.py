"""
One round: a small cluster, good pods, hostile objects; then everything is taken away again.

What must hold: nothing raises; every good pod is placed, because the fleet has room that no hostile object can take;
every plan is valid; devices that a claim holds are given to no other claim; and what is deleted leaves nothing behind.
"""

import contextlib
import functools
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from e2e.fleet.fleets import gpu_fleet
from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.generator import Hostile, base_of
from e2e.hostile.objects.kinds import GPU_CLASS, MOST_PRIORITY, NAMESPACE, SCHEDULER, Manifest
from e2e.hostile.objects.machines import own_nodes
from e2e.hostile.offline.companions import companions, own_class
from e2e.hostile.offline.path import Decided, Path, failed
from scheduler.change import Kind
from solver.domain import Snapshot

GOOD: Final = "good"
GOOD_PODS: Final = 4
_NODES: Final = 3
_UPDATED: Final = 0.3
"""The share of hostile objects that were valid before."""
_EXPLAINED: Final = 0.1
_OF_GOOD_PODS: Final = frozenset({"draws", "pods"})
"""Fields of a snapshot that good pods change, which run by then."""
_CREATED: Final = "2026-01-01T00:00:00Z"
Device = tuple[str, str, str]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """
    What went wrong: `rule` names what does not hold, `about` says how, `number` is the object where one is to blame.

    `numbers` are all objects of the round.
    """

    rule: str
    about: str
    seed: int
    numbers: tuple[int, ...]
    number: int | None = None

    @property
    def signature(self) -> str:
        """What makes two findings the same: the rule, and where it was raised."""
        return f"{self.rule}: {self.about.rpartition(chr(10))[2][:160]}"


class Tally(msgspec.Struct, kw_only=True):
    """What rounds came to: objects by kind, and those that could not be read."""

    objects: Counter[str] = msgspec.field(default_factory=Counter)
    unreadable: int = 0
    placed: int = 0
    waiting: int = 0


def served(manifest: Manifest, number: int, version: int = 1) -> Manifest:
    """Add what the API server adds; a manifest that has something else there keeps it."""
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        return manifest
    added = {"uid": f"uid-{number}", "resourceVersion": str(version), "creationTimestamp": _CREATED}
    return {**manifest, "metadata": {**added, **metadata, "resourceVersion": str(version)}}


@functools.cache
def _furniture() -> tuple[tuple[Kind, Manifest], ...]:
    """Fleet, namespaces, and the good pods with their claims."""
    fleet = gpu_fleet(_NODES)
    namespaces = [{"metadata": {"name": name}} for name in (GOOD, NAMESPACE)]
    made: list[tuple[Kind, Manifest]] = [(Kind.NAMESPACES, each) for each in namespaces]
    made += [(Kind.NODES, each) for each in (*fleet.nodes, *own_nodes())]
    made += [(Kind.CLASSES, each) for each in (*fleet.classes, own_class())]
    made += [(Kind.SLICES, each) for each in fleet.slices]
    for index in range(GOOD_PODS):
        made += [(Kind.CLAIMS, _good_claim(index)), (Kind.PODS, _good_pod(index))]
    return tuple(made)


def _good_claim(index: int) -> Manifest:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "ExactCount", "count": 1}}]
    metadata = {"name": f"{GOOD}-{index}", "namespace": GOOD, "uid": f"claim-{GOOD}-{index}"}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}


def _good_pod(index: int) -> Manifest:
    requests = {"cpu": "4", "memory": "16Gi"}
    return {
        "metadata": {"name": f"{GOOD}-{index}", "namespace": GOOD, "uid": f"uid-{GOOD}-{index}"},
        "spec": {
            "schedulerName": SCHEDULER,
            "priority": MOST_PRIORITY + 100,
            "containers": [{"name": "main", "resources": {"requests": requests, "claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{GOOD}-{index}"}],
        },
    }


class Round:
    """One round; `run` gives what went wrong."""

    def __init__(self, objects: Sequence[Hostile], tally: Tally | None = None) -> None:
        self._objects = objects
        self._tally = tally if tally is not None else Tally()
        self._path = Path()
        self._findings: list[Finding] = []

    def run(self) -> list[Finding]:
        """Take everything along the way and back."""
        for number, (kind, manifest) in enumerate(_furniture()):
            self._path.receive(kind, "ADDED", served(manifest, -1 - number))
        before = self._path.cluster.snapshot()
        shown = [(each, self._show(each)) for each in self._objects]
        for each in self._objects:
            for number, (kind, manifest) in enumerate(companions(each)):
                with self._noting("receives what needs an object", each):
                    self._path.receive(kind, "ADDED", served(manifest, 10**9 + 10 * each.number + number))
        with self._noting("decides"):
            decided = self._path.decide()
            self._judge(decided)
            if decided and Draw(self._seed, self._numbers[0]).chance(_EXPLAINED):
                self._path.explain(decided[0], 3)
        for each, manifest in shown:
            for number, (kind, needing) in enumerate(companions(each)):
                self._path.receive(kind, "DELETED", served(needing, 10**9 + 10 * each.number + number))
            with self._noting("deletes an object", each):
                self._path.receive(each.kind, "DELETED", manifest)
        self._look_for_rest(before)
        return self._findings

    @contextlib.contextmanager
    def _noting(self, stage: str, hostile: Hostile | None = None) -> Iterator[None]:
        """Note what is raised, and go on."""
        try:
            yield
        except Exception:  # noqa: BLE001 - whatever is raised is what this looks for
            self._find(f"nothing raises while it {stage}", traceback.format_exc(limit=-6).strip(), hostile)  # noqa: TID251 - objects of this tool

    def _show(self, hostile: Hostile) -> Manifest:
        """Show an object, at times a valid version of it first; give the version that was shown last."""
        self._tally.objects[hostile.kind] += 1
        version, seen = 1, len(self._path.unreadable)
        with self._noting("receives an object", hostile):
            if Draw(hostile.seed, -hostile.number - 1).chance(_UPDATED):
                valid = base_of(hostile)
                valid["metadata"] = {**valid["metadata"], "name": _name(hostile, valid)}
                self._path.receive(hostile.kind, "ADDED", served(valid, hostile.number))
                version = 2
        manifest = served(hostile.manifest, hostile.number, version)
        with self._noting("receives an object", hostile):
            self._path.receive(hostile.kind, "ADDED" if version == 1 else "MODIFIED", manifest)
        self._tally.unreadable += len(self._path.unreadable) > seen
        return manifest

    def _judge(self, decided: Sequence[Decided]) -> None:
        good = {pod.id for one in decided for pod in one.batch.pods if pod.id.namespace == GOOD}
        self._tally.placed += sum(len(one.plan.placements) for one in decided)
        self._tally.waiting += sum(len(one.plan.unplaced) for one in decided)
        if len(good) != GOOD_PODS:
            self._find("a good pod is decided about", f"only {sorted(map(str, good))} were")
        for one in decided:
            for each in one.plan.unplaced:
                if each.pod.namespace == GOOD:
                    reasons = "; ".join(reason.message for reason in each.reasons)
                    self._find("a good pod is placed", f"{each.pod} waits: {reasons}")
            for violation in one.violations:
                self._find("a plan is valid", f"{violation.rule}: {violation.subject}: {violation.message}")
            for pod in failed(one.plan):
                self._find("the solver can say something", f"it failed for {pod}")
        self._look_for_gifts(decided)

    def _look_for_gifts(self, decided: Sequence[Decided]) -> None:
        """Find devices that hostile claims hold, by their own text, and that a plan gives to another claim."""
        held = {device: each.number for each in self._objects for device in held_devices(each)}
        for one in decided:
            for allocation in one.plan.allocations:
                for result in allocation.allocation.results:
                    device = (result.device.driver, result.device.pool, result.device.device)
                    if device in held and not result.admin_access:
                        what = f"{device} of object {held[device]} is given to {allocation.claim}"
                        self._find("a claim keeps its devices", what)

    def _look_for_rest(self, before: Snapshot) -> None:
        after = self._path.cluster.snapshot()
        for field in msgspec.structs.fields(Snapshot):
            if field.name not in _OF_GOOD_PODS:
                was, now = (_count_hostile(getattr(each, field.name)) for each in (before, after))
                if was != now:
                    self._find("what is deleted leaves nothing behind", f"{field.name}: {now - was} more than before")

    def _find(self, rule: str, about: str, hostile: Hostile | None = None) -> None:
        number = hostile.number if hostile is not None else None
        found = Finding(rule=rule, about=about, seed=self._seed, numbers=self._numbers, number=number)
        self._findings.append(found)

    @property
    def _seed(self) -> int:
        return self._objects[0].seed

    @property
    def _numbers(self) -> tuple[int, ...]:
        return tuple(each.number for each in self._objects)


def held_devices(hostile: Hostile) -> Iterable[Device]:
    """Give the devices that a claim of the API would hold, by its status alone, whatever the rest of it is."""
    if hostile.kind is not Kind.CLAIMS or not _is_named(hostile.manifest):
        return ()
    results: Any = hostile.manifest
    for key in ("status", "allocation", "devices", "results"):
        results = results.get(key) if isinstance(results, dict) else None
    if not isinstance(results, list) or not all(_is_result(each) for each in results):
        return ()
    return [(each["driver"], each["pool"], each["device"]) for each in results if not each.get("adminAccess")]


def _is_named(manifest: Manifest) -> bool:
    metadata = manifest.get("metadata")
    return isinstance(metadata, dict) and all(isinstance(metadata.get(key), str) for key in ("name", "namespace"))


def _is_result(result: object) -> bool:
    return isinstance(result, dict) and all(isinstance(result.get(key), str) for key in ("driver", "pool", "device"))


def _name(hostile: Hostile, valid: Manifest) -> str:
    """Give the name that the hostile version has, where it has one."""
    metadata = hostile.manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else str(valid["metadata"]["name"])


def _count_hostile(objects: Sequence[Any]) -> int:
    """Count what a field of a snapshot holds besides the good pods, which are assumed to run by now."""
    return sum(GOOD not in str(getattr(each, "id", "")) for each in objects)
