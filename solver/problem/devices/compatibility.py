"""
Compatibility groups of devices that draw on one counter set, as counters (gate DRADeviceCompatibilityGroups).

Devices may be in use together if they have a group in common, or none has any. A device has at most two groups, so that
each set of devices that may not is one of these, or contains one:

    two devices                 without a common group
    three devices               with the groups a and b, b and c, a and c

An unpublished counter keeps each such set apart, so that greedy, model, search and preemption need no rule of
their own. A device `a` excludes all n of its rivals by a counter of n: `a` takes n of it, each rival 1. Of two devices
and their n common rivals each takes n of 2n, each rival 1. One more counter, of which every device takes 1, is used up
where devices in use are incompatible already, as after their slice has changed: then no further device fits.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product
from typing import Final, NamedTuple

from solver.domain import CounterId, DeviceId
from solver.feasibility.pools import Pool

_Classes = list[tuple[frozenset[str], list[str]]]
"""Groups, and the devices with exactly these groups; few devices first."""
_Exclusion = tuple[str, dict[str, int], int]
"""Name of a counter, what devices take of it, and how much there is."""

_PREFIX: Final = "compatibilityGroups/"
"""No published counter has a slash in its name."""
_MOST_DRAWS: Final = 1 << 14
_MOST_CLASSES: Final = 64
"""Draws and different groups of one counter set; where there are more, only one of its devices may be in use."""


class Exclusions(NamedTuple):
    """What devices of a pool take of the counters that keep incompatible ones apart, and these counters."""

    draws: dict[DeviceId, tuple[tuple[CounterId, int], ...]]
    budgets: dict[CounterId, int]


def is_exclusion(counter: CounterId) -> bool:
    """Whether a counter keeps devices apart; no slice publishes it."""
    return counter.counter.startswith(_PREFIX)


def gate_of(exclusion: CounterId) -> CounterId:
    """Return the counter that is used up where devices in use exceed an exclusion."""
    return exclusion._replace(counter=_PREFIX)


def exclusions_of(pool: Pool) -> Exclusions:
    """Return the exclusions of a pool; both parts are empty where all devices are compatible."""
    draws: defaultdict[DeviceId, list[tuple[CounterId, int]]] = defaultdict(list)
    budgets: dict[CounterId, int] = {}
    for counter_set, groups in _groups(pool).items():
        for name, taken, total in _of_set(groups):
            counter = CounterId(*pool.id, counter_set, _PREFIX + name)
            budgets[counter] = total
            for device, amount in taken.items():
                draws[DeviceId(*pool.id, device)].append((counter, amount))
    return Exclusions({device: tuple(found) for device, found in draws.items()}, budgets)


def _groups(pool: Pool) -> dict[str, dict[str, frozenset[str]]]:
    """Return the groups of devices by counter set, of counter sets that devices with groups draw on."""
    if not any(each.counter_sets for each in pool.slices):
        return {}
    found: defaultdict[str, dict[str, frozenset[str]]] = defaultdict(dict)
    for device in (device for each in pool.slices for device in each.devices):
        for drawn in device.consumes_counters:
            found[drawn.counter_set][device.name] = frozenset(drawn.compatibility_groups)
    return {counter_set: groups for counter_set, groups in found.items() if any(groups.values())}


def _of_set(groups: Mapping[str, frozenset[str]]) -> list[_Exclusion]:
    by_groups: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for device in sorted(groups):
        by_groups[groups[device]].append(device)
    if frozenset.intersection(*by_groups):
        return []
    everyone = dict.fromkeys(groups, 1)
    gate = ("", everyone, len(groups))
    classes = sorted(by_groups.items(), key=lambda each: (len(each[1]), sorted(each[0])))
    found: list[_Exclusion] = []
    cost = 0
    for exclusion in chain(_pairs(classes), _triangles(classes)) if len(classes) <= _MOST_CLASSES else ():
        found.append(exclusion)
        cost += len(exclusion[1])
        if cost > _MOST_DRAWS:
            break
    is_coarse = cost > _MOST_DRAWS or len(classes) > _MOST_CLASSES
    return [("*", everyone, 1), gate] if is_coarse else [*found, gate]


def _pairs(classes: _Classes) -> Iterator[_Exclusion]:
    for position, (groups, devices) in enumerate(classes):
        rivals = [device for others, there in classes[position + 1 :] if not groups & others for device in there]
        for device in devices if rivals else ():
            yield device, {device: len(rivals), **dict.fromkeys(rivals, 1)}, len(rivals)


def _triangles(classes: _Classes) -> Iterator[_Exclusion]:
    for (one, first), (two, second), (three, rivals) in combinations(classes, 3):
        if one & two & three or not (one & two and two & three and one & three):
            continue
        for device, other in product(first, second):
            taken = {device: len(rivals), other: len(rivals), **dict.fromkeys(rivals, 1)}
            yield f"{device},{other}", taken, 2 * len(rivals)
