"""
Requirements that no node of the cluster can meet, whatever runs there, and the nearest that it can meet.

`UnsatisfiableRequirements` finds labels that no node has, and resources for which no node is large enough.
`AffinityTargets` finds required pod affinity that selects no running pod.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from solver.arrays import Amounts
from solver.domain import (
    LabelSelectorOperator,
    NodeSelector,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    Pod,
    PodAffinityTerm,
    Reason,
    ReasonCode,
    wording,
)
from solver.domain.quantity import amount_of
from solver.problem.node_arrays import PODS, allocatable
from solver.problem.problem import PodClass, Problem
from solver.rules.inter_pod.pod_keys import Labels, PodSelectorIndex, term_selector
from solver.rules.node_fit import values as node_fit

_MOST_COMPARED: Final = 32
"""If there are more than twice as many values (host names, say), only the alphabetic neighbours are compared."""


@dataclass(slots=True, eq=False)
class UnsatisfiableRequirements:
    """Compares pods with the labels and sizes of all nodes, which are collected once."""

    problem: Problem
    known: dict[str, dict[str, str]] = field(default_factory=dict)
    """By label key its values, each with one node."""
    suggestions: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Results of `instead` by key and value."""

    def reasons(self, pod_class: PodClass) -> Iterator[Reason]:
        """Return the reasons for labels that no node has, and for resources for which no node is large enough."""
        pod = self.problem.pod(pod_class.members[0])
        for key, value in pod.node_selector:
            if value not in self.labels().get(key, {}):
                yield _reason(ReasonCode.NODE_AFFINITY, f"nodeSelector {key}={value}: {self.instead(key, (value,))}")
        if pod.required_affinity is not None:
            yield from self._of_affinity(pod.required_affinity)
        for feature in node_fit.required_features(pod, self.problem.requests.claims):
            if not any(feature in node.declared_features for node in self.problem.inventory.nodes):
                yield _reason(
                    ReasonCode.NODE_FEATURES, f"no node declares the feature {feature}, which the pod requires"
                )
        yield from self._of_topology_keys(pod)
        yield from self._of_volumes(pod)
        yield from self._too_large(pod_class)

    def _of_topology_keys(self, pod: Pod) -> Iterator[Reason]:
        """Return the reasons for topology keys of required spread constraints and affinity terms that no node has."""
        for each in pod.spread:
            if each.is_required and each.topology_key not in self.labels():
                text = f"topology spread over {each.topology_key}: {self.instead(each.topology_key, ())}"
                yield _reason(ReasonCode.TOPOLOGY_LABEL, text)
        for term in pod.affinity:
            if term.topology_key not in self.labels():
                text = f"pod affinity over {term.topology_key}: {self.instead(term.topology_key, ())}"
                yield _reason(ReasonCode.POD_AFFINITY, text)

    def _of_volumes(self, pod: Pod) -> Iterator[Reason]:
        """Return the reasons for volumes that are to be made on a node that does not exist any more."""
        used = {each.claim for each in pod.volumes}
        for claim in self.problem.snapshot.volume_claims if used else ():
            node = claim.selected_node
            if claim.id in used and not claim.volume and node and node not in self.problem.inventory.node_index:
                text = (
                    f"volume claim {claim.id.name}: its volume is to be made on node {wording.quoted(node)}, which "
                    "does not exist: remove its annotation volume.kubernetes.io/selected-node"
                )
                yield _reason(ReasonCode.VOLUME_NONE, text)

    def labels(self) -> dict[str, dict[str, str]]:
        """Return the values of all node labels, each with the first node that has it."""
        if not self.known:
            found: defaultdict[str, dict[str, str]] = defaultdict(dict)
            for node, labels in zip(self.problem.inventory.nodes, self.problem.inventory.labels, strict=True):
                for key, value in labels.items():
                    found[key].setdefault(value, node.name)
            self.known = dict(found) or {"": {}}
        return self.known

    def instead(self, key: str, values: tuple[str, ...]) -> str:
        """Say that no node has a label, and suggest the most similar key or value."""
        asked = (key, *values[:1])
        if asked not in self.suggestions:
            self.suggestions[asked] = self._instead(*asked)
        return self.suggestions[asked]

    def _instead(self, key: str, value: str = "") -> str:
        there = self.labels()
        if not self.problem.policy.tells_inventory:
            return "no node has it" if value else f"no node has a label {key}"
        if key not in there:
            return f"no node has a label {key}{wording.did_you_mean(key, _around(key, there))}"
        close = wording.nearest(value, _around(value, there[key]))
        return f"no node has it: {f'did you mean {close}?' if close else wording.there_are(there[key], 'value')}"

    def _of_affinity(self, required: NodeSelector) -> Iterator[Reason]:
        """Return the reason if every node affinity term has a requirement that no node meets; it names the first."""
        missing = [
            next((each for each in term.match_expressions if self._is_absent(each)), None) for term in required.terms
        ]
        first = missing[0] if missing else None
        if first is not None and all(missing):
            wanted = f"{first.key} {first.operator}" + (f" {', '.join(first.values)}" if first.values else "")
            yield _reason(ReasonCode.NODE_AFFINITY, f"node affinity {wanted}: {self.instead(first.key, first.values)}")

    def _is_absent(self, requirement: NodeSelectorRequirement) -> bool:
        """Whether no node has the label of an In or Exists requirement."""
        if requirement.operator not in {NodeSelectorOperator.IN, NodeSelectorOperator.EXISTS}:
            return False
        values = self.labels().get(requirement.key, {})
        return not values or (
            requirement.operator == NodeSelectorOperator.IN and values.keys().isdisjoint(requirement.values)
        )

    def _too_large(self, pod_class: PodClass) -> Iterator[Reason]:
        """Return the reasons for resources of which no allowed node has enough, even if it is empty."""
        allowed = np.flatnonzero(pod_class.verdicts.allowed)
        for resource, amount in pod_class.requests if len(allowed) else ():
            node = self.problem.inventory.nodes[allowed[np.argmax(self.sizes_of(resource)[allowed])]]
            largest, name = dict(node.allocatable).get(resource, 0), node.name
            if amount <= largest:
                continue
            named = f" ({name})" if self.problem.policy.tells_inventory else ""
            there = f"the largest node that it may use{named} has {amount_of(resource, largest)}"
            there = there if largest else "no node that it may use has any"
            text = f"the pod requests {amount_of(resource, amount)} {resource}; {there}"
            own = self.asked(pod_class, resource)
            yield _reason(ReasonCode.NODE_TOO_SMALL if own > largest else ReasonCode.NODE_RESOURCES, text)

    def asked(self, pod_class: PodClass, resource: str) -> int:
        """Return the pod's own request of a resource, without what its devices take (KEP-5517)."""
        return 1 if resource == PODS else dict(self.problem.pod(pod_class.members[0]).requests).get(resource, 0)

    def sizes_of(self, resource: str) -> Amounts:
        """Return the allocatable amount of a resource by node."""
        inventory, key = self.problem.inventory, ("allocatable", resource)
        found: Amounts | None = inventory.counted.get(key)
        if found is None:
            found = inventory.counted[key] = allocatable(inventory.nodes, resource)
        return found


