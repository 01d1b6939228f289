"""The open places of all holds by what is asked of them: node, pools, pods, and how many there are."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from scheduler.cluster.devices import DevicePart
from solver.domain import HeldPlace, MatcherIndex, Pod, Seat

K = TypeVar("K")


class HeldTotals(NamedTuple):
    """What is held for the pods of a namespace, or of all: holds with open places, these places, and their devices."""

    holds: int
    places: int
    devices: int


class _FiledSeats(Generic[K]):
    """Places by something that they have; most have it alone, and cost no dictionary of their own."""

    def __init__(self) -> None:
        self._found: Final[dict[K, Seat | dict[str, Seat]]] = {}

    def keys(self) -> Collection[K]:
        """Return what places have."""
        return self._found.keys()

    def get(self, key: K) -> Collection[Seat]:
        """Return the places that have something."""
        found = self._found.get(key, ())
        return (found,) if isinstance(found, Seat) else found.values() if found else ()

    def file(self, key: K, name: str, seat: Seat, *, is_open: bool) -> None:
        """Add a place by its name (`Seat.id`), or remove it."""
        if not is_open:
            self._remove(key, name)
            return
        found = self._found.setdefault(key, seat)
        if isinstance(found, dict):
            found[name] = seat
        elif found is not seat:
            self._found[key] = {found.id: found, name: seat}

    def _remove(self, key: K, name: str) -> None:
        found = self._found[key]
        if isinstance(found, dict):
            del found[name]
        if isinstance(found, Seat) or not found:
            del self._found[key]


class SeatIndex:
    """Open places. A hold with thousands of them is filed as a whole: what they have in common costs as one."""

    def __init__(self) -> None:
        self._open: Final[Counter[tuple[str, str]]] = Counter()
        """Open places by hold and namespace, and by hold alone (namespace "")."""
        self._held: Final[dict[str, HeldTotals]] = {}
        """By namespace, and of all (""); none where nothing is held."""
        self._on_node: Final = _FiledSeats[str]()
        self._with_devices: Final = _FiledSeats[DevicePart]()
        """By device and by pool."""
        self._of_pod: Final = _FiledSeats[str]()
        """Open places that are for one pod alone, by its uid."""
        self._matchers: Final = MatcherIndex()

    def held(self, namespace: str = "") -> HeldTotals:
        """Return what is held for the pods of a namespace; of all without one."""
        return self._held.get(namespace, HeldTotals(0, 0, 0))

    @property
    def nodes(self) -> Collection[str]:
        """The nodes with open places."""
        return self._on_node.keys()

    def seats_on(self, node: str) -> Collection[Seat]:
        """Return the open places on a node."""
        return self._on_node.get(node)

    def seats_of(self, pod_uid: str) -> Collection[Seat]:
        """Return the open places that are for one pod alone."""
        return self._of_pod.get(pod_uid)

    def seats_with(self, parts: Iterable[DevicePart]) -> Iterator[Seat]:
        """Return the open places with some devices, or with devices of some pools, each once."""
        found = {seat.id: seat for part in parts for seat in self._with_devices.get(part)}
        yield from found.values()

    def has_seats_with(self, part: DevicePart) -> bool:
        """Whether an open place has a device, or a device of a pool."""
        return bool(self._with_devices.get(part))

    def has_seat_for(self, pod: Pod) -> bool:
        """Whether some place may be for a pod; of several pods there may be too few."""
        return bool(self._matchers.selecting(pod))

    def _file(self, seats: Mapping[str, Seat], *, is_open: bool) -> None:
        """File open places by what they take, or take them out."""
        for key, seat in seats.items():
            place = seat.place
            devices = [each.device for each in place.devices]
            self._on_node.file(place.node, key, seat, is_open=is_open)
            for part in (*place.pools, *(dict.fromkeys(devices) if len(devices) > 1 else devices)):
                self._with_devices.file(part, key, seat, is_open=is_open)
            if place.pods.pod_uid:
                self._of_pod.file(place.pods.pod_uid, key, seat, is_open=is_open)

    def _count(self, hold: str, seats: Iterable[Seat], *, is_open: bool) -> None:
        """Count open places of a hold, or no more: what they have in common costs as one."""
        alike: dict[int, list[HeldPlace]] = {}
        for seat in seats:
            alike.setdefault(id(seat.place.pods), []).append(seat.place)
        act, sign = (self._matchers.add, 1) if is_open else (self._matchers.discard, -1)
        by_namespace: dict[str, list[HeldPlace]] = {}
        for places in alike.values():
            act(places[0].pods, len(places))
            for namespace in dict.fromkeys(("", places[0].pods.namespace)):
                by_namespace.setdefault(namespace, []).extend(places)
        for namespace, places in by_namespace.items():
            self._add(hold, namespace, sign * len(places), sign * sum(len(each.devices) for each in places))

    def _add(self, hold: str, namespace: str, places: int, devices: int) -> None:
        total, had = self.held(namespace), self._open[hold, namespace]
        self._open[hold, namespace] += places
        if not self._open[hold, namespace]:
            del self._open[hold, namespace]
        holds = total.holds + bool(had + places) - bool(had)
        self._held[namespace] = HeldTotals(holds, total.places + places, total.devices + devices)
        if not self._held[namespace].places:
            del self._held[namespace]
