"""The scheduler's own API over HTTP: authentication, what is left out, and how much may be asked."""

import base64
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from scheduler.api import access_reviews, api_server
from scheduler.api.api_server import SchedulerApi
from scheduler.api.queries import CALLER_HEADER
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import DeviceUsage, UsageSample
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, Unreachable
from scheduler.observe.metrics import Metrics
from scheduler.queue import SchedulingQueue
from scheduler.settings import ApiSettings, HistorySettings
from scheduler.worker.supervisor import WorkerAbsentError
from solver.domain import Placement, PodId
from solver.domain.fleet import DeviceCount, DeviceState
from tests.support.api_subjects import FleetInProcess, subjects
from tests.support.builders import (
    GPU_DRIVER,
    allocation,
    claim,
    gpu_class,
    gpu_slice,
    node,
    pod,
    request,
    result,
    snapshot,
)
from tests.support.shell_clock import VirtualClock

ALL = ("pods", "resourceclaims", "resourceslices")


class Reviewing:
    """Answers reviews as the API server does; `rights` are (user, resource, namespace), namespace "" for all."""

    def __init__(self) -> None:
        self.users = {f"token-{name}": name for name in ("ops", "team", "viewer", "stranger")}
        self.rights = {("ops", each, "") for each in ALL} | {("team", each, "team") for each in ALL[:2]}
        self.rights |= {("viewer", "resourceslices", ""), ("viewer", "resourceclaims", "team")}
        self.asked: Counter[str] = Counter()
        self.is_down = False

    async def request(self, _: str, path: str, *, body: bytes, **__: object) -> bytes:
        if self.is_down:
            raise Unreachable("no server answers")
        kind, spec = path.rpartition("/")[2], json.loads(body)["spec"]
        self.asked[kind] += 1
        if kind == "tokenreviews":
            user = self.users.get(spec["token"])
            found: dict[str, Any] = {"authenticated": user is not None, "audiences": spec.get("audiences", [])}
            return json.dumps({"status": found | ({"user": {"username": user}} if user else {})}).encode()
        if "nonResourceAttributes" in spec:
            is_allowed = (spec["user"], spec["nonResourceAttributes"]) == ("ops", {"verb": "get", "path": "/metrics"})
            return json.dumps({"status": {"allowed": is_allowed}}).encode()
        wanted = spec["resourceAttributes"]
        row = (spec["user"], wanted["resource"], wanted["namespace"])
        return json.dumps({"status": {"allowed": wanted["verb"] == "list" and row in self.rights}}).encode()


class Hall:
    """A running API with a history of two namespaces."""

    def __init__(self, settings: ApiSettings) -> None:
        self.reviewing, self.metrics = Reviewing(), Metrics()
        self.clock = VirtualClock()
        self.api = SchedulerApi(settings, cast("Client", self.reviewing), self.metrics, self.clock)
        history = DecisionHistory(HistorySettings())
        for namespace in ("team", "others"):
            placed = Placement(pod=PodId(namespace, "p"), pod_uid="p", node="n1")
            history.bound(1, placed, ("gpu.example.com/n1/gpu-0",), 1.0)
        usage = DeviceUsage(24)
        held = [
            claim("c", request("gpu"), namespace=each, allocation=allocation(result("gpu", f"gpu-{at}", "n1")))
            for at, each in enumerate(("team", "others"))
        ]
        counts = [
            DeviceCount(driver=GPU_DRIVER, device_class="gpu", node_group="", state=state, count=count)
            for state, count in ((DeviceState.HELD, 2), (DeviceState.FREE, 1))
        ]
        for now in (time.time() - 36.0, time.time()):
            usage.sample(UsageSample(held, (gpu_slice("n1", count=4),), counts), lambda _: "", now)
        queue = SchedulingQueue({"dovetail"})
        queue.offer(pod("first", namespace="others"), 1.0)
        queue.offer(pod("second", namespace="team"), 2.0)
        world = snapshot(
            *(node(each, labels={"pool": each}) for each in ("n1", "n2")),
            gpu_slice("n1", count=4),
            gpu_slice("n2", count=4),
            gpu_class(),
            held,
        )
        self.subjects = subjects(snapshot=world, history=history, usage=usage, queue=queue)
        self.api.lead(self.subjects)
        self.url = ""
        self.session: aiohttp.ClientSession

    async def get(self, path: str, bearer: str = "token-ops", header: str = "Authorization") -> tuple[int, Any]:
        headers = {header: f"Bearer {bearer}"} if bearer else {}
        async with self.session.get(f"{self.url}{path}", headers=headers) as response:
            return response.status, await response.json()

    async def names(self, path: str, bearer: str = "token-ops") -> list[str]:
        status, document = await self.get(path, bearer)
        assert status == 200, document
        return [f"{each['namespace']}/{each['name']}" for each in document.get("pods", document.get("items"))]


