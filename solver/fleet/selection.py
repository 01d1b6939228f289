"""The devices and pools of a fleet that a question is about."""

from collections.abc import Iterable, Mapping

from solver.domain.fleet import Fleet, FleetDevice, FleetQuery, UnusablePool


def selected_devices(
    fleet: Fleet, query: FleetQuery, node_labels: Iterable[tuple[str, Mapping[str, str]]]
) -> list[FleetDevice]:
    """Return the devices that meet a query, sorted by node; `node_labels` are name and labels of each node."""
    found = [device for device in fleet.devices if _is_held(device, query)]
    if query.node:
        found = [device for device in found if device.node == query.node or _is_on(device, frozenset((query.node,)))]
    if query.nodes is not None:
        nodes = frozenset(name for name, labels in node_labels if query.nodes.matches(labels))
        found = [device for device in found if _is_on(device, nodes)]
    return sorted(found, key=lambda device: (device.node, device.id))


def selected_pools(fleet: Fleet, query: FleetQuery, devices: Iterable[FleetDevice]) -> tuple[UnusablePool, ...]:
    """Return the pools that cannot be used: all of them, or of a query those that publish one of its devices."""
    if query == FleetQuery():
        return fleet.pools
    asked = {device.id.pool_id for device in devices}
    return tuple(pool for pool in fleet.pools if pool.id in asked)


def _is_on(device: FleetDevice, nodes: frozenset[str]) -> bool:
    return bool(nodes) if device.nodes is None else not nodes.isdisjoint(device.nodes)


def _is_held(device: FleetDevice, query: FleetQuery) -> bool:
    """Whether a device is held as the query says."""
    claims = device.holders
    return (
        (not query.namespace or any(each.claim.namespace == query.namespace for each in claims))
        and (query.claim is None or any(each.claim == query.claim for each in claims))
        and (query.pod is None or any(query.pod in each.pods for each in claims))
    )
