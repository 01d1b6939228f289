"""ResourceClaims: what they ask for, and the statuses that schedulers and drivers write."""

import json
from typing import Any, Final

from e2e.hostile.objects import selectors
from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.kinds import DRIVER, GPU_CLASS, GPU_DRIVER, HELD_NODE, Manifest, Table, metadata, node_name
from scheduler.change import Kind

MOST_REQUESTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_CONSUMERS: Final = 256
HELD_DEVICES: Final = 8
"""Devices of the held node, `gpu-0` and so on."""
_LONGEST_PARAMETERS: Final = 10 * 1024
_ATTRIBUTES: Final = (
    "gpu.nvidia.com/uuid",
    "resource.kubernetes.io/pcieRoot",
    "gpu.nvidia.com/type",
    "x.example.com/y",
)


def _exactly(draw: Draw, **fields: Any) -> Manifest:
    return {"deviceClassName": draw.one((GPU_CLASS, GPU_CLASS, "mig.nvidia.com", "no-such-class")), **fields}


def _base(draw: Draw) -> Manifest:
    requests = [{"name": "r0", "exactly": {"deviceClassName": GPU_CLASS}}]
    return {
        "metadata": metadata(draw, Kind.CLAIMS, annotations={}),
        "spec": {"devices": {"requests": requests}},
    }


CLAIMS: Final = Table(Kind.CLAIMS, _base)


def _devices(claim: Manifest) -> Manifest:
    devices: Manifest = claim["spec"]["devices"]
    return devices


def _first(claim: Manifest) -> Manifest:
    exactly: Manifest = _devices(claim)["requests"][0]["exactly"]
    return exactly


def held_result(draw: Draw) -> Manifest:
    """Name a device of the held node."""
    return {"request": "r0", "driver": GPU_DRIVER, "pool": HELD_NODE, "device": f"gpu-{draw.below(HELD_DEVICES)}"}


def _allocate(draw: Draw, claim: Manifest) -> Manifest:
    """Allocate a device of the held node; give the allocation."""
    allocation: Manifest = {"devices": {"results": [held_result(draw)]}}
    claim["metadata"].setdefault("finalizers", []).append("resource.kubernetes.io/delete-protection")
    claim.setdefault("status", {})["allocation"] = allocation
    return allocation


@CLAIMS.twist("as many requests as allowed")
def _requests(draw: Draw, claim: Manifest) -> None:
    _devices(claim)["requests"] = [{"name": f"r{index}", "exactly": _exactly(draw)} for index in range(MOST_REQUESTS)]


@CLAIMS.twist("as many alternatives as allowed")
def _alternatives(draw: Draw, claim: Manifest) -> None:
    def alternative(index: int) -> Manifest:
        return {"name": f"s{index}", **_exactly(draw, count=1 + index)}

    _devices(claim)["requests"] = [
        {"name": f"r{index}", "firstAvailable": [alternative(place) for place in range(MOST_ALTERNATIVES)]}
        for index in range(draw.one((1, 4, 12)))
    ]


@CLAIMS.twist("as many constraints as allowed")
def _constraints(draw: Draw, claim: Manifest) -> None:
    _devices(claim)["requests"] = [{"name": f"r{index}", "exactly": _exactly(draw)} for index in range(4)]
    _devices(claim)["constraints"] = [
        {
            "requests": draw.some(["r0", "r1", "r2", "r3"], 4),
            draw.one(("matchAttribute", "distinctAttribute")): draw.one(_ATTRIBUTES),
        }
        for _ in range(draw.one((1, 31)))
    ]


@CLAIMS.twist("a hostile selector")
def _selector(draw: Draw, claim: Manifest) -> None:
    _, expression = selectors.selector(draw)
    _first(claim)["selectors"] = [{"cel": {"expression": expression}}]


@CLAIMS.twist("many hostile selectors")
def _selectors(draw: Draw, claim: Manifest) -> None:
    expressions = draw.many(2, 6, lambda _: selectors.selector(draw)[1])
    _first(claim)["selectors"] = [{"cel": {"expression": each}} for each in expressions]


