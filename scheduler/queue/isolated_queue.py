"""
What waits for a costly decision: the queue, what each namespace may use, and what backs off.

The scheduler sorts pods by what their decision costs (`DecisionCostKey`). A decision that exceeds a limit of time or
memory, or ends the worker process, is made again beside the batches, one cost key or gang at a time: of the namespaces
that have time left, the one that was served longest ago comes first. Suspects come before all of them, since most of
them were only decided together with a pod that ended the process: they are halved until one cost key is alone.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.backoff import Backoff
from scheduler.queue.equivalence import interpod_terms, node_terms
from solver.domain import Claim, ClaimId, GangId, Pod, PodClaim, Reason

_WINDOW_SECONDS: Final = 60.0
"""What a namespace does not use for so long is not kept for later."""
_MOST_REMEMBERED: Final = 4096
"""Namespaces of which it is known when they were served: those that were served last."""


class DecisionTimeQuota:
    """
    A token bucket of seconds for each namespace.

    A bucket is filled with `share` of the time that passes, up to what that makes in a minute. A decision may begin
    while the bucket is not negative. It is taken from the bucket when it has ended, since its time is not known before.
    So over any time a namespace uses its share, a minute's worth and one decision at most. Full buckets are not kept.
    """

    def __init__(self, share: float) -> None:
        self._share: Final = share
        self._full: Final = share * _WINDOW_SECONDS
        self._buckets: Final[dict[str, tuple[float, float]]] = {}
        """Seconds that were left, and when."""
        self._used_at: Final[dict[str, float]] = {}

    def __len__(self) -> int:
        """Return the number of buckets that are kept."""
        return len(self._buckets)

    def left(self, namespace: str, now: float) -> float:
        """Return the seconds that a namespace has left, negative after a long decision."""
        seconds, at = self._buckets.get(namespace, (self._full, now))
        return min(self._full, seconds + (now - at) * self._share)

    def is_exhausted(self, namespace: str, now: float) -> bool:
        """Whether a namespace has to wait before its next costly decision."""
        return namespace in self._buckets and self.left(namespace, now) < 0

    def free_at(self, namespace: str, now: float) -> float:
        """Return the time from which a decision for a namespace may begin: now, or later."""
        return now + max(0.0, -self.left(namespace, now) / self._share)

    def last_used(self, namespace: str) -> float:
        """Return when a namespace was served last, minus infinity where that is not known."""
        return self._used_at.get(namespace, float("-inf"))

    def spend(self, namespace: str, seconds: float, now: float) -> None:
        """Take a decision that has ended from the bucket."""
        self._buckets[namespace] = (self.left(namespace, now) - seconds, now)
        self._used_at.pop(namespace, None)
        self._used_at[namespace] = now
        if len(self._used_at) > _MOST_REMEMBERED:
            del self._used_at[next(iter(self._used_at))]
        for full in [each for each in self._buckets if self.left(each, now) >= self._full]:
            del self._buckets[full]


class DecisionCostKey(NamedTuple):
    """
    A namespace and a hash of everything in the specs of a pod and its claims that a decision looks at.

    Not the uid: a controller replaces a pod by one with the same spec. And not the owner, so that the next Job of a
    CronJob is known too. Unlike `equivalence.EquivalenceKey` it also has preferred terms, which cost time, and exists
    for every pod: it decides about cost only, so two pods may share it that are not placed alike.
    """

    namespace: str
    spec: int


def cost_key(pod: Pod, claim: Callable[[ClaimId], Claim | None]) -> DecisionCostKey:
    """Return the cost key of a pod, by its claims as they are now; `claim` looks one up. Pods of a gang share one."""
    if pod.gang is not None:
        return DecisionCostKey(pod.id.namespace, hash(pod.gang))
    preferred = (pod.preferred_node_affinity, pod.preferred_affinity, pod.preferred_anti_affinity)
    volumes = tuple(each.claim is not None for each in pod.volumes)
    claims = tuple(_claim_terms(entry, claim) for entry in pod.claims)
    terms = (pod.scheduler_name, preferred, volumes, node_terms(pod), interpod_terms(pod), claims)
    return DecisionCostKey(pod.id.namespace, hash(terms))


def _claim_terms(entry: PodClaim, find: Callable[[ClaimId], Claim | None]) -> Hashable:
    claim = find(entry.claim) if entry.claim is not None else None
    if claim is None:
        return (entry.template, entry.is_skipped)
    return (claim.requests, claim.constraints, claim.allocation is not None)


_MOST_TOGETHER: Final = 64
"""Pods with one cost key that are decided together: they cost nearly as much as one."""

_Unit = tuple[str, DecisionCostKey | GangId]
"""A schedulerName, and the pods that are decided together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedJob:
    """
    One decision: its pods, all of one schedulerName, and the others of their cost key, which it answers for too.

    `key` is the cost key of costly pods, None for suspects with several keys.
    """

    pods: tuple[Pod, ...]
    rest: tuple[Pod, ...] = ()
    key: DecisionCostKey | None = None

    @property
    def namespace(self) -> str:
        """The namespace whose quota it uses."""
        return self.pods[0].id.namespace


