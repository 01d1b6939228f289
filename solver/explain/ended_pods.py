"""A cluster or a problem without some running pods, and the sentence that names them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace as replaced
from typing import Final

from msgspec.structs import replace

from solver.arrays import Amounts
from solver.domain import Claim, DeviceId, DeviceResult, GangId, Pod, PodId, Snapshot, wording
from solver.problem.devices.ledger import DeviceLedger, allocations
from solver.problem.devices.states import StateCounter, states_beside
from solver.problem.node_arrays import PODS, Room
from solver.problem.problem import Available, OptionCache, Problem
from solver.problem.requests.demand import Verdict

_SHOWN: Final = 3


def without_pods(snapshot: Snapshot, ended: Collection[Pod]) -> Snapshot:
    """Return the cluster once some pods have ended: their claims are free, with the finalizer or not."""
    uids, gone = frozenset(pod.uid for pod in ended), frozenset(pod.id for pod in ended)
    return replace(
        snapshot,
        pods=tuple(pod for pod in snapshot.pods if pod.id not in gone),
        claims=tuple(_freed(claim, uids) for claim in snapshot.claims),
    )


def _freed(claim: Claim, uids: Collection[str]) -> Claim:
    left = tuple(each for each in claim.reserved_for if each.uid not in uids)
    if len(left) == len(claim.reserved_for):
        return claim
    return replace(claim, reserved_for=left) if left else replace(claim, allocation=None, reserved_for=())


def problem_without(problem: Problem, ended: Collection[Pod], held: Iterable[Claim]) -> Problem:
    """Return a problem with the room of some pods and of the claims that only they hold; rules between pods stay."""
    room = problem.available.room.copy()
    for pod in ended:
        node = problem.inventory.node_index.get(pod.node_name, -1)
        for resource, amount in ((PODS, 1), *pod.requests) if node >= 0 else ():
            room.change(resource, node, amount)
    ledger = problem.available.ledger.give(problem.inventory, allocations(held))
    left = states_beside(problem.layout, problem.inventory, problem.available.device_states, ledger)
    return _with_available(problem, Available.of(ledger, room, left))


def emptied(problem: Problem, sizes: Mapping[str, Amounts]) -> Problem:
    """Return a problem in whose cluster nothing runs; `sizes` are the allocatable amounts of each resource by node."""
    ledger = DeviceLedger()
    left = StateCounter.of(problem.layout, problem.inventory, ledger).count(problem.inventory, ledger)
    return _with_available(problem, Available.of(ledger, Room(dict(sizes)), left))


def _with_available(problem: Problem, available: Available) -> Problem:
    return replaced(problem, available=available, option_cache=OptionCache(available))


def _results(claim: Claim) -> tuple[DeviceResult, ...]:
    return claim.allocation.results if claim.allocation is not None else ()


def matching_devices(problem: Problem) -> frozenset[DeviceId]:
    """Return the devices that some request of the batch matches, in use or not."""
    records = problem.inventory.records
    return frozenset(
        records[index].id
        for answers in problem.requests.answers
        for index, verdict in answers.verdicts.items()
        if verdict not in {Verdict.NO, Verdict.FAILED}
    )


def sentence(problem: Problem, snapshot: Snapshot, ended: Collection[Pod], reader: str | None = None) -> str:
    """
    Say which pods have to end, and how many of the devices that match the waiting pods they hold.

    A gang stands for its pods. With `reader`, only objects of that namespace are named.
    """
    units: list[GangId | PodId] = list(dict.fromkeys(pod.gang or pod.id for pod in ended))
    if reader is None:
        names = wording.shortened([f"{each.namespace}/{each.name}" for each in units], _SHOWN)
    elif len(units) == 1:
        names = wording.seen(units[0], reader)
    else:
        named = [PodId(each.namespace, each.name) for each in units]
        names = wording.several(named, reader, _SHOWN)
    uids, matching = frozenset(pod.uid for pod in ended), matching_devices(problem)
    claims = (claim for claim in snapshot.claims if any(each.uid in uids for each in claim.reserved_for))
    held = {result.device for claim in claims for result in _results(claim)} & matching
    is_one = len(units) == 1
    text = f"{names} {'ends' if is_one else 'end'}"
    if not held:
        return text
    holding = f"{'it holds' if is_one else 'they hold'} {len(held)} of the {len(matching)}"
    return f"{text}: {holding} matching {wording.nouns(len(matching), 'device')}"