@CLAIMS.twist("a selector that does not compile", is_admitted=False)
def _wrong_selector(draw: Draw, claim: Manifest) -> None:
    _, expression = selectors.selector(draw, is_admitted=False)
    _first(claim)["selectors"] = [{"cel": {"expression": expression}}]


@CLAIMS.twist("deep parameters")
def _deep(draw: Draw, claim: Manifest) -> None:
    opaque = {"driver": DRIVER, "parameters": {"deep": draw.nested(draw.one(("[", "{")))}}
    _devices(claim)["config"] = [{"requests": ["r0"], "opaque": opaque}]


@CLAIMS.twist("large parameters")
def _parameters(draw: Draw, claim: Manifest) -> None:
    text = draw.one(("x", "é", "\\", '"')) * 3000
    large = {"x": text[: _LONGEST_PARAMETERS - 9 - len(json.dumps(text)) + len(text)]}
    _devices(claim)["config"] = [{"opaque": {"driver": DRIVER, "parameters": large}}] * draw.one((1, 32))


@CLAIMS.twist("a count beyond everything")
def _count(draw: Draw, claim: Manifest) -> None:
    _first(claim)["count"] = draw.one((33, 2**31, 2**62, 2**63 - 1))


@CLAIMS.twist("all devices")
def _all(draw: Draw, claim: Manifest) -> None:
    _first(claim)["allocationMode"] = "All"
    _first(claim)["deviceClassName"] = draw.one((GPU_CLASS, "no-such-class"))
    expression = f'device.attributes["{GPU_DRIVER}"].uuid == "none"'
    _first(claim)["selectors"] = [{"cel": {"expression": expression}}] * draw.one((0, 1))


@CLAIMS.twist("capacities of extreme size")
def _capacity(draw: Draw, claim: Manifest) -> None:
    wanted = {draw.one(("memory", "cores", f"x{index}")): draw.quantity() for index in range(draw.one((1, 32)))}
    _first(claim)["capacity"] = {"requests": wanted}


@CLAIMS.twist("many tolerations")
def _tolerations(draw: Draw, claim: Manifest) -> None:
    def toleration(index: int) -> Manifest:
        made: Manifest = {"key": f"k{index}", "operator": "Exists"}
        return made | draw.one(({}, {"effect": "NoExecute", "tolerationSeconds": draw.integer()}))

    _first(claim)["tolerations"] = [{"operator": "Exists"}, *draw.many(1, 15, toleration)]


@CLAIMS.twist("admin access")
def _admin(draw: Draw, claim: Manifest) -> None:
    _first(claim)["adminAccess"] = True
    _first(claim)["allocationMode"] = draw.one(("All", "ExactCount"))


@CLAIMS.twist("annotations of ours and of others")
def _annotations(draw: Draw, claim: Manifest) -> None:
    names = ("resource.kubernetes.io/extended-resource-claim", "dovetail.dev/adopted", "dovetail.dev/binding-failed")
    claim["metadata"]["annotations"][draw.one(names)] = draw.one(("true", draw.digits(), draw.text(50_000)))


