"""The open places of all holds by what is asked of them: node, pools, pods, and how many there are."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from scheduler.cluster.devices import DevicePart
from solver.domain import HeldPlace, MatcherIndex, Pod, Seat


class HeldTotals(NamedTuple):
    """What is held for the pods of a namespace, or of all: holds with open places, these places, and their devices."""

    holds: int
    places: int
    devices: int


class SeatIndex:
    """Open places. A hold with thousands of them is filed as a whole: what they have in common costs as one."""

    def __init__(self) -> None:
        self._open: Final[Counter[tuple[str, str]]] = Counter()
        """Open places by hold and namespace, and by hold alone (namespace "")."""
        self._held: Final[dict[str, HeldTotals]] = {}
        """By namespace, and of all (""); none where nothing is held."""
        self._on_node: Final[dict[str, dict[str, Seat]]] = {}
        self._with_devices: Final[dict[DevicePart, dict[str, Seat]]] = {}
        """By device and by pool."""
        self._of_pod: Final[dict[str, dict[str, Seat]]] = {}
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
        return self._on_node.get(node, {}).values()

    def seats_of(self, pod_uid: str) -> Collection[Seat]:
        """Return the open places that are for one pod alone."""
        return self._of_pod.get(pod_uid, {}).values()

    def seats_with(self, parts: Iterable[DevicePart]) -> Iterator[Seat]:
        """Return the open places with some devices, or with devices of some pools, each once."""
        found = {key: seat for part in parts for key, seat in self._with_devices.get(part, {}).items()}
        yield from found.values()

    def has_seats_with(self, part: DevicePart) -> bool:
        """Whether an open place has a device, or a device of a pool."""
        return part in self._with_devices

    def has_seat_for(self, pod: Pod) -> bool:
        """Whether some place may be for a pod; of several pods there may be too few."""
        return bool(self._matchers.selecting(pod))

    def _index(self, hold: str, seats: Mapping[str, Seat], *, is_open: bool) -> None:
        """File open places of a hold, or take them out: what they have in common costs as one."""
        alike: dict[int, list[HeldPlace]] = {}
        for key, seat in seats.items():
            place = seat.place
            _file(self._on_node, place.node, key, seat, is_open=is_open)
            parts: Iterable[DevicePart] = (*place.pools, *dict.fromkeys([each.device for each in place.devices]))
            for part in parts:
                _file(self._with_devices, part, key, seat, is_open=is_open)
            if place.pods.pod_uid:
                _file(self._of_pod, place.pods.pod_uid, key, seat, is_open=is_open)
            alike.setdefault(id(place.pods), []).append(place)
        act, sign = (self._matchers.add, 1) if is_open else (self._matchers.discard, -1)
        by_namespace: dict[str, list[HeldPlace]] = {}
        for places in alike.values():
            act(places[0].pods, len(places))
            for namespace in dict.fromkeys(("", places[0].pods.namespace)):
                by_namespace.setdefault(namespace, []).extend(places)
        for namespace, places in by_namespace.items():
            self._count(hold, namespace, sign * len(places), sign * sum(len(each.devices) for each in places))

    def _count(self, hold: str, namespace: str, places: int, devices: int) -> None:
        total, had = self.held(namespace), self._open[hold, namespace]
        self._open[hold, namespace] += places
        if not self._open[hold, namespace]:
            del self._open[hold, namespace]
        holds = total.holds + bool(had + places) - bool(had)
        self._held[namespace] = HeldTotals(holds, total.places + places, total.devices + devices)
        if not self._held[namespace].places:
            del self._held[namespace]


K = TypeVar("K")


def _file(index: dict[K, dict[str, Seat]], key: K, name: str, seat: Seat, *, is_open: bool) -> None:
    if is_open:
        index.setdefault(key, {})[name] = seat
        return
    filed = index[key]
    del filed[name]
    if not filed:
        del index[key]
