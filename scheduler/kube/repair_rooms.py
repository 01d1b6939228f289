"""Writes of DeviceHolds for repairs: room for the successors of pods that are to be moved, and for waiting pods."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, NotFound
from scheduler.kube.repair_plans import API_VERSION, KIND, RepairPlan, now_text
from scheduler.kube.writes import WRITE_SECONDS
from solver.domain import Allocation, DeviceId, Pod
from solver.domain.quantity import Quantity

HOLDS: Final = "/apis/dovetail.dev/v1alpha1/deviceholds"


def place_for(pod: Pod, node: str, allocations: Iterable[Allocation], **pods: str) -> dict[str, Any]:
    """Return a group of one place: what a pod takes of a node, with the devices of its claims, for `pods`."""
    group: dict[str, Any] = {
        "pods": {"namespace": pod.id.namespace, **pods},
        "places": [{"node": node, "devices": _devices(allocations)}],
    }
    if pod.requests:
        group["requests"] = {
            resource: f"{amount}m" if resource == "cpu" else str(amount) for resource, amount in pod.requests
        }
    if pod.host_ports:
        group["hostPorts"] = [
            {"address": each.address, "protocol": each.protocol, "port": each.port} for each in pod.host_ports
        ]
    return group


def _devices(allocations: Iterable[Allocation]) -> list[dict[str, Any]]:
    """Return whole devices by pool, and each share for itself."""
    whole: dict[tuple[str, str], list[str]] = {}
    shares: list[dict[str, Any]] = []
    for allocation in allocations:
        for result in allocation.results:
            if result.admin_access:
                continue
            device = result.device
            if result.share_id:
                shares.append(_share(device, result.share_id, result.consumed_capacity))
            else:
                whole.setdefault((device.driver, device.pool), []).append(device.device)
    return [{"driver": driver, "pool": pool, "names": names} for (driver, pool), names in whole.items()] + shares


def _share(device: DeviceId, share_id: str, consumed: tuple[tuple[str, Quantity], ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"driver": device.driver, "pool": device.pool, "names": [device.device]}
    return found | {"shareID": share_id, "consumedCapacity": {name: amount.text for name, amount in consumed}}


async def hold_room(
    client: Client,
    name: str,
    plan: RepairPlan,
    groups: list[dict[str, Any]],
    *,
    priority: int,
    deadline: float,
    timeout_seconds: float = WRITE_SECONDS,
) -> None:
    """Create a hold that a plan owns; one of this name that is there already is that of an earlier leader."""
    owner = {
        "apiVersion": API_VERSION,
        "resource": "repairplans",
        "kind": KIND,
        "name": plan.name,
        "uid": plan.metadata.uid,
    }
    spec = {"owner": owner, "priority": priority, "deadline": now_text(deadline), "groups": groups}
    reference = {key: value for key, value in owner.items() if key != "resource"}
    body = {
        "apiVersion": API_VERSION,
        "kind": "DeviceHold",
        "metadata": {"name": name, "ownerReferences": [reference]},
        "spec": spec,
    }
    try:
        await client.request("POST", HOLDS, body=msgspec.json.encode(body), timeout_seconds=timeout_seconds)
    except Conflict:
        return


async def free_room(client: Client, name: str, *, timeout_seconds: float = WRITE_SECONDS) -> None:
    """Delete a hold; one that is gone is no error."""
    try:
        await client.request("DELETE", f"{HOLDS}/{name}", timeout_seconds=timeout_seconds)
    except NotFound:
        return