class IsolatedQueue:
    """The pods that wait, by namespace. Times are seconds of the caller's monotonic clock; pods are known by uid."""

    def __init__(self, quota: DecisionTimeQuota, key_of: Callable[[Pod], DecisionCostKey]) -> None:
        self._quota: Final = quota
        self._key_of: Final = key_of
        self._suspects: Final[deque[tuple[Pod, ...]]] = deque()
        self._costly: Final[dict[str, dict[_Unit, dict[str, Pod]]]] = {}
        self._removed: Final[set[str]] = set()

    def __len__(self) -> int:
        """Return the number of pods that wait."""
        costly = sum(len(group) for groups in self._costly.values() for group in groups.values())
        return costly + sum(len(part) for part in self._suspects)

    def add(self, pods: Iterable[Pod]) -> None:
        """Add costly pods."""
        for pod in pods:
            self._removed.discard(pod.uid)
            groups = self._costly.setdefault(pod.id.namespace, {})
            groups.setdefault(self._unit(pod), {})[pod.uid] = pod

    def suspect(self, pods: Sequence[Pod]) -> None:
        """Add pods that were decided together when the process ended: two halves; one cost key alone as costly."""
        self._removed.difference_update(pod.uid for pod in pods)
        groups: dict[_Unit, list[Pod]] = {}
        for pod in pods:
            groups.setdefault(self._unit(pod), []).append(pod)
        if len(groups) == 1:
            self.add(pods)
            return
        units = list(groups.values())
        half = (len(units) + 1) // 2
        for part in (units[:half], units[half:]):
            self._suspects.extend(_by_profile([pod for unit in part for pod in unit]))

    def forget(self, uid: str) -> None:
        """Remove a pod that was deleted, bound or changed, if it waits."""
        if self._costly or self._suspects:
            self._removed.add(uid)

    def due(self, now: float) -> float | None:
        """Return the time from which there may be a job: now, later, or None where nothing waits."""
        self._sweep()
        if self._suspects:
            return now
        return min((self._quota.free_at(namespace, now) for namespace in self._costly), default=None)

    def take(self, now: float) -> IsolatedJob | None:
        """Take the next job; None where no namespace that has one may begin it now."""
        self._sweep()
        if self._suspects:
            return self._single(self._suspects.popleft())
        ready = [each for each in self._costly if not self._quota.is_exhausted(each, now)]
        if not ready:
            return None
        namespace = min(ready, key=self._quota.last_used)  # of those never served the one that came first
        groups = self._costly[namespace]
        key = max(groups, key=lambda each: max(pod.priority for pod in groups[each].values()))
        pods = tuple(groups.pop(key).values())
        if not groups:
            del self._costly[namespace]
        most = len(pods) if pods[0].gang is not None else _MOST_TOGETHER
        return IsolatedJob(pods=pods[:most], rest=pods[most:], key=self._key_of(pods[0]))

    def _single(self, pods: tuple[Pod, ...]) -> IsolatedJob:
        keys = {self._unit(pod) for pod in pods}
        return IsolatedJob(pods=pods, key=self._key_of(pods[0]) if len(keys) == 1 else None)

    def _unit(self, pod: Pod) -> _Unit:
        return (pod.scheduler_name, pod.gang or self._key_of(pod))

    def _sweep(self) -> None:
        """Remove the pods that `forget` named."""
        if not self._removed:
            return
        for namespace, groups in tuple(self._costly.items()):
            for key, group in tuple(groups.items()):
                for uid in self._removed & group.keys():
                    del group[uid]
                if not group:
                    del groups[key]
            if not groups:
                del self._costly[namespace]
        parts = [tuple(pod for pod in part if pod.uid not in self._removed) for part in self._suspects]
        self._suspects.clear()
        self._suspects.extend(part for part in parts if part)
        self._removed.clear()


