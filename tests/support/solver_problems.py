"""What the solver's own tests share: a problem, or a plan, straight from objects and pods."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from solver import solve
from solver.domain import (
    Budget,
    ClaimId,
    OwnedDevices,
    Plan,
    Pod,
    PodId,
    Policy,
    SearchParams,
    UndecidedCause,
    Unplaced,
)
from solver.problem.devices.device_properties import Ownership, resolve
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.inventory_builder import build_inventory
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b

EVERYTHING = Ownership(frozenset(), None)
PATIENT = Budget(seconds=86_400.0, deterministic_seconds=4.0)  # a day from the import on: work is the limit
"""Ended by work done and never by the clock of a busy machine."""

Objects = b.SnapshotObject | Iterable[b.SnapshotObject]


def with_params(made: Problem, params: SearchParams) -> Problem:
    """Give the same problem with other constants of the search."""
    return replace(made, params=params)


def problem(*objects: Objects, pods: Sequence[Pod], policy: Policy | None = None) -> Problem:
    return prepare(b.snapshot(*objects), b.batch(*pods), policy or Policy(), SolverCache())


def plan(
    *objects: Objects, pods: Sequence[Pod], policy: Policy | None = None, engine: SolverCache | None = None
) -> Plan:
    return solve(b.snapshot(*objects), b.batch(*pods), policy or Policy(), PATIENT, engine)


def inventory(*objects: Objects, owned: OwnedDevices | None = None) -> Inventory:
    snapshot = b.snapshot(*objects)
    ownership = EVERYTHING if owned is None else resolve(owned, snapshot.nodes)
    return build_inventory(snapshot.nodes, snapshot.slices, snapshot.taint_rules, ownership)


def nodes_of(decided: Plan) -> dict[str, str]:
    """Node by pod name."""
    return {placed.pod.name: placed.node for placed in decided.placements}


def devices_of(decided: Plan, claim_name: str) -> list[tuple[str, str]]:
    """(request, device) of a claim's new allocation."""
    (found,) = (each for each in decided.allocations if each.claim == ClaimId(b.NAMESPACE, claim_name))
    return [(result.request, result.device.device) for result in found.allocation.results]


def unplaced(decided: Plan, pod_name: str) -> Unplaced:
    (found,) = (each for each in decided.unplaced if each.pod == PodId(b.NAMESPACE, pod_name))
    return found


def later(decided: Plan) -> tuple[PodId, ...]:
    """The pods that are left to the next decision."""
    return decided.undecided_pods(UndecidedCause.LATER)


def costly(decided: Plan) -> tuple[PodId, ...]:
    """The pods that need a decision with a larger allowance."""
    return decided.undecided_pods(UndecidedCause.TOO_COSTLY)


def codes(decided: Plan, pod_name: str) -> list[str]:
    """The codes of a pod's reasons."""
    return [reason.code.value for reason in unplaced(decided, pod_name).reasons]


def messages(decided: Plan, pod_name: str) -> list[str]:
    return [reason.message for reason in unplaced(decided, pod_name).reasons]
