"""Whom terms and constraints select, asked once per kind of pod and not once per pod.

What a pod demands of its neighbours and how theirs see it: all that rules between pods know of it.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import HostPort, LabelSelector, LabelSelectorOperator, Pod, PodTerm, SpreadConstraint
from solver.feasibility.selector_index import Selection, described

Labels = tuple[tuple[str, str], ...]


class PodSelector(NamedTuple):
    """Pods that `selector` selects in `namespaces` and in those that `namespace_selector` selects."""

    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None


def term_selector(term: PodTerm) -> PodSelector:
    """Whom a term of pod affinity is about."""
    return PodSelector(term.namespaces, term.namespace_selector, term.selector)


def spread_selector(constraint: SpreadConstraint, namespace: str) -> PodSelector:
    """Whom a spread constraint counts: pods of its own pod's namespace."""
    return PodSelector((namespace,), None, constraint.selector)


def anchor(selector: LabelSelector) -> tuple[str, tuple[str, ...]] | None:
    """Give a label and its fewest possible values without which nothing is selected, to look up instead of to try."""
    found = (each for each in selector.requirements if each.operator == LabelSelectorOperator.IN)
    fewest = min(found, key=lambda each: len(each.values), default=None)
    return (fewest.key, fewest.values) if fewest is not None else None


@dataclass(slots=True, eq=False)
class PodSelectorIndex:
    """
    Audiences by number, and which of them a pod is in.

    `namespaces` are the labels of namespaces; one that is not known has none.
    """

    namespaces: Mapping[str, Labels]
    numbers: dict[PodSelector, int] = field(default_factory=dict)
    _selection: Selection[int] = field(default_factory=Selection[int])
    _keys: set[str] = field(default_factory=set)
    _seen: dict[tuple[str, Labels], frozenset[int]] = field(default_factory=dict)

    def number(self, audience: PodSelector) -> int:
        """Give an audience's number; all have to be known before the first pod is asked about."""
        found = self.numbers.get(audience)
        if found is not None:
            return found
        found = self.numbers[audience] = len(self.numbers)
        self._selection.add(found, *audience)
        if audience.selector is not None:
            self._keys.update(audience.selector.keys)
        self._seen.clear()
        return found

    def of(self, pod: Pod) -> frozenset[int]:
        """Give the numbers of the audiences that a pod is in."""
        if not self.numbers:
            return frozenset()
        relevant = tuple(pair for pair in pod.labels if pair[0] in self._keys)
        key = (pod.id.namespace, relevant)
        found = self._seen.get(key)
        if found is None:
            of_namespace = self.namespaces.get(pod.id.namespace, ())
            asked = described(pod.id.namespace, of_namespace, relevant)
            found = self._seen[key] = frozenset(self._selection.about(asked))
        return found

    def includes(self, audience: PodSelector, namespace: str) -> bool:
        """Whether pods of a namespace can be in an audience at all."""
        if namespace in audience.namespaces:
            return True
        selector = audience.namespace_selector
        return selector is not None and selector.matches(dict(self.namespaces.get(namespace, ())))


class InterPodKey(NamedTuple):
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


def classes_by_selector(stances: Mapping[int, InterPodKey]) -> dict[int, frozenset[int]]:
    """Give the classes that are in each audience; those of nobody are left out."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for pod_class, stance in stances.items():
        for number in stance.audiences:
            found[number].add(pod_class)
    return {number: frozenset(classes) for number, classes in found.items()}


NO_INTER_POD_RULES: Final = InterPodKey()
"""Nothing is asked of others, and nobody asks about the pod."""
