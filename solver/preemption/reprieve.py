"""
The way without a model, as kube-scheduler goes: clear a node, then let back in whom one can.

Used where a rule that the model leaves out (pods around the victims, say) refuses what the model has found, and to
drop victims of an answer that was not proven.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from solver.domain import Snapshot
from solver.preemption.victims import Bond, Party, bonds

Fits = Callable[[Sequence[Party]], bool]
"""Whether the pods fit once these parties are gone."""
MOST_NODES: Final = 8
MOST_PARTIES: Final = 64
"""How many nodes are tried, and from how many parties one is cleared at most: each costs solutions of the problem."""


def by_node(snapshot: Snapshot, parties: Sequence[Party], names: Sequence[str], most: int, fits: Fits) -> list[Party]:
    """Clear one node after the other until one does; nobody where none does."""
    for name in names[:MOST_NODES]:
        there = closed([party for party in parties if name in party.nodes], parties)
        if not there or len(there) > MOST_PARTIES or not fits(there):
            continue
        left = reprieved(snapshot, there, parties, fits)
        if left and sum(len(party.pods) for party in left) <= most and is_allowed(snapshot, left):
            return left
    return []


def reprieved(snapshot: Snapshot, evicted: Sequence[Party], parties: Sequence[Party], fits: Fits) -> list[Party]:
    """Keep whom the pods fit beside: gangs whole, then the spared, those whose budget is short, and the dearest."""
    counted = {bond: len(numbers) for bond, numbers in bonds(parties).items()}
    counts = Counter(each for party in evicted for each in party.budgets)
    short = {each for each, count in counts.items() if count > snapshot.budgets[each].allowed}
    order = sorted(
        evicted,
        key=lambda party: (
            -party.spared,
            not short & set(party.budgets),
            -party.priority,
            -len(party.pods),
            -party.seconds,
        ),
    )
    left = list(evicted)
    for bond, numbers in bonds(evicted).items():
        rest = [each for each in left if each.bond != bond]
        if not _stays(bond, len(numbers), counted[bond]) and fits(rest):
            left = rest
    for party in order:
        others = [each for each in left if each is not party]
        if len(others) < len(left) and not _broken(others, counted) and fits(others):
            left = others
    return left


def closed(evicted: Sequence[Party], parties: Sequence[Party]) -> list[Party]:
    """Add the rest of gangs of which too few would stay; nobody goes where a gang cannot go whole."""
    counted = {bond: len(numbers) for bond, numbers in bonds(parties).items()}
    broken = set(_broken(evicted, counted))
    if any(bond.must_stay for bond in broken):
        return []
    return [*evicted, *(each for each in parties if each.bond in broken and all(each is not one for one in evicted))]


def _broken(evicted: Sequence[Party], counted: Mapping[Bond, int]) -> list[Bond]:
    """Gangs of which some stay and not enough."""
    going = {bond: len(numbers) for bond, numbers in bonds(evicted).items()}
    return [
        bond
        for bond, count in going.items()
        if not _stays(bond, count, counted[bond]) and (bond.must_stay or count < counted[bond])
    ]


def _stays(bond: Bond, going: int, count: int) -> bool:
    """Whether enough of a gang stay."""
    return count - going >= bond.need


def is_allowed(snapshot: Snapshot, evicted: Sequence[Party]) -> bool:
    """Whether no budget is broken by all of them together."""
    counts = Counter(each for party in evicted for each in party.budgets)
    return all(count <= snapshot.budgets[each].allowed for each, count in counts.items())
