"""Answers questions about the fleet, in a child of the worker, so that no decision waits for them."""

from collections.abc import Mapping

import msgspec

from scheduler.visibility import HiddenCounts, VisibleNamespaces
from scheduler.worker.fleet_questions import FleetDocument, FleetDocumentKind, FleetQuestion
from solver import grouped_supply, selected_devices, selected_pools
from solver.domain.fleet import Fleet


def fleet_document(
    fleet: Fleet, node_labels: Mapping[str, Mapping[str, str]], question: FleetQuestion
) -> FleetDocument:
    """Answer a question. Holders that the caller may not see are removed first: no part of it is about them."""
    hidden: dict[object, set[str]] = {}
    seen = fleet if question.claims.everything else visible_fleet(fleet, question.claims, hidden)
    node, devices = question.query.node, selected_devices(seen, question.query, node_labels.items())
    counted = [hidden[each.id] for each in devices if each.id in hidden]
    found = FleetDocument(
        api_version=question.api_version,
        kind=question.kind,
        has_node=bool(devices) or not node or node in node_labels,
        hidden=HiddenCounts(devices=len(counted), namespaces=len(set().union(*counted))),
        pools=selected_pools(fleet, question.query, devices),
        broken_classes=fleet.broken_classes,
    )
    if question.kind is FleetDocumentKind.FREE:
        supply = grouped_supply(seen, devices, question.by)
        return msgspec.structs.replace(found, supply=supply, sizes=fleet.sizes)
    items = tuple(devices[: question.limit])
    return msgspec.structs.replace(found, items=items, truncated=len(items) < len(devices))


def visible_fleet(fleet: Fleet, claims: VisibleNamespaces, hidden: dict[object, set[str]]) -> Fleet:
    """Return the fleet without holders that may not be seen; add their namespaces to `hidden`, by device."""
    devices = []
    for device in fleet.devices:
        unseen = {each.claim.namespace for each in device.holders} - claims.names
        if unseen:
            hidden[device.id] = unseen
            visible = tuple(each for each in device.holders if each.claim.namespace in claims)
            devices.append(msgspec.structs.replace(device, holders=visible))
        else:
            devices.append(device)
    return msgspec.structs.replace(fleet, devices=tuple(devices))
