"""What pods of a batch take of host ports from each other."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from solver.domain import ANY_ADDRESS, HostPort
from solver.rules.forms.domains import per_node
from solver.rules.forms.limits import Limit
from solver.rules.ports.nodes import TAKEN, PortKey


def limits(
    asked: Iterable[tuple[int, tuple[HostPort, ...]]], sizes: Mapping[int, int], node_count: int
) -> Iterator[Limit]:
    """
    Return the limits that keep pods of a batch, by class, from taking the same port of a node.

    Ports that the same classes take are one limit, and a port that a single pod takes is none.
    """
    takers = [each for each in _takers(asked) if sum(sizes[taker] for taker in each) > 1]
    nodes, one_each = per_node(node_count), (1,) * node_count
    for each in dict.fromkeys(takers):
        yield Limit("host ports", nodes, one_each, dict.fromkeys(sorted(each), 1), TAKEN)


def _takers(asked: Iterable[tuple[int, tuple[HostPort, ...]]]) -> Iterator[frozenset[int]]:
    """Return the classes that take a port, for each address; a port on 0.0.0.0 counts for every address."""
    by_port: defaultdict[PortKey, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for pod_class, ports in asked:
        for each in ports:
            by_port[each.protocol, each.port][each.address].add(pod_class)
    for by_address in by_port.values():
        everywhere = by_address.pop(ANY_ADDRESS, set())
        for takers in by_address.values() or (everywhere,):
            yield frozenset(takers | everywhere)
