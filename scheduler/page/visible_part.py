"""A fleet that was read, and the part of it that one caller sees: what `kubectl list` would show."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec

from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.change import Kind
from scheduler.page import fleet_map, plan_pictures
from scheduler.page.fleet_map import FleetMap, MapOrigin
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.status.waiting_pods import WaitingPod
from scheduler.visibility import HiddenCounts, VisibleNamespaces
from scheduler.worker import fleet_documents

_ALL: Final = VisibleNamespaces(everything=True)


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


class VisiblePart(msgspec.Struct, frozen=True):
    """
    The namespaces whose claims (holders of devices) and pods a caller sees.

    And whether nodes with their labels, quotas, and RepairPlans.
    """

    claims: VisibleNamespaces = _ALL
    pods: VisibleNamespaces = _ALL
    nodes: bool = True
    quotas: bool = True
    repairs: bool = True


async def visible_to(rights: CallerRights, reading: FleetReading) -> VisiblePart:
    """Ask what a caller may list. Raise `KubeError`."""
    return VisiblePart(
        claims=await rights.namespaces(Listed.CLAIMS, reading.holders),
        pods=await rights.namespaces(Listed.PODS, reading.waiting),
        nodes=await rights.sees(Listed.NODES),
        quotas=not reading.found.quotas or await rights.sees(Listed.QUOTAS),
        repairs=not reading.found.plans or await rights.sees(Listed.REPAIRS),
    )


def map_for(reading: FleetReading, part: VisiblePart) -> FleetMap:
    """Make the map of what a caller sees; nothing in it is about the rest, and the rest is counted."""
    hidden: dict[object, set[str]] = {}
    fleet = reading.found.fleet
    if not part.claims.everything:
        fleet = fleet_documents.visible_fleet(fleet, part.claims, hidden)
    waiting = None if reading.queue is None else [each for each in reading.queue if each.namespace in part.pods]
    found = replace(
        reading.found, fleet=fleet, pods=tuple(pod for pod in reading.found.pods if pod.id.namespace in part.pods)
    )
    if not part.quotas:
        found = replace(found, quotas=None)
    made = fleet_map.map_of(found if part.nodes else _without_nodes(found), waiting, reading.origin)
    unseen = [each.namespace for each in reading.queue or () if each.namespace not in part.pods]
    counts = HiddenCounts(len(unseen), len(hidden), len(set(unseen).union(*hidden.values())))
    repairs = plan_pictures.seen_by(made.repairs, part.claims, part.pods) if part.repairs else ()
    return msgspec.structs.replace(made, hidden=counts, repairs=repairs)


def _without_nodes(found: FleetAnswer) -> FleetAnswer:
    forbidden = tuple(dict.fromkeys((*found.forbidden, Kind.NODES.value)))
    return replace(found, node_labels={}, forbidden=forbidden)
