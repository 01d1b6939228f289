"""What waits for a decision aside: pods that are costly to decide about, and pods under suspicion.

Suspects come first, since most of them are there for what another one did: in halves, until one kin is alone. Then
come costly pods, a kin or a gang at a time: of the namespaces with credit the one that was served longest ago.

How much of the time for costly decisions each namespace has left: an account that time fills and decisions empty.

Kin: pods of one namespace that cost the same to decide about, because their specs and those of their claims are equal.

What a decision took is remembered by kin and not by uid: a controller replaces a pod by another one with the same spec.
The owner is not a part of it, so that the next Job of a CronJob, or the next ReplicaSet, is known too.

Kin whose decisions broke a limit: since when they rest, for how long, and which are proven to be harmless.
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
    Seconds of decisions by namespace.

    Each namespace earns `share` of the time that passes, up to what it earns in a minute. A decision may begin while
    the account is not negative, and is paid when it has ended: what it took is not known before. So over any time a
    namespace uses its share, a minute's worth and one decision at most. Accounts that are full are not kept.
    """

    def __init__(self, share: float) -> None:
        self._share: Final = share
        self._full: Final = share * _WINDOW_SECONDS
        self._accounts: Final[dict[str, tuple[float, float]]] = {}
        """Seconds that were left, and when."""
        self._used_at: Final[dict[str, float]] = {}

    def __len__(self) -> int:
        """Give the number of accounts that are kept."""
        return len(self._accounts)

    def left(self, namespace: str, now: float) -> float:
        """Give the seconds that a namespace has left, negative where it owes some."""
        seconds, at = self._accounts.get(namespace, (self._full, now))
        return min(self._full, seconds + (now - at) * self._share)

    def is_in_debt(self, namespace: str, now: float) -> bool:
        """Whether a namespace has to wait before its next costly decision."""
        return namespace in self._accounts and self.left(namespace, now) < 0

    def free_at(self, namespace: str, now: float) -> float:
        """Give the time from which a decision of a namespace may begin: now, or later."""
        return now + max(0.0, -self.left(namespace, now) / self._share)

    def used_at(self, namespace: str) -> float:
        """Give when a namespace was served last, long ago where nothing is known of it."""
        return self._used_at.get(namespace, float("-inf"))

    def spend(self, namespace: str, seconds: float, now: float) -> None:
        """Pay for a decision that has ended."""
        self._accounts[namespace] = (self.left(namespace, now) - seconds, now)
        self._used_at.pop(namespace, None)
        self._used_at[namespace] = now
        if len(self._used_at) > _MOST_REMEMBERED:
            del self._used_at[next(iter(self._used_at))]
        for full in [each for each in self._accounts if self.left(each, now) >= self._full]:
            del self._accounts[full]


class CostKey(NamedTuple):
    """The namespace, and a hash of everything in the specs that a decision looks at."""

    namespace: str
    spec: int


def cost_key(pod: Pod, claim: Callable[[ClaimId], Claim | None]) -> CostKey:
    """Give the kin of a pod, by its claims as they are now; `claim` looks one up. Pods of a gang are one."""
    if pod.gang is not None:
        return CostKey(pod.id.namespace, hash(pod.gang))
    asked = tuple(_asked(entry, claim) for entry in pod.claims)
    preferred = (pod.preferred_node_affinity, pod.preferred_affinity, pod.preferred_anti_affinity)
    volumes = tuple(each.claim is not None for each in pod.volumes)
    special = (pod.scheduler_name, preferred, volumes)
    return CostKey(pod.id.namespace, hash((special, node_terms(pod), interpod_terms(pod), asked)))


def _asked(entry: PodClaim, find: Callable[[ClaimId], Claim | None]) -> Hashable:
    claim = find(entry.claim) if entry.claim is not None else None
    if claim is None:
        return (entry.template, entry.is_skipped)
    return (claim.requests, claim.constraints, claim.allocation is not None)


_MOST_TOGETHER: Final = 64
"""Pods of a kin that are decided together aside: what they cost is nearly what one costs."""

