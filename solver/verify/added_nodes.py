"""The nodes of an answer about nodes to add: no more of a shape, and of shapes together, than there can be."""

from collections.abc import Iterable, Iterator

from solver.domain import AddedNode, NodeLimit, NodeShape, Violation
from solver.verify.violations import Rule, broken


def check_added(
    nodes: Iterable[AddedNode], shapes: Iterable[NodeShape], limits: Iterable[NodeLimit]
) -> tuple[Violation, ...]:
    """Return what nodes to add break of `NodeShape.most` and of limits; the plan on them is checked as any is."""
    return tuple(_violations([each.shape for each in nodes], shapes, limits))


def _violations(added: list[str], shapes: Iterable[NodeShape], limits: Iterable[NodeLimit]) -> Iterator[Violation]:
    for shape in shapes:
        count = added.count(shape.name)
        if shape.most is not None and count > shape.most:
            yield broken(Rule.NODE_LIMIT, shape.name, f"{count} such nodes are added, of at most {shape.most}")
    for limit in limits:
        amount = 0
        for name, size in limit.sizes:
            amount += size * added.count(name)
        if amount > limit.left:
            message = f"nodes with {amount} {limit.resource} are added, and {limit.left} are left of {limit.limit}"
            yield broken(Rule.NODE_LIMIT, limit.owner, message)
