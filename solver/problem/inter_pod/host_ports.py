"""Host ports: which are in use on which nodes, and which pods of a batch need the same one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from solver.domain import ANY_ADDRESS, EVERY_PORT, HostPort, Reason
from solver.problem.limits import Limit, per_node

PortKey = tuple[str, int]
"""Protocol and number."""


@dataclass(slots=True, eq=False)
class UsedHostPorts:
    """Nodes where a port is in use, by protocol, number and address; a port on 0.0.0.0 takes every address."""

    _by_port: dict[PortKey, dict[str, set[int]]] = field(default_factory=dict)
    _at_all: dict[PortKey, set[int]] = field(default_factory=dict)
    _closed: set[int] = field(default_factory=set)
    """Nodes where it is not known which ports are in use."""

    def add(self, port: HostPort, node: int) -> None:
        """Add a port that is in use on a node."""
        if port == EVERY_PORT:
            self._closed.add(node)
            return
        key = (port.protocol, port.port)
        self._by_port.setdefault(key, {}).setdefault(port.address, set()).add(node)
        self._at_all.setdefault(key, set()).add(node)

    def nodes(self, ports: Iterable[HostPort]) -> set[int]:
        """Give the nodes where one of some ports (at least one) is not free."""
        found = set(self._closed)
        for port in ports:
            key = (port.protocol, port.port)
            if port.address == ANY_ADDRESS:
                found |= self._at_all.get(key, set())
                continue
            by_address = self._by_port.get(key, {})
            found |= by_address.get(port.address, set()) | by_address.get(ANY_ADDRESS, set())
        return found


def limits(
    asked: Iterable[tuple[int, tuple[HostPort, ...]]], sizes: Mapping[int, int], node_count: int, reason: Reason
) -> Iterator[Limit]:
    """
    Give the limits that keep pods of a batch, by class, from taking the same port of a node.

    Ports that the same classes take are one limit, and a port that a single pod takes is none.
    """
    takers = [each for each in _takers(asked) if sum(sizes[taker] for taker in each) > 1]
    nodes, one_each = per_node(node_count), (1,) * node_count
    for each in dict.fromkeys(takers):
        yield Limit("host ports", nodes, one_each, dict.fromkeys(sorted(each), 1), reason)


def _takers(asked: Iterable[tuple[int, tuple[HostPort, ...]]]) -> Iterator[frozenset[int]]:
    """Give the classes that take a port, for each address; a port on 0.0.0.0 counts for every address."""
    by_port: defaultdict[PortKey, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for pod_class, ports in asked:
        for each in ports:
            by_port[each.protocol, each.port][each.address].add(pod_class)
    for by_address in by_port.values():
        everywhere = by_address.pop(ANY_ADDRESS, set())
        for takers in by_address.values() or (everywhere,):
            yield frozenset(takers | everywhere)
