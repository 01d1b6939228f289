"""
Which optional fields of the DRA API a server keeps: those of feature gates that are off are dropped.

No server tells its gates. So objects with these fields are sent as a dry run, which stores nothing.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError

_NAME: Final = "dovetail-check-gates"
_SECONDS: Final = 5.0

Json = dict[str, Any]


class GateProbe(NamedTuple):
    """A feature gate, what it is for, the spec of a claim or a slice, and the steps to a field that may be dropped."""

    gate: str
    feature: str
    is_claim: bool
    spec: Json
    field: tuple[str | int, ...]


def _request(**exactly: Any) -> Json:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any.example.com", **exactly}}]}}


def _slice(**spec: Any) -> Json:
    pool = {"name": _NAME, "generation": 1, "resourceSliceCount": 1}
    return {"driver": "check.dovetail.dev", "pool": pool, "allNodes": True, **spec}


_EXACTLY: Final = ("spec", "devices", "requests", 0, "exactly")
_DEVICE: Final = ("spec", "devices", 0)
PROBES: Final = (
    GateProbe(
        "DRAPrioritizedList",
        "alternatives in claims",
        is_claim=True,
        spec={
            "devices": {
                "requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "any.example.com"}]}]
            }
        },
        field=("spec", "devices", "requests", 0, "firstAvailable"),
    ),
    GateProbe(
        "DRADeviceTaints",
        "taints of devices",
        is_claim=True,
        spec=_request(tolerations=[{"key": "k", "operator": "Exists"}]),
        field=(*_EXACTLY, "tolerations"),
    ),
    GateProbe(
        "DRAConsumableCapacity",
        "shares of devices",
        is_claim=True,
        spec=_request(capacity={"requests": {"memory": "1Gi"}}),
        field=(*_EXACTLY, "capacity"),
    ),
    GateProbe(
        "DRAPartitionableDevices",
        "partitions of devices",
        is_claim=False,
        spec=_slice(sharedCounters=[{"name": "c", "counters": {"memory": {"value": "1Gi"}}}]),
        field=("spec", "sharedCounters"),
    ),
    GateProbe(
        "DRADeviceBindingConditions",
        "devices that get ready before a pod is bound",
        is_claim=False,
        spec=_slice(
            devices=[
                {"name": "d", "bindingConditions": ["example.com/b"], "bindingFailureConditions": ["example.com/c"]}
            ]
        ),
        field=(*_DEVICE, "bindingConditions"),
    ),
)


async def probe(client: Client, namespace: str) -> Mapping[str, bool | None]:
    """Say which gates are on, None where the caller may not ask or the server refuses the object. Raise `KubeError`."""
    found = await asyncio.gather(*(_is_kept(client, namespace, each) for each in PROBES))
    return {each.gate: is_kept for each, is_kept in zip(PROBES, found, strict=True)}


async def _is_kept(client: Client, namespace: str, asked: GateProbe) -> bool | None:
    kind = "ResourceClaim" if asked.is_claim else "ResourceSlice"
    path = paths.claims(namespace) if asked.is_claim else f"{paths.RESOURCE}/resourceslices"
    body = {
        "apiVersion": f"{paths.RESOURCE_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": _NAME},
        "spec": asked.spec,
    }
    try:
        answer = await client.request(
            "POST", path, body=msgspec.json.encode(body), query={"dryRun": "All"}, timeout_seconds=_SECONDS
        )
    except ApiError:  # forbidden; or without its field the object is not valid
        return None
    value: Any = msgspec.json.decode(answer)
    for step in asked.field:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False
    return bool(value)