Key = tuple[str, CostKey | GangId]
"""The schedulerName, and what is decided together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlyJob:
    """
    One decision aside: its pods, all of one scheduler name, and the others of their kin, for which it speaks too.

    `kin` is that of a costly job, None where several kin are under suspicion.
    """

    pods: tuple[Pod, ...]
    rest: tuple[Pod, ...] = ()
    kin: CostKey | None = None

    @property
    def namespace(self) -> str:
        """The namespace that pays for it."""
        return self.pods[0].id.namespace


class CostlyQueue:
    """The queue, by namespace. Times are seconds of the caller's monotonic clock; pods are known by uid."""

    def __init__(self, credit: DecisionTimeQuota, kin_of: Callable[[Pod], CostKey]) -> None:
        self._credit: Final = credit
        self._kin_of: Final = kin_of
        self._suspects: Final[deque[tuple[Pod, ...]]] = deque()
        self._costly: Final[dict[str, dict[Key, dict[str, Pod]]]] = {}
        self._gone: Final[set[str]] = set()

    def __len__(self) -> int:
        """Give the number of pods that wait."""
        costly = sum(len(group) for groups in self._costly.values() for group in groups.values())
        return costly + sum(len(part) for part in self._suspects)

    def add(self, pods: Iterable[Pod]) -> None:
        """Let costly pods wait."""
        for pod in pods:
            self._gone.discard(pod.uid)
            groups = self._costly.setdefault(pod.id.namespace, {})
            groups.setdefault(self._key(pod), {})[pod.uid] = pod

    def suspect(self, pods: Sequence[Pod]) -> None:
        """Let pods wait that were decided together when the process ended: in halves, one kin alone as costly."""
        self._gone.difference_update(pod.uid for pod in pods)
        groups: dict[Key, list[Pod]] = {}
        for pod in pods:
            groups.setdefault(self._key(pod), []).append(pod)
        if len(groups) == 1:
            self.add(pods)
            return
        units = list(groups.values())
        half = (len(units) + 1) // 2
        for part in (units[:half], units[half:]):
            self._suspects.extend(_by_profile([pod for unit in part for pod in unit]))

    def forget(self, uid: str) -> None:
        """Drop a pod that is gone, bound or changed, if it waits."""
        if self._costly or self._suspects:
            self._gone.add(uid)

    def due(self, now: float) -> float | None:
        """Give the time from which there may be a job: now, later, or None where nothing waits."""
        self._sweep()
        if self._suspects:
            return now
        return min((self._credit.free_at(namespace, now) for namespace in self._costly), default=None)

    def take(self, now: float) -> CostlyJob | None:
        """Take the next job; None where no namespace that has one may begin it now."""
        self._sweep()
        if self._suspects:
            return self._single(self._suspects.popleft())
        ready = [each for each in self._costly if not self._credit.is_in_debt(each, now)]
        if not ready:
            return None
        namespace = min(ready, key=self._credit.used_at)  # of those never served the one that came first
        groups = self._costly[namespace]
        key = max(groups, key=lambda each: max(pod.priority for pod in groups[each].values()))
        pods = tuple(groups.pop(key).values())
        if not groups:
            del self._costly[namespace]
        most = len(pods) if pods[0].gang is not None else _MOST_TOGETHER
        return CostlyJob(pods=pods[:most], rest=pods[most:], kin=self._kin_of(pods[0]))

    def _single(self, pods: tuple[Pod, ...]) -> CostlyJob:
        keys = {self._key(pod) for pod in pods}
        return CostlyJob(pods=pods, kin=self._kin_of(pods[0]) if len(keys) == 1 else None)

    def _key(self, pod: Pod) -> Key:
        return (pod.scheduler_name, pod.gang or self._kin_of(pod))

    def _sweep(self) -> None:
        """Drop those that are gone."""
        if not self._gone:
            return
        for namespace, groups in tuple(self._costly.items()):
            for key, group in tuple(groups.items()):
                for uid in self._gone & group.keys():
                    del group[uid]
                if not group:
                    del groups[key]
            if not groups:
                del self._costly[namespace]
        parts = [tuple(pod for pod in part if pod.uid not in self._gone) for part in self._suspects]
        self._suspects.clear()
        self._suspects.extend(part for part in parts if part)
        self._gone.clear()


def _by_profile(pods: Sequence[Pod]) -> Iterable[tuple[Pod, ...]]:
    names = dict.fromkeys(pod.scheduler_name for pod in pods)
    return (tuple(pod for pod in pods if pod.scheduler_name == name) for name in names)


_MOST: Final = 4096
"""Kin that are remembered at most, of either sort; the oldest are forgotten first."""


@dataclass(slots=True)
class _Case:
    """How often decisions about a kin broke a limit in a row, what the last one said, and until when it rests."""

    breaks: int = 0
    until: float = 0.0
    why: tuple[Reason, ...] = ()


class CostlyBackoff:
    """
    Kin by what their last decision did.

    One that broke a limit rests for a backoff that doubles; then it is decided aside, alone, until one such decision
    keeps the limits. It is forgotten when nothing was heard of it for as long as the longest rest after its own.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff: Final = backoff
        self._cases: Final[OrderedDict[CostKey, _Case]] = OrderedDict()
        self._proven: Final[OrderedDict[CostKey, None]] = OrderedDict()

    def __len__(self) -> int:
        """Give the number of kin that have broken a limit and are remembered."""
        return len(self._cases)

    def broke(self, kin: CostKey, why: Collection[Reason], now: float) -> None:
        """Note that a decision about a kin broke a limit, and why: it rests."""
        self._drop_old(now)
        case = self._cases.setdefault(kin, _Case())
        self._cases.move_to_end(kin)
        self._proven.pop(kin, None)
        case.breaks += 1
        case.until, case.why = self._backoff.end(now, case.breaks), tuple(why)
        while len(self._cases) > _MOST:
            self._cases.popitem(last=False)

    def survived(self, kin: CostKey) -> None:
        """Note that a decision aside about a kin kept the limits: it may be decided with others again."""
        self._cases.pop(kin, None)
        self._proven[kin] = None
        self._proven.move_to_end(kin)
        while len(self._proven) > _MOST:
            self._proven.popitem(last=False)

    def is_known(self, kin: CostKey) -> bool:
        """Whether the last decision about a kin broke a limit, so that the next one is to be aside."""
        return kin in self._cases

    def is_proven(self, kin: CostKey) -> bool:
        """Whether a decision aside about a kin has kept the limits."""
        return kin in self._proven

    def breaks(self, kin: CostKey) -> int:
        """Give how often in a row decisions about a kin broke a limit."""
        case = self._cases.get(kin)
        return case.breaks if case is not None else 0

    def until(self, kin: CostKey, now: float) -> float | None:
        """Give the time until which a kin rests, None where it does not."""
        case = self._cases.get(kin)
        return case.until if case is not None and case.until > now else None

    def why(self, kin: CostKey) -> tuple[Reason, ...]:
        """Give the reasons of the last decision about a kin that broke a limit."""
        case = self._cases.get(kin)
        return case.why if case is not None else ()

    def _drop_old(self, now: float) -> None:
        while self._cases:
            kin, case = next(iter(self._cases.items()))
            if now < case.until + self._backoff.ceiling_seconds:
                return
            del self._cases[kin]
