"""
Selectors of affinity terms and spread constraints, and the part of pod equivalence that inter-pod rules need.

Selectors are numbered once per batch. Which of them select a pod is found once per namespace and set of relevant
labels, not once per pod.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import HostPort, LabelSelector, LabelSelectorOperator, Pod, PodAffinityTerm, TopologySpreadConstraint
from solver.feasibility.selector_index import SelectorIndex, matched_labels

Labels = tuple[tuple[str, str], ...]


class PodSelector(NamedTuple):
    """Pods that `selector` selects in `namespaces` and in those that `namespace_selector` selects."""

    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None


def term_selector(term: PodAffinityTerm) -> PodSelector:
    """Return the selector of a term of pod affinity or anti-affinity."""
    return PodSelector(term.namespaces, term.namespace_selector, term.selector)


def spread_selector(constraint: TopologySpreadConstraint, namespace: str) -> PodSelector:
    """Return the selector of a spread constraint, which counts pods of its own namespace."""
    return PodSelector((namespace,), None, constraint.selector)


def anchor(selector: LabelSelector) -> tuple[str, tuple[str, ...]] | None:
    """Return the label with the fewest values one of which a pod needs, for a lookup; None where no label is needed."""
    found = (each for each in selector.requirements if each.operator == LabelSelectorOperator.IN)
    fewest = min(found, key=lambda each: len(each.values), default=None)
    return (fewest.key, fewest.values) if fewest is not None else None


@dataclass(slots=True, eq=False)
class PodSelectorIndex:
    """
    Pod selectors by number, and which of them select a pod.

    `namespaces` are the labels of namespaces; an unknown namespace has none.
    """

    namespaces: Mapping[str, Labels]
    numbers: dict[PodSelector, int] = field(default_factory=dict)
    _selection: SelectorIndex[int] = field(default_factory=SelectorIndex[int])
    _keys: set[str] = field(default_factory=set)
    _seen: dict[tuple[str, Labels], frozenset[int]] = field(default_factory=dict)

    def number(self, pod_selector: PodSelector) -> int:
        """Return the number of a selector; all have to be numbered before the first call of `of`."""
        found = self.numbers.get(pod_selector)
        if found is not None:
            return found
        found = self.numbers[pod_selector] = len(self.numbers)
        self._selection.add(found, *pod_selector)
        if pod_selector.selector is not None:
            self._keys.update(pod_selector.selector.keys)
        self._seen.clear()
        return found

    def of(self, pod: Pod) -> frozenset[int]:
        """Return the numbers of the selectors that select a pod."""
        if not self.numbers:
            return frozenset()
        relevant = tuple(pair for pair in pod.labels if pair[0] in self._keys)
        key = (pod.id.namespace, relevant)
        found = self._seen.get(key)
        if found is None:
            of_namespace = self.namespaces.get(pod.id.namespace, ())
            asked = matched_labels(pod.id.namespace, of_namespace, relevant)
            found = self._seen[key] = frozenset(self._selection.about(asked))
        return found

    def includes(self, pod_selector: PodSelector, namespace: str) -> bool:
        """Whether a selector can select pods of a namespace."""
        if namespace in pod_selector.namespaces:
            return True
        selector = pod_selector.namespace_selector
        return selector is not None and selector.matches(dict(self.namespaces.get(namespace, ())))


class InterPodKey(NamedTuple):
    """
    Pods with equal keys are equal for every rule between pods.

    `spread` are the DoNotSchedule constraints. `selected_by` are the numbers of the selectors that select the pod.
    `namespace` is set only where spread constraints need it.
    """

    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    namespace: str = ""
    selected_by: frozenset[int] = frozenset()


SelectedClasses = Mapping[int, frozenset[int]]
"""The classes of pods that a selector selects, by its number; selectors that select no class are left out."""


def selected_classes(interpod_keys: Mapping[int, InterPodKey]) -> SelectedClasses:
    """Return the classes that each selector selects."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for pod_class, interpod_key in interpod_keys.items():
        for number in interpod_key.selected_by:
            found[number].add(pod_class)
    return {number: frozenset(classes) for number, classes in found.items()}


NO_INTER_POD_RULES: Final = InterPodKey()
"""The key of a pod without inter-pod rules that no rule of another pod selects."""
