"""
An index of pod affinity terms: which terms select a pod, without trying every term.

A term is indexed by the namespaces that it names and by the rarest label that it requires (its anchor). The lookup for
a pod visits only terms whose namespace and anchor the pod has, or terms without anchor. A term costs one pass over the
pod's labels, however many requirements it has: `Matcher` turns requirements into sets.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from solver.domain import LabelRequirement, LabelSelector, LabelSelectorOperator

Key = TypeVar("Key", bound=Hashable)
MatchedLabels = Mapping[str, str]
"""A pod's labels, and those of its namespace under keys that no pod label can have."""
_Anchor = tuple[str, str | None]
"""A required label and its value; None for any value."""
_Place = tuple[str, _Anchor]
"""A namespace, or `_ANYWHERE`, and an anchor."""

_OF_NAMESPACE: Final = "\0"
_NO_ANCHOR: Final[_Anchor] = ("\0\0", None)
_ANYWHERE: Final = ""
_MOST_NAMED: Final = 16
"""The most named namespaces of a term for an entry per namespace; with more it has one entry for all namespaces."""


def matched_labels(
    namespace: str, of_namespace: Iterable[tuple[str, str]], labels: Iterable[tuple[str, str]]
) -> MatchedLabels:
    """Return the labels of a pod and of its namespace in one mapping, for `Matcher` and lookups."""
    found = dict(labels)
    found.update((_OF_NAMESPACE + key, value) for key, value in of_namespace)
    found[_OF_NAMESPACE] = namespace
    return found


class _Sets(NamedTuple):
    """Requirements as sets: keys that must exist, keys that must not, allowed values, and excluded values."""

    needed: frozenset[str]
    absent: frozenset[str]
    among: dict[str, frozenset[str]]
    not_among: dict[str, frozenset[str]]


@dataclass(slots=True, eq=False)
class LabelMatcher:
    """A conjunction of requirements, converted to sets at the first use."""

    requirements: tuple[LabelRequirement, ...]
    _sets: _Sets | None = None

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether all requirements match labels."""
        if self._sets is None:
            self._sets = _sets(self.requirements)
        needed, absent, among, not_among = self._sets
        keys = labels.keys()
        if not needed <= keys or not keys.isdisjoint(absent):
            return False
        if any(labels[key] not in values for key, values in among.items()):
            return False
        return not any(labels[key] in not_among[key] for key in not_among.keys() & keys)


def _sets(requirements: tuple[LabelRequirement, ...]) -> _Sets:
    needed, absent = set[str](), set[str]()
    among: dict[str, frozenset[str]] = {}
    not_among: dict[str, frozenset[str]] = {}
    for each in requirements:
        match each.operator:
            case LabelSelectorOperator.NOT_IN:
                not_among[each.key] = not_among.get(each.key, frozenset()).union(each.values)
            case LabelSelectorOperator.DOES_NOT_EXIST:
                absent.add(each.key)
            case operator:
                needed.add(each.key)
                if operator != LabelSelectorOperator.EXISTS:
                    values = frozenset(each.values if operator == LabelSelectorOperator.IN else ())
                    among[each.key] = among.get(each.key, values) & values
    return _Sets(frozenset(needed), frozenset(absent), among, not_among)


@dataclass(slots=True, eq=False)
class SelectorIndex(Generic[Key]):
    """The index of terms by key; a term selects pods of some namespaces by a label selector."""

    _filed: dict[_Place, dict[tuple[Key, int], LabelMatcher]] = field(default_factory=dict)
    _places: dict[tuple[Key, int], tuple[_Place, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        """The number of indexed entries; terms that select nothing have none."""
        return len(self._places)

    def add(
        self,
        key: Key,
        namespaces: tuple[str, ...],
        namespace_selector: LabelSelector | None,
        selector: LabelSelector | None,
    ) -> None:
        """Add a term; a term without selector selects nothing."""
        if selector is None:
            return
        if namespaces:
            named = LabelRequirement(key=_OF_NAMESPACE, operator=LabelSelectorOperator.IN, values=namespaces)
            scopes = tuple(dict.fromkeys(namespaces)) if len(namespaces) <= _MOST_NAMED else (_ANYWHERE,)
            self._file((key, 0), scopes, selector.requirements, (named,))
        if namespace_selector is not None:
            of_namespace = tuple(
                LabelRequirement(key=_OF_NAMESPACE + each.key, operator=each.operator, values=each.values)
                for each in namespace_selector.requirements
            )
            self._file((key, 1), (_ANYWHERE,), (*of_namespace, *selector.requirements))

    def _file(
        self,
        entry: tuple[Key, int],
        scopes: tuple[str, ...],
        requirements: tuple[LabelRequirement, ...],
        more: tuple[LabelRequirement, ...] = (),
    ) -> None:
        choices = [each for each in map(_anchors, requirements) if each is not None] or [(_NO_ANCHOR,)]
        rarest = min(choices, key=lambda each: max((self._count(scopes[0], one) for one in each), default=-1))
        matcher = LabelMatcher((*more, *requirements))
        places = tuple((scope, anchor) for scope in scopes for anchor in rarest)
        for place in places:
            self._filed.setdefault(place, {})[entry] = matcher
        self._places[entry] = places

    def _count(self, scope: str, anchor: _Anchor) -> int:
        return len(self._filed.get((scope, anchor), ()))

    def discard(self, key: Key) -> None:
        """Remove a term."""
        for entry in ((key, 0), (key, 1)):
            for place in self._places.pop(entry, ()):
                filed = self._filed[place]
                del filed[entry]
                if not filed:
                    del self._filed[place]

    def about(self, pod: MatchedLabels) -> Iterator[Key]:
        """Return the terms that select a pod; a term may come twice."""
        anchors: tuple[_Anchor, ...] = (_NO_ANCHOR, *pod.items(), *((label, None) for label in pod))
        for place in ((scope, anchor) for scope in (_ANYWHERE, pod[_OF_NAMESPACE]) for anchor in anchors):
            for (key, _), matcher in self._filed.get(place, {}).items():
                if matcher.holds(pod):
                    yield key


def _anchors(requirement: LabelRequirement) -> tuple[_Anchor, ...] | None:
    """Return the labels of which a requirement needs one: () if nothing meets it, None if it needs none."""
    match requirement.operator:
        case LabelSelectorOperator.IN:
            return tuple((requirement.key, value) for value in dict.fromkeys(requirement.values))
        case LabelSelectorOperator.EXISTS:
            return ((requirement.key, None),)
        case LabelSelectorOperator.NOT_IN | LabelSelectorOperator.DOES_NOT_EXIST:
            return None
        case _:
            return ()
