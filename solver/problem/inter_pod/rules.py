"""All rules between the pods of a batch, and between them and running pods; the door of the package for `prepare`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from solver.domain import Batch, Budget, Namespace, Pod, PodAffinityTerm
from solver.problem.inter_pod import affinity_rules, exclusions
from solver.problem.inter_pod.affinity_rules import AffinityRule, AntiAffinityRule, SpreadRule
from solver.problem.inter_pod.inter_pod_context import InterPodCache, InterPodContext
from solver.problem.inter_pod.pod_keys import (
    NO_INTER_POD_RULES,
    InterPodKey,
    PodSelectorIndex,
    spread_selector,
    term_selector,
)
from solver.problem.skipped_pods import quarantining, subject_of
from solver.rules.limits import Limit
from solver.rules.ports import batch as ports_batch
from solver.rules.verdicts import ExcludedNodes, NodeVerdicts


@dataclass(frozen=True, slots=True, eq=False)
class InterPodRules:
    """Rules between pods of a batch that are no limits; `concerned` are the classes that some rule names."""

    anti_affinity: tuple[AntiAffinityRule, ...] = ()
    affinity: tuple[AffinityRule, ...] = ()
    spread: tuple[SpreadRule, ...] = ()
    concerned: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        anti_affinity: tuple[AntiAffinityRule, ...],
        affinity: tuple[AffinityRule, ...],
        spread: tuple[SpreadRule, ...],
    ) -> "InterPodRules":
        """Collect the classes that the rules name."""
        concerned: set[int] = set()
        for pair in anti_affinity:
            concerned |= pair.holders | pair.wanted
        for group in affinity:
            concerned |= group.members | group.supporters
        for each in spread:
            concerned |= each.bound | each.wanted
        return cls(anti_affinity, affinity, spread, frozenset(concerned))


@dataclass(slots=True, eq=False)
class BuiltInterPodRules:
    """
    The rules for the classes of a batch.

    `refused` are nodes that a class cannot use because no pod of the batch can satisfy its affinity there.
    """

    limits: tuple[Limit, ...] = ()
    inter_pod: InterPodRules = field(default_factory=InterPodRules)
    refused: list[tuple[int, ExcludedNodes]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class InterPodRuleBuilder:
    """Builds the rules of a batch: keys of pods, nodes that are excluded, and rules between classes."""

    context: InterPodContext
    held: dict[int, list[PodAffinityTerm]] = field(default_factory=dict)
    _refusals: dict[InterPodKey, tuple[ExcludedNodes, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, batch: Batch, namespaces: tuple[Namespace, ...], memory: InterPodCache, budget: Budget
    ) -> "InterPodRuleBuilder":
        """Number the selectors of all terms and constraints, of running pods and of the batch."""
        selector_index = PodSelectorIndex({each.name: each.labels for each in namespaces})
        builder = cls(InterPodContext(memory, selector_index))
        for term in memory.running.holders:
            if term.topology_key in memory.topologies.keys:
                builder.held.setdefault(selector_index.number(term_selector(term)), []).append(term)
        for pod in batch.pods:
            if pod.affinity or pod.anti_affinity or pod.spread:
                with quarantining(budget, subject_of(pod)):
                    _number(selector_index, pod)
        return builder

    def key(self, pod: Pod) -> InterPodKey:
        """Return the key of a pod."""
        members = self.context.selector_index.of(pod)
        spread = tuple(each for each in pod.spread if each.is_required) if pod.spread else ()
        if not (members or spread or pod.host_ports or pod.affinity or pod.anti_affinity):
            return NO_INTER_POD_RULES
        return InterPodKey(
            host_ports=pod.host_ports,
            affinity=pod.affinity,
            anti_affinity=pod.anti_affinity,
            spread=spread,
            namespace=pod.id.namespace if spread else "",
            selected_by=members,
        )

    def narrowed(self, interpod_key: InterPodKey, verdicts: NodeVerdicts) -> NodeVerdicts:
        """Take away the nodes that running pods rule out for pods with a key."""
        if interpod_key == NO_INTER_POD_RULES:
            return verdicts
        found = self._refusals.get(interpod_key)
        if found is None:
            found = self._refusals[interpod_key] = tuple(
                exclusions.exclusions_of(interpod_key, self.context, self.held)
            )
        return verdicts.without(found)

    def built(
        self, interpod_keys: Mapping[int, InterPodKey], pods: Mapping[int, Pod], sizes: Mapping[int, int]
    ) -> BuiltInterPodRules:
        """Build the rules between classes; `pods` has one pod of each class, `sizes` how many there are."""
        if all(interpod_key == NO_INTER_POD_RULES for interpod_key in interpod_keys.values()):
            return BuiltInterPodRules()
        context = self.context
        pairs, limits = affinity_rules.anti_affinity_rules(interpod_keys, sizes, context, exclusions.ANTI_AFFINITY)
        asked = ((pod_class, interpod_key.host_ports) for pod_class, interpod_key in interpod_keys.items())
        limits += ports_batch.limits(asked, sizes, len(context.running.node_index))
        found = BuiltInterPodRules(tuple(limits))
        groups = []
        for group in affinity_rules.affinity_rules_of(interpod_keys, context):
            if group.is_settled:
                refused = ExcludedNodes(~group.nodes(group.supported), exclusions.AFFINITY)
                found.refused += [(pod_class, refused) for pod_class in sorted(group.members)]
            else:
                groups.append(group)
        found.inter_pod = InterPodRules.of(
            tuple(pairs), tuple(groups), tuple(affinity_rules.spread_rules(interpod_keys, pods, context))
        )
        return found


def _number(selector_index: PodSelectorIndex, pod: Pod) -> None:
    """Number the selectors of a pod's required terms and constraints."""
    for term in (*pod.affinity, *pod.anti_affinity):
        selector_index.number(term_selector(term))
    for constraint in pod.spread:
        if constraint.is_required:
            selector_index.number(spread_selector(constraint, pod.id.namespace))
