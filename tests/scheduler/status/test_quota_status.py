"""What is written of quotas, and how many writes that takes."""

import asyncio
import datetime as dt
from collections import Counter
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Cluster
from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden, Invalid, Unreachable
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe.metrics import Metrics
from scheduler.queue import SchedulingQueue
from scheduler.status import quota_status
from scheduler.status.quota_status import QuotaParts, QuotaStatusWriter
from solver.domain import Claim, DeviceQuota, Pod, QuotaFleet, QuotaKey
from tests.support import builders as b
from tests.support.quota_cases import devices, namespaces, quota

COLLECTION = "/apis/dovetail.dev/v1alpha1/devicequotas"
FLEET = QuotaFleet(totals=((QuotaKey("gpu"), 8),), classes=("gpu",))


class Server:
    """Stands where statuses are listed and written."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {}
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.lists = 0
        self.error: Exception | None = None
        self.refused: dict[str, Exception] = {}
        self.tries: Counter[str] = Counter()

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: object) -> bytes:
        if self.error is not None:
            raise self.error
        if method == "GET":
            self.lists += 1
            items = [{"metadata": {"uid": uid}, "status": each} for uid, each in self.stored.items()]
            return msgspec.json.encode({"items": items})
        decoded = msgspec.json.decode(body)
        self.tries[decoded["metadata"]["uid"]] += 1
        if decoded["metadata"]["uid"] in self.refused:
            raise self.refused[decoded["metadata"]["uid"]]
        self.sent.append((path, decoded["status"]))
        self.stored[decoded["metadata"]["uid"]] = decoded["status"]
        return b""

    async def write(self, request: ApiCall[Any], *, is_status: bool) -> object:
        assert is_status
        return await request(timeout_seconds=1.0)

    async def read(self, request: ApiCall[Any]) -> object:
        return await request(timeout_seconds=1.0)


class Scene:
    """Quotas of the teams with what they hold, and the writer of one leader after the other."""

    def __init__(self, *quotas: DeviceQuota, may_reclaim: bool = True) -> None:
        self.server, self.cluster, self.metrics = Server(), Cluster(), Metrics()
        self.queue = SchedulingQueue(("dovetail",))
        self.fleet: QuotaFleet | None = FLEET
        self.now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        self.may_reclaim = may_reclaim
        for each in namespaces():
            became(self.cluster, Kind.NAMESPACES, each.name, each)
        for one in quotas:
            became(self.cluster, Kind.QUOTAS, one.name, one)
        became(self.cluster, Kind.CLASSES, "gpu", b.device_class("gpu", driver=b.GPU_DRIVER))
        self.lead()

    def lead(self) -> None:
        """Let another replica lead."""
        self.writer = QuotaStatusWriter(
            cast("Client", self.server),
            cast("Writer", self.server),
            QuotaParts(self.cluster, self.queue, lambda: self.fleet),
            self.metrics,
            collection=COLLECTION,
            may_reclaim=self.may_reclaim,
            now=lambda: self.now,
        )

    def look(self) -> list[tuple[str, dict[str, Any]]]:
        """Look once; return what is written."""
        before = len(self.server.sent)
        asyncio.run(self.writer.look())
        self.now += dt.timedelta(seconds=5)
        return self.server.sent[before:]

    def hold(self, team: str, device: str) -> None:
        """Let a team hold a device."""
        claim = b.held(f"of-{device}", b.result("r", device, "n0"), node_name="n0", namespace=team)
        requests = (b.request("r", "gpu"),)
        became(self.cluster, Kind.CLAIMS, str(claim.id), replace(claim, requests=requests))

    def wait(self, pod: Pod, *claims: Claim) -> None:
        """Let a pod wait."""
        for each in claims:
            became(self.cluster, Kind.CLAIMS, str(each.id), each)
        became(self.cluster, Kind.PODS, str(pod.id), pod)
        self.queue.offer(pod, 0.0)


def became(cluster: Cluster, kind: Kind, key: str, value: Object | None) -> None:
    """Apply a change."""
    cluster.apply(Change(kind=kind, key=key, value=value))


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (each for each in status["conditions"] if each["type"] == kind)
    return cast("dict[str, Any]", found)


def _team(name: str, guarantee: int = 2) -> DeviceQuota:
    return quota(name, devices(4, guarantee=guarantee), team=name)


def test_a_status_says_what_is_held_lent_and_waiting() -> None:
    scene = Scene(_team("red"))
    for index in range(3):
        scene.hold("red", f"d{index}")
    scene.wait(b.pod("p", "c", namespace="red"), b.claim("c", b.request("r", "gpu"), namespace="red"))
    ((path, status),) = scene.look()
    assert path == f"{COLLECTION}/red/status"
    assert status["resources"] == [{"deviceClass": "gpu", "held": "3", "lent": "1", "waiting": 1}]
    assert _condition(status, "Valid")["status"] == "True"
    assert _condition(status, "GuaranteesEnforced")["status"] == "True"
    assert _condition(status, "GuaranteesMet")["status"] == "True"


def test_nothing_is_written_where_nothing_changed_and_one_write_a_quota_where_something_did() -> None:
    scene = Scene(_team("red"), _team("blue"))
    assert len(scene.look()) == 2
    assert scene.look() == []
    for index in range(4):  # four changes between two looks
        scene.hold("red", f"d{index}")
    assert [path for path, _ in scene.look()] == [f"{COLLECTION}/red/status"]
    assert scene.look() == []
    assert scene.server.lists == 1


def test_of_many_quotas_a_look_writes_a_bounded_number_and_each_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_status, "MOST_WRITES", 2)
    scene = Scene(*(quota(f"q{index}", devices(4)) for index in range(5)))
    assert [len(scene.look()) for _ in range(4)] == [2, 2, 1, 0]
    assert len({path for path, _ in scene.server.sent}) == 5


def test_a_new_leader_writes_only_what_has_changed() -> None:
    scene = Scene(_team("red"), _team("blue"))
    scene.look()
    scene.lead()
    assert scene.look() == []
    scene.hold("red", "d0")
    scene.lead()
    assert [path for path, _ in scene.look()] == [f"{COLLECTION}/red/status"]


def test_what_others_write_is_written_over_after_a_while() -> None:
    scene = Scene(_team("red"))
    scene.look()
    scene.server.stored["uid-red"] = {"resources": []}
    assert [len(scene.look()) for _ in range(60)].count(1) == 1
    assert scene.server.lists == 2


def test_the_time_of_a_condition_is_that_of_its_last_change_whoever_led() -> None:
    scene = Scene(_team("red"))
    ((_, first),) = scene.look()
    scene.hold("red", "d0")
    scene.lead()
    ((_, second),) = scene.look()
    assert _condition(second, "Valid")["lastTransitionTime"] == _condition(first, "Valid")["lastTransitionTime"]
    scene.wait(b.pod("p", "c", namespace="red"), b.claim("c", b.request("r", "gpu"), namespace="red"))
    ((_, third),) = scene.look()
    met = _condition(third, "GuaranteesMet")
    assert (met["status"], met["reason"]) == ("False", "PodsWait")
    assert met["lastTransitionTime"] > _condition(first, "GuaranteesMet")["lastTransitionTime"]
    assert met["message"] == "1 of the guaranteed 2 devices of class gpu are held; pods waiting: 1"


def test_what_contradicts_is_a_condition() -> None:
    scene = Scene(replace(_team("red"), parent="nobody"), _team("blue", guarantee=0), may_reclaim=False)
    status = {path.split("/")[-2]: each for path, each in scene.look()}
    valid = _condition(status["red"], "Valid")
    assert (valid["status"], valid["reason"]) == ("False", "ParentUnknown")
    enforced = _condition(status["red"], "GuaranteesEnforced")
    assert (enforced["status"], enforced["reason"]) == ("False", "ReclaimDisabled")
    assert {each["type"] for each in status["blue"]["conditions"]} == {"Valid"}


def test_the_first_count_of_the_fleet_is_awaited_for_a_while() -> None:
    scene = Scene(_team("red", guarantee=9))
    scene.fleet = None
    assert scene.look() == []
    scene.fleet = FLEET
    ((_, status),) = scene.look()
    assert _condition(status, "Valid")["reason"] == "GuaranteesAboveFleet"
    scene.lead()
    scene.fleet = None
    for _ in range(20):
        scene.look()
    assert _condition(scene.server.stored["uid-red"], "Valid")["status"] == "True"


@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "a webhook"), Invalid(422, "Invalid", "too long")])
def test_a_status_that_is_always_refused_keeps_no_other_back_and_is_tried_ever_more_rarely(error: Exception) -> None:
    scene = Scene(_team("red"), _team("blue"))
    scene.server.refused["uid-red"] = error
    tries = []
    for _ in range(300):
        scene.look()
        tries.append(scene.server.tries["uid-red"])
    at = [n for n, (before, after) in enumerate(zip([0, *tries], tries, strict=False)) if after > before]
    assert [after - before for before, after in pairwise(at)] == [2, 4, 8, 16, 32, 64, 120]
    assert [path.split("/")[-2] for path, _ in scene.server.sent] == ["blue"]
    assert scene.server.lists == 1 + 300 // 60

    scene.server.refused.clear()
    for _ in range(120):
        scene.look()
    assert [path.split("/")[-2] for path, _ in scene.server.sent] == ["blue", "red"]


@pytest.mark.parametrize("error", [Unreachable("GET", COLLECTION, "no route"), Forbidden(403, "Forbidden", "no right")])
def test_after_an_error_the_statuses_are_listed_again(error: Exception) -> None:
    scene = Scene(_team("red"))
    scene.server.error = error
    assert scene.look() == []
    scene.server.error = None
    assert len(scene.look()) == 1


def test_series_show_quotas_and_forget_those_that_are_gone() -> None:
    scene = Scene(_team("red"))
    scene.hold("red", "d0")
    scene.look()
    labels = {"quota": "red", "device_class": "gpu", "counts": "devices"}
    value = scene.metrics.registry.get_sample_value
    assert value("dovetail_quota_held", labels) == 1
    assert value("dovetail_quota_guarantee", labels) == 2
    assert value("dovetail_quota_limit", labels) == 4
    became(scene.cluster, Kind.QUOTAS, "red", None)
    scene.look()
    assert value("dovetail_quota_held", labels) is None


def test_claims_that_ended_while_there_was_no_quota_do_not_count() -> None:
    scene = Scene(_team("red"))
    scene.hold("red", "d0")
    scene.hold("red", "d1")
    became(scene.cluster, Kind.QUOTAS, "red", None)
    became(scene.cluster, Kind.CLAIMS, "red/of-d0", None)
    became(scene.cluster, Kind.QUOTAS, "red", _team("red"))
    ((_, status),) = scene.look()
    assert status["resources"][0]["held"] == "1"
