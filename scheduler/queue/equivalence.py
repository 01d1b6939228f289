"""Crowds: equal pods that wait for the same reasons, of which only the first are tried when something could help them.

What one of them fails at, all fail at. So the first `FIRST` of a crowd stand ahead, in the lines of their reasons, and
the others behind them. Is the crowd woken, those ahead are tried: one that fails settles it for all, until something
happens again; one that is placed brings up twice as many. One that goes for another reason is replaced.

What makes pods equal: everything that decides whether one can be placed, of its spec and of its claims' specs.

Equal pods may differ in name, namespace, uid, age, labels, images and what they merely prefer. Labels and namespace
count where the pod itself states whom it runs with; that others may not want it beside them shows in its reasons
(`wakeups.OF_ITS_OWN`). A pod is like no other where it has something that others have not: a gang, volumes, a
nominated node, a claim that is named, missing, allocated, reserved or deleting, or a history.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from scheduler.queue.indexed_heap import IndexedHeap, SortKey
from scheduler.queue.queueing_hints import POD_SPECIFIC, RETRIED
from solver.domain import Claim, ClaimId, Pod, PodClaim, PodId, ReasonCode

KeyOf = Callable[[Pod], Hashable | None]
"""Gives what makes a pod equal to others for every rule; None where it is like no other."""

FIRST: Final = 64
"""Pods of a crowd that are tried at first."""
MOST: Final = 1024
"""Pods of a crowd that are tried together at most, however many have been placed before them."""


class EquivalenceClass:
    """What equal pods have in common: their crowds by reasons, and the number of the last batch that placed one."""

    __slots__ = ("__weakref__", "crowds", "placed")

    def __init__(self) -> None:
        self.crowds: dict[frozenset[ReasonCode], RetryGroup] = {}
        self.placed = 0


@dataclass(slots=True, eq=False)
class RetryGroup:
    """
    Pods of one shape that wait for the same reasons.

    `ahead` are those that wait in the lines of their reasons or are being tried: at least `quota`, if there are as
    many, and none of those that wait there comes after one that stands `behind`. `settled` is the number of the last
    batch in which one of them failed at what all fail at, `told` what that was besides `codes`; `placed` is the number
    of the last batch that placed a pod of the shape.
    """

    shape: EquivalenceClass
    codes: frozenset[ReasonCode]
    ahead: dict[PodId, None] = field(default_factory=dict)
    behind: IndexedHeap[SortKey] = field(default_factory=IndexedHeap)
    quota: int = FIRST
    settled: int = 0
    told: frozenset[ReasonCode] = frozenset()
    placed: int = 0
    is_growing: bool = False

    def is_open(self, taken: int, last_wake: Mapping[ReasonCode, int]) -> bool:
        """Whether something may have come about for a pod that was taken last with the batch of this number."""
        known = max(self.settled, taken)
        return self.placed > known or any(last_wake.get(code, 0) > known for code in self.codes | self.told)


class EquivalenceClasses:
    """Tells who is equal, and who of them waits where. Whose crowd loses somebody has it looked at (`untended`)."""

    def __init__(self) -> None:
        self._shape_of: KeyOf = _nothing
        self._shapes: Final[WeakValueDictionary[Hashable, EquivalenceClass]] = WeakValueDictionary()
        self._untended: dict[RetryGroup, None] = {}

    def connect(self, shape_of: KeyOf) -> None:
        """Say who tells which pods are equal; before that none is."""
        self._shape_of = shape_of

    def known(self, pod: Pod) -> EquivalenceClass | None:
        """Give the shape of a pod, if others of it wait."""
        if not self._shapes:
            return None
        key = self._shape_of(pod)
        return self._shapes.get(key) if key is not None else None

    def joined(self, pod: Pod, codes: frozenset[ReasonCode]) -> RetryGroup | None:
        """Give the crowd in which a pod waits for these reasons, if need be a new one; None for a pod like no other."""
        key = self._shape_of(pod) if codes and not codes & RETRIED else None
        if key is None:
            return None
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = EquivalenceClass()
        crowd = shape.crowds.get(codes)
        if crowd is None:
            crowd = shape.crowds[codes] = RetryGroup(shape, codes)
        return crowd

    def leave(self, crowd: RetryGroup, pod: PodId) -> None:
        """Let a pod out of its crowd; another one takes its place."""
        crowd.ahead.pop(pod, None)
        crowd.behind.discard(pod)
        if crowd.ahead or crowd.behind:
            self._untended[crowd] = None
        else:
            self._untended.pop(crowd, None)
            crowd.shape.crowds.pop(crowd.codes, None)

    def place(self, crowd: RetryGroup, rank: SortKey, *, is_tried: bool) -> bool:
        """Let a pod into its crowd, and give whether it stands ahead: it does while it is being tried."""
        head = crowd.behind.head()
        is_early = len(crowd.ahead) < crowd.quota if head is None else rank < head
        if not (is_tried or is_early):
            return False
        crowd.ahead[rank.pod] = None
        if len(crowd.ahead) > 2 * crowd.quota:
            self._untended[crowd] = None
        return True

    def placed(self, shape: EquivalenceClass, taken: int) -> None:
        """Note that the batch of this number placed a pod: its equals are tried, unless one of them failed in it."""
        shape.placed = taken
        for crowd in shape.crowds.values():
            crowd.placed, crowd.is_growing = taken, True
            self._untended[crowd] = None

    def untended(self) -> Iterator[RetryGroup]:
        """Give the crowds that have to be looked at, each once."""
        while self._untended:
            crowd = next(iter(self._untended))
            del self._untended[crowd]
            if crowd.ahead or crowd.behind:
                yield crowd


def is_telling(codes: frozenset[ReasonCode]) -> bool:
    """Whether what a pod fails at is what its equals fail at too."""
    return bool(codes) and not codes & (RETRIED | POD_SPECIFIC)


def _nothing(_: Pod) -> None:
    return None


class EquivalenceKeys:
    """
    Tells which pods are equal, by the claims as they are now.

    `is_apart` says of whose history something is remembered, `is_overdue` who goes before others of its priority.
    """

    def __init__(
        self,
        claim: Callable[[ClaimId], Claim | None],
        is_apart: Callable[[Pod], bool],
        is_overdue: Callable[[Pod], bool],
    ) -> None:
        self._claim: Final = claim
        self._is_apart: Final = is_apart
        self._is_overdue: Final = is_overdue

    def of(self, pod: Pod) -> Hashable | None:
        """Give what is equal for equal pods, and None for a pod like no other; one that raises is like no other."""
        try:
            return self._of(pod)
        except Exception:  # noqa: BLE001 - whatever one pod raises, the others are put back and decided
            return None

    def _of(self, pod: Pod) -> Hashable | None:
        if _is_special(pod) or self._is_apart(pod):
            return None
        asked: list[Hashable] = []
        for entry in pod.claims:
            wanted = self._asked(entry, pod)
            if wanted is None:
                return None
            asked.append(wanted)
        return (pod.scheduler_name, pod.priority, self._is_overdue(pod), *spec(pod), *company(pod), *asked)

    def _asked(self, entry: PodClaim, pod: Pod) -> Hashable | None:
        """Give what one entry of the pod's claims asks for, None where it is not merely to be allocated for the pod."""
        if entry.is_skipped:
            return entry.entry
        claim = self._claim(entry.claim) if entry.claim is not None else None
        if claim is None or claim.owner_pod_uid != pod.uid or not _is_untouched(claim):
            return None
        return (entry.entry, claim.requests, claim.constraints)


def _is_special(pod: Pod) -> bool:
    return bool(pod.gang is not None or pod.pod_group or pod.volumes or pod.nominated_node_name or pod.invalid)


def _is_untouched(claim: Claim) -> bool:
    return claim.allocation is None and not (claim.reserved_for or claim.is_deleting or claim.invalid)


def spec(pod: Pod) -> tuple[Hashable, ...]:
    """Give what of a pod's spec decides where it may run, its claims and its company apart."""
    return (
        pod.preemption_policy,
        pod.requests,
        pod.containers,
        pod.level_slack,
        pod.node_selector,
        pod.required_affinity,
        pod.tolerations,
        pod.host_ports,
    )


def company(pod: Pod) -> tuple[Hashable, ...]:
    """Whom it runs with, keeps away from or spreads among, by its own word; and as what others of its kind see it."""
    if not (pod.affinity or pod.anti_affinity or pod.spread):
        return ()
    return (pod.id.namespace, pod.labels, pod.affinity, pod.anti_affinity, pod.spread)
