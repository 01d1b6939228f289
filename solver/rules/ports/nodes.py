"""Host ports in use, and the nodes that they rule out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from solver.domain import ANY_ADDRESS, EVERY_PORT, HostPort, ReasonCode, node_reason
from solver.rules.verdicts import ExcludedNodes

PortKey = tuple[str, int]
"""Protocol and number."""

TAKEN: Final = node_reason(ReasonCode.NODE_PORTS, "node(s) didn't have free ports for the requested pod ports")


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
        """Return the nodes where one of some ports (at least one) is not free."""
        found = set(self._closed)
        for port in ports:
            key = (port.protocol, port.port)
            if port.address == ANY_ADDRESS:
                found |= self._at_all.get(key, set())
                continue
            by_address = self._by_port.get(key, {})
            found |= by_address.get(port.address, set()) | by_address.get(ANY_ADDRESS, set())
        return found


def excluded(ports: tuple[HostPort, ...], used: UsedHostPorts, node_count: int) -> ExcludedNodes:
    """Return the nodes where one of the ports (at least one) of a pod is in use."""
    mask = np.zeros(node_count, dtype=np.bool_)
    mask[list(used.nodes(ports))] = True
    return ExcludedNodes(mask, TAKEN)
