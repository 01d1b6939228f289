"""Since when pods wait, as their conditions say: what a scheduler before this one has told them."""

import datetime as dt
from typing import Final, NamedTuple

import msgspec

from scheduler.kube.client import Client
from scheduler.kube.decode import json_parts
from scheduler.kube.decode.envelopes import read_page
from scheduler.kube.errors import DecodeError
from solver.domain import PodId

_PATH: Final = "/api/v1/pods"
_PAGE: Final = "500"
_GATED: Final = "SchedulingGated"
"""The reason that the API server writes when a pod with gates is created: nobody has tried to place it."""


class Wait(NamedTuple):
    """A pod that reads PodScheduled=False: why, and since when it does not run."""

    pod: PodId
    uid: str
    reason: str
    message: str
    since: dt.datetime


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: dt.datetime | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str
    uid: str


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: _Status = _Status()


_pod: Final = msgspec.json.Decoder(_Pod)


async def read(client: Client) -> tuple[Wait, ...]:
    """List the pods without a node that were told why, whichever scheduler they name. Raises KubeError."""
    found: list[Wait] = []
    query = {"fieldSelector": "spec.nodeName=", "limit": _PAGE}
    while True:
        try:
            page = read_page(await client.request("GET", _PATH, query=query))
        except ValueError as error:
            raise DecodeError("pod", _PATH, "(whole answer)", str(error)) from error
        found += (wait for raw in page.items if (wait := _read_wait(raw)) is not None)
        if not page.continue_token:
            return tuple(found)
        query["continue"] = page.continue_token


def _read_wait(raw: bytes | msgspec.Raw) -> Wait | None:
    """Read one pod; of one that cannot be read it is not known since when it waits."""
    try:
        return _wait(json_parts.decode(_pod, raw)[0])
    except Exception:  # noqa: BLE001 - whatever is wrong with one pod, the others were told
        return None


def _wait(pod: _Pod) -> Wait | None:
    for each in pod.status.conditions or ():
        is_waiting = each.type == "PodScheduled" and each.status == "False" and each.reason != _GATED
        if is_waiting and each.last_transition_time is not None:
            meta = pod.metadata
            key = PodId(meta.namespace, meta.name)
            return Wait(key, meta.uid, each.reason, each.message, each.last_transition_time)
    return None
