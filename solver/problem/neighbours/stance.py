"""What a pod demands of its neighbours and how theirs see it: all that rules between pods know of it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from solver.domain import HostPort, PodTerm, SpreadConstraint


class Stance(NamedTuple):
    """
    Pods of one stance are equal for every rule between pods.

    `spread` are constraints that must hold. `audiences` are the numbers of those that the pod is in; `namespace` is set
    only where spread constraints need it.
    """

    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    namespace: str = ""
    audiences: frozenset[int] = frozenset()


def by_audience(stances: Mapping[int, Stance]) -> dict[int, frozenset[int]]:
    """Give the classes that are in each audience; those of nobody are left out."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for pod_class, stance in stances.items():
        for number in stance.audiences:
            found[number].add(pod_class)
    return {number: frozenset(classes) for number, classes in found.items()}


INDIFFERENT: Final = Stance()
"""Nothing is asked of others, and nobody asks about the pod."""
