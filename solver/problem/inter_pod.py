"""Rules between pods of a batch, and between them and running pods: host ports, topology spread, pod affinity."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from solver.domain import Batch, Budget, Namespace, Pod
from solver.problem.skipped_pods import quarantining, subject_of
from solver.rules.affinity import batch as affinity_batch
from solver.rules.affinity import nodes as affinity_nodes
from solver.rules.forms.inter_pod import InterPodRules
from solver.rules.forms.limits import Limit
from solver.rules.inter_pod.inter_pod_context import InterPodCache, InterPodContext
from solver.rules.inter_pod.pod_keys import (
    NO_INTER_POD_RULES,
    InterPodKey,
    PodSelectorIndex,
    selected_classes,
    spread_selector,
    term_selector,
)
from solver.rules.ports import batch as ports_batch
from solver.rules.ports import nodes as ports_nodes
from solver.rules.spread import batch as spread_batch
from solver.rules.spread import nodes as spread_nodes
from solver.rules.verdicts import ExcludedNodes, NodeVerdicts


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
    _refusals: dict[InterPodKey, tuple[ExcludedNodes, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, batch: Batch, namespaces: tuple[Namespace, ...], memory: InterPodCache, budget: Budget
    ) -> "InterPodRuleBuilder":
        """Number the selectors of all terms and constraints, of running pods and of the batch."""
        context = InterPodContext.of(memory, namespaces)
        for pod in batch.pods:
            if pod.affinity or pod.anti_affinity or pod.spread:
                with quarantining(budget, subject_of(pod)):
                    _number(context.selector_index, pod)
        return cls(context)

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
        """Take away the nodes that running pods and labels rule out for pods with a key."""
        if interpod_key == NO_INTER_POD_RULES:
            return verdicts
        found = self._refusals.get(interpod_key)
        if found is None:
            found = self._refusals[interpod_key] = tuple(self._excluded(interpod_key))
        return verdicts.without(found)

    def _excluded(self, interpod_key: InterPodKey) -> Iterator[ExcludedNodes]:
        """Return the nodes that are ruled out whatever the batch does, in the order of kube-scheduler's filters."""
        running = self.context.running
        if interpod_key.host_ports:
            yield ports_nodes.excluded(interpod_key.host_ports, running.ports, len(running.node_index))
        yield from spread_nodes.excluded(interpod_key, self.context)
        yield from affinity_nodes.excluded(interpod_key, self.context)

    def built(
        self, interpod_keys: Mapping[int, InterPodKey], pods: Mapping[int, Pod], sizes: Mapping[int, int]
    ) -> BuiltInterPodRules:
        """Build the rules between classes; `pods` has one pod of each class, `sizes` how many there are."""
        if all(interpod_key == NO_INTER_POD_RULES for interpod_key in interpod_keys.values()):
            return BuiltInterPodRules()
        context, selected = self.context, selected_classes(interpod_keys)
        limits, anti_affinity = affinity_batch.anti_affinity_rules(interpod_keys, selected, sizes, context)
        asked = ((pod_class, interpod_key.host_ports) for pod_class, interpod_key in interpod_keys.items())
        limits += ports_batch.limits(asked, sizes, len(context.running.node_index))
        affinity = list(affinity_batch.affinity_rules(interpod_keys, selected, context))
        refused: list[tuple[int, ExcludedNodes]] = []
        for rule in affinity:
            if rule.is_settled:
                nodes = ExcludedNodes(~rule.nodes(rule.supported), rule.reason)
                refused += [(pod_class, nodes) for pod_class in sorted(rule.members)]
        return BuiltInterPodRules(
            limits=tuple(limits),
            inter_pod=InterPodRules.of(
                anti_affinity=tuple(anti_affinity),
                affinity=tuple(rule for rule in affinity if not rule.is_settled),
                spread=tuple(spread_batch.spread_rules(interpod_keys, selected, pods, context)),
            ),
            refused=refused,
        )


def _number(selector_index: PodSelectorIndex, pod: Pod) -> None:
    """Number the selectors of a pod's required terms and constraints."""
    for term in (*pod.affinity, *pod.anti_affinity):
        selector_index.number(term_selector(term))
    for constraint in pod.spread:
        if constraint.is_required:
            selector_index.number(spread_selector(constraint, pod.id.namespace))
