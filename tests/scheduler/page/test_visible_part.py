"""What callers with tokens see of the page: their namespaces, and how much is left out."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest

from scheduler.api.caller_api import TokenCallers
from scheduler.api.http_server import Certificate
from scheduler.api.queries import CALLER_HEADER
from scheduler.kube.client import Client
from scheduler.kube.pod_writes import PendingPod
from scheduler.page import page_server, visible_part
from scheduler.page.fleet_map import FleetMap, MapOrigin
from scheduler.page.live_fleet import LiveFleet
from scheduler.page.page_server import Entrance
from scheduler.page.page_watches import PageSubjects
from scheduler.page.visible_part import FleetReading, VisiblePart
from scheduler.settings import Address, ApiSettings
from scheduler.simulation import queue_listing
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.visibility import VisibleNamespaces
from solver import fleet_of
from solver.domain import QuotaState
from tests.scheduler.api.test_api_server import Reviewing
from tests.scheduler.page.test_decision_answers import Scheduler
from tests.scheduler.page.test_page_server import Answering
from tests.support import builders as b
from tests.support.shell_clock import VirtualClock

RED = VisibleNamespaces(frozenset({"red"}))
ALL = VisibleNamespaces(everything=True)


def reading() -> FleetReading:
    """A device held by each of two namespaces, and a pod of each that waits."""
    held = [
        b.held(f"job-{each}", b.result("gpu", f"gpu-{at}", "n1"), node_name="n1", namespace=each)
        for at, each in enumerate(("red", "blue"))
    ]
    world = b.snapshot(b.node("n1", labels={"rack": "r1"}), b.gpu_slice("n1", count=3), b.gpu_class(), *held)
    waiting = [PendingPod(b.pod(f"late-{each}", namespace=each), None) for each in ("blue", "red")]
    quotas = (QuotaState(quota="team", namespaces=("red", "blue")),)
    found = FleetAnswer(fleet=fleet_of(world), node_labels={"n1": {"rack": "r1"}}, pods=world.pods, quotas=quotas)
    origin = MapOrigin(read_at="2026-01-01T00:00:00Z", source="a test", version="0")
    return FleetReading(found, queue_listing.listed(waiting, {"dovetail"}), origin)


def shown(part: VisiblePart) -> FleetMap:
    return visible_part.map_for(reading(), part)


def test_all_of_it_is_the_map_with_nothing_left_out() -> None:
    found = shown(VisiblePart())
    assert (len(found.claims.name), len(found.queue or ())) == (2, 2)
    assert found.hidden == type(found.hidden)()


def test_other_namespaces_are_in_no_text_and_are_counted() -> None:
    part = VisiblePart(claims=RED, pods=RED)
    found = shown(part)
    assert "blue" not in json.dumps(found.texts)
    assert [(each.name, each.position) for each in found.queue or ()] == [("late-red", 2)]
    assert (found.hidden.pods, found.hidden.devices, found.hidden.namespaces) == (1, 1, 1)
    assert (found.total["held"], found.total["free"]) == (2, 1)
    assert found.nodes.labels


def test_without_nodes_there_are_no_labels_and_the_kind_is_named() -> None:
    assert shown(VisiblePart(quotas=False)).quotas is None
    found = shown(VisiblePart(nodes=False))
    assert (found.nodes.labels, found.forbidden) == ({}, ("nodes",))
    assert "r1" not in found.texts


class Door:
    """The page with callers that have tokens."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session
        self.reviewing, self.clock = Reviewing(), VirtualClock()
        self.scheduler, self.fit = Scheduler(), Answering()

    async def get(self, name: str, token: str, header: str = CALLER_HEADER) -> tuple[int, Any]:
        headers = {header: f"Bearer {token}"} if token else {}
        async with self.session.get(f"{self.url}/v1alpha1/{name}", headers=headers) as response:
            return response.status, await response.json()

    async def ask(self, manifest: bytes, token: str) -> tuple[int, Any]:
        headers = {"Content-Type": "application/yaml"} | ({CALLER_HEADER: f"Bearer {token}"} if token else {})
        async with self.session.post(f"{self.url}/v1alpha1/fit", data=manifest, headers=headers) as response:
            return response.status, await response.json()