@asynccontextmanager
async def hall(**settings: Any) -> AsyncIterator[Hall]:
    chosen = ApiSettings(bind_address="127.0.0.1:0", **{"requests_per_second": 100.0} | settings)
    made = Hall(chosen)
    async with api_server.serving(made.api, chosen) as address, aiohttp.ClientSession() as session:
        made.url, made.session = f"http://{address}", session
        yield made


def ours(token_body: object = ("dovetail.dev",)) -> str:
    body = base64.urlsafe_b64encode(json.dumps({"aud": token_body}).encode()).decode().rstrip("=")
    return f"head.{body}.signature"


async def test_a_user_who_may_list_everything_sees_everything() -> None:
    async with hall() as at:
        status, document = await at.get("/v1alpha1/history?since=60")

    assert status == 200
    assert (document["apiVersion"], document["kind"], document["hidden"]) == (
        "api.dovetail.dev/v1alpha1",
        "History",
        {},
    )
    assert [each["namespace"] for each in document["items"]] == ["others", "team"]
    assert document["items"][0]["devices"] == ["gpu.example.com/n1/gpu-0"]


async def test_what_a_caller_may_not_list_is_left_out_and_counted() -> None:
    async with hall() as at:
        _, document = await at.get("/v1alpha1/history", "token-team")

    assert [each["namespace"] for each in document["items"]] == ["team"]
    assert document["hidden"] == {"pods": 1, "namespaces": 1}


async def test_devices_are_for_users_who_may_list_claims() -> None:
    async with hall() as at:
        at.reviewing.rights.discard(("team", "resourceclaims", "team"))
        _, document = await at.get("/v1alpha1/history?namespace=team&pod=p", "token-team")

    assert "devices" not in document["items"][0]
    assert document["hidden"] == {"devices": 1}


@pytest.mark.parametrize(
    ("path", "token", "status", "text"),
    [
        pytest.param("/v1alpha1/history?namespace=others", "token-team", 403, "cannot list pods", id="pods"),
        pytest.param("/v1alpha1/queue?namespace=others", "token-team", 403, "cannot list pods", id="queue"),
        pytest.param(
            "/v1alpha1/usage?namespace=others", "token-team", 403, "resourceclaims.resource.k8s.io", id="claims"
        ),
        pytest.param("/v1alpha1/history", "", 401, "bearer token", id="no token"),
        pytest.param("/v1alpha1/history", "token-unknown", 401, "not accepted", id="unknown token"),
        pytest.param("/v1alpha1/secrets", "token-ops", 404, "write one of: history, usage, queue, devices", id="path"),
        pytest.param("/v1alpha1/history?since=x", "token-ops", 400, "since: 'x' is not valid", id="since"),
        pytest.param("/v1alpha1/history?limit=100000", "token-ops", 400, "from 1 to 1000", id="limit"),
        pytest.param("/v1alpha1/history?pod=p", "token-ops", 400, "pod: needs a namespace", id="pod"),
        pytest.param("/v1alpha1/history?namespace=a%00", "token-ops", 400, "namespace: is no name", id="namespace"),
        pytest.param("/v1alpha1/history?name=p", "token-ops", 400, "name: unknown parameter", id="parameter"),
        pytest.param("/v1alpha1/usage?by=node", "token-ops", 400, "by: write one of", id="by"),
        pytest.param("/v1alpha1/devices", "token-team", 403, "cannot list resourceslices.resource.k8s.io", id="slices"),
        pytest.param("/v1alpha1/free", "token-stranger", 403, "at the cluster scope", id="free"),
        pytest.param("/v1alpha1/devices?selector=a!b", "token-ops", 400, "selector: 'a!b' is no label", id="selector"),
        pytest.param("/v1alpha1/devices?claim=c", "token-ops", 400, "claim: needs a namespace", id="claim"),
        pytest.param("/v1alpha1/devices?since=5", "token-ops", 400, "since: unknown parameter", id="of another answer"),
        pytest.param("/v1alpha1/devices?limit=50001", "token-ops", 400, "from 1 to 50000", id="devices"),
        pytest.param("/v1alpha1/free?by=class,x", "token-ops", 400, "by: write some of: class, type", id="groups"),
    ],
)
async def test_refusals_say_what_is_missing(path: str, token: str, status: int, text: str) -> None:
    async with hall() as at:
        found, document = await at.get(path, token)

    assert (found, document["kind"], document["code"]) == (status, "Status", status)
    assert text in document["message"]


