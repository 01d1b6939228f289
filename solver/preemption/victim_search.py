"""
The victims of one preemptor: those of the exact model, checked in the dry run, and kube-scheduler's way where it fails.

The model leaves rules between pods out, so its answer may not work. Then nodes are cleared one by one and pods are
reprieved, as kube-scheduler does: a pod stays if the preemptor fits beside it. An answer of the model that is not
proven to be the cheapest is reprieved too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from solver.domain import PodDisruptionBudget
from solver.preemption import victim_model, what_if
from solver.preemption.dry_run import DryRun, PreemptionCandidate
from solver.preemption.victims import GangQuorum, VictimUnit, quorums

MOST_NODES: Final = 8
MOST_UNITS: Final = 64
"""How many nodes are tried, and from how many units one is cleared at most: each try solves the problem once."""


def find(dry_run: DryRun, most: int) -> PreemptionCandidate | None:
    """Find victims, at most `most` pods, without which the batch of a dry run fits; None where there are none."""
    start = what_if.solution(dry_run.problem, dry_run.budget)
    if start is None:
        return None
    answer = victim_model.cheapest(dry_run, most, start)
    if answer is not None:
        evicted = [dry_run.victims[number] for number in answer.victims]
        placed = dry_run.place(evicted, dry_run.batch)
        if placed is not None and not answer.is_proven:
            evicted = reprieved(dry_run, evicted)
            placed = dry_run.place(evicted, dry_run.batch)
        if placed is not None:
            return dry_run.candidate(evicted, placed, is_proven=answer.is_proven and dry_run.are_all)
    reprieve = by_node(dry_run, most)
    placed = dry_run.place(reprieve, dry_run.batch) if reprieve is not None else None
    if reprieve is None or placed is None:
        return None
    return dry_run.candidate(reprieve, placed, is_proven=not reprieve)


def by_node(dry_run: DryRun, most: int) -> list[VictimUnit] | None:
    """Clear one node after the other until the batch fits, and reprieve units; None where no node will do."""
    if dry_run.fits(()):  # the victims of other preemptors have left room
        return []
    for name in dry_run.names[:MOST_NODES]:
        there = _with_gangs([unit for unit in dry_run.victims if name in unit.nodes], dry_run.victims)
        if not there or len(there) > MOST_UNITS or not dry_run.fits(there):
            continue
        left = reprieved(dry_run, there)
        if left and sum(len(unit.pods) for unit in left) <= most and _is_allowed(left, dry_run.snapshot.budgets):
            return left
    return None


def reprieved(dry_run: DryRun, evicted: Sequence[VictimUnit]) -> list[VictimUnit]:
    """Keep the units beside which the batch fits: whole gangs first, then the most expensive units."""
    sizes = {quorum: len(numbers) for quorum, numbers in quorums(dry_run.victims).items()}
    counts = Counter(each for unit in evicted for each in unit.budgets)
    short = {each for each, count in counts.items() if count > dry_run.snapshot.budgets[each].allowed}
    order = sorted(
        evicted,
        key=lambda unit: (
            -unit.protected,
            not short & set(unit.budgets),
            -unit.priority,
            -len(unit.pods),
            -unit.seconds,
        ),
    )
    left = list(evicted)
    for quorum, numbers in quorums(evicted).items():
        rest = [each for each in left if each.quorum != quorum]
        if not _is_kept(quorum, len(numbers), sizes[quorum]) and dry_run.fits(rest):
            left = rest
    for unit in order:
        others = [each for each in left if each is not unit]
        if len(others) < len(left) and not _broken(others, sizes) and dry_run.fits(others):
            left = others
    return left


def _with_gangs(evicted: Sequence[VictimUnit], units: Sequence[VictimUnit]) -> list[VictimUnit]:
    """Add the rest of gangs that would lose their quorum; nothing is evicted where a gang cannot go whole."""
    broken = set(_broken(evicted, {quorum: len(numbers) for quorum, numbers in quorums(units).items()}))
    if any(quorum.must_stay for quorum in broken):
        return []
    return [*evicted, *(each for each in units if each.quorum in broken and all(each is not one for one in evicted))]


def _broken(evicted: Sequence[VictimUnit], sizes: Mapping[GangQuorum, int]) -> list[GangQuorum]:
    """Gangs of which some units stay, and fewer than the quorum."""
    going = {quorum: len(numbers) for quorum, numbers in quorums(evicted).items()}
    return [
        quorum
        for quorum, count in going.items()
        if not _is_kept(quorum, count, sizes[quorum]) and (quorum.must_stay or count < sizes[quorum])
    ]


def _is_kept(quorum: GangQuorum, going: int, size: int) -> bool:
    return size - going >= quorum.need


def _is_allowed(evicted: Sequence[VictimUnit], budgets: Sequence[PodDisruptionBudget]) -> bool:
    """Whether no budget is broken by all evictions together."""
    counts = Counter(each for unit in evicted for each in unit.budgets)
    return all(count <= budgets[each].allowed for each, count in counts.items())
