"""Who completes a gang that runs in part, and goes before others of its priority for it.

A gang that was placed whole and lost members wants back what it had, and no more: one pod for each member that left,
that asks for the same, within `HEIR_SECONDS`. Only what this process has placed counts. A pod that was given its node
by hand, or that merely names a gang, is a member and gives nobody a place in the queue. So it is worth nothing to
repeat this: a namespace gives back what it takes again, and a member that ended well leaves nothing behind.

Who of a gang stands in the queue, and whether enough members exist for it to be decided.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from scheduler.cluster.gangs import GangProgress
from scheduler.queue.equivalence import spec
from solver.domain import Batch, Claim, ClaimId, Gang, GangId, Pod, PodId

REPLACEMENT_SECONDS: Final = 600.0
"""So long after a member left, or could not be bound, a pod may go first in its place."""


def _no_claim(key: ClaimId) -> Claim | None:
    """Find no claim: for queues whose pods have none."""
    del key
    return None


@dataclass(slots=True, eq=False)
class _Place:
    """What a member was given: what it asks for, and since when it runs or its place is empty."""

    shape: Hashable
    since: float
    is_filled: bool = False


@dataclass(slots=True, eq=False)
class _Places:
    """
    Of one gang the places of members that this process has placed, by uid, and those that are empty since.

    `free` are the empty ones that are kept for no pod, by what they ask for; `heirs` the others, by the pod's uid.
    """

    taken: dict[str, _Place] = field(default_factory=dict)
    empty: deque[_Place] = field(default_factory=deque)
    free: defaultdict[Hashable, dict[_Place, None]] = field(default_factory=lambda: defaultdict(dict))
    heirs: dict[str, _Place] = field(default_factory=dict)

    def leave(self, shape: Hashable, now: float) -> None:
        """Note a place that became empty."""
        place = _Place(shape, now)
        self.empty.append(place)
        self.free[shape][place] = None

    def keep(self, uid: str, shape: Hashable) -> bool:
        """Keep the first empty place of a shape for a pod; whether there is one."""
        places = self.free.get(shape)
        if not places:
            return False
        place = self.heirs[uid] = next(iter(places))
        self._unfree(place)
        return True

    def disinherit(self, uid: str) -> None:
        """Let others have the place that was kept for a pod."""
        place = self.heirs.pop(uid, None)
        if place is not None and not place.is_filled:
            self.free[place.shape][place] = None

    def fill(self, uid: str) -> None:
        """Note that a pod was placed for which a place may have been kept."""
        place = self.heirs.pop(uid, None)
        if place is not None:
            place.is_filled = True

    def prune(self, now: float) -> None:
        """Forget places that are filled, or were empty for too long; they stand in the order in which they emptied."""
        while self.empty and (self.empty[0].is_filled or now - self.empty[0].since > REPLACEMENT_SECONDS):
            place = self.empty.popleft()
            place.is_filled = True
            self._unfree(place)

    def _unfree(self, place: _Place) -> None:
        places = self.free.get(place.shape, {})
        places.pop(place, None)
        if not places:
            self.free.pop(place.shape, None)


class GangReplacements:
    """Remembers the places of gangs' members; nothing here outlives the members and `HEIR_SECONDS`."""

    def __init__(self, claim: Callable[[ClaimId], Claim | None] = _no_claim) -> None:
        self._claim: Final = claim
        self._gangs: Final[defaultdict[GangId, _Places]] = defaultdict(_Places)
        self._emptied: Final[deque[tuple[float, GangId]]] = deque()
        """When places became empty, in order: a gang of which no pod comes again is forgotten by it."""

    def __len__(self) -> int:
        """Count the gangs of which something is remembered."""
        return len(self._gangs)

    def placed(self, pods: Iterable[Pod], now: float) -> None:
        """Note pods of which a unit was placed: those that could not be bound keep their place too."""
        self._forget_old(now)
        for pod in pods:
            if pod.gang is None or (shape := self._shape(pod)) is None:
                continue
            places = self._gangs[pod.gang]
            places.fill(pod.uid)
            places.taken.setdefault(pod.uid, _Place(shape, now))

    def see(self, before: Pod, after: Pod | None, now: float) -> None:
        """Take note of a pod that leaves: its place is empty, unless it has ended well."""
        gang = before.gang
        if gang is None or gang not in self._gangs:
            return
        is_same = after is not None and after.uid == before.uid
        if is_same and after is not None and not (after.is_deleting or after.is_terminal):
            return
        places = self._gangs[gang]
        place = places.taken.pop(before.uid, None)
        has_ended_well = is_same and after is not None and after.is_terminal and not after.has_failed
        places.disinherit(before.uid)
        if place is not None and not has_ended_well:
            places.leave(place.shape, now)
            self._emptied.append((now, gang))
        self._prune(gang, now)

    def is_entitled(self, pod: Pod, now: float) -> bool:
        """Whether a waiting pod has a place in its gang, its own or that of one that left; it is kept for it then."""
        if pod.gang is None or pod.gang not in self._gangs:
            return False
        self._prune(pod.gang, now)
        places = self._gangs.get(pod.gang, _Places())
        own = places.taken.get(pod.uid)
        if own is not None:
            return now - own.since <= REPLACEMENT_SECONDS
        heir = places.heirs.get(pod.uid)
        if heir is not None and not heir.is_filled:
            return True
        return bool(places.free) and places.keep(pod.uid, self._shape(pod))

    def completing(self, batch: Batch, now: float) -> frozenset[PodId]:
        """Give the pods of a batch that go first: of gangs that run in part and that these complete."""
        found: set[PodId] = set()
        for gang in batch.gangs:
            if gang.is_partial:
                found |= self._of_gang(gang, batch, now)
        return frozenset(found)

    def _of_gang(self, gang: Gang, batch: Batch, now: float) -> set[PodId]:
        mine = {pod.id for pod in batch.pods if pod.gang == gang.id and self.is_entitled(pod, now)}
        return mine if len(mine) >= gang.min_count - gang.running_count else set()

    def _shape(self, pod: Pod) -> Hashable | None:
        """Give what a pod asks for; None while one of its claims is not there."""
        asked = []
        for key in pod.claim_ids:
            claim = self._claim(key)
            if claim is None:
                return None
            asked.append((claim.requests, claim.constraints))
        is_whole = all(entry.claim is not None or entry.is_skipped for entry in pod.claims)
        return (pod.priority, *spec(pod), *asked) if is_whole else None

    def _forget_old(self, now: float) -> None:
        while self._emptied and now - self._emptied[0][0] > REPLACEMENT_SECONDS:
            _, gang = self._emptied.popleft()
            if gang in self._gangs:
                self._prune(gang, now)

    def _prune(self, gang: GangId, now: float) -> None:
        places = self._gangs[gang]
        places.prune(now)
        if not (places.empty or places.taken):
            del self._gangs[gang]


