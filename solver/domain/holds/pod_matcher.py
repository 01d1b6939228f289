"""Which pods to come a place is for: matchers, and an index that finds those of a pod."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from solver.domain.pod import Pod

MATCHED_ANNOTATIONS: Final = ("kueue.x-k8s.io/workload",)
"""The annotations of pods by which holds may recognise them; of others nothing is kept."""


class MatchKey(NamedTuple):
    """The first of the criteria of a matcher, the rarest kinds first; a pod has those of all that may select it."""

    namespace: str
    kind: str
    name: str
    value: str


OF_LABEL: Final = "label"
"""The kind of the key of a matcher that has labels alone."""


class PodMatcher(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """
    Which pods of a namespace a place is for: everything that is set has to hold; nothing set selects no pod.

    `owner_uid` is the uid of the pod's controller. Annotations are those of `MATCHED_ANNOTATIONS`.
    """

    namespace: str = ""
    pod_uid: str = ""
    owner_uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()

    def selects(self, pod: Pod) -> bool:
        """Whether a place is for a pod."""
        if pod.id.namespace != self.namespace or not self.is_set:
            return False
        if self.pod_uid and self.pod_uid != pod.uid:
            return False
        if self.owner_uid and (pod.controller is None or pod.controller.uid != self.owner_uid):
            return False
        return set(self.labels) <= set(pod.labels) and set(self.annotations) <= set(pod.annotations)

    @property
    def is_set(self) -> bool:
        """Whether it has a criterion beside the namespace."""
        return bool(self.pod_uid or self.owner_uid or self.labels or self.annotations)

    @property
    def key(self) -> MatchKey:
        """What the pods are found by that it selects."""
        if self.pod_uid:
            return MatchKey(self.namespace, "pod", "", self.pod_uid)
        if self.owner_uid:
            return MatchKey(self.namespace, "owner", "", self.owner_uid)
        if self.annotations:
            return MatchKey(self.namespace, "annotation", *self.annotations[0])
        return MatchKey(self.namespace, OF_LABEL, *(self.labels[0] if self.labels else ("", "")))

    @property
    def precision(self) -> tuple[bool, bool, int]:
        """How narrow it is: of several places a pod gets that with the greatest precision."""
        return bool(self.pod_uid), bool(self.owner_uid), len(self.labels) + len(self.annotations)


class _Added(NamedTuple):
    """How often a matcher was added, and the number with which it came."""

    times: int
    number: int


class MatcherIndex:
    """Matchers by what pods are found by: of many holds, a pod is compared with those of its own kind only."""

    def __init__(self, matchers: Iterable[PodMatcher] = ()) -> None:
        self._by_key: Final[dict[MatchKey, dict[PodMatcher, _Added]]] = {}
        self._next = 0
        for each in matchers:
            self.add(each)

    def add(self, matcher: PodMatcher, count: int = 1) -> None:
        """Add a matcher, `count` times; it is there until it was discarded as often."""
        found = self._by_key.setdefault(matcher.key, {})
        known = found.get(matcher)
        if known is None:
            found[matcher] = _Added(count, self._next)
            self._next += 1
        else:
            found[matcher] = _Added(known.times + count, known.number)

    def discard(self, matcher: PodMatcher, count: int = 1) -> None:
        """Take a matcher out that was added so many times at least."""
        key = matcher.key
        found = self._by_key[key]
        times, number = found[matcher]
        if times > count:
            found[matcher] = _Added(times - count, number)
            return
        del found[matcher]
        if not found:
            del self._by_key[key]

    def selecting(self, pod: Pod) -> list[PodMatcher]:
        """Return the matchers that select a pod, the narrowest first, equal ones in the order in which they came."""
        if not self._by_key:
            return []
        filed = (self._by_key.get(key) for key in match_keys(pod))
        found = [(each, added) for own in filed if own for each, added in own.items() if each.selects(pod)]
        if len(found) > 1:
            found.sort(key=lambda pair: pair[1].number)
            found.sort(key=lambda pair: pair[0].precision, reverse=True)
        return [each for each, _ in found]


def match_keys(pod: Pod) -> Iterator[MatchKey]:
    """Return the keys of all matchers that may select a pod."""
    namespace = pod.id.namespace
    yield MatchKey(namespace, "pod", "", pod.uid)
    if pod.controller is not None:
        yield MatchKey(namespace, "owner", "", pod.controller.uid)
    for each in pod.annotations:
        yield MatchKey(namespace, "annotation", *each)
    for each in pod.labels:
        yield MatchKey(namespace, OF_LABEL, *each)
