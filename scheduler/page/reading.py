"""A fleet that was read, with the pods that wait."""

from dataclasses import dataclass
from functools import cached_property

from scheduler.page.fleet_map import MapOrigin
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.status.waiting_pods import WaitingPod


@dataclass(frozen=True)
class FleetReading:
    """A fleet, the pods that wait (None: they may not be listed), and when and from what it was read."""

    found: FleetAnswer
    queue: tuple[WaitingPod, ...] | None
    origin: MapOrigin

    @cached_property
    def holders(self) -> tuple[str, ...]:
        """The namespaces whose claims hold devices."""
        devices = self.found.fleet.devices
        return tuple(sorted({each.claim.namespace for device in devices for each in device.holders}))

    @cached_property
    def waiting(self) -> tuple[str, ...]:
        """The namespaces of pods that wait, in the order of the queue, then of those that hold devices."""
        return tuple(dict.fromkeys((*(each.namespace for each in self.queue or ()), *self.holders)))
