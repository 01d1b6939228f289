"""From a pod, a gang, a node, a device or a domain to the goal of a repair, and the fewest moves that reach it."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.worker.recording import Record, RepairRecord
from solver import goal_of_devices, goal_of_nodes, goal_of_pods, plan_moves
from solver.domain import (
    Budget,
    ClaimId,
    DeviceId,
    GoalKind,
    Pod,
    Relocation,
    RepairGoal,
    RepairRules,
    Snapshot,
    wording,
)

_SECONDS: Final = 120.0


class UnknownObjectError(ValueError):
    """No pod, gang, node, device or domain of that name, or several devices; the message says so."""


class PlannedMoves(NamedTuple):
    """A goal, the fewest moves that reach it, the cluster that they were planned on, and the file of all this."""

    goal: RepairGoal
    found: Relocation
    snapshot: Snapshot
    record: Record

    @property
    def left_behind(self) -> int:
        """How many of the pods that have to leave the plan does not move."""
        moved = {each.pod for each in self.found.moves} if self.found.is_found else set()
        return len(set(self.goal.leaving) - moved)

    @property
    def is_reached(self) -> bool:
        """Whether the goal is reached after the moves, or without any."""
        return self.has_nothing_to_do or (self.found.is_found and not self.left_behind)

    def shared_claims(self) -> tuple[ClaimId, ...]:
        """Return the claims for which pods of the last step go at once; none where one of them shares no claim."""
        last = {each.pod for each in self.found.moves if each.step == self.found.moves[-1].step}
        claims = {pod.id: set(pod.claim_ids) for pod in self.snapshot.pods if pod.id in last}
        users = Counter(claim for own in claims.values() for claim in own)
        shared = {claim for claim, count in users.items() if count > 1}
        return tuple(sorted(shared)) if all(own & shared for own in claims.values()) else ()

    @property
    def has_nothing_to_do(self) -> bool:
        """Whether all pods that the goal is about run on devices that work, or no pod is on the nodes."""
        return not self.goal.wanted.pods and not self.goal.leaving


def scheduler_of(pods: Sequence[Pod], kind: str, name: str) -> str:
    """Return the scheduler that a pod or the pods of a gang name; empty without such pods."""
    return next((pod.scheduler_name for pod in pods_meant(pods, kind, name)), "")


def pods_meant(pods: Sequence[Pod], kind: str, name: str) -> tuple[Pod, ...]:
    """Return a pod by its name, or the pods of a gang."""
    namespace, _, short = name.rpartition("/")
    key = (namespace or "default", short)
    if kind == "gang":
        return tuple(pod for pod in pods if pod.gang is not None and tuple(pod.gang[:2]) == key)
    return tuple(pod for pod in pods if tuple(pod.id) == key) if kind == "pod" else ()


def goal_for(asked: Record, kind: str, name: str, *, is_kind_given: bool = True) -> RepairGoal:
    """
    Return the goal for an object: `kind` is pod, gang, node, device or domain (`LABEL=VALUE`).

    Raise `UnknownObjectError`; without `is_kind_given` it asks whether a node of that name was meant.
    """
    snapshot = asked.snapshot
    if kind == "node":
        if all(node.name != name for node in snapshot.nodes):
            near = wording.did_you_mean(name, (node.name for node in snapshot.nodes))
            raise UnknownObjectError(f"there is no node {name}{near}")
        return goal_of_nodes(snapshot, (name,), asked.policy, f"node {name}")
    if kind == "device":
        return goal_of_devices(snapshot, (_device_meant(snapshot, name),), f"device {name}")
    if kind == "domain":
        label, _, value = name.partition("=")
        nodes = tuple(node.name for node in snapshot.nodes if dict(node.labels).get(label) == value)
        if not nodes:
            raise UnknownObjectError(f"no node has the label {label}={value}")
        return goal_of_nodes(snapshot, nodes, asked.policy, f"domain {name}")
    pods = pods_meant((*asked.batch.pods, *snapshot.pods), kind, name)
    if not pods:
        short = name.rpartition("/")[2]
        is_node = not is_kind_given and any(node.name == short for node in snapshot.nodes)
        meant = f". Did you mean node/{short}?" if is_node else ""
        raise UnknownObjectError(f"{kind} {name} neither waits for this scheduler nor runs{meant}")
    return goal_of_pods(snapshot, asked.batch, pods, f"{kind} {name}")


def _device_meant(snapshot: Snapshot, name: str) -> DeviceId:
    """Return the device with a name as `driver/pool/device`, `pool/device` or `node/device`."""
    names: defaultdict[str, set[DeviceId]] = defaultdict(set)
    for each in snapshot.slices:
        for device in each.devices:
            found = DeviceId(each.driver, each.pool, device.name)
            places = {str(each.pool_id), each.pool, each.scope.node_name} - {""}
            for place in places:
                names[f"{place}/{device.name}"].add(found)
    meant = sorted(names.get(name, ()))
    if not meant:
        raise UnknownObjectError(f"there is no device {name}{wording.did_you_mean(name, names)}")
    if len(meant) > 1:
        raise UnknownObjectError(f"{name} may be device {' or device '.join(map(str, meant))}: write one of them")
    return meant[0]


def planned(asked: Record, goal: RepairGoal, rules: RepairRules, *, seconds: float = _SECONDS) -> PlannedMoves:
    """
    Find the fewest moves on the present cluster; it does not wait for pods that are being deleted.

    The minimum run time does not protect pods here: a person asks, and manifests need not say when pods started.
    """
    work = max(asked.deterministic_seconds, seconds)
    budget = Budget(seconds=seconds, deterministic_seconds=work, seed=asked.seed, workers=asked.workers)
    snapshot = _without_own_nominations(asked.snapshot, goal.wanted.pods)
    rules = msgspec.structs.replace(rules, now=asked.policy.preemption.now, minimum_run_seconds=0)
    found = plan_moves(snapshot, goal, asked.policy, budget, rules)
    record = msgspec.structs.replace(
        asked,
        cause=f"repair plan for {goal.subject}",
        snapshot=snapshot,
        batch=goal.wanted,
        seconds=seconds,
        deterministic_seconds=work,
        repair=RepairRecord(goal=goal, rules=rules, found=found),
    )
    return PlannedMoves(goal, found, snapshot, record)


def replayed(asked: Record, repair: RepairRecord) -> PlannedMoves:
    """Find the moves of a saved plan again."""
    budget = Budget(
        seconds=asked.seconds,
        deterministic_seconds=asked.deterministic_seconds,
        seed=asked.seed,
        workers=asked.workers,
    )
    found = plan_moves(asked.snapshot, repair.goal, asked.policy, budget, repair.rules)
    return PlannedMoves(repair.goal, found, asked.snapshot, asked)


def room_for(asked: Record, *, seconds: float) -> Relocation:
    """Find the moves after which all pods of a case have a place."""
    goal = RepairGoal(kind=GoalKind.WAITING, wanted=asked.batch)
    return planned(asked, goal, RepairRules(), seconds=seconds).found


def _without_own_nominations(snapshot: Snapshot, pods: tuple[Pod, ...]) -> Snapshot:
    """Remove the nominations of the pods themselves, so that they can use that room."""
    own = {pod.id for pod in pods}
    return msgspec.structs.replace(snapshot, nominated=tuple(pod for pod in snapshot.nominated if pod.id not in own))
