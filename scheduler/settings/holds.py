"""The section `holds` of the configuration: how much room may be held for pods to come (DeviceHold)."""

from typing import Annotated

from msgspec import Meta

from scheduler.settings.policies import Section

Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class HoldLimits(Section, frozen=True):
    """
    How much room may be held for pods to come (docs/holds.md).

    A hold beyond a limit is not made: the repair or the Workload that needs it waits. Limits of a namespace count the
    room that is held for pods of it.
    """

    max_holds: Count = 1000
    """The most DeviceHolds."""

    max_holds_per_namespace: Count = 250
    """The most DeviceHolds with room for pods of one namespace."""

    max_places: Count = 10_000
    """The most places, each of which is room for one pod."""

    max_places_per_namespace: Count = 5000
    """The most places for pods of one namespace."""

    max_devices: Count = 4096
    """The most devices that are held; each share of a device counts as one."""

    max_devices_per_namespace: Count = 1024
    """The most devices that are held for pods of one namespace."""

    max_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 3600
    """The longest time, in seconds, until a hold's deadline."""