@asynccontextmanager
async def entered() -> AsyncIterator[Door]:
    """Serve the page to callers with tokens while the block runs."""
    async with aiohttp.ClientSession() as session:
        door = Door("", session)
        door.reviewing.rights |= {
            ("ops", "nodes", ""),
            ("ops", "devicequotas", ""),
            ("viewer", "pods", "red"),
            ("viewer", "resourceclaims", "red"),
        }
        callers = TokenCallers(ApiSettings(requests_per_second=5.0), cast("Client", door.reviewing), door.clock)
        subjects = PageSubjects(LiveFleet(reading, door.clock), door.scheduler.ask, door.fit)
        entrance = Entrance(callers, Certificate())
        async with page_server.serving(subjects, Address("127.0.0.1", 0), entrance) as bound:
            door.url = f"http://{bound}"
            yield door


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with entered() as made:
        yield made


@pytest.mark.parametrize("header", [CALLER_HEADER, "Authorization"])
async def test_a_caller_with_all_rights_sees_everything(door: Door, header: str) -> None:
    status, found = await door.get("map", "token-ops", header)
    assert (status, found["hidden"], len(found["queue"])) == (200, {}, 2)
    assert [each["name"] for each in found["quotas"]] == ["team"]


async def test_a_caller_sees_the_namespaces_that_it_may_list(door: Door) -> None:
    status, found = await door.get("map", "token-viewer")
    assert (status, found["hidden"]) == (200, {"pods": 1, "devices": 1, "namespaces": 1})
    assert [each["name"] for each in found["queue"]] == ["late-red"]
    assert found["forbidden"] == ["nodes"]
    assert found["quotas"] is None
    assert "blue" not in json.dumps(found)


@pytest.mark.parametrize("name", ["map", "map?watch=true"])
@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 401), ("token-stranger", 403), ("token-team", 403)])
async def test_without_a_token_or_the_right_to_list_devices_there_is_nothing(
    door: Door, name: str, token: str, status: int
) -> None:
    found, refusal = await door.get(name, token)
    assert (found, refusal["kind"]) == (status, "Status")


async def test_the_page_itself_asks_for_no_token_and_says_nothing(door: Door) -> None:
    async with door.session.get(f"{door.url}/", headers={"Host": "dovetail-page.dovetail-system.svc"}) as response:
        assert response.status == 200
        assert "n1" not in (await response.text()).partition("<script")[0]


async def test_a_caller_that_asks_too_often_is_refused(door: Door) -> None:
    statuses = [(await door.get("map", "token-ops"))[0] for _ in range(22)]
    assert (statuses[0], statuses[-1]) == (200, 429)


async def test_where_rights_cannot_be_checked_nothing_is_shown(door: Door) -> None:
    door.reviewing.is_down = True
    assert (await door.get("map", "token-ops"))[0] == 503


async def test_a_question_about_a_manifest_has_the_rights_of_its_caller(door: Door) -> None:
    manifest = b"kind: Pod\nmetadata: {namespace: red}\n---\nmetadata: {namespace: blue}\n"
    assert (await door.ask(manifest, "token-viewer"))[0] == 200
    assert (await door.ask(manifest, "token-ops"))[0] == 200
    (viewer, limited), (ops, whole) = door.fit.asked
    assert (viewer, limited.namespaces, limited.sees_nodes) == ("viewer", RED, False)
    assert (ops, whole.namespaces, whole.sees_nodes) == ("ops", ALL, True)


@pytest.mark.parametrize(("token", "status"), [("", 401), ("wrong", 401), ("token-stranger", 403), ("token-team", 403)])
async def test_a_question_without_rights_is_refused_before_anything_is_read(
    door: Door, token: str, status: int
) -> None:
    assert (await door.ask(b"kind: Pod", token))[0] == status
    assert door.fit.asked == []


async def test_the_scheduler_is_asked_about_decisions_with_the_token_of_the_caller(door: Door) -> None:
    for token in ("token-viewer", "token-ops"):
        assert (await door.get("decisions", token))[0] == 200
    assert door.scheduler.tokens == ["token-viewer", "token-ops"]


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_the_scheduler_is_not_asked_for_callers_without_a_valid_token(door: Door, token: str) -> None:
    assert (await door.get("decisions", token))[0] == 401
    assert door.scheduler.asked == []