def _around(name: str, known: Iterable[str]) -> Sequence[str]:
    """Limit the names for a comparison, which is slow: take the alphabetic neighbours."""
    every = sorted(known)
    if len(every) <= 2 * _MOST_COMPARED:
        return every
    place = bisect(every, name)
    return every[max(0, place - _MOST_COMPARED) : place + _MOST_COMPARED]


def _reason(code: ReasonCode, message: str) -> Reason:
    return Reason(code=code, message=message)


@dataclass(slots=True, eq=False)
class AffinityTargets:
    """Looks for running pods that affinity terms select; the labels of running pods are collected once."""

    requirements: UnsatisfiableRequirements
    _running: dict[str, set[Labels]] | None = None
    """By namespace the labels of running pods."""
    _audiences: PodSelectorIndex | None = None
    _missing_by_term: dict[tuple[PodAffinityTerm, str], str] = field(default_factory=dict)

    def reasons(self, pod_class: PodClass) -> Iterator[Reason]:
        """Return a reason for each required affinity term that selects no running pod and not the pod itself."""
        pod = self.requirements.problem.pod(pod_class.members[0])
        for term in pod.affinity:
            if term.selector is None or self._is_met(term, pod.id.namespace, pod.labels):
                continue
            key = (term, pod.id.namespace)
            if key not in self._missing_by_term:
                self._missing_by_term[key] = self._missing(term, pod)
            if self._missing_by_term[key]:
                message = f"pod affinity {term.selector}: {self._missing_by_term[key]}"
                yield Reason(code=ReasonCode.POD_AFFINITY, message=message)

    def _missing(self, term: PodAffinityTerm, pod: Pod) -> str:
        if term.topology_key not in self.requirements.labels():
            return ""  # said by `UnsatisfiableRequirements`
        running = self._of_running()
        if any(self._is_met(term, namespace, labels) for namespace, every in running.items() for labels in every):
            return ""
        batch = self.requirements.problem.batch.pods
        waiting = [each.id for each in batch if self._is_met(term, each.id.namespace, each.labels)]
        if waiting:
            own = sorted(each.name for each in waiting if each.namespace == pod.id.namespace)
            return f"the pods that it selects wait too{f' ({wording.listed(own)})' if own else ''}"
        is_home = term.namespaces == (pod.id.namespace,) and term.namespace_selector is None
        return self._instead(term, pod.id.namespace) if is_home else "no pod that it selects runs in its namespaces"

    def _instead(self, term: PodAffinityTerm, namespace: str) -> str:
        """Name the label that no pod of the namespace has; pods of other namespaces are not disclosed."""
        none = f"no pod that it selects runs in namespace {namespace}"
        known: defaultdict[str, set[str]] = defaultdict(set)
        for key, value in (pair for labels in self._of_running().get(namespace, ()) for pair in labels):
            known[key].add(value)
        for each in term.selector.requirements if term.selector is not None else ():
            if each.operator not in {LabelSelectorOperator.IN, LabelSelectorOperator.EXISTS}:
                continue
            if each.key not in known:
                return f"{none}, none has a label {each.key}{wording.did_you_mean(each.key, known)}"
            if each.values and known[each.key].isdisjoint(each.values):
                return f"{none}: {wording.suggestion(each.values[0], known[each.key], what='value')}"
        return none

    def _is_met(self, term: PodAffinityTerm, namespace: str, labels: Labels) -> bool:
        selector = term.selector
        if self._audiences is None:
            self._audiences = PodSelectorIndex(
                {each.name: each.labels for each in self.requirements.problem.snapshot.namespaces}
            )
        return (
            selector is not None
            and self._audiences.includes(term_selector(term), namespace)
            and selector.matches(dict(labels))
        )

    def _of_running(self) -> dict[str, set[Labels]]:
        if self._running is None:
            found: defaultdict[str, set[Labels]] = defaultdict(set)
            for each in self.requirements.problem.snapshot.pods:
                if each.node_name:
                    found[each.id.namespace].add(each.labels)
            self._running = dict(found)
        return self._running
