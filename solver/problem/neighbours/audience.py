"""Whom terms and constraints select, asked once per kind of pod and not once per pod."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from solver.domain import LabelSelector, LabelSelectorOperator, Pod, PodTerm, SpreadConstraint

Labels = tuple[tuple[str, str], ...]


_ANY: Final = ""


class Audience(NamedTuple):
    """Pods that `selector` selects in `namespaces` and in those that `namespace_selector` selects."""

    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None
    selector: LabelSelector | None


def of_term(term: PodTerm) -> Audience:
    """Whom a term of pod affinity is about."""
    return Audience(term.namespaces, term.namespace_selector, term.selector)


def of_spread(constraint: SpreadConstraint, namespace: str) -> Audience:
    """Whom a spread constraint counts: pods of its own pod's namespace."""
    return Audience((namespace,), None, constraint.selector)


def anchor(selector: LabelSelector) -> tuple[str, tuple[str, ...]] | None:
    """Give a label and its possible values without which nothing is selected, to look up instead of to try."""
    for each in selector.requirements:
        if each.operator == LabelSelectorOperator.IN:
            return each.key, each.values
    return None


@dataclass(slots=True, eq=False)
class Audiences:
    """
    Audiences by number, and which of them a pod is in.

    `namespaces` are the labels of namespaces; one that is not known has none.
    """

    namespaces: Mapping[str, Labels]
    numbers: dict[Audience, int] = field(default_factory=dict)
    _anchored: dict[tuple[str, str], list[tuple[Audience, int]]] = field(default_factory=dict)
    _loose: dict[str, list[tuple[Audience, int]]] = field(default_factory=dict)
    """By the namespaces that they name, and by `_ANY` where they select namespaces."""
    _keys: set[str] = field(default_factory=set)
    _seen: dict[tuple[str, Labels], frozenset[int]] = field(default_factory=dict)

    def number(self, audience: Audience) -> int:
        """Give an audience's number; all have to be known before the first pod is asked about."""
        found = self.numbers.get(audience)
        if found is not None:
            return found
        found = self.numbers[audience] = len(self.numbers)
        if audience.selector is not None:
            self._keys.update(audience.selector.keys)
            pinned = anchor(audience.selector)
            if pinned is None:
                for name in audience.namespaces if audience.namespace_selector is None else (_ANY,):
                    self._loose.setdefault(name, []).append((audience, found))
            else:
                for value in dict.fromkeys(pinned[1]):
                    self._anchored.setdefault((pinned[0], value), []).append((audience, found))
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
            found = self._seen[key] = frozenset(self._matching(*key))
        return found

    def includes(self, audience: Audience, namespace: str) -> bool:
        """Whether pods of a namespace can be in an audience at all."""
        if namespace in audience.namespaces:
            return True
        selector = audience.namespace_selector
        return selector is not None and selector.matches(dict(self.namespaces.get(namespace, ())))

    def _matching(self, namespace: str, labels: Labels) -> Iterable[int]:
        had = dict(labels)
        loose = (*self._loose.get(_ANY, ()), *self._loose.get(namespace, ()))
        tried = [*loose, *(each for pair in labels for each in self._anchored.get(pair, ()))]
        for audience, number in tried:
            selector = audience.selector
            if selector is not None and selector.matches(had) and self.includes(audience, namespace):
                yield number
