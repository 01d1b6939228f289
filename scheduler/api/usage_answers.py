"""`/v1alpha1/usage`: device-hours in use by namespace, label or class, and idle by driver and class."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Literal

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.queries import API_VERSION, Query
from scheduler.history.device_usage import OTHERS, DeviceUsage, UsageKey, UsageTotals
from scheduler.visibility import HiddenCounts, VisibleNamespaces

_HOUR = 3600


class UsedDevices(msgspec.Struct, frozen=True, rename="camel"):
    """
    Devices of a driver that a namespace, a label's value or a class used.

    `device_hours` are devices times hours; `devices` is their average number.
    """

    name: str
    driver: str
    device_hours: float
    devices: float


class DriverUsage(msgspec.Struct, frozen=True, rename="camel"):
    """All devices of a driver: device-hours in use and idle, and their average number."""

    driver: str
    held_device_hours: float
    idle_device_hours: float
    devices: float


class ClassUsage(DriverUsage, frozen=True, rename="camel"):
    """The same of the devices of a driver that a class matches; those of two classes count in both."""

    device_class: str


class UsageAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    The document, about the time from `begin` to `end`.

    `drivers` and `classes` are empty if the caller may not list ResourceSlices, or asks about one namespace. `classes`
    are about `class_hours` of the time: less than all of it where the fleet was counted for the first time within it.
    """

    api_version: str = API_VERSION
    kind: Literal["Usage"] = "Usage"
    by: str
    begin: datetime
    end: datetime
    hidden: HiddenCounts = HiddenCounts()
    items: tuple[UsedDevices, ...] = ()
    drivers: tuple[DriverUsage, ...] = ()
    classes: tuple[ClassUsage, ...] = ()
    class_hours: float = 0.0


async def answer(usage: DeviceUsage, query: Query, rights: CallerRights, now: float) -> UsageAnswer:
    """Answer a query at a time (seconds since the epoch). Raise `KubeError`."""
    totals = await in_thread(usage.since, now - query.since)
    named = sorted({key.namespace for key in totals.held} - {OTHERS})
    claims = await rights.namespaces(Listed.CLAIMS, (query.namespace,) if query.namespace else named)
    sees_drivers = not query.namespace and await rights.sees(Listed.SLICES)
    return await in_thread(_document, totals, query, claims, sees_drivers=sees_drivers)


def _document(totals: UsageTotals, query: Query, claims: VisibleNamespaces, *, sees_drivers: bool) -> UsageAnswer:
    used, hidden = defaultdict[tuple[str, str], float](float), set[str]()
    for key, seconds in totals.held.items():
        if query.namespace and key.namespace != query.namespace:
            continue
        if key.namespace in claims:
            used[_name(key, query.by), key.driver] += seconds
        else:
            hidden.add(key.namespace)
    hours = max(totals.seconds, 1.0) / _HOUR
    rows = sorted(used.items(), key=lambda row: (-row[1], row[0]))
    return UsageAnswer(
        by=query.by,
        begin=datetime.fromtimestamp(totals.begin, UTC),
        end=datetime.fromtimestamp(totals.end, UTC),
        hidden=HiddenCounts(namespaces=len(hidden)),
        items=tuple(
            UsedDevices(name, driver, round(seconds / _HOUR, 3), round(seconds / _HOUR / hours, 3))
            for (name, driver), seconds in rows[: query.limit]
        ),
        drivers=_drivers(totals, hours) if sees_drivers else (),
        classes=_classes(totals) if sees_drivers else (),
        class_hours=round(totals.class_seconds / _HOUR, 3) if sees_drivers else 0.0,
    )


def _name(key: UsageKey, by: str) -> str:
    return {"namespace": key.namespace, "label": key.label, "class": key.device_class}[by]


def _drivers(totals: UsageTotals, hours: float) -> tuple[DriverUsage, ...]:
    held: defaultdict[str, float] = defaultdict(float)
    for key, seconds in totals.held.items():
        held[key.driver] += seconds
    return tuple(
        DriverUsage(driver, *_rounded(held[driver], existing, hours))
        for driver, existing in sorted(totals.existing.items())
    )


def _classes(totals: UsageTotals) -> tuple[ClassUsage, ...]:
    """Average over the time in which the devices of classes were known."""
    hours = max(totals.class_seconds, 1.0) / _HOUR
    return tuple(
        ClassUsage(key.driver, *_rounded(each.held, each.existing, hours), key.device_class)
        for key, each in sorted(totals.classes.items())
    )


def _rounded(held: float, existing: float, hours: float) -> tuple[float, float, float]:
    """Return device-hours in use and idle, and the average number of devices, of device-seconds."""
    idle = max(0.0, existing - held)
    return round(held / _HOUR, 3), round(idle / _HOUR, 3), round(existing / _HOUR / hours, 3)
