"""
Gangs in the queue: whether enough members exist for a decision, and which pods replace members that left.

A gang that was placed whole and lost members gets back what it had, and no more. So one pod for each member that left
goes before other pods of its priority, if it asks for the same and comes within `REPLACEMENT_SECONDS`. Only slots count
that this process has filled: a pod that got its node by hand, or merely names a gang, gives no other pod a place in the
queue. Repeating this gains nothing, since a namespace gives back what it takes again, and a member that ended well
leaves no slot.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from scheduler.cluster.gangs import GangProgress
from scheduler.queue.equivalence import node_terms
from scheduler.queue.queued_pod import PodIdsByKey
from solver.domain import Batch, Claim, ClaimId, Gang, GangId, Pod, PodId

REPLACEMENT_SECONDS: Final = 600.0
"""So long after a member left, or could not be bound, a pod may replace it."""


@dataclass(slots=True, eq=False)
class _Slot:
    """The slot of a member: what the member asks for, and since when it runs or the slot is empty."""

    terms: Hashable
    since: float
    is_filled: bool = False


@dataclass(slots=True, eq=False)
class _Slots:
    """
    The slots of one gang that this process has filled, by the uid of the member, and those that are empty since.

    Of the empty ones, `free` holds those that are reserved for no pod, by what they ask for; `reserved` the others, by
    the uid of the pod.
    """

    filled: dict[str, _Slot] = field(default_factory=dict)
    empty: deque[_Slot] = field(default_factory=deque)
    free: defaultdict[Hashable, dict[_Slot, None]] = field(default_factory=lambda: defaultdict(dict))
    reserved: dict[str, _Slot] = field(default_factory=dict)

    def leave(self, terms: Hashable, now: float) -> None:
        """Note a slot that became empty."""
        slot = _Slot(terms, now)
        self.empty.append(slot)
        self.free[terms][slot] = None

    def keep(self, uid: str, terms: Hashable) -> bool:
        """Keep the first free slot for a pod that asks for the same; return whether there is one."""
        slots = self.free.get(terms)
        if not slots:
            return False
        slot = self.reserved[uid] = next(iter(slots))
        self._take(slot)
        return True

    def release(self, uid: str) -> None:
        """Free the slot that is kept for a pod."""
        slot = self.reserved.pop(uid, None)
        if slot is not None and not slot.is_filled:
            self.free[slot.terms][slot] = None

    def fill(self, uid: str) -> None:
        """Note that a pod was placed for which a slot may be kept."""
        slot = self.reserved.pop(uid, None)
        if slot is not None:
            slot.is_filled = True

    def prune(self, now: float) -> None:
        """Forget empty slots that are filled again or too old; they are in the order in which they became empty."""
        while self.empty and (self.empty[0].is_filled or now - self.empty[0].since > REPLACEMENT_SECONDS):
            slot = self.empty.popleft()
            slot.is_filled = True
            self._take(slot)

    def _take(self, slot: _Slot) -> None:
        slots = self.free.get(slot.terms, {})
        slots.pop(slot, None)
        if not slots:
            self.free.pop(slot.terms, None)


class GangReplacements:
    """Remembers the slots of gangs; nothing here outlives the members by more than `REPLACEMENT_SECONDS`."""

    def __init__(self, claim: Callable[[ClaimId], Claim | None] = lambda _: None) -> None:
        self._claim: Final = claim
        self._gangs: Final[defaultdict[GangId, _Slots]] = defaultdict(_Slots)
        self._emptied: Final[deque[tuple[float, GangId]]] = deque()
        """When slots became empty, in order: a gang whose pods do not come back is forgotten by it."""

    def __len__(self) -> int:
        """Count the gangs of which something is remembered."""
        return len(self._gangs)

    def placed(self, pods: Iterable[Pod], now: float) -> None:
        """Note pods of which a unit was placed: those that could not be bound keep their slot too."""
        while self._emptied and now - self._emptied[0][0] > REPLACEMENT_SECONDS:
            _, gang = self._emptied.popleft()
            if gang in self._gangs:
                self._prune(gang, now)
        for pod in pods:
            if pod.gang is None or (terms := self._terms(pod)) is None:
                continue
            slots = self._gangs[pod.gang]
            slots.fill(pod.uid)
            slots.filled.setdefault(pod.uid, _Slot(terms, now))

    def see(self, before: Pod, after: Pod | None, now: float) -> None:
        """Note a pod that leaves: its slot is empty, unless the pod succeeded."""
        gang = before.gang
        if gang is None or gang not in self._gangs:
            return
        is_same = after is not None and after.uid == before.uid
        if is_same and after is not None and not (after.is_deleting or after.is_terminal):
            return
        slots = self._gangs[gang]
        slot = slots.filled.pop(before.uid, None)
        has_succeeded = is_same and after is not None and after.is_terminal and not after.has_failed
        slots.release(before.uid)
        if slot is not None and not has_succeeded:
            slots.leave(slot.terms, now)
            self._emptied.append((now, gang))
        self._prune(gang, now)

    def has_slot(self, pod: Pod, now: float) -> bool:
        """Whether there is a slot for a waiting pod, its own or that of a member that left, which is then kept."""
        if pod.gang is None or pod.gang not in self._gangs:
            return False
        self._prune(pod.gang, now)
        slots = self._gangs.get(pod.gang, _Slots())
        own = slots.filled.get(pod.uid)
        if own is not None:
            return now - own.since <= REPLACEMENT_SECONDS
        reserved = slots.reserved.get(pod.uid)
        if reserved is not None and not reserved.is_filled:
            return True
        return bool(slots.free) and slots.keep(pod.uid, self._terms(pod))

    def replacements(self, batch: Batch, now: float) -> frozenset[PodId]:
        """Return the pods of a batch that complete gangs which run in part."""
        found: set[PodId] = set()
        members = batch.members() if any(gang.is_partial for gang in batch.gangs) else {}
        for gang in batch.gangs:
            if gang.is_partial:
                found |= self._of_gang(gang, members.get(gang.id, ()), now)
        return frozenset(found)

    def _of_gang(self, gang: Gang, members: Iterable[Pod], now: float) -> set[PodId]:
        found = {pod.id for pod in members if self.has_slot(pod, now)}
        return found if len(found) >= gang.min_count - gang.running_count else set()

    def _terms(self, pod: Pod) -> Hashable:
        """Return what a pod asks for; None while one of its claims does not exist."""
        claims = [self._claim(key) for key in pod.claim_ids]
        if not all(entry.claim is not None or entry.is_skipped for entry in pod.claims):
            return None
        terms = [(claim.requests, claim.constraints) for claim in claims if claim is not None]
        return (pod.priority, node_terms(pod), *terms) if len(terms) == len(claims) else None

    def _prune(self, gang: GangId, now: float) -> None:
        slots = self._gangs[gang]
        slots.prune(now)
        if not (slots.empty or slots.filled):
            del self._gangs[gang]


_COMPLETE: Final = GangProgress(missing=0, is_partial=False)


class QueuedGangs(PodIdsByKey[GangId]):
    """The pods of the queue by gang. `progress` knows all members, those that run too."""

    def __init__(
        self,
        progress: Callable[[GangId], GangProgress] = lambda _: _COMPLETE,
        replacements: GangReplacements | None = None,
    ) -> None:
        super().__init__(lambda pod: () if pod.gang is None else (pod.gang,))
        self._progress: Final = progress
        self._replacements: Final = replacements if replacements is not None else GangReplacements()

    def is_incomplete(self, gang: GangId) -> bool:
        """Whether too few members of a gang exist for a decision."""
        return self._progress(gang).missing > 0

    def lacks_members(self, pod: Pod) -> bool:
        """Whether too few members of the pod's gang exist for a decision."""
        return pod.gang is not None and self.is_incomplete(pod.gang)

    def is_replacement(self, pod: Pod, now: float) -> bool:
        """Whether the pod's gang runs with too few members, and a slot of it is free for the pod."""
        return pod.gang is not None and self._progress(pod.gang).is_partial and self._replacements.has_slot(pod, now)
