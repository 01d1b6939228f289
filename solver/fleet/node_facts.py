"""What devices have in common by their nodes: group, domain, and why no pod can use them there."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from solver.domain import Node, Policy
from solver.domain.fleet import DeviceProblem, UnusableCause

_NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


class NodeFacts:
    """What devices of a node have in common: its group, its domain, and why it takes no pod."""

    __slots__ = ("domain", "group", "name", "names", "problems")

    def __init__(self, node: Node, labels: Mapping[str, str], policy: Policy, group_label: str) -> None:
        self.name: Final = node.name
        self.names: Final = (node.name,)
        self.group: Final = labels.get(group_label, "")
        self.domain: Final = next((labels[label] for label in policy.group_labels if label in labels), "")
        self.problems: Final = tuple(_node_problems(node))


def _node_problems(node: Node) -> Iterator[DeviceProblem]:
    if any(taint.key in _NOT_READY for taint in node.taints):
        yield DeviceProblem(UnusableCause.NODE_NOT_READY, f"node {node.name} is not ready")
    if node.is_unschedulable:
        yield DeviceProblem(UnusableCause.NODE_CORDONED, f"node {node.name} is cordoned")


class NodeReach(NamedTuple):
    """The nodes that see a device, None for all of them; those that take pods; and the problem if none does."""

    names: tuple[str, ...] | None
    open_names: tuple[str, ...] | None
    problems: tuple[DeviceProblem, ...]

    @classmethod
    def of(cls, nodes: Sequence[NodeFacts], *, is_everywhere: bool) -> "NodeReach":
        """Collect what some nodes say of a device that all of them see."""
        names = None if is_everywhere else tuple(each.name for each in nodes)
        open_names = None if is_everywhere else tuple(each.name for each in nodes if not each.problems)
        return cls(names, open_names, _common_problem([each.problems for each in nodes]))


def _common_problem(of_nodes: Sequence[tuple[DeviceProblem, ...]]) -> tuple[DeviceProblem, ...]:
    """Return the problem of a device that several nodes see, if every one of them has a problem."""
    if not all(of_nodes):
        return ()
    if not of_nodes:
        return (DeviceProblem(UnusableCause.NODE_GONE, "the cluster has no node"),)
    first = of_nodes[0][0]
    more = ", and no other of its nodes takes pods"
    return (DeviceProblem(first.cause, f"{first.message}{more if len(of_nodes) > 1 else ''}"),)
