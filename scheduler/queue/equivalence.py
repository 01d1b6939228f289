"""
Equivalence classes: pods that fail alike, of which only a few are retried.

`EquivalenceKey` says which pods are equal: what one of them fails at, all fail at. Pods of a class with the same
reasons form a `RetryGroup`. Only its first pods, the representatives, are in the heaps of their reasons; the others are
deferred. After a hint as many are retried as may fit by it. One that fails answers for the whole group until the next
hint; one that is placed lets more be tried, while what was freed is not used up. Without this a Job of 10,000 pods that
fits nowhere would cost 10,000 attempts for every node that is added.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from scheduler.queue.indexed_heap import IndexedHeap, SortKey
from scheduler.queue.queueing_hints import POD_SPECIFIC, RETRIED
from solver import INTER_POD_READS, NODE_READS
from solver.domain import Claim, ClaimId, Pod, PodClaim, PodId, ReasonCode

INITIAL_QUOTA: Final = 64
"""Representatives of a group where hints do not say how many of its pods may fit."""
MOST_REPRESENTATIVES: Final = 1024
"""Representatives of a group at most, however many of them were placed."""


class EquivalenceKey(NamedTuple):
    """
    The queue's key of pod equivalence: everything that decides whether a pod can be placed, and before which others.

    A field that a rule reads and that is missing here makes pods equal that are not. The queue then leaves pods
    unscheduled that would fit. So each field of `Pod` is either in the key, or gives a pod no key at all
    (`EquivalenceKeys`), or is listed by `tests/scheduler/queue/test_equivalence.py` as one that decides nothing: name,
    uid, age, images, labels, and preferred terms, which choose among nodes only.

    `claims` holds the requests and constraints of each claim, or the name of an entry that needs none. `is_overdue`
    counts because a starving pod is decided before others of its priority. What may be wide is interned, so that a key
    hashes in the same time whatever its pod asks for.
    """

    scheduler_name: str
    priority: int
    is_overdue: bool
    node: "InternedTerms"
    claims: tuple[Hashable, ...]
    quota: str = ""
    """The DeviceQuota of its namespace."""


NODE_FIELDS: Final = (
    "preemption_policy",
    "requests",
    "containers",
    "level_slack",
    *NODE_READS,
)
"""What a pod asks of a node, claims apart; and which other pods it may evict there."""


node_terms: Final[Callable[[Pod], tuple[Hashable, ...]]] = attrgetter(*NODE_FIELDS)
"""Returns what a pod asks of a node."""


_terms_about_pods: Final[Callable[[Pod], tuple[Hashable, ...]]] = attrgetter(*INTER_POD_READS)


def interpod_terms(pod: Pod) -> tuple[Hashable, ...] | None:
    """
    Return what a pod requires of other pods, None where it requires nothing of them.

    With its terms count the namespace and the labels by which they may select the pod itself.
    Terms of other pods that exclude this one by its labels are no part of it: such a pod fails for a reason in
    `queueing_hints.POD_SPECIFIC`, and then it does not answer for its group.
    """
    terms = _terms_about_pods(pod)
    return (pod.id.namespace, pod.labels, *terms) if any(terms) else None


class InternedTerms:
    """Stands for terms of pods or claims, and hashes by identity: equal terms have the same one while anyone has it."""

    __slots__ = ("__weakref__",)


class PodTerms:
    """
    A version of a pod, with its interned terms: None until its key is first asked for.

    `claims` has those of each claim, with the requests and constraints that they stand for.
    """

    __slots__ = ("claims", "node", "pod")

    def __init__(self, pod: Pod) -> None:
        self.pod: Final = pod
        self.node: InternedTerms | None = None
        self.claims: dict[ClaimId, tuple[Hashable, Hashable, InternedTerms]] = {}


class EquivalenceKeys:
    """
    Gives pods their keys, by the claims as they are now.

    A pod has no key, and is retried by itself, where something of its state decides too: a gang, volumes, a nominated
    node, something that cannot be read, or a claim that is missing, shared, allocated, reserved or being deleted.
    `has_history` says the same of what the scheduler remembers of a pod, `is_overdue` which pods starve, `quota_of` the
    quota of a namespace.
    """

    def __init__(
        self,
        claim: Callable[[ClaimId], Claim | None],
        has_history: Callable[[Pod], bool],
        is_overdue: Callable[[Pod], bool],
        quota_of: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._claim: Final = claim
        self._has_history: Final = has_history
        self._is_overdue: Final = is_overdue
        self._quota_of: Final = quota_of
        self._interned: Final[WeakValueDictionary[Hashable, InternedTerms]] = WeakValueDictionary()

    def of(self, terms: PodTerms) -> EquivalenceKey | None:
        """
        Return the key of a pod, None where it is equal to no other; also for a pod on which this fails.

        The first call hashes all terms of the pod; a later one only those of claims that have changed since.
        """
        try:
            return self._of(terms)
        except Exception:  # noqa: BLE001 - whatever one pod raises, the others are put back and decided
            return None

    def _of(self, terms: PodTerms) -> EquivalenceKey | None:
        pod = terms.pod
        if pod.gang is not None or pod.pod_group or pod.volumes or pod.nominated_node_name or pod.invalid:
            return None
        if terms.node is None:
            terms.node = self._intern((node_terms(pod), interpod_terms(pod)))
        claims = tuple(self._claim_terms(entry, terms) for entry in pod.claims)
        if None in claims or self._has_history(pod):
            return None
        return EquivalenceKey(
            scheduler_name=pod.scheduler_name,
            priority=pod.priority,
            is_overdue=self._is_overdue(pod),
            node=terms.node,
            claims=claims,
            quota=self._quota_of(pod.id.namespace) if claims or any("/" in name for name, _ in pod.requests) else "",
        )

    def _claim_terms(self, entry: PodClaim, terms: PodTerms) -> Hashable | None:
        """Return what an entry of `spec.resourceClaims` asks for; None if its claim is not just to be allocated."""
        if entry.is_skipped:
            return entry.entry
        claim = self._claim(entry.claim) if entry.claim is not None else None
        if claim is None or claim.owner_pod_uid != terms.pod.uid or claim.allocation is not None:
            return None
        if claim.reserved_for or claim.is_deleting or claim.invalid:
            return None
        requests, constraints, interned = terms.claims.get(claim.id, (None, None, None))
        # Other versions of a claim that the scheduler makes itself, such as an allocated one, share these tuples.
        if interned is None or requests is not claim.requests or constraints is not claim.constraints:
            interned = self._intern((claim.requests, claim.constraints))
            terms.claims[claim.id] = (claim.requests, claim.constraints, interned)
        return (entry.entry, interned)

    def _intern(self, terms: Hashable) -> InternedTerms:
        return self._interned.setdefault(terms, InternedTerms())


KeyOf = Callable[[PodTerms], Hashable | None]
"""Gives the equivalence key of a pod, as `EquivalenceKeys.of`."""


def no_key(_: PodTerms) -> None:
    """Give no pod a key: each is retried by itself."""


NewestHint = Callable[[frozenset[ReasonCode]], int]
"""Gives the number of the last hint by which pods with these reasons may fit."""


class HintCause(NamedTuple):
    """Why a pod was tried that had failed before: a hint after `known` may have removed one of its reasons."""

    reasons: frozenset[ReasonCode]
    known: int

    def holds(self, newest: NewestHint) -> bool:
        """Whether what was freed then is not used up."""
        return newest(self.reasons) > self.known


class EquivalenceClass:
    """
    The groups of equal pods, by reasons, and the number of the last batch that placed a pod of the class.

    `cause` is why its pods of the class were tried, None where no hint explains that there was room for all of them.
    """

    __slots__ = ("__weakref__", "cause", "groups", "placed_batch")

    def __init__(self) -> None:
        self.groups: dict[frozenset[ReasonCode], RetryGroup] = {}
        self.placed_batch = 0
        self.cause: HintCause | None = None

    def may_have_room(self, known: int, newest: NewestHint) -> bool:
        """Whether a pod was placed after `known`, and there may be room for more of them."""
        return self.placed_batch > known and (self.cause is None or self.cause.holds(newest))


@dataclass(slots=True, eq=False)
class RetryGroup:
    """
    Equal pods that failed for the same reasons.

    `representatives` are the pods that are in the heaps of their reasons, or are being retried; `deferred` are all
    others. There are at least `quota` representatives where the group has as many pods: `least_quota`, and after a hint
    as many as may fit by it. Every representative that is unschedulable comes before every deferred pod.
    `failed_batch` is the number of the last batch in which a pod failed for all, `other_reasons` what it failed at then
    besides `reasons`.
    """

    equivalence_class: EquivalenceClass
    reasons: frozenset[ReasonCode]
    representatives: dict[PodId, None] = field(default_factory=dict)
    deferred: IndexedHeap[SortKey] = field(default_factory=IndexedHeap)
    quota: int = field(init=False)
    failed_batch: int = 0
    other_reasons: frozenset[ReasonCode] = frozenset()
    is_growing: bool = False

    def __post_init__(self) -> None:
        self.quota = self.least_quota

    @property
    def least_quota(self) -> int:
        """One pod answers for all; but several are tried where each may fail for something of its own."""
        return INITIAL_QUOTA if self.reasons & POD_SPECIFIC else 1

    @property
    def every_reason(self) -> frozenset[ReasonCode]:
        """What its pods failed at, and what the last of them failed at."""
        return self.reasons | self.other_reasons

    def may_succeed(self, batch: int, newest: NewestHint) -> bool:
        """Whether a hint, or a placed equal, is newer than the last failure of a pod that this batch took last."""
        known = max(self.failed_batch, batch)
        return newest(self.every_reason) > known or self.equivalence_class.may_have_room(known, newest)


class EquivalenceClasses:
    """All classes and groups. `changed_groups` collects those whose number of representatives may be wrong."""

    def __init__(self, key_of: KeyOf) -> None:
        self._key_of: Final = key_of
        self._classes: Final[WeakValueDictionary[Hashable, EquivalenceClass]] = WeakValueDictionary()
        self._changed: Final[dict[RetryGroup, None]] = {}

    def terms(self, pod: Pod) -> PodTerms:
        """Return the terms of a version of a pod, interned now: forming a batch of many pods hashes none of them."""
        terms = PodTerms(pod)
        self._key_of(terms)
        return terms

    def known(self, terms: PodTerms) -> EquivalenceClass | None:
        """Return the class of a pod, if it has others in the queue."""
        key = self._key_of(terms)
        return self._classes.get(key) if key is not None else None

    def group(self, terms: PodTerms, reasons: frozenset[ReasonCode]) -> RetryGroup | None:
        """Return the group of a pod that failed for these reasons, if need be a new one; None for one without a key."""
        key = self._key_of(terms) if reasons and not reasons & RETRIED else None
        if key is None:
            return None
        equals = self._classes.get(key)
        if equals is None:
            equals = self._classes[key] = EquivalenceClass()
        group = equals.groups.get(reasons)
        if group is None:
            group = equals.groups[reasons] = RetryGroup(equals, reasons)
        return group

    def join(self, group: RetryGroup, key: SortKey, *, is_tried: bool) -> bool:
        """Add a pod, and return whether it is a representative: always while it is being tried."""
        head = group.deferred.head()
        is_early = len(group.representatives) < group.quota if head is None else key < head
        if not (is_tried or is_early):
            return False
        group.representatives[key.pod] = None
        self.note_changed(group)
        return True

    def leave(self, group: RetryGroup, pod: PodId) -> None:
        """Remove a pod; a deferred one may take its place."""
        group.representatives.pop(pod, None)
        group.deferred.discard(pod)
        self.note_changed(group)

    def note_changed(self, group: RetryGroup) -> None:
        """Have the representatives of a group looked at."""
        self._changed[group] = None

    def placed(self, equals: EquivalenceClass, batch: int, cause: HintCause | None) -> None:
        """Note that a batch placed a pod of a class: its groups grow, unless a pod of them failed in that batch."""
        is_explained = batch != equals.placed_batch or cause == equals.cause
        equals.placed_batch, equals.cause = batch, cause if is_explained else None
        for group in equals.groups.values():
            group.is_growing = True
            self._changed[group] = None

    def changed_groups(self) -> Iterator[RetryGroup]:
        """
        Return the groups whose representatives have to be looked at, each once; empty ones are dropped.

        Not before: the last pod of a group may leave it and join it again, and waits for what others failed at.
        """
        while self._changed:
            group = next(iter(self._changed))
            del self._changed[group]
            if group.representatives or group.deferred:
                yield group
            else:
                group.equivalence_class.groups.pop(group.reasons, None)


def is_shared_failure(reasons: frozenset[ReasonCode]) -> bool:
    """Whether what a pod fails at is what its equals fail at too."""
    return bool(reasons) and not reasons & (RETRIED | POD_SPECIFIC)
