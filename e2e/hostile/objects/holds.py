"""DeviceHolds: only Dovetail may write them where the fence stands; without it anybody with the right may."""

from typing import Final

from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.kinds import (
    DRIVER,
    GPU_DRIVER,
    HELD_NODE,
    MOST_PRIORITY,
    NAMESPACE,
    Manifest,
    Table,
    metadata,
    node_name,
)
from scheduler.change import Kind


def _hold(draw: Draw) -> Manifest:
    devices = [{"driver": GPU_DRIVER, "pool": HELD_NODE, "names": [f"gpu-{draw.below(8)}"]}]
    group = {
        "pods": {"namespace": NAMESPACE, "ownerUID": "mallory"},
        "requests": {"cpu": "1m"},
        "places": [{"node": HELD_NODE, "devices": devices}],
    }
    owner = {"apiVersion": "batch/v1", "resource": "jobs", "kind": "Job", "namespace": NAMESPACE}
    spec = {
        "owner": {**owner, "name": "mallory", "uid": "mallory"},
        "priority": draw.one((0, MOST_PRIORITY)),
        "deadline": draw.one(("2001-01-01T00:00:00Z", "2099-01-01T00:00:00Z")),
        "groups": [group],
    }
    return {"metadata": metadata(draw, Kind.HOLDS), "spec": spec}


HOLDS: Final = Table(Kind.HOLDS, _hold)


@HOLDS.twist("many places on one device")
def _many(draw: Draw, hold: Manifest) -> None:
    group = hold["spec"]["groups"][0]
    group["places"] = group["places"] * (1 + draw.size(2000))


@HOLDS.twist("devices and nodes that are not there")
def _absent(draw: Draw, hold: Manifest) -> None:
    devices = {"driver": draw.one((DRIVER, GPU_DRIVER)), "pool": draw.word(), "names": [draw.word()]}
    hold["spec"]["groups"][0]["places"].append({"node": node_name(draw), "devices": [devices]})


@HOLDS.twist("shares of devices that have none")
def _shares(draw: Draw, hold: Manifest) -> None:
    share = {"names": ["gpu-0"], "shareID": draw.word(), "consumedCapacity": {"memory": draw.quantity()}}
    hold["spec"]["groups"][0]["places"][0]["devices"].append({"driver": GPU_DRIVER, "pool": HELD_NODE, **share})


@HOLDS.twist("requests at the limits")
def _requests(draw: Draw, hold: Manifest) -> None:
    hold["spec"]["groups"][0]["requests"] = {"cpu": draw.quantity(), "memory": draw.quantity()}


@HOLDS.twist("pods of everybody")
def _pods(draw: Draw, hold: Manifest) -> None:
    hold["spec"]["groups"][0]["pods"] = {"namespace": draw.one((NAMESPACE, "good")), "labels": {"app": draw.word()}}


@HOLDS.twist("a status of places that are none")
def _status(draw: Draw, hold: Manifest) -> None:
    numbers = list({draw.below(2**31 - 1) for _ in range(draw.size(2000))})
    hold["status"] = {"used": numbers, "lost": [{"place": 0, "message": draw.text(400)}]}


@HOLDS.twist("fields of a newer version", is_admitted=False)
def _newer(draw: Draw, hold: Manifest) -> None:
    group = hold["spec"]["groups"][0]
    draw.one((hold["spec"], hold["spec"]["owner"], group, group["pods"], group["places"][0]))[draw.word()] = draw.leaf()


@HOLDS.twist("fields that are none", is_admitted=False)
def _wrong(draw: Draw, hold: Manifest) -> None:
    group = hold["spec"]["groups"][0]
    draw.do(
        lambda: hold["spec"].update({draw.one(("owner", "priority", "deadline", "groups")): draw.leaf()}),
        lambda: group.update({draw.one(("pods", "requests", "hostPorts", "places")): draw.leaf()}),
        lambda: group["requests"].update(cpu=draw.no_quantity()),
        lambda: group["pods"].update(annotations={"app": draw.word()}),
        lambda: hold.update(status=draw.leaf()),
    )
