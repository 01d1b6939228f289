"""Fleets to repair: pods with devices of their own, gangs, and every set of moves tried."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from msgspec.structs import replace

from solver.domain import (
    Batch,
    Budget,
    Claim,
    Controller,
    DeviceId,
    Gang,
    GangId,
    GangLevel,
    Pod,
    PodId,
    Policy,
    Relocation,
    RepairGoal,
    RepairRules,
    Snapshot,
    Violation,
)
from solver.repair.planner import plan_moves
from solver.verify import MoveChecker
from tests.support import builders as b
from tests.support.bruteforce import best
from tests.support.preemption_cases import NOW, RULES, holding, running

POLICY = Policy(preemption=RULES)
NO_RULES = RepairRules(now=NOW)


def plan(snapshot: Snapshot, goal: RepairGoal, rules: RepairRules = NO_RULES) -> Relocation:
    """Plan moves; whatever is found must pass the independent check, step by step."""
    budget = Budget(seconds=600.0, deterministic_seconds=10.0)
    found = plan_moves(snapshot, goal, POLICY, budget, rules)
    if found.is_found and found.is_stepwise:
        assert broken_rules(snapshot, goal, found) == []
    return found


def broken_rules(snapshot: Snapshot, goal: RepairGoal, found: Relocation) -> list[str]:
    """The rules that a plan breaks, by an independent walk through its steps."""
    checker = MoveChecker(snapshot, goal, POLICY)
    violations: list[Violation] = []
    for number in sorted({move.step for move in found.moves}):
        violations += checker.step([move for move in found.moves if move.step == number])
    return [each.rule for each in (*violations, *checker.finish(found.placements, found.allocations))]


def wanting(*pods: Pod, gangs: Sequence[Gang] = ()) -> RepairGoal:
    return RepairGoal(wanted=Batch(pods=pods, gangs=tuple(gangs)))


def holder(
    name: str, node: str, *devices: str, owner: str = "rs", seconds: int = 1000, **more: Any
) -> tuple[Pod, Claim]:
    """A pod of a controller that runs on a node, with a claim of its own from a template for some devices."""
    pod = running(name, node, cpu=1, seconds=seconds)
    pod = replace(pod, controller=Controller(kind="ReplicaSet", uid=owner), **more)
    pod = replace(pod, claims=(b.entry(f"c-{name}", template="one"),))
    claim = holding(f"c-{name}", node, *devices, consumers=(name,))
    request = b.request("gpu", count=len(devices))
    return pod, replace(claim, owner_pod_uid=pod.uid, requests=(request,))


def fleet(nodes: int, cards: int, *held: tuple[Pod, Claim], **labels: Sequence[str]) -> list[Any]:
    """Nodes n0, n1, … with cards gpu-0, gpu-1, …; `labels` are values by node; and what pods hold."""
    found: list[Any] = [b.gpu_class()]
    for number in range(nodes):
        own = {key: values[number] for key, values in labels.items()}
        found += [b.node(f"n{number}", labels=own), b.gpu_slice(f"n{number}", count=cards)]
    for pod, claim in held:
        found += [pod, claim]
    return found


def gang_id(name: str) -> GangId:
    return GangId(b.NAMESPACE, name, "dovetail.dev")


def gang(name: str, count: int, *, minimum: int | None = None, running_count: int = 0, label: str = "") -> Gang:
    """A gang of so many pods, on nodes of one value of a label if it is given."""
    levels = (GangLevel(node_label=label),) if label else ()
    return Gang(
        id=gang_id(name),
        min_count=count if minimum is None else minimum,
        member_count=count,
        running_count=running_count,
        levels=levels,
    )


def waiting_gang(name: str, count: int, cards: int) -> tuple[list[Pod], list[Claim]]:
    """Waiting pods of a gang, each with a claim for some cards."""
    pods = [replace(b.pod(f"{name}-{i}", f"{name}-{i}", cpu=1), gang=gang_id(name)) for i in range(count)]
    return pods, [b.claim(f"{name}-{i}", b.request(count=cards)) for i in range(count)]


def moved(found: Relocation) -> list[str]:
    """The names of the pods that move, sorted."""
    return sorted(move.pod.name for move in found.moves)


def targets(found: Relocation) -> dict[str, str]:
    return {move.pod.name: move.target for move in found.moves}


def fewest(snapshot: Snapshot, wanted: Sequence[Pod], movable: Sequence[Pod]) -> tuple[Pod, ...] | None:
    """A smallest set of pods after whose eviction all pods, and the evicted ones anew, have a place."""
    sets: Iterator[tuple[Pod, ...]] = (
        chosen for count in range(len(movable) + 1) for chosen in combinations(movable, count)
    )
    return next((chosen for chosen in sets if works(snapshot, wanted, chosen)), None)


def works(snapshot: Snapshot, wanted: Sequence[Pod], moves: Sequence[Pod]) -> bool:
    """Whether all have a place when some pods are made anew."""
    uids = {pod.uid for pod in moves}
    freed = {claim for pod in moves for claim in pod.claim_ids}
    claims = tuple(
        replace(claim, allocation=None, reserved_for=()) if claim.id in freed else claim for claim in snapshot.claims
    )
    left = replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.uid not in uids), claims=claims)
    again = tuple(replace(pod, node_name="", id=PodId(pod.id.namespace, f"{pod.id.name}-new")) for pod in moves)
    return best(left, Batch(pods=(*wanted, *again))).counts == (len(wanted) + len(again),)


def member(name: str, node: str, *devices: str, of: str = "g", **more: Any) -> tuple[Pod, Claim]:
    """A running pod of a gang."""
    return holder(name, node, *devices, owner=of, gang=gang_id(of), **more)


def leaving(*names: str, devices: Sequence[tuple[str, str]] = (), nodes: Sequence[str] = ()) -> RepairGoal:
    """Pods of these names have to leave; `devices` are (node, name) that failed, `nodes` those to be emptied."""
    return RepairGoal(
        leaving=tuple(PodId(b.NAMESPACE, name) for name in names),
        devices=tuple(DeviceId(b.GPU_DRIVER, node, device) for node, device in devices),
        nodes=tuple(nodes),
    )
