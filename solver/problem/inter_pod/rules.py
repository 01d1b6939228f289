"""All rules between the pods of a batch, and between them and running pods; what `prepare` asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from solver.domain import Batch, Budget, Namespace, Pod, PodTerm
from solver.problem.inter_pod import affinity_rules, exclusions, host_ports
from solver.problem.inter_pod.affinity_rules import AffinityRule, AntiAffinityRule, SpreadRule
from solver.problem.inter_pod.exclusions import ExcludedNodes
from solver.problem.inter_pod.inter_pod_context import InterPodCache, InterPodContext
from solver.problem.inter_pod.pod_keys import (
    NO_INTER_POD_RULES,
    InterPodKey,
    PodSelectorIndex,
    spread_selector,
    term_selector,
)
from solver.problem.limits import Limit
from solver.problem.node_arrays import NodeVerdicts
from solver.problem.skipped_pods import quarantining, subject_of


@dataclass(frozen=True, slots=True, eq=False)
class InterPodRules:
    """Rules between pods of a batch that are no limits; `concerned` are the classes that one of them is about."""

    apart: tuple[AntiAffinityRule, ...] = ()
    together: tuple[AffinityRule, ...] = ()
    spreads: tuple[SpreadRule, ...] = ()
    concerned: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls, apart: tuple[AntiAffinityRule, ...], together: tuple[AffinityRule, ...], spreads: tuple[SpreadRule, ...]
    ) -> "InterPodRules":
        """Note whom rules concern."""
        concerned: set[int] = set()
        for pair in apart:
            concerned |= pair.holders | pair.wanted
        for group in together:
            concerned |= group.members | group.supporters
        for spread in spreads:
            concerned |= spread.bound | spread.wanted
        return cls(apart, together, spreads, frozenset(concerned))


@dataclass(slots=True, eq=False)
class BuiltInterPodRules:
    """
    What came out for the classes of a batch.

    `refused` are nodes that classes cannot use because no pod of the batch can give what they need there.
    """

    limits: tuple[Limit, ...] = ()
    neighbours: InterPodRules = field(default_factory=InterPodRules)
    refused: list[tuple[int, ExcludedNodes]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class InterPodRuleBuilder:
    """A batch and the running pods around it."""

    around: InterPodContext
    held: dict[int, list[PodTerm]] = field(default_factory=dict)
    _refusals: dict[InterPodKey, tuple[ExcludedNodes, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, batch: Batch, namespaces: tuple[Namespace, ...], memory: InterPodCache, budget: Budget
    ) -> "InterPodRuleBuilder":
        """Find out whom all terms and constraints are about, of running pods and of the batch."""
        audiences = PodSelectorIndex({each.name: each.labels for each in namespaces})
        circle = cls(InterPodContext(memory, audiences))
        for term in memory.residents.holders:
            if term.topology_key in memory.topologies.keys:
                circle.held.setdefault(audiences.number(term_selector(term)), []).append(term)
        for pod in batch.pods:
            if pod.affinity or pod.anti_affinity or pod.spread:
                with quarantining(budget, subject_of(pod)):
                    _number(audiences, pod)
        return circle

    def stance(self, pod: Pod) -> InterPodKey:
        """Say what rules know of a pod; equal for pods that no rule tells apart."""
        members = self.around.audiences.of(pod)
        spread = tuple(each for each in pod.spread if each.is_required) if pod.spread else ()
        if not (members or spread or pod.host_ports or pod.affinity or pod.anti_affinity):
            return NO_INTER_POD_RULES
        return InterPodKey(
            host_ports=pod.host_ports,
            affinity=pod.affinity,
            anti_affinity=pod.anti_affinity,
            spread=spread,
            namespace=pod.id.namespace if spread else "",
            audiences=members,
        )

    def narrowed(self, stance: InterPodKey, verdicts: NodeVerdicts) -> NodeVerdicts:
        """Take away the nodes that running pods rule out for a pod."""
        if stance == NO_INTER_POD_RULES:
            return verdicts
        found = self._refusals.get(stance)
        if found is None:
            found = self._refusals[stance] = tuple(exclusions.exclusions_of(stance, self.around, self.held))
        return exclusions.narrowed(verdicts, found)

    def agree(
        self, stances: Mapping[int, InterPodKey], pods: Mapping[int, Pod], sizes: Mapping[int, int]
    ) -> BuiltInterPodRules:
        """Give the rules between classes; `pods` has one pod of each class, `sizes` how many there are."""
        if all(stance == NO_INTER_POD_RULES for stance in stances.values()):
            return BuiltInterPodRules()
        around = self.around
        pairs, limits = affinity_rules.anti_affinity_rules(stances, sizes, around, exclusions.ANTI_AFFINITY)
        asked = ((pod_class, stance.host_ports) for pod_class, stance in stances.items())
        limits += host_ports.limits(asked, sizes, len(around.residents.node_index), exclusions.PORTS)
        agreed = BuiltInterPodRules(tuple(limits))
        groups = []
        for group in affinity_rules.affinity_rules_of(stances, around):
            if group.is_settled:
                refused = ExcludedNodes(~group.nodes(group.supported), exclusions.AFFINITY)
                agreed.refused += [(pod_class, refused) for pod_class in sorted(group.members)]
            else:
                groups.append(group)
        agreed.neighbours = InterPodRules.of(
            tuple(pairs), tuple(groups), tuple(affinity_rules.spread_rules(stances, pods, around))
        )
        return agreed


def _number(audiences: PodSelectorIndex, pod: Pod) -> None:
    """Note whom the terms and constraints of a pod are about."""
    for term in (*pod.affinity, *pod.anti_affinity):
        audiences.number(term_selector(term))
    for constraint in pod.spread:
        if constraint.is_required:
            audiences.number(spread_selector(constraint, pod.id.namespace))
