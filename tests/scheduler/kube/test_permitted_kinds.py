"""Which optional features the scheduler's account has the rights for."""

import json
from typing import Any, cast

import pytest

from scheduler.change import Kind
from scheduler.features import KINDS, Feature, MissingFeature, Right
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.kube.errors import DecodeError, Forbidden

SERVED = DiscoveredKinds(paths=tuple((kind, f"/{kind.value}") for kind in Kind if kind is not Kind.COSCHEDULING_GROUPS))


class Server:
    """Answers reviews; `refused` are (verb, resource) pairs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *refused: tuple[str, str]) -> None:
        self.refused, self.asked = refused, list[tuple[str, str]]()
        self.answer: bytes | Exception | None = None

        async def served(_: Client) -> DiscoveredKinds:
            return SERVED

        monkeypatch.setattr(discovery, "discover", served)

    async def request(self, _: str, __: str, *, body: bytes, **___: object) -> bytes:
        if isinstance(self.answer, Exception):
            raise self.answer
        wanted = json.loads(body)["spec"]["resourceAttributes"]
        self.asked.append((wanted["verb"], "/".join(filter(None, (wanted["resource"], wanted["subresource"])))))
        return self.answer or json.dumps({"status": {"allowed": self.asked[-1] not in self.refused}}).encode()

    async def discover(self, *features: Any) -> DiscoveredKinds:
        return await discovery.discover_permitted(cast("Client", self), *features)


async def test_with_all_rights_everything_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    assert await server.discover() == SERVED
    assert ("create", "pods/eviction") in server.asked


async def test_without_a_right_the_kinds_of_its_feature_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await Server(monkeypatch, ("patch", "persistentvolumes")).discover()
    assert found.missing == (MissingFeature(Feature.VOLUMES, (Right("patch", "", "persistentvolumes"),)),)
    assert {kind for kind, _ in SERVED.paths} - {kind for kind, _ in found.paths} == KINDS[Feature.VOLUMES]
    assert found.lacks(Feature.VOLUMES)
    assert not found.has_same_api(SERVED)


async def test_rights_for_kinds_that_the_server_does_not_have_are_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(monkeypatch)
    await server.discover([Feature.POD_GROUPS])
    assert server.asked == [("list", "podgroups"), ("watch", "podgroups"), ("patch", "podgroups/status")]


async def test_a_client_that_may_not_ask_is_taken_to_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    server.answer = Forbidden(403)
    assert await server.discover() == SERVED


async def test_an_answer_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    server.answer = b"{}"
    with pytest.raises(DecodeError):
        await server.discover()


def test_what_is_missing_is_said_with_what_grants_it() -> None:
    missing = MissingFeature(Feature.PREEMPTION, (Right("create", "", "pods/eviction"), Right("delete", "", "pods")))
    assert str(missing) == (
        "the scheduler's account may not create pods/eviction, delete pods: no pod is evicted for another one; "
        "deploy/components/preemption grants it"
    )
    assert str(Right("patch", "scheduling.k8s.io", "podgroups/status")) == "patch podgroups.scheduling.k8s.io/status"
