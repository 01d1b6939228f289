"""Limits of nodes to add: as rows of a search, and as the reason of pods for which no more nodes can be had."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import gcd
from typing import Final

import numpy as np

from solver.arrays import Amounts
from solver.domain import AddedNode, NodeLimit, NodeShape, Reason, ReasonCode
from solver.domain.quantity import amount_of
from solver.problem.costs.cost_model import LimitedNodes

_NODES: Final = "nodes"
_MOST: Final = 2**40
"""Sums of amounts stay exact in an engine's doubles; larger ones are counted in larger units, against the nodes."""


def binding(
    limits: Iterable[NodeLimit], shapes: Sequence[NodeShape], counts: Sequence[int], shape_of: Amounts
) -> tuple[LimitedNodes, ...]:
    """Return the limits that so many nodes of each shape could break; `shape_of` has the shape of each node, or -1."""
    found = []
    for limit in limits:
        size_of = dict(limit.sizes)
        sizes = [size_of.get(shape.name, 0) for shape in shapes]
        if sum(size * count for size, count in zip(sizes, counts, strict=True)) <= limit.left:
            continue
        unit = gcd(*sizes)
        left, sizes = limit.left // unit, [size // unit for size in sizes]
        coarse = -(-max(left, *sizes) // _MOST)
        amounts = np.array([*(-(-size // coarse) for size in sizes), 0], dtype=np.int64)
        found.append(LimitedNodes(left // coarse, amounts[shape_of]))
    return tuple(found)


def beside(limits: Iterable[NodeLimit], added: Iterable[str]) -> Iterator[tuple[NodeLimit, int]]:
    """Yield limits with what is left of each beside added nodes, of which `added` has the shapes."""
    counts = Counter(added)
    for limit in limits:
        yield limit, limit.left - sum(size * counts[shape] for shape, size in limit.sizes)


def reasons(
    limits: Sequence[NodeLimit],
    shapes: Sequence[NodeShape],
    fitting: Collection[str],
    nodes: Sequence[AddedNode],
    *,
    is_gang: bool,
) -> tuple[Reason, ...]:
    """
    Say which limits keep a pod waiting that fits on nodes of the shapes in `fitting`, beside the nodes of an answer.

    These are limits that leave no such node. A gang may need more nodes than one: where there are none, all limits of
    these shapes are named for its pods, and none for another pod.
    """
    own = [
        NodeLimit(owner=f"shape {name}", resource=_NODES, limit=str(most), left=most, sizes=((name, 1),))
        for name, most in ((each.name, each.most) for each in shapes)
        if most is not None
    ]
    concerned = [
        (limit, left, min(sizes))
        for limit, left in beside([*limits, *own], (each.shape for each in nodes))
        if (sizes := [size for shape, size in limit.sizes if shape in fitting and size > 0])
    ]
    spent = [each for each in concerned if each[1] < each[2]]
    return tuple(
        Reason(code=ReasonCode.NODE_LIMIT, message=_message(limit, left, size))
        for limit, left, size in spent or (concerned if is_gang else ())
    )


def _message(limit: NodeLimit, left: int, size: int) -> str:
    whose = f'{limit.owner} adds no more nodes for it: its limit "{limit.resource}: {limit.limit}"'
    if limit.resource == _NODES:
        return f"{whose} leaves {left}"
    rest, node = amount_of(limit.resource, max(0, left)), amount_of(limit.resource, size)
    return f"{whose} leaves {rest}, and a node has {node}"
