"""
Holds in the cluster cache: DeviceHolds as the watch shows them, those that are being made, and their open places.

A place is used up by the pod whose Binding says so (`PLACE_ANNOTATION`), and by a pod that is assumed to be bound with
it; a pod that the place is not for uses up nothing, whatever it says. The first is remembered as long as the hold is
there: a pod may end before the status of the hold says it. What no status says yet is exported to the worker's replica,
which infers nothing itself.

A pod that uses up a place costs the same however many places its hold has: the place is taken out of the indexes, and
the hold as it counts is made anew when it is asked for.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from scheduler.change import Kind, Object, Transition
from scheduler.cluster.holds.seat_index import SeatIndex
from scheduler.cluster.table import Table, expect
from solver.domain import DeviceHold, HeldPlace, LostPlace, Pod, PodId, Seat


class AssumedHolds(msgspec.Struct, frozen=True, kw_only=True):
    """What no watch has shown yet: holds that are being made, and places (`Seat.id`) that are used up or lost."""

    made: tuple[DeviceHold, ...] = ()
    used: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    """With the message of each (`LostPlace`)."""


@dataclass(slots=True, eq=False)
class _Shown:
    """
    A hold as its object says it, the last one that a watch has shown or the one that is being made.

    `places` are all of them by `Seat.id`, `closed` the indices that its status names, `seats` what is open.
    """

    base: DeviceHold
    places: dict[str, HeldPlace]
    closed: frozenset[int]
    seats: dict[str, Seat] = field(default_factory=dict)


class HoldCache(SeatIndex):
    """Holds by name, with the places that are used up or lost although their status does not say so yet."""

    def __init__(self) -> None:
        super().__init__()
        self._observed: Table[str, DeviceHold] = Table()
        self._made: dict[str, DeviceHold] = {}
        self._place_of: dict[PodId, tuple[Pod, bool]] = {}
        """Pods that name a place as theirs, and whether the watch shows it."""
        self._naming: dict[str, dict[PodId, None]] = {}
        """The pods that name a place."""
        self._bound: dict[str, None] = {}
        """Places that the watch has shown to be used up, as long as their holds are there."""
        self._lost: dict[str, str] = {}
        """Places that are given up, with the messages."""
        self._shown: dict[str, _Shown] = {}
        self._overlaid: Table[str, DeviceHold] = Table()
        """Holds by name, with all this laid over them; those of `_stale` are made anew when they are asked for."""
        self._stale: dict[str, None] = {}
        self._name_of: dict[str, str] = {}
        """Names of holds by `DeviceHold.key`."""
        self._of_owner: dict[str, dict[str, None]] = {}
        """Names of holds by the uid of their owner."""

    def __len__(self) -> int:
        return len(self._shown)

    def values(self) -> tuple[DeviceHold, ...]:
        """Return all holds by name, as they count; the same tuple as long as none changes."""
        for name in tuple(self._stale):
            self._lay_over(name)
        return self._overlaid.values()

    def get(self, name: str) -> DeviceHold | None:
        """Return a hold as it counts."""
        self._lay_over(name)
        return self._overlaid.get(name)

    def by_uid(self, uid: str) -> DeviceHold | None:
        """Return the hold with a uid, as it counts."""
        name = self._name_of.get(uid)
        return self.get(name) if name is not None else None

    def of_owner(self, uid: str) -> tuple[DeviceHold, ...]:
        """Return the holds of an owner by its uid, as they count, by name."""
        found = (self.get(name) for name in sorted(self._of_owner.get(uid, ())))
        return tuple(hold for hold in found if hold is not None)

    def seen(self, _: Kind, name: str) -> DeviceHold | None:
        """Return a hold as the watch last gave it."""
        return self._observed.get(name)

    def is_open(self, seat: str) -> bool:
        """Whether a place (`Seat.id`) is held, and neither used up nor lost."""
        found = self._place(seat)
        return found is not None and seat in found[0].seats

    def pods_naming(self, seat: str) -> Collection[PodId]:
        """Return the pods that name a place (`Seat.id`) as theirs."""
        return self._naming.get(seat, {}).keys()

    def apply(self, kind: Kind, name: str, value: Object | None) -> tuple[Transition, ...]:
        """Apply a change from the watch."""
        before, after = self._observed.get(name), expect(value, DeviceHold)
        if before == after:
            return ()
        if before is not None and after is not None and before.places == after.places:
            # What follows them by identity need not change.
            after = msgspec.structs.replace(after, places=before.places)
        self._observed.replace(name, after)
        if after is not None:
            self._made.pop(name, None)
        return (Transition(kind=kind, key=name, before=before, after=after, closed=self._refreshed(name)),)

    def restore(self, _: Kind, name: str, value: Object | None) -> None:
        """Set a hold on which `apply` raised as it was."""
        self._observed.replace(name, expect(value, DeviceHold))
        self._refreshed(name)

    def make(self, hold: DeviceHold) -> tuple[Transition, ...]:
        """Assume that a hold exists, until the watch shows it or `forget` is called; its uid is known when it does."""
        if self._observed.get(hold.name) is not None:
            return ()
        self._made[hold.name] = hold
        return _told(hold.name, self._refreshed(hold.name))

    def forget(self, name: str) -> tuple[Transition, ...]:
        """Assume no longer that a hold is being made."""
        self._made.pop(name, None)
        return _told(name, self._refreshed(name))

    def made_after(self, name: str) -> Collection[str]:
        """Return the names of the holds that were made after one, and of which it is not known that they are stored."""
        names = list(self._made)
        later = names[names.index(name) + 1 :] if name in self._made else []
        return [each for each in later if not self._made[each].uid]

    def lose(self, seat: str, message: str) -> tuple[Transition, ...]:
        """Count a place as lost, before the status of its hold says so."""
        self._lost[seat] = message
        return _told(seat, self._refreshed_of((seat,)))

    def pod_changed(self, key: PodId, after: Pod | None, *, is_seen: bool) -> tuple[Seat, ...]:
        """
        Follow the place that a pod uses up, and return it if it was open.

        `is_seen` says whether the watch shows the pod on its node.
        """
        had, has = self._place_of.get(key), (after, is_seen) if after is not None and after.place else None
        if had == has:
            return ()
        if had is not None:
            place = had[0].place
            del self._place_of[key], self._naming[place][key]
            if not self._naming[place]:
                del self._naming[place]
        if has is not None:
            place = has[0].place
            self._place_of[key] = has
            self._naming.setdefault(place, {})[key] = None
            if self._is_taken(place, seen_alone=True):
                self._bound[place] = None
        return self._refreshed_of({each[0].place for each in (had, has) if each is not None})

    def _place(self, seat: str) -> tuple[_Shown, HeldPlace] | None:
        """Return a place by `Seat.id`, open or not, with its hold."""
        name = self._name_of.get(seat.rpartition("/")[0])
        shown = self._shown.get(name) if name is not None else None
        place = shown.places.get(seat) if shown is not None else None
        return (shown, place) if shown is not None and place is not None else None

    def _is_taken(self, seat: str, *, seen_alone: bool = False) -> bool:
        """Whether a pod that a place is for is bound with it, or assumed to be where not `seen_alone`."""
        found = self._place(seat) if seat in self._naming else None
        if found is None:
            return False
        named = (self._place_of[each] for each in self._naming[seat])
        return any(found[1].pods.selects(pod) and (is_seen or not seen_alone) for pod, is_seen in named)

    def unwritten(self, name: str) -> DeviceHold | None:
        """
        Return a hold as the watch shows it, with all places that are used up or lost; None where its status says so.

        Places that pods are only assumed to use up are none of them.
        """
        seen = self._observed.get(name)
        if seen is None:
            return None
        shown = self._shown[name]
        open_places = {key: each.index for key, each in shown.places.items() if each.index not in shown.closed}
        used = [index for place, index in open_places.items() if place in self._bound]
        lost = [LostPlace(index, self._lost[place]) for place, index in open_places.items() if place in self._lost]
        lost = [each for each in lost if each.place not in used]
        if not used and not lost:
            return None
        return msgspec.structs.replace(seen.with_used(used), lost=tuple(sorted((*seen.lost, *lost))))

    def has_ended(self, name: str) -> bool:
        """Whether the watch shows a hold none of whose places holds anything any more, whatever is assumed."""
        seen = self._observed.get(name)
        return seen is not None and not (self.unwritten(name) or seen).open_places

    def export(self) -> AssumedHolds:
        """Return what no watch has shown."""
        return AssumedHolds(
            made=tuple(self._made[name] for name in sorted(self._made)),
            used=tuple(sorted(self._bound.keys() | {key for key in self._naming if self._is_taken(key)})),
            lost=tuple(sorted(self._lost.items())),
        )

    def replace(self, assumed: AssumedHolds) -> None:
        """Take the assumptions of the original, in a replica."""
        made, used, lost = {each.name: each for each in assumed.made}, set(assumed.used), dict(assumed.lost)
        names = {name for name in made.keys() | self._made.keys() if made.get(name) != self._made.get(name)}
        seats = (used ^ self._bound.keys()) | (lost.keys() ^ self._lost.keys())
        self._made, self._lost, self._bound = made, lost, dict.fromkeys(assumed.used)
        for name in names:
            self._refreshed(name)
        self._refreshed_of(seats)

    def _refreshed_of(self, seats: Collection[str]) -> tuple[Seat, ...]:
        """Open or close some places; return those that were open and are closed."""
        closed = []
        for each in sorted(seats):
            found = self._place(each)
            if found is None:
                continue
            shown, place = found
            self._stale[shown.base.name] = None  # also where a place that is used up is lost besides
            before, is_open = shown.seats.get(each), self._is_open(shown, each, place)
            if before is not None and not is_open:
                del shown.seats[each]
                self._index(shown.base.name, each, before, is_open=False)
                closed.append(before)
            elif before is None and is_open:
                shown.seats[each] = Seat(shown.base, place)
                self._index(shown.base.name, each, shown.seats[each], is_open=True)
        return tuple(closed)

    def _refreshed(self, name: str) -> tuple[Seat, ...]:
        """Show a hold anew; return the places that held something before and hold it no more."""
        before, hold = self._shown.get(name), self._observed.get(name) or self._made.get(name)
        was = before.seats if before is not None else {}
        if before is not None and (hold is None or _identity(hold) != _identity(before.base)):
            self._forget(before)
        self._stale[name] = None
        now = self._show(hold, before) if hold is not None else {}
        closed = {key: seat for key, seat in was.items() if key not in now or now[key].place != seat.place}
        opened = {key: seat for key, seat in now.items() if key not in was or was[key].place != seat.place}
        self._file(closed, is_open=False)
        self._file(opened, is_open=True)
        gone, new = tuple(closed.values()), tuple(opened.values())
        if before is not None and not before.base.uid and hold is not None and hold.uid:  # it has got its uid
            gone, new = _without_equals(gone, new), _without_equals(new, gone)
        self._count(name, gone, is_open=False)
        self._count(name, new, is_open=True)
        return gone

    def _index(self, name: str, key: str, seat: Seat, *, is_open: bool) -> None:
        """Take one place of a hold into the indexes, or out of them."""
        self._file({key: seat}, is_open=is_open)
        self._count(name, (seat,), is_open=is_open)

    def _show(self, hold: DeviceHold, before: _Shown | None) -> dict[str, Seat]:
        """Show a hold, and return its open places; pods may have come before it."""
        is_known = before is not None and _identity(before.base) == _identity(hold)
        is_same = before is not None and is_known and before.base.places is hold.places
        places = (
            before.places if before is not None and is_same else {Seat(hold, each).id: each for each in hold.places}
        )
        closed = frozenset((*hold.used, *(each.place for each in hold.lost)))
        shown = self._shown[hold.name] = _Shown(hold, places, closed)
        self._name_of[hold.key] = hold.name
        self._of_owner.setdefault(hold.owner.uid, {})[hold.name] = None
        if not is_known:
            self._bound |= dict.fromkeys(key for key in places if self._is_taken(key, seen_alone=True))
        shown.seats = {key: Seat(hold, each) for key, each in places.items() if self._is_open(shown, key, each)}
        return shown.seats

    def _is_open(self, shown: _Shown, seat: str, place: HeldPlace) -> bool:
        is_closed = place.index in shown.closed or seat in self._bound or seat in self._lost
        return not is_closed and not self._is_taken(seat)

    def _lay_over(self, name: str) -> None:
        """Make a hold anew as it counts, if something of it has changed."""
        if name not in self._stale:
            return
        del self._stale[name]
        shown = self._shown.get(name)
        after = None
        if shown is not None:
            hold, known = shown.base, {each.place for each in shown.base.lost}
            used = [each.index for key, each in shown.places.items() if key in self._bound or self._is_taken(key)]
            lost = [
                LostPlace(each.index, self._lost[key])
                for key, each in shown.places.items()
                if key in self._lost and each.index not in known
            ]
            after = hold.with_used(used)
            if lost:
                after = msgspec.structs.replace(after, lost=tuple(sorted((*hold.lost, *lost))))
        if after != self._overlaid.get(name):
            self._overlaid.replace(name, after)

    def _forget(self, shown: _Shown) -> None:
        hold = shown.base
        del self._shown[hold.name], self._name_of[hold.key]
        own = self._of_owner[hold.owner.uid]
        del own[hold.name]
        if not own:
            del self._of_owner[hold.owner.uid]
        for key in shown.places:
            self._bound.pop(key, None)
            self._lost.pop(key, None)


def _identity(hold: DeviceHold) -> tuple[str, str]:
    return hold.key, hold.owner.uid


def _without_equals(seats: Collection[Seat], others: Iterable[Seat]) -> tuple[Seat, ...]:
    """Return those places that are not among others of another name of their hold."""
    same = {seat.place.index: seat.place for seat in others}
    return tuple(seat for seat in seats if same.get(seat.place.index) != seat.place)


def _told(key: str, closed: tuple[Seat, ...]) -> tuple[Transition, ...]:
    """Tell which places have closed though no object has changed; nothing where none has."""
    return (Transition(kind=Kind.HOLDS, key=key, before=None, after=None, closed=closed),) if closed else ()