Stand = Callable[[GangId], GangProgress]
"""Says how far a gang is from being decidable."""
_COMPLETE: Final = GangProgress(missing=0, is_partial=False)


class QueuedGangs:
    """Pods of the queue by gang. Whoever knows all members, those that run too, is asked how a gang stands."""

    def __init__(self, stand: Stand = lambda _: _COMPLETE, completing: GangReplacements | None = None) -> None:
        self._stand: Final = stand
        self._completing: Final = completing if completing is not None else GangReplacements()
        self._members: Final[dict[GangId, dict[PodId, None]]] = {}

    def enter(self, pod: Pod) -> None:
        """Count a pod that came into the queue."""
        if pod.gang is not None:
            self._members.setdefault(pod.gang, {})[pod.id] = None

    def leave(self, pod: Pod) -> None:
        """Count a pod out."""
        if pod.gang is None:
            return
        members = self._members.get(pod.gang, {})
        members.pop(pod.id, None)
        if not members:
            self._members.pop(pod.gang, None)

    def members(self, gang: GangId) -> tuple[PodId, ...]:
        """Give the pods of a gang that stand in the queue, in the order in which they came."""
        return tuple(self._members.get(gang, ()))

    def has(self, gang: GangId) -> bool:
        """Whether a pod of a gang stands in the queue."""
        return gang in self._members

    def is_incomplete(self, gang: GangId) -> bool:
        """Whether too few members of a gang exist for it to be decided."""
        return self._stand(gang).missing > 0

    def is_missing_some(self, pod: Pod) -> bool:
        """Whether too few members of the pod's gang exist for it to be decided."""
        return pod.gang is not None and self.is_incomplete(pod.gang)

    def is_completing(self, pod: Pod, now: float) -> bool:
        """Whether some members of the pod's gang run and not enough of them, and a place among them is the pod's."""
        return pod.gang is not None and self._stand(pod.gang).is_partial and self._completing.is_entitled(pod, now)
