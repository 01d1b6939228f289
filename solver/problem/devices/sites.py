"""
Sites: sets of nodes that all reach the same devices of several nodes.

A claim that pods share is usable on several nodes at once only as seen from a site, so that whoever places pods has one
list of them. It is limited: of many scopes that overlap not every combination is one.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from solver.problem.devices.layout import Layout

_MOST_SHARED: Final = 32
"""Sites that are more than the reach of one device."""
_MOST_TRIES: Final = 4096
"""Pairs of sites that are looked at for what they have in common."""


def sites(layout: Layout, free: Iterable[int]) -> tuple[frozenset[int], ...]:
    """
    Give the sites of cluster-wide types, of which `free` are those that bind no claim to a node.

    First comes what a single one reaches, then where all are that some node sees, then other combinations.
    """
    everywhere = frozenset(range(len(layout.group_of)))
    reaches = {each: everywhere if nodes is None else nodes for each, nodes in enumerate(layout.wide_nodes)}
    reaches = {each: reaches[each] for each in free}
    found = dict.fromkeys(filter(None, reaches.values()))
    most = len(found) + _MOST_SHARED
    for wide in dict.fromkeys(group.wide for group in layout.groups):
        seen = {reaches[each] for each in wide if each in reaches}
        if seen and len(found) < most:
            found.setdefault(everywhere.intersection(*seen))
    for shared in islice(_common(found), _MOST_TRIES):
        if len(found) >= most:
            break
        if shared:
            found.setdefault(shared)
    return tuple(found)


def _common(found: dict[frozenset[int], None]) -> Iterator[frozenset[int]]:
    """Give what two sites have in common, those among them that are found meanwhile."""
    for one in list(found):
        for other in list(found):
            yield one & other