def _by_profile(pods: Sequence[Pod]) -> Iterable[tuple[Pod, ...]]:
    names = dict.fromkeys(pod.scheduler_name for pod in pods)
    return (tuple(pod for pod in pods if pod.scheduler_name == name) for name in names)


_MOST: Final = 4096
"""Cost keys that are remembered at most, of either sort; the oldest are forgotten first."""


@dataclass(slots=True)
class _Failures:
    """How often in a row decisions exceeded a limit, what the last one reported, and until when the key backs off."""

    count: int = 0
    until: float = 0.0
    reasons: tuple[Reason, ...] = ()


class CostlyBackoff:
    """
    Cost keys by what their last decision did.

    A key whose decision exceeded a limit backs off, each time twice as long. After that its pods are decided alone,
    until one such decision keeps the limits. A key is forgotten when nothing used it for as long as the longest
    backoff after its last one.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff: Final = backoff
        self._failed: Final[OrderedDict[DecisionCostKey, _Failures]] = OrderedDict()
        self._proven: Final[OrderedDict[DecisionCostKey, None]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of keys that have exceeded a limit and are remembered."""
        return len(self._failed)

    def failed(self, key: DecisionCostKey, reasons: Collection[Reason], now: float) -> None:
        """Note that a decision exceeded a limit, and what it reported: the key backs off."""
        self._drop_old(now)
        failures = self._failed.setdefault(key, _Failures())
        self._failed.move_to_end(key)
        self._proven.pop(key, None)
        failures.count += 1
        failures.until, failures.reasons = self._backoff.end(now, failures.count), tuple(reasons)
        while len(self._failed) > _MOST:
            self._failed.popitem(last=False)

    def succeeded(self, key: DecisionCostKey) -> None:
        """Note that a costly decision kept the limits: pods with the key may come with batches again."""
        self._failed.pop(key, None)
        self._proven[key] = None
        self._proven.move_to_end(key)
        while len(self._proven) > _MOST:
            self._proven.popitem(last=False)

    def has_failed(self, key: DecisionCostKey) -> bool:
        """Whether the last decision exceeded a limit, so that the next one is made alone."""
        return key in self._failed

    def is_proven(self, key: DecisionCostKey) -> bool:
        """Whether a costly decision has kept the limits since."""
        return key in self._proven

    def failures(self, key: DecisionCostKey) -> int:
        """Return how often in a row decisions exceeded a limit."""
        failures = self._failed.get(key)
        return failures.count if failures is not None else 0

    def until(self, key: DecisionCostKey, now: float) -> float | None:
        """Return the time until which a key backs off, None where it does not."""
        failures = self._failed.get(key)
        return failures.until if failures is not None and failures.until > now else None

    def reasons(self, key: DecisionCostKey) -> tuple[Reason, ...]:
        """Return the reasons of the last decision that exceeded a limit."""
        failures = self._failed.get(key)
        return failures.reasons if failures is not None else ()

    def _drop_old(self, now: float) -> None:
        while self._failed:
            key, failures = next(iter(self._failed.items()))
            if now < failures.until + self._backoff.ceiling_seconds:
                return
            del self._failed[key]
