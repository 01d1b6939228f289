"""Host ports: which of them clash, and what a batch takes of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from solver.domain import ANY_ADDRESS, HostPort, Reason
from solver.problem.limits import Limit, per_node
from solver.problem.neighbours.residents import PortKey


def clashes(one: HostPort, other: HostPort) -> bool:
    """Whether two ports cannot both be taken on a node: equal, every address counting as any other."""
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.address == other.address or ANY_ADDRESS in {one.address, other.address}


def limits(asked: Iterable[tuple[int, tuple[HostPort, ...]]], node_count: int, reason: Reason) -> Iterator[Limit]:
    """
    Give the limits that keep pods of a batch, by class, from taking the same port of a node.

    One limit for each address that is named; who takes every address takes a share of each of them.
    """
    by_port: defaultdict[PortKey, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for pod_class, ports in asked:
        for each in ports:
            by_port[each.protocol, each.port][each.address].add(pod_class)
    if not by_port:
        return
    nodes, one_each = per_node(node_count), (1,) * node_count
    for by_address in by_port.values():
        everywhere = by_address.pop(ANY_ADDRESS, set())
        for takers in by_address.values() or (everywhere,):
            takes = dict.fromkeys(sorted(takers | everywhere), 1)
            yield Limit("host ports", nodes, one_each, takes, reason)
