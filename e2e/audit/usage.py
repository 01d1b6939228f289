"""What devices have to give is given once."""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

from e2e.audit.inventory import Inventory
from e2e.audit.reading import DeviceKey, Finding, Json, amount_of, device_of, key_of, results_of


def usage_findings(claims: list[Json], inventory: Inventory) -> Iterator[Finding]:
    """Check that what devices have is given once, over all claims."""
    alone: defaultdict[DeviceKey, list[str]] = defaultdict(list)
    shares: defaultdict[DeviceKey, list[str]] = defaultdict(list)
    consumed: defaultdict[DeviceKey, defaultdict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for claim in claims:
        for result in (each for each in results_of(claim) if not each.get("adminAccess")):
            (shares if result.get("shareID") else alone)[device_of(result)].append(str(key_of(claim)))
            for name, amount in (result.get("consumedCapacity") or {}).items():
                consumed[device_of(result)][name] += amount_of(amount)
    for key, holders in alone.items():
        if len(holders) > 1 or key in shares:
            yield Finding("twice", "/".join(key), f"it is held by {', '.join((*holders, *shares.get(key, ())))}")
    for key, amounts in consumed.items():
        published = inventory.devices.get(key)
        for name, capacity in ((published.device.get("capacity") or {}) if published is not None else {}).items():
            if amounts[name] > amount_of(capacity["value"]):
                yield Finding("capacity", "/".join(key), f"{name}: more is consumed than {capacity['value']}")
    yield from _counters({*alone, *shares}, inventory)
    yield from _compatibility({*alone, *shares}, inventory)


def _counters(in_use: set[DeviceKey], inventory: Inventory) -> Iterator[Finding]:
    drawn: defaultdict[tuple[str, str, str, str], Fraction] = defaultdict(Fraction)
    for key in in_use & inventory.devices.keys():
        for consumption in inventory.devices[key].device.get("consumesCounters") or ():
            for name, counter in consumption["counters"].items():
                drawn[*key[:2], consumption["counterSet"], name] += amount_of(counter["value"])
    for counter, amount in drawn.items():
        if amount > inventory.counters.get(counter, 0):
            yield Finding("counter", "/".join(counter), f"{float(amount):g} are drawn, more than it has")


def _compatibility(in_use: set[DeviceKey], inventory: Inventory) -> Iterator[Finding]:
    """Check that devices of one counter set have a compatibility group in common, or none has any."""
    groups: defaultdict[tuple[str, str, str], list[frozenset[str]]] = defaultdict(list)
    for key in in_use & inventory.devices.keys():
        for consumption in inventory.devices[key].device.get("consumesCounters") or ():
            declared = frozenset(consumption.get("compatibilityGroups") or ())
            groups[*key[:2], consumption["counterSet"]].append(declared)
    for counter_set, found in groups.items():
        if any(found) and not frozenset.intersection(*found):
            yield Finding(
                "compatibility", "/".join(counter_set), "devices in use have no compatibility group in common"
            )