@CLAIMS.twist("owners that are others' pods and groups")
def _owners(draw: Draw, claim: Manifest) -> None:
    kind = draw.one(("Pod", "PodGroup", "Job"))
    owner = {"apiVersion": "v1", "kind": kind, "name": "good-0", "uid": "uid-good-0", "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]


@CLAIMS.twist("allocated, with a count beyond everything")
def _allocated(draw: Draw, claim: Manifest) -> None:
    _allocate(draw, claim)
    _first(claim)["count"] = draw.one((1, 2**62))


@CLAIMS.twist("allocated, with many results")
def _results(draw: Draw, claim: Manifest) -> None:
    allocation = _allocate(draw, claim)
    allocation["devices"]["results"] += [
        {"request": "r0", "driver": DRIVER, "pool": draw.text(80) or "p", "device": f"d{index}"} for index in range(31)
    ]


@CLAIMS.twist("allocated, with a node selector of many terms")
def _allocated_nodes(draw: Draw, claim: Manifest) -> None:
    terms = draw.many(1, 200, lambda _: {"matchFields": [_named(node_name(draw))]})
    _allocate(draw, claim)["nodeSelector"] = {"nodeSelectorTerms": terms[:1]}


def _named(node: str) -> Manifest:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


@CLAIMS.twist("allocated, with shares of extreme size")
def _shares(draw: Draw, claim: Manifest) -> None:
    result = _allocate(draw, claim)["devices"]["results"][0]
    result["consumedCapacity"] = {"memory": draw.quantity()}
    result["shareID"] = "00000000-0000-4000-8000-000000000001"


@CLAIMS.twist("allocated, with configuration")
def _allocated_config(draw: Draw, claim: Manifest) -> None:
    opaque = {"driver": DRIVER, "parameters": {"deep": draw.nested("[")}}
    _allocate(draw, claim)["devices"]["config"] = [{"source": "FromClaim", "opaque": opaque}] * draw.one((1, 64))


@CLAIMS.twist("allocated, with amounts or fields that are none", is_admitted=False)
def _wrong_allocation(draw: Draw, claim: Manifest) -> None:
    allocation = _allocate(draw, claim)
    result = allocation["devices"]["results"][0]
    leaf = draw.leaf()
    draw.do(
        lambda: result.update(consumedCapacity={"memory": draw.no_quantity()}),
        lambda: result.update(bindingConditions=leaf),
        lambda: result.update(tolerations=leaf),
        lambda: allocation.update(nodeSelector=leaf),
        lambda: allocation.update(allocationTimestamp=leaf),
        lambda: allocation["devices"].update(config=leaf),
        lambda: claim["status"].update(reservedFor=leaf),
        lambda: claim["status"].update(devices=leaf),
    )


@CLAIMS.twist("allocated, with requests that are none", is_admitted=False)
def _allocated_wrong_spec(draw: Draw, claim: Manifest) -> None:
    _allocate(draw, claim)
    claim["spec"]["devices"] = draw.one((draw.leaf(), {"requests": draw.leaf()}))


@CLAIMS.twist("allocated, with a status of its devices")
def _device_status(draw: Draw, claim: Manifest) -> None:
    result = _allocate(draw, claim)["devices"]["results"][0]
    conditions = [
        {
            "type": f"T{index}",
            "status": "True",
            "reason": "R",
            "message": draw.text(3000),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for index in range(8)
    ]
    device = {name: result[name] for name in ("driver", "pool", "device")}
    claim["status"]["devices"] = [{**device, "conditions": conditions, "data": {"deep": draw.nested("{")}}]


@CLAIMS.twist("allocated and reserved for very many")
def _reserved(draw: Draw, claim: Manifest) -> None:
    _allocate(draw, claim)
    claim["status"]["reservedFor"] = [
        {"resource": draw.one(("pods", "podgroups", "things")), "name": f"x{index}", "uid": f"uid-{index}"}
        for index in range(draw.one((1, MOST_CONSUMERS)))
    ]


@CLAIMS.twist("reserved without an allocation", is_admitted=False)
def _only_reserved(draw: Draw, claim: Manifest) -> None:
    claim["status"] = {"reservedFor": [{"resource": "pods", "name": "good-0", "uid": draw.text(200)}]}


@CLAIMS.twist("requests that are none", is_admitted=False)
def _wrong_requests(draw: Draw, claim: Manifest) -> None:
    leaf = draw.leaf()
    names = ("count", "selectors", "capacity", "tolerations", "deviceClassName", "allocationMode", "adminAccess")
    draw.do(lambda: _first(claim).update({draw.one(names): leaf}), lambda: _devices(claim).update(constraints=leaf))
