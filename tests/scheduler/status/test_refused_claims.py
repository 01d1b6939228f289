"""A pod whose claim does not appear says which ResourceQuota keeps it from being created."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, KubeError
from scheduler.status.awaited_templates import AwaitedTemplates
from scheduler.status.refused_claims import RefusedClaims
from solver import missing_claims
from solver.domain import Pod, PodClaim
from tests.support.builders import pod

NAME = "gpu.deviceclass.resource.k8s.io/devices"
AWAITED = "the claim of entry devices, from ResourceClaimTemplate t, does not exist yet; the pod waits for it"
USED_UP = (
    "quota gpus of the namespace is used up: 1 of 1 devices of class gpu: the claim of entry devices, from "
    "ResourceClaimTemplate t, is not created; the pod waits for it"
)


def quota(used: str = "1", hard: str = "1", name: str = NAME, **spec: Any) -> dict[str, Any]:
    status = {"hard": {name: hard}, "used": {name: used}}
    return {"metadata": {"name": "gpus"}, "spec": {"hard": {name: hard}, **spec}, "status": status}


class Server:
    """In place of the client: the quotas of a namespace, and a template for two devices, or an error."""

    def __init__(self, *quotas: dict[str, Any], count: int = 1, error: KubeError | None = None) -> None:
        self.quotas, self.count, self.error = quotas, count, error
        self.read: list[str] = []

    async def request(self, method: str, path: str) -> bytes:
        assert method == "GET"
        self.read.append(path.rpartition("/")[2])
        if self.error is not None:
            raise self.error
        if path.endswith("/default/resourcequotas"):
            return json.dumps({"items": self.quotas}).encode()
        exactly = {"deviceClassName": "gpu", "count": self.count}
        claim = {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}
        return json.dumps({"spec": {"spec": claim}}).encode()


def waiting() -> Pod:
    return replace(pod("p"), claims=(PodClaim(entry="devices", template="t"),))


def reading(server: Server, clock: Callable[[], float]) -> tuple[AwaitedTemplates, RefusedClaims]:
    client = cast("Client", server)
    templates = AwaitedTemplates(client, clock)
    return templates, RefusedClaims(client, templates, clock)


async def message(server: Server) -> str:
    asked = waiting()
    _, refused = reading(server, lambda: 0.0)
    (found,) = await refused.named(asked, missing_claims(asked, lambda _: False))
    return found.message


async def test_a_quota_that_is_used_up_is_named() -> None:
    assert await message(Server(quota())) == USED_UP


async def test_a_quota_with_too_little_left_is_named() -> None:
    found = await message(Server(quota(used="1", hard="2"), count=2))
    assert found.startswith(
        "quota gpus of the namespace has 1 of 2 devices of class gpu left, and 2 are asked for: the claim of entry"
    )


@pytest.mark.parametrize(
    "server",
    [
        Server(),
        Server(quota(used="0")),
        Server(quota(name="pods")),
        Server(quota(name="other.deviceclass.resource.k8s.io/devices")),
        Server(quota(scopes=["BestEffort"])),
        Server(error=ApiError(403, "Forbidden", "no")),
        Server(cast("dict[str, Any]", {"status": "odd", "spec": []})),
    ],
    ids=["none", "room", "pods", "another class", "scopes", "forbidden", "odd"],
)
async def test_a_claim_that_no_quota_keeps_is_awaited(server: Server) -> None:
    assert await message(server) == AWAITED


async def test_quotas_are_read_once_for_many_pods_and_again_after_a_while() -> None:
    server, now = Server(), [0.0]
    _, refused = reading(server, lambda: now[0])
    for seconds in (0.0, 9.0, 10.0):
        now[0] = seconds
        await refused.named(waiting(), missing_claims(waiting(), lambda _: False))

    assert server.read == ["resourcequotas", "resourcequotas"]


async def test_a_template_is_read_once_for_many_pods_whether_it_is_missing_or_refused() -> None:
    server, now = Server(quota()), [0.0]
    templates, refused = reading(server, lambda: now[0])
    for seconds in (0.0, 9.0, 10.0):
        now[0] = seconds
        late = await templates.name_missing(waiting(), missing_claims(waiting(), lambda _: False))
        assert [each.message for each in await refused.named(waiting(), late)] == [USED_UP]

    assert server.read == ["t", "resourcequotas", "t", "resourcequotas"]
