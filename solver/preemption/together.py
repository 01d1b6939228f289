"""
Units of one priority decided in one model: as many of their pods as can be helped, and for those the least harm.

One after the other they may evict more than they have to: a victim that makes room for two counts once here, and the
first one goes elsewhere where the second one cannot. What comes out is only taken where it is better.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from solver import greedy
from solver.domain import Batch, ClaimAllocation, ClaimId, Placement, Pod, PodId
from solver.extract import Extracted
from solver.preemption import harm
from solver.preemption.offers import Offers
from solver.preemption.outlook import Found, Outlook
from solver.preemption.parties import Bond, Party
from solver.search.values import best

MOST_UNITS: Final = 32
"""Units that are decided together."""
MOST_NODES: Final = 128
"""Nodes that one model of several units looks at."""
_MOST_CELLS: Final = 1 << 14
"""How many parties, and pairs of a class of pods and a node, one model may hold; what is larger stays as it is."""

Unit = tuple[Pod, ...]


class Share(NamedTuple):
    """Units that make way for each other's sake: where they go, and who goes for them all."""

    units: list[Unit]
    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...]
    evicted: tuple[Party, ...]


class _Group(NamedTuple):
    """Units with the nodes and the newly allocated claims that they have in common."""

    units: list[Unit]
    nodes: set[str]
    claims: set[ClaimId]

    def meets(self, other: "_Group") -> bool:
        """Whether they share a node or a claim."""
        return bool(self.nodes & other.nodes or self.claims & other.claims)


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """What was decided for units together; `is_best` says that nothing else can help more of them or do less harm."""

    units: list[Unit]
    found: Found
    offers: Offers
    is_best: bool

    def is_better(self, helped: int, evicted: Sequence[Party]) -> bool:
        """Whether it helps more pods than another way does, which helps so many, or as many with less harm."""
        parties = (*self.found.evicted, *evicted)
        tiers = sorted({pod.priority for party in parties if not party.is_moved for pod in party.pods}, reverse=True)
        own = (-len(self.found.placed.placements), *_harm(self.offers, self.found.evicted, tiers))
        return own < (-helped, *_harm(self.offers, evicted, tiers))


def decided(outlook: Outlook, units: list[Unit], offers: Offers, most: int) -> Joint | None:
    """Decide for several units; None where the model is too large, not proven, or refused by a rule."""
    problem = outlook.problem
    size = len(outlook.parties) + len(problem.classes) * len(outlook.names)
    if problem.rejected or not outlook.parties or size > _MOST_CELLS:
        return None
    start = best(problem, greedy.candidates(problem))
    case = harm.Case(problem, outlook.view.snapshot, outlook.parties, outlook.held, outlook.nodes, most, start)
    answer = harm.most_helped(case, outlook.budget)
    if answer is None or not answer.pods or outlook.budget.should_stop():
        return None
    evicted = tuple(outlook.parties[number] for number in answer.parties)
    pods = tuple(problem.pod(position) for position in answer.pods)
    placed = outlook.placed(evicted, Batch(pods=pods, gangs=outlook.batch.gangs_of(pods)))
    if placed is None:
        return None
    found = Found(evicted, placed, outlook.view, outlook.cleared(evicted), is_proven=outlook.are_all)
    is_best = outlook.are_all and len(pods) == len(outlook.batch.pods) and not outlook.is_overfull
    return Joint(units, found, offers, is_best)


def chosen(helped: Sequence[Unit], others: Sequence[Unit], most: int) -> list[Unit]:
    """Choose at most so many units to be decided together: those that one after the other could be helped first."""
    return [*helped, *others][:most]


def _harm(offers: Offers, evicted: Sequence[Party], tiers: Sequence[int]) -> Iterator[int]:
    """Give what is compared, less being better: pods evicted by priority, parties, seconds of work, pods moved."""
    moved = sum(party.is_moved for party in evicted)
    evicted = [party for party in evicted if not party.is_moved]
    counts = Counter(pod.priority for party in evicted for pod in party.pods)
    yield from (counts[tier] for tier in tiers)
    going: Counter[Bond] = Counter(party.bond for party in evicted if party.bond is not None)
    yield len(evicted) - sum(count - 1 for bond, count in going.items() if count == offers.members(bond))
    yield sum(party.seconds for party in evicted)
    yield moved


def shares(units: Iterable[Unit], evicted: Sequence[Party], placed: Extracted, *, is_wide: bool = False) -> list[Share]:
    """
    Divide a decision so that each share can be carried out by itself: whoever needs the same victims is in one.

    They meet on nodes, and in claims that are allocated for them. Where a victim is on nobody's node, or holds what
    several nodes reach (`is_wide`), all are in one.
    """
    made = {each.claim for each in placed.allocations}
    at = {each.pod: _Group([], {each.node}, made.intersection(each.claims)) for each in placed.placements}
    there = [(unit, [at[pod.id] for pod in unit]) for unit in units if unit[0].id in at]
    used = set[str]().union(*(each.nodes for _, seats in there for each in seats))
    is_apart = not is_wide and all(party.nodes & used for party in evicted)
    groups: list[_Group] = []
    for unit, seats in there:
        nodes = set[str]().union(*(each.nodes for each in seats))
        reach = nodes.union(*(party.nodes & used for party in evicted if party.nodes & nodes))
        own = _Group([unit], reach, set[ClaimId]().union(*(each.claims for each in seats)))
        meeting = [group for group in groups if not is_apart or group.meets(own)]
        groups = [group for group in groups if is_apart and not group.meets(own)]
        groups.append(_merged([*meeting, own]))
    return list(_divided(groups, evicted, placed))


def _merged(groups: Sequence[_Group]) -> _Group:
    nodes = set[str]().union(*(each.nodes for each in groups))
    return _Group([unit for each in groups for unit in each.units], nodes, set().union(*(g.claims for g in groups)))


def _divided(groups: Sequence[_Group], evicted: Sequence[Party], placed: Extracted) -> Iterator[Share]:
    of_pod: dict[PodId, int] = {pod.id: n for n, group in enumerate(groups) for unit in group.units for pod in unit}
    parties: defaultdict[int, list[Party]] = defaultdict(list)
    for party in evicted:
        parties[next((n for n, group in enumerate(groups) if group.nodes & party.nodes), 0)].append(party)
    given = {each.claim: each for each in placed.allocations}
    for number, group in enumerate(groups):
        placements = tuple(each for each in placed.placements if of_pod[each.pod] == number)
        used = dict.fromkeys(claim for each in placements for claim in each.claims)
        allocations = tuple(given.pop(claim) for claim in used if claim in given)
        yield Share(group.units, placements, allocations, tuple(parties[number]))
