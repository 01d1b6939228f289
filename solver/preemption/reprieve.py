"""
The way without a model, as kube-scheduler goes: clear a node, then let back in whom one can.

Used where a rule that the model leaves out (pods around the victims, say) refuses what the model has found, and to
drop victims of an answer that was not proven.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from solver.domain import Snapshot
from solver.preemption.parties import Party

Fits = Callable[[Sequence[Party]], bool]
"""Whether the pods fit once these parties are gone."""
MOST_NODES: Final = 8
MOST_PARTIES: Final = 64
"""How many nodes are tried, and from how many parties one is cleared at most: each costs solutions of the problem."""


def by_node(snapshot: Snapshot, parties: Sequence[Party], names: Sequence[str], most: int, fits: Fits) -> list[Party]:
    """Clear one node after the other until one does; nobody where none does."""
    for name in names[:MOST_NODES]:
        there = [party for party in parties if name in party.nodes]
        if not there or len(there) > MOST_PARTIES or not fits(there):
            continue
        left = reprieved(snapshot, there, fits)
        if left and sum(len(party.pods) for party in left) <= most and is_allowed(snapshot, left):
            return left
    return []


def reprieved(snapshot: Snapshot, evicted: Sequence[Party], fits: Fits) -> list[Party]:
    """Keep whom the pods fit beside: those first whose budget is short, then the dearest."""
    counts = Counter(each for party in evicted for each in party.budgets)
    short = {each for each, count in counts.items() if count > snapshot.budgets[each].allowed}
    order = sorted(
        evicted,
        key=lambda party: (not short & set(party.budgets), -party.priority, -len(party.pods), -party.seconds),
    )
    left = list(evicted)
    for party in order:
        others = [each for each in left if each is not party]
        if fits(others):
            left = others
    return left


def is_allowed(snapshot: Snapshot, evicted: Sequence[Party]) -> bool:
    """Whether no budget is broken by all of them together."""
    counts = Counter(each for party in evicted for each in party.budgets)
    return all(count <= snapshot.budgets[each].allowed for each, count in counts.items())
