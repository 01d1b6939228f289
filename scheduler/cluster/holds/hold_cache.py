"""
Holds in the cluster cache: DeviceHolds as the watch shows them, those that are being made, and their open places.

A place is used up by the pod whose Binding says so (`PLACE_ANNOTATION`), and by a pod that is assumed to be bound with
it; a pod that the place is not for uses up nothing, whatever it says. The first is remembered as long as the hold is
there: a pod may end before the status of the hold says it. What no status says yet is exported to the worker's replica,
which infers nothing itself.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import msgspec

from scheduler.change import Kind, Object, Transition
from scheduler.cluster.table import Table, expect
from solver import running_place
from solver.domain import DeviceHold, HeldPlace, LostPlace, MatcherIndex, Pod, PodId, PoolId, Seat


class AssumedHolds(msgspec.Struct, frozen=True, kw_only=True):
    """What no watch has shown yet: holds that are being made, and places (`Seat.id`) that are used up or lost."""

    made: tuple[DeviceHold, ...] = ()
    used: tuple[str, ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    """With the message of each (`LostPlace`)."""


class HoldCache:
    """Holds by name, with the places that are used up or lost although their status does not say so yet."""

    def __init__(self) -> None:
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
        self._shown: Table[str, DeviceHold] = Table()
        """Holds by name, with all this laid over them."""
        self._name_of: dict[str, str] = {}
        """Names of holds by `DeviceHold.key`."""
        self._places: dict[str, tuple[tuple[HeldPlace, ...], dict[str, HeldPlace]]] = {}
        """The places of a hold, and the same by `Seat.id`, by its key."""
        self._on_node: dict[str, dict[str, Seat]] = {}
        self._in_pool: dict[PoolId, dict[str, Seat]] = {}
        self._matchers = MatcherIndex()

    def __len__(self) -> int:
        return len(self._shown)

    def values(self) -> tuple[DeviceHold, ...]:
        """Return all holds by name, as they count; the same tuple as long as none changes."""
        return self._shown.values()

    def get(self, name: str) -> DeviceHold | None:
        """Return a hold as it counts."""
        return self._shown.get(name)

    def seen(self, _: Kind, name: str) -> DeviceHold | None:
        """Return a hold as the watch last gave it."""
        return self._observed.get(name)

    def seats_on(self, node: str) -> Collection[Seat]:
        """Return the open places on a node."""
        return self._on_node.get(node, {}).values()

    def seats_in(self, pools: Iterable[PoolId]) -> Iterator[Seat]:
        """Return the open places with devices of some pools, each once."""
        found = {key: seat for pool in pools for key, seat in self._in_pool.get(pool, {}).items()}
        yield from found.values()

    def is_open(self, seat: str) -> bool:
        """Whether a place (`Seat.id`) is held, and neither used up nor lost."""
        place = self._places.get(seat.rpartition("/")[0], ((), {}))[1].get(seat)
        return place is not None and seat in self._on_node.get(place.node, {})

    def pods_naming(self, seat: str) -> Collection[PodId]:
        """Return the pods that name a place (`Seat.id`) as theirs."""
        return self._naming.get(seat, {}).keys()

    def has_seat_for(self, pod: Pod) -> bool:
        """Whether some place may be for a pod; of several pods there may be too few."""
        return bool(self._matchers.selecting(pod))

    def apply(self, kind: Kind, name: str, value: Object | None) -> tuple[Transition, ...]:
        """Apply a change from the watch; places that close come after the transition of the hold."""
        before, after = self._observed.get(name), expect(value, DeviceHold)
        if before == after:
            return ()
        if before is not None and after is not None and before.places == after.places:
            after = msgspec.structs.replace(
                after, places=before.places
            )  # what follows them by identity need not change
        self._observed.replace(name, after)
        if after is not None:
            self._made.pop(name, None)
        return (Transition(kind=kind, key=name, before=before, after=after), *self._refreshed(name))

    def restore(self, _: Kind, name: str, value: Object | None) -> None:
        """Set a hold on which `apply` raised as it was."""
        self._observed.replace(name, expect(value, DeviceHold))
        self._refreshed(name)

    def make(self, hold: DeviceHold) -> tuple[Transition, ...]:
        """Assume that a hold exists, until the watch shows it or `forget` is called; its uid is known when it does."""
        if self._observed.get(hold.name) is not None:
            return ()
        self._made[hold.name] = hold
        return self._refreshed(hold.name)

    def forget(self, name: str) -> tuple[Transition, ...]:
        """Assume no longer that a hold is being made."""
        self._made.pop(name, None)
        return self._refreshed(name)

    def lose(self, seat: str, message: str) -> tuple[Transition, ...]:
        """Count a place as lost, before the status of its hold says so."""
        self._lost[seat] = message
        return self._refreshed_of((seat,))

    def pod_changed(self, key: PodId, after: Pod | None, *, is_seen: bool) -> tuple[Transition, ...]:
        """Follow the place that a pod uses up; `is_seen` says whether the watch shows the pod on its node."""
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

    def _places_of(self, hold: DeviceHold) -> dict[str, HeldPlace]:
        """Return all places of a hold by `Seat.id`, open or not."""
        places, found = self._places.get(hold.key, ((), {}))
        if places is not hold.places:
            found = {Seat(hold, each).id: each for each in hold.places}
            self._places[hold.key] = hold.places, found
        return found

    def _is_taken(self, key: str, *, seen_alone: bool = False) -> bool:
        """Whether a pod that a place is for is bound with it, or assumed to be where not `seen_alone`."""
        place = self._places.get(key.rpartition("/")[0], ((), {}))[1].get(key) if key in self._naming else None
        if place is None:
            return False
        named = (self._place_of[each] for each in self._naming[key])
        return any(place.pods.selects(pod) and (is_seen or not seen_alone) for pod, is_seen in named)

    def unwritten(self, name: str) -> DeviceHold | None:
        """
        Return a hold as the watch shows it, with all places that are used up or lost; None where its status says so.

        Places that pods are only assumed to use up are none of them.
        """
        seen = self._observed.get(name)
        if seen is None:
            return None
        known = {*seen.used, *(each.place for each in seen.lost)}
        open_places = {key: each.index for key, each in self._places_of(seen).items() if each.index not in known}
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

    def _refreshed_of(self, seats: Collection[str]) -> tuple[Transition, ...]:
        """Show some places anew, at the cost of these alone: pods of a hold of many places come one by one."""
        of_name: dict[str, list[str]] = {}
        for seat in sorted(seats):
            name = self._name_of.get(seat.rpartition("/")[0])
            if name is not None:
                of_name.setdefault(name, []).append(seat)
        return tuple(transition for name, keys in of_name.items() for transition in self._refreshed(name, keys))

    def _refreshed(self, name: str, keys: Collection[str] | None = None) -> tuple[Transition, ...]:
        """
        Show a hold, or some of its places, anew.

        Return what the places held before or hold now, as transitions of pods and claims.
        """
        before, hold = self._shown.get(name), self._observed.get(name) or self._made.get(name)
        if hold is not None and (before is None or before.key != hold.key):  # pods may have come before it
            places = self._places_of(hold)
            self._bound |= dict.fromkeys(key for key in places if self._is_taken(key, seen_alone=True))
            keys = None
        after = None if hold is None else self._overlaid(hold, before, keys)
        if before == after:
            return ()
        self._shown.replace(name, after)
        was, now = self._open_seats(before, keys), self._open_seats(after, keys)
        if before is not None and (after is None or after.key != before.key):
            self._forget(before)
        if after is not None:
            self._name_of[after.key] = name
        closed = [seat for key, seat in was.items() if key not in now or now[key].place != seat.place]
        for seat in closed:
            self._index(seat, is_open=False)
        for key, seat in now.items():
            if key not in was or was[key].place != seat.place:
                self._index(seat, is_open=True)
        is_named = before is not None and not before.uid and after is not None and bool(after.uid)
        same = {seat.place for seat in now.values()} if is_named else set()  # the hold has got its uid
        return tuple(each for seat in closed if seat.place not in same for each in _closing(seat))

    def _some_places(self, hold: DeviceHold, keys: Collection[str] | None) -> dict[str, HeldPlace]:
        """Return some places of a hold by `Seat.id`, all where no keys are given."""
        places = self._places_of(hold)
        return places if keys is None else {key: places[key] for key in keys if key in places}

    def _open_seats(self, hold: DeviceHold | None, keys: Collection[str] | None) -> dict[str, Seat]:
        if hold is None:
            return {}
        gone = {*hold.used, *(each.place for each in hold.lost)}
        return {key: Seat(hold, each) for key, each in self._some_places(hold, keys).items() if each.index not in gone}

    def _overlaid(self, hold: DeviceHold, shown: DeviceHold | None, keys: Collection[str] | None) -> DeviceHold:
        """Return a hold with what is used up or lost of its places; without some `keys` it is `shown` already."""
        now = {place.index: key for key, place in self._some_places(hold, keys).items()}
        base = hold if keys is None or shown is None else shown
        written, given_up = {*hold.used}, {each.place for each in hold.lost}
        used = {index for index in base.used if index in written or index not in now}
        used |= {index for index, key in now.items() if key in self._bound or self._is_taken(key)}
        lost = [each for each in base.lost if each.place in given_up or each.place not in now]
        lost += [
            LostPlace(index, self._lost[key])
            for index, key in now.items()
            if key in self._lost and index not in given_up
        ]
        found = tuple(sorted(used)), tuple(sorted(lost))
        is_same = found == (hold.used, hold.lost)
        return hold if is_same else msgspec.structs.replace(hold, used=found[0], lost=found[1])

    def _forget(self, hold: DeviceHold) -> None:
        self._name_of.pop(hold.key, None)
        for key in self._places.pop(hold.key, ((), {}))[1]:
            self._bound.pop(key, None)
            self._lost.pop(key, None)

    def _index(self, seat: Seat, *, is_open: bool) -> None:
        _file(self._on_node, seat.place.node, seat, is_open=is_open)
        for pool in seat.place.pools:
            _file(self._in_pool, pool, seat, is_open=is_open)
        (self._matchers.add if is_open else self._matchers.discard)(seat.place.pods)


K = TypeVar("K")


def _file(index: dict[K, dict[str, Seat]], key: K, seat: Seat, *, is_open: bool) -> None:
    if is_open:
        index.setdefault(key, {})[seat.id] = seat
        return
    del index[key][seat.id]
    if not index[key]:
        del index[key]


def _closing(seat: Seat) -> Iterator[Transition]:
    """Return a place that holds nothing any more as a pod and a claim that are gone: pods wait for what they had."""
    place = running_place(seat)
    for kind, value in ((Kind.CLAIMS, place.claim), (Kind.PODS, place.pod)):
        if value is not None:
            yield Transition(kind=kind, key=str(value.id), before=value, after=None)
