"""
Devices of several drivers that stand together, such as a GPU and a network card behind one PCIe root.

Claims pair such devices by an attribute that their drivers publish under the same name, which therefore has a domain of
its own (`resource.kubernetes.io/pcieRoot`). Who needs no partner had better take a device that has none: so a device
without which a pair fewer could be had is worth more, and of equal ones that is taken which leaves most pairs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from solver.domain import AttributeKind, Device

_MANY: Final = 1 << 30
"""How many devices a driver has to give at a place where they overlap, or are shared."""

Place = tuple[str, int | str]
"""Where devices of a node stand together: they have this value of this attribute."""
_NUMBER: Final = AttributeKind.INT
_TEXT: Final = AttributeKind.STRING
"""What names places: a number and a text do, a flag or a version does not."""


class Sited(NamedTuple):
    """A device of a node, and its record's index."""

    record: int
    driver: str
    device: Device


class Look(NamedTuple):
    """What matters of a device here; nodes whose devices look alike, one by one, are alike."""

    driver: str
    places: tuple[Place, ...]
    is_shareable: bool
    draws: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Sites:
    """The places of nodes that look alike, by the positions of devices: see `Pairing`."""

    places: dict[int, tuple[Place, ...]]
    members: dict[Place, dict[str, tuple[int, ...]]]
    worth: Counter[int]


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The places of one node where devices of several drivers stand; `records` are those of all its devices."""

    records: tuple[int, ...]
    sites: _Sites

    @property
    def worth(self) -> dict[int, int]:
        """Say by record at how many places it is scarce: with one fewer of its driver there were a pair fewer."""
        return {self.records[position]: places for position, places in self.sites.worth.items()}

    def lost(self, record: int, is_free: Callable[[int], bool]) -> int:
        """Count the places at which a pair fewer can be had of what is free once a record is taken."""
        count, position = 0, self.records.index(record)
        for place in self.sites.places.get(position, ()):
            members = self.sites.members[place]
            free = {driver: sum(is_free(self.records[each]) for each in there) for driver, there in members.items()}
            own = next(driver for driver, there in members.items() if position in there)
            count += free.pop(own) <= max(free.values())
        return count


def pairing(devices: Sequence[Sited]) -> Pairing | None:
    """Look at the devices of a node; None where no two drivers have any at one place."""
    sites = _sites(tuple(_look(each) for each in devices))
    return None if sites is None else Pairing(tuple(each.record for each in devices), sites)


@lru_cache(maxsize=256)
def _sites(looks: tuple[Look, ...]) -> _Sites | None:
    """Say what stands together on nodes of some look; of these there are few, however many nodes there are."""
    members: defaultdict[Place, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, look in enumerate(looks):
        for place in look.places:
            members[place][look.driver].append(position)
    shared = {place: by_driver for place, by_driver in members.items() if len(by_driver) > 1}
    if not shared:
        return None
    places: defaultdict[int, list[Place]] = defaultdict(list)
    worth = Counter[int]()
    for place, by_driver in shared.items():
        supply = {driver: _supply([looks[each] for each in there]) for driver, there in by_driver.items()}
        for driver, there in by_driver.items():
            partners = max(count for other, count in supply.items() if other != driver)
            spare = max(0, len(there) - partners) if supply[driver] < _MANY else 0
            worth.update(there[spare:])
            for each in there:
                places[each].append(place)
    return _Sites(
        {position: tuple(there) for position, there in places.items()},
        {place: {driver: tuple(there) for driver, there in found.items()} for place, found in shared.items()},
        worth,
    )


def _look(each: Sited) -> Look:
    places = tuple(
        (name, value)
        for name, published in each.device.attributes
        if _is_common(each.driver, name)
        for kind, value in published.items()
        if kind is _TEXT or kind is _NUMBER
    )
    drawn = each.device.consumes_counters
    draws = tuple((draw.counter_set, counter) for draw in drawn for counter, _ in draw.counters) if drawn else ()
    return Look(each.driver, places, each.device.allow_multiple_allocations, draws)


@lru_cache(maxsize=4096)
def _is_common(driver: str, name: str) -> bool:
    """Whether another driver may publish an attribute too: not one without a domain, or with the driver's own."""
    return "/" in name and not name.startswith(f"{driver}/")


def _supply(there: Sequence[Look]) -> int:
    """How many devices some are at once; of those that are shared, or cut out of one another, as many as need be."""
    drawn = [draw for look in there for draw in look.draws]
    is_many = any(look.is_shareable for look in there) or len(set(drawn)) < len(drawn)
    return _MANY if is_many else len(there)
