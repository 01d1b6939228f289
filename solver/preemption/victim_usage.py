"""What victims hold of nodes and devices, in the numbers of a problem that leaves them out."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from solver.arrays import MOST
from solver.domain import Claim, CounterId, DeviceId, DeviceResult, Snapshot
from solver.model.victims import PotentialVictims, VictimClaim, VictimPod
from solver.preemption.victims import VictimUnit
from solver.problem.devices.layout import GLOBAL
from solver.problem.problem import Problem

_Remembered = dict[DeviceId, tuple[tuple[CounterId, int], ...]]
"""What devices that are not published any more draw of counters."""


def usage_of(problem: Problem, before: Snapshot, victims: Sequence[VictimUnit]) -> PotentialVictims:
    """Describe victims; `before` is the cluster with them, `problem` is without them and their claims."""
    found = PotentialVictims(count=len(victims))
    victim_of: dict[str, int] = {}
    for number, victim in enumerate(victims):
        for pod in victim.pods:
            victim_of[pod.uid] = number
            node = problem.inventory.node_index.get(pod.node_name)
            if node is not None:
                requests = tuple((resource, min(amount, MOST)) for resource, amount in pod.requests)
                found.pods.append(VictimPod(number, node, requests))
    remembered = dict(before.draws)
    for claim in before.claims:
        left = problem.requests.claims.get(claim.id)
        if claim.allocation is None or (left is not None and left.allocation is not None):
            continue
        consumers = dict.fromkeys(victim_of[each.uid] for each in claim.reserved_for if each.uid in victim_of)
        if consumers:
            found.claims.append(_claim(problem, claim, tuple(consumers), remembered))
    found.claims = _bounded(problem, found.claims)
    found.units = _units(problem, {each[:2] for claim in found.claims for each in claim.budgets})
    return found


def _bounded(problem: Problem, claims: list[VictimClaim]) -> list[VictimClaim]:
    """Cap what a claim takes at one more than all that is left, so that solvers can add it."""
    if all(amount <= MOST for claim in claims for *_, amount in claim.budgets):
        return claims
    left = _left(problem)

    def most(node: int, budget: int) -> int:
        return max(0, left.get((node, budget), MOST)) + 1

    return [
        claim._replace(
            budgets=tuple((node, budget, min(amount, most(node, budget))) for node, budget, amount in claim.budgets)
        )
        for claim in claims
    ]


def _claim(problem: Problem, claim: Claim, consumers: tuple[int, ...], remembered: _Remembered) -> VictimClaim:
    """Describe a claim; what it takes of capacities and counters is in their own units, not yet in the layout's."""
    budgets: defaultdict[tuple[int, int], int] = defaultdict(int)
    shares: dict[tuple[int, int], None] = {}
    for result in claim.allocation.results if claim.allocation is not None else ():
        if result.admin_access:
            continue
        is_share = _add_device(problem, result, budgets, shares)
        if not is_share:
            for place, amount in _counters(problem, result.device, remembered):
                budgets[place] += amount
    amounts = tuple((node, budget, amount) for (node, budget), amount in budgets.items())
    quotas, node_index = problem.rules.quotas, problem.inventory.node_index
    nodes = tuple((limit, node_index[name]) for limit, name in quotas.nodes_of(claim) if name in node_index)
    return VictimClaim(consumers, amounts, tuple(shares), quotas.units_of(claim), nodes)


def _units(problem: Problem, places: Collection[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the unit of each budget whose unit is not 1, and the rest of the budget beside whole units."""
    found = {}
    scaled = {(node, budget): scale for node, budget in places if (scale := _scale(problem, node, budget)) > 1}
    if not scaled:
        return {}
    left = _left(problem)
    for place, scale in scaled.items():
        found[place] = (scale, max(0, left.get(place, 0)) % scale)
    return found


def _left(problem: Problem) -> dict[tuple[int, int], int]:
    """Return what is left of capacities and counters, in their own units, by node (-1: cluster-wide) and budget."""
    inventory, layout, ledger = problem.inventory, problem.layout, problem.available.ledger
    found = {place: ledger.counter_left(inventory, counter) for counter, place in layout.counter_place.items()}
    for record, place in layout.place_of.items():
        if capacities := layout.type_of(place).capacities:
            left = ledger.capacities_left(inventory.records[record])
            found |= {(place[0], budget): left[name] for name, budget in capacities.items()}
    return found


def _add_device(
    problem: Problem,
    result: DeviceResult,
    budgets: defaultdict[tuple[int, int], int],
    shares: dict[tuple[int, int], None],
) -> bool:
    """
    Count what a result takes of its device; True for a share of one, which draws counters once it is open.

    A device that no request of the batch matches does not count. What a device gives back that was exclusive and became
    shareable shows only in the dry run.
    """
    record = problem.inventory.record_of.get(result.device)
    place = problem.layout.place_of.get(record) if record is not None else None
    if place is None:
        return False
    node, position = place
    kind = problem.layout.type_of(place)
    if not kind.is_shareable:
        budgets[node, kind.gate] += 1
        return False
    shares[node, -(position + 1) if node < 0 else position] = None
    consumed = dict(result.consumed_capacity)
    for name, budget in kind.capacities.items():
        if name in consumed:
            budgets[node, budget] += consumed[name].nano
    return True


def _counters(problem: Problem, device: DeviceId, remembered: _Remembered) -> Iterator[tuple[tuple[int, int], int]]:
    for counter, amount in problem.inventory.drawn_by(device, remembered) or ():
        place = problem.layout.counter_place.get(counter)
        if place is not None:
            yield place, amount


def _scale(problem: Problem, node: int, budget: int) -> int:
    if budget >= GLOBAL:
        return problem.layout.wide_budgets[1][budget - GLOBAL]
    return problem.layout.groups[problem.layout.group_of[node]].scales[budget]