@pytest.mark.parametrize("path", ["history", "usage", "queue", "devices", "free"])
async def test_a_user_who_may_list_nothing_gets_no_answer(path: str) -> None:
    async with hall() as at:
        status, document = await at.get(f"/v1alpha1/{path}", "token-stranger")

    assert (status, document["reason"]) == (403, "Forbidden")


async def test_who_may_list_something_else_sees_counts_only() -> None:
    async with hall() as at:
        _, document = await at.get("/v1alpha1/history", "token-viewer")

    assert (document["items"], document["hidden"]) == ([], {"pods": 2, "namespaces": 2})


async def test_a_right_in_the_own_namespace_of_an_account_is_one() -> None:
    account = "system:serviceaccount:quiet:a"
    async with hall() as at:
        at.reviewing.users["token-quiet"] = account
        refused, _ = await at.get("/v1alpha1/history", "token-quiet")
        at.clock.advance(11)
        at.reviewing.rights.add((account, "pods", "quiet"))
        status, document = await at.get("/v1alpha1/history", "token-quiet")

    assert (refused, status, document["items"]) == (403, 200, [])


async def test_the_token_may_come_in_a_header_of_its_own() -> None:
    async with hall() as at:
        status, _ = await at.get("/v1alpha1/history", "token-ops", CALLER_HEADER)

    assert status == 200


async def test_tokens_and_rights_are_asked_for_once_in_a_while() -> None:
    async with hall() as at:
        for _ in range(5):
            await at.get("/v1alpha1/history", "token-team")
            await at.get("/v1alpha1/history", "token-unknown")
        first = Counter(at.reviewing.asked)
        at.clock.advance(11)
        at.reviewing.rights.clear()
        _, document = await at.get("/v1alpha1/history", "token-team")

    assert first == {"tokenreviews": 2, "subjectaccessreviews": 7}  # pods, claims, slices; two namespaces each
    assert document["code"] == 403


async def test_a_caller_has_a_rate_of_its_own() -> None:
    async with hall(requests_per_second=1.0) as at:
        statuses = [(await at.get("/v1alpha1/queue"))[0] for _ in range(6)]
        other, _ = await at.get("/v1alpha1/queue", "token-team")
        at.clock.advance(1)
        later, _ = await at.get("/v1alpha1/queue")

    assert statuses == [200] * 4 + [429] * 2
    assert (other, later) == (200, 200)


async def test_unknown_tokens_have_a_rate() -> None:
    async with hall() as at:
        statuses = Counter([(await at.get("/v1alpha1/queue", f"token-{number}"))[0] for number in range(90)])

    assert statuses == {401: 20, 429: 70}
    assert at.reviewing.asked["tokenreviews"] == 20


async def test_only_tokens_for_the_scheduler_are_accepted_where_that_is_required() -> None:
    async with hall(require_audience=True) as at:
        at.reviewing.users[ours()] = "ops"
        refused, _ = await at.get("/v1alpha1/queue", "token-ops")
        accepted, _ = await at.get("/v1alpha1/queue", ours())

    assert (refused, accepted) == (401, 200)
    assert at.reviewing.asked["tokenreviews"] == 1


@pytest.mark.parametrize(
    ("token", "is_ours"),
    [
        (ours(), True),
        (ours("dovetail.dev"), True),
        (ours(["https://kubernetes.default.svc"]), False),
        ("opaque", False),
        ("a.!!!.c", False),
        ("a.e30.c", False),
    ],
)
def test_a_token_names_its_audience(token: str, *, is_ours: bool) -> None:
    assert access_reviews.is_for_our_audience(token) is is_ours


async def test_a_replica_that_stands_by_says_so() -> None:
    async with hall() as at:
        at.api.follow()
        status, document = await at.get("/v1alpha1/history")

    assert (status, document["reason"]) == (503, "NotLeading")


async def test_a_client_that_looks_for_the_leader_is_not_held_up_by_the_rate() -> None:
    async with hall(requests_per_second=1.0) as at:
        at.api.follow()
        statuses = {(await at.get("/v1alpha1/history"))[0] for _ in range(24)}

    assert statuses == {503}


async def test_an_api_server_that_does_not_answer_lets_no_client_in() -> None:
    async with hall() as at:
        at.reviewing.is_down = True
        status, document = await at.get("/v1alpha1/history")

    assert (status, document["reason"]) == (503, "ServiceUnavailable")
    assert "no server answers" in document["message"]


async def test_the_queue_is_in_the_order_of_decisions() -> None:
    async with hall() as at:
        everything = await at.names("/v1alpha1/queue")
        _, document = await at.get("/v1alpha1/queue", "token-team")

    assert everything == ["others/first", "team/second"]
    assert [(each["position"], each["name"]) for each in document["pods"]] == [(2, "second")]
    assert document["hidden"] == {"pods": 1, "namespaces": 1}


