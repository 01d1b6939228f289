"""Required pod anti-affinity between pods of one batch."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from solver.domain import Reason
from solver.problem.limits import Limit
from solver.problem.neighbours.audience import of_term
from solver.problem.neighbours.stance import Stance, by_audience
from solver.problem.neighbours.surroundings import Surroundings
from solver.problem.neighbours.topology import Topology

RULE = "pod anti-affinity"


@dataclass(frozen=True, slots=True, eq=False)
class Apart:
    """
    No pod of `holders` shares a domain with another one that is of `wanted`, nor the other way round.

    Both are classes; one may be in both, and then two pods of it keep apart too. Running pods are no part of it: what
    they forbid is known beforehand. `reason` says why, for one node, where that is no anti-affinity.
    """

    topology: Topology
    holders: frozenset[int]
    wanted: frozenset[int]
    reason: Reason | None = None


def between(
    stances: Mapping[int, Stance], sizes: Mapping[int, int], around: Surroundings, reason: Reason
) -> tuple[list[Apart], list[Limit]]:
    """Give the rules between classes; a limit of one per domain where those that hold a term are those it is about."""
    rules: list[Apart] = []
    limits: list[Limit] = []
    members = by_audience(stances)
    holders: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for pod_class, stance in stances.items():
        for term in stance.anti_affinity:
            holders[term.topology_key, around.audiences.number(of_term(term))].add(pod_class)
    for (key, audience), holding in holders.items():
        wanted = members.get(audience, frozenset())
        if not wanted or _sum(sizes, wanted | holding) < 2:  # noqa: PLR2004 - two pods at least
            continue
        topology = around.topologies.of(key)
        if wanted == holding:
            takes = dict.fromkeys(sorted(wanted), 1)
            limits.append(Limit(RULE, topology.domain_of, (1,) * topology.count, takes, reason))
        else:
            rules.append(Apart(topology, frozenset(holding), wanted))
    return rules, limits


def _sum(sizes: Mapping[int, int], classes: Iterable[int]) -> int:
    return sum(sizes[each] for each in classes)