async def test_usage_is_summed_up_for_what_the_caller_may_list() -> None:
    async with hall() as at:
        _, whole = await at.get("/v1alpha1/usage?by=namespace")
        _, part = await at.get("/v1alpha1/usage?by=class", "token-team")

    assert [(each["name"], each["deviceHours"]) for each in whole["items"]] == [("others", 0.01), ("team", 0.01)]
    (driver,) = whole["drivers"]
    assert (driver["heldDeviceHours"], driver["idleDeviceHours"], driver["devices"]) == (0.02, 0.02, 4.0)
    (of_class,) = whole["classes"]
    assert (of_class["deviceClass"], of_class["driver"]) == ("gpu", driver["driver"])
    assert (of_class["heldDeviceHours"], of_class["idleDeviceHours"], of_class["devices"]) == (0.02, 0.01, 3.0)
    assert [(each["name"], each["deviceHours"]) for each in part["items"]] == [("gpu", 0.01)]
    assert (part["drivers"], part["classes"], part["hidden"]) == ([], [], {"namespaces": 1})


async def test_requests_are_counted() -> None:
    async with hall() as at:
        await at.get("/v1alpha1/history")
        await at.get("/v1alpha1/anything")
        text = at.metrics.exposition()[0].decode()

    assert 'dovetail_api_requests_total{code="200",path="history"} 1.0' in text
    assert 'dovetail_api_requests_total{code="404",path="other"} 1.0' in text


async def test_the_api_is_off_unless_it_has_an_address(tmp_path: Path) -> None:
    async with api_server.listening(ApiSettings(), tmp_path / "none", Metrics()) as found:
        assert found == (None, "")


async def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    settings = ApiSettings(bind_address="127.0.0.1:0")
    async with api_server.listening(settings, kubeconfig, Metrics()) as (api, address):
        assert api is not None
        assert address.startswith("127.0.0.1:")
    missing = str(tmp_path / "no.pem")
    wrong = ApiSettings(bind_address=":0", tls_cert_file=missing, tls_key_file=missing)
    with pytest.raises(ConfigurationError, match=r"No such file.*check api\.bindAddress, api\.tlsCertFile"):
        async with api_server.listening(wrong, kubeconfig, Metrics()):
            pass


async def test_devices_are_listed_with_the_holders_that_the_caller_may_see() -> None:
    async with hall() as at:
        at.reviewing.rights.add(("team", "resourceslices", ""))
        _, everything = await at.get("/v1alpha1/devices?node=n1")
        _, document = await at.get("/v1alpha1/devices?node=n1", "token-team")
        refused, _ = await at.get("/v1alpha1/devices?namespace=others", "token-team")

    assert (everything["kind"], everything["apiVersion"]) == ("Devices", "api.dovetail.dev/v1alpha1")
    assert [each["id"][2] for each in everything["items"]] == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert [each["claim"] for device in document["items"] for each in device.get("holders", ())] == [["team", "c"]]
    assert document["hidden"] == {"devices": 1, "namespaces": 1}
    assert refused == 403


async def test_free_counts_groups_of_devices() -> None:
    async with hall() as at:
        _, document = await at.get("/v1alpha1/free?by=class,node&selector=pool%3Dn1")

    (row,) = document["supply"]["rows"]
    assert (document["kind"], row["values"]) == ("Free", ["gpu", "n1"])
    assert (row["supply"]["total"], row["supply"]["held"], row["supply"]["available"]) == (4, 2, 2)


async def test_an_answer_of_an_earlier_time_has_its_age() -> None:
    async with hall() as at:
        _, now = await at.get("/v1alpha1/devices?node=n1")
        cast("FleetInProcess", at.subjects.fleet).age_seconds = 12.34
        _, earlier = await at.get("/v1alpha1/devices?node=n1")

    assert earlier == {"ageSeconds": 12.3, **now}


@pytest.mark.parametrize("error", [WorkerAbsentError("the worker process is starting"), TimeoutError()])
async def test_a_worker_without_an_answer_is_asked_again_later(error: Exception) -> None:
    async with hall() as at:
        cast("FleetInProcess", at.subjects.fleet).error = error
        status, document = await at.get("/v1alpha1/devices")

    assert (status, document["reason"]) == (503, "ServiceUnavailable")
    assert "the solver" in document["message"]


async def test_the_queue_says_what_only_the_scheduler_knows() -> None:
    async with hall() as at:
        _, document = await at.get("/v1alpha1/queue?namespace=team")

    (waiting,) = document["pods"]
    assert (waiting["position"], waiting["state"], waiting["reason"], waiting["why"]) == (
        2,
        "active",
        "Unschedulable",
        "0 free",
    )
