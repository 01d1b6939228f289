"""What PodGroups are told about themselves, and how often."""

import asyncio
import json
import sys
from typing import Any, cast

import msgspec
import pytest

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster, Unit
from scheduler.cluster.unit import Bound, PartlyBound, Undone
from scheduler.kube.client import Client
from scheduler.kube.errors import Unreachable
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics
from scheduler.settings import Logging
from scheduler.status.pod_groups import PodGroupStatusWriter
from scheduler.status.status_writer import StatusWriter
from solver.domain import GangId, Pod, PodGroup, Reason, ReasonCode, Unplaced
from tests.support import builders as b
from tests.support.cluster_builders import became, seen
from tests.support.idle_loop import until_idle

GANG = GangId(b.NAMESPACE, "g", "scheduling.k8s.io")
COLLECTION = "/apis/scheduling.k8s.io/v1beta1/podgroups"
SCHEDULED = "PodGroupInitiallyScheduled"
CONFLICT = Reason(code=ReasonCode.CONFLICT, message="another client was faster")


class Server:
    """Stands where conditions are written."""

    tells_inventory = True
    shown = StatusWriter.shown

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.fails = False

    async def request(self, method: str, path: str, *, body: bytes, **_: object) -> bytes:
        if self.fails:
            raise Unreachable("PATCH", path, "no route")
        (condition,) = msgspec.json.decode(body)["status"]["conditions"]
        self.sent.append((f"{method} {path}", condition))
        return b""

    async def write(self, request: ApiCall[Any], *, is_status: bool) -> object:
        assert is_status
        return await request(timeout_seconds=1.0)

    def record_partly_bound(self, pod: Pod, message: str) -> None:
        self.sent.append((f"EVENT {pod.id.name}", {"message": message}))


class Scene:
    """
    Groups with a server, a mirror with a gang of two pods of which `bound` have a node, and a clock.

    With a `minimum` of 0 its PodGroup has the basic policy.
    """

    def __init__(
        self,
        bound: int = 0,
        conditions: tuple[tuple[str, str, str, str], ...] = (),
        collection: str = COLLECTION,
        minimum: int = 2,
    ) -> None:
        self.server, self.cluster, self.now = Server(), Cluster(), 100.0
        self.metrics = Metrics()
        told = (cast("StatusWriter", self.server), self.metrics)
        writer, client = cast("Writer", self.server), cast("Client", self.server)
        self.groups = PodGroupStatusWriter(client, writer, self.cluster, told, collection, clock=lambda: self.now)
        group = PodGroup(id=GANG, uid="uid-g", min_count=minimum, generation=1, conditions=conditions)
        self.cluster.apply(Change(kind=Kind.POD_GROUPS, key="default/g", value=group))
        self.pods = {}
        for index in range(2):
            pod = b.pod(f"p{index}", node_name="n1" if index < bound else "")
            pod = msgspec.structs.replace(pod, gang=GANG)
            self.pods[pod.id] = pod
            self.cluster.apply(seen(pod))
        placements = tuple(b.placement(pod, "n1") for pod in self.pods.values())
        self.gangs = self.cluster.with_gangs(b.batch(*self.pods.values())).gangs
        self.unit = Unit(placements=placements, gangs=self.gangs if minimum else ())

    async def written(self) -> list[tuple[str, dict[str, Any]]]:
        """What has been sent since the last time."""
        running = asyncio.create_task(self.groups.run())
        await until_idle()
        running.cancel()
        sent, self.server.sent = self.server.sent, []
        return sent


async def test_a_gang_that_is_bound_is_scheduled() -> None:
    scene = Scene(bound=2)
    scene.groups.settled(Bound(unit=scene.unit, seconds=1.0), scene.pods)
    ((path, condition),) = await scene.written()
    assert path == "PATCH /apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/g/status"
    assert (condition["type"], condition["status"], condition["reason"]) == (SCHEDULED, "True", "Scheduled")
    assert condition["observedGeneration"] == 1


async def test_a_condition_that_is_true_stays_true() -> None:
    scene = Scene(conditions=((SCHEDULED, "True", "Scheduled", ""),))
    scene.groups.report_unschedulable(GANG, "no room")
    assert await scene.written() == []


async def test_a_group_without_a_minimum_is_scheduled_once_its_first_pods_are_bound() -> None:
    scene = Scene(bound=1, minimum=0)
    scene.groups.report_unschedulable(GANG, "no claim yet")
    assert len(await scene.written()) == 1
    first, last = scene.unit.placements
    alone = Unit(placements=(first,))
    scene.groups.settled(Bound(unit=alone, seconds=1.0), scene.pods)
    ((_, condition),) = await scene.written()
    assert (condition["status"], condition["reason"]) == ("True", "Scheduled")
    assert condition["message"] == "its first pods are bound, no number is required"
    scene.groups.decided(b.batch(scene.pods[last.pod], gangs=scene.gangs), b.plan(b.unplaced(scene.pods[last.pod])))
    assert await scene.written() == []


async def test_a_group_without_a_minimum_is_scheduled_where_a_part_of_a_unit_is_bound() -> None:
    scene = Scene(bound=1, minimum=0)
    first, last = scene.unit.placements
    nothing = PartlyBound(unit=scene.unit, bound=(), unbound=((first, CONFLICT), (last, CONFLICT)))
    scene.groups.settled(nothing, scene.pods)
    assert await scene.written() == []
    scene.groups.settled(PartlyBound(unit=scene.unit, bound=(first,), unbound=((last, CONFLICT),)), scene.pods)
    assert [each["status"] for _, each in await scene.written()] == ["True"]


@pytest.mark.parametrize(
    ("minimum", "bound", "statuses"), [(0, 0, ["False"]), (0, 1, []), (2, 1, ["False"]), (2, 2, [])]
)
async def test_a_further_pod_that_waits_does_not_make_a_placed_group_wait(
    minimum: int, bound: int, statuses: list[str]
) -> None:
    scene = Scene(bound=bound, minimum=minimum)
    further = b.unplaced(b.pod("further"), ReasonCode.GANG_UNPLACED, "no room")
    pod = msgspec.structs.replace(b.pod("further"), gang=GANG)
    scene.groups.decided(b.batch(pod, gangs=scene.gangs), b.plan(further))
    assert [each["status"] for _, each in await scene.written()] == statuses


async def test_that_claims_are_missing_is_written_only_where_they_do_not_come_soon() -> None:
    scene = Scene(minimum=0)
    (pod, _) = scene.pods.values()
    missing = b.plan(b.unplaced(pod, ReasonCode.CLAIM_MISSING, "the claim does not exist yet"))
    scene.groups.decided(b.batch(pod, gangs=scene.gangs), missing)
    assert await scene.written() == []
    scene.groups.settled(Bound(unit=Unit(placements=scene.unit.placements[:1]), seconds=1.0), scene.pods)
    assert [each["status"] for _, each in await scene.written()] == ["True"]

    scene = Scene(minimum=0)
    scene.groups.decided(b.batch(pod, gangs=scene.gangs), missing)
    assert await scene.written() == []
    scene.now += 2.0
    assert [each["message"] for _, each in await scene.written()] == ["the claim does not exist yet"]


async def test_what_was_noted_while_another_replica_led_is_not_written() -> None:
    scene = Scene()
    scene.groups.report_unschedulable(GANG, "no room")
    scene.groups.inherit({"dovetail"})
    assert await scene.written() == []


async def test_a_server_of_1_36_has_the_old_type_and_each_reads_its_own() -> None:
    conditions = ((SCHEDULED, "True", "Scheduled", ""),)
    scene = Scene(bound=2, conditions=conditions, collection=COLLECTION.replace("v1beta1", "v1alpha2"))
    scene.groups.settled(Bound(unit=scene.unit, seconds=1.0), scene.pods)
    ((path, condition),) = await scene.written()
    assert (path.split("/")[3], condition["type"]) == ("v1alpha2", "PodGroupScheduled")


def test_a_composite_group_is_warned_about_once(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Logging(), sys.stdout)
    scene = Scene()
    for name, parent in (("a", "serving"), ("b", "serving"), ("c", ""), ("d", "training")):
        group = PodGroup(id=GangId("default", name, "scheduling.k8s.io"), parent=parent)
        (transition,) = scene.cluster.apply(Change(kind=Kind.POD_GROUPS, key=f"default/{name}", value=group))
        scene.groups.see(transition)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["event"], each["composite"]) for each in said] == [
        (logs.COMPOSITE_POD_GROUP, "default/serving"),
        (logs.COMPOSITE_POD_GROUP, "default/training"),
    ]


def test_nothing_is_kept_of_a_composite_group_that_ended(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Logging(), sys.stdout)
    scene = Scene()
    child = PodGroup(id=GangId("default", "a", "scheduling.k8s.io"), uid="uid-a", parent="serving")
    changed = msgspec.structs.replace(child, min_count=2)
    for value in (child, changed, None, changed):
        (transition,) = scene.cluster.apply(Change(kind=Kind.POD_GROUPS, key="default/a", value=value))
        scene.groups.see(transition)
    assert len(capsys.readouterr().out.splitlines()) == 2


async def test_a_text_that_changes_alone_is_written_once_a_minute() -> None:
    scene = Scene()
    scene.groups.report_unschedulable(GANG, "7 nodes lack room")
    assert len(await scene.written()) == 1
    scene.groups.report_unschedulable(GANG, "6 nodes lack room")
    scene.groups.report_unschedulable(GANG, "5 nodes lack room")
    assert await scene.written() == []
    scene.now += 61
    assert [each["message"] for _, each in await scene.written()] == ["5 nodes lack room"]
    scene.now += 61
    assert await scene.written() == []


async def test_a_text_that_came_back_is_not_written_again() -> None:
    scene = Scene()
    scene.groups.report_unschedulable(GANG, "7 nodes lack room")
    assert len(await scene.written()) == 1
    scene.groups.report_unschedulable(GANG, "6 nodes lack room")
    assert await scene.written() == []
    scene.groups.report_unschedulable(GANG, "7 nodes lack room")
    assert await scene.written() == []
    scene.now += 61
    assert await scene.written() == []


async def test_a_new_reason_is_written_at_once_and_what_was_put_off_is_dropped() -> None:
    scene = Scene(bound=2)
    scene.groups.report_unschedulable(GANG, "7 nodes lack room")
    assert len(await scene.written()) == 1
    scene.groups.report_unschedulable(GANG, "6 nodes lack room")
    assert await scene.written() == []
    scene.groups.settled(Bound(unit=scene.unit, seconds=1.0), scene.pods)
    assert [each["reason"] for _, each in await scene.written()] == ["Scheduled"]
    scene.now += 61
    assert await scene.written() == []


async def test_what_was_put_off_goes_with_its_group() -> None:
    scene = Scene()
    scene.groups.report_unschedulable(GANG, "7 nodes lack room")
    assert len(await scene.written()) == 1
    scene.groups.report_unschedulable(GANG, "6 nodes lack room")
    assert await scene.written() == []
    group = scene.cluster.pod_group(GANG)
    assert group is not None
    scene.groups.see(became(group, None))
    scene.now += 61
    assert await scene.written() == []


async def test_what_the_group_says_already_is_not_written() -> None:
    scene = Scene(conditions=((SCHEDULED, "False", "Unschedulable", "no room"),))
    scene.groups.report_unschedulable(GANG, "no room")
    assert await scene.written() == []


async def test_a_gang_that_was_undone_waits() -> None:
    scene = Scene()
    scene.groups.settled(Undone(unit=scene.unit, reasons=(CONFLICT,)), scene.pods)
    ((_, condition),) = await scene.written()
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "Unschedulable",
        "another client was faster",
    )


async def test_a_partly_bound_gang_is_counted_and_reported() -> None:
    scene = Scene(bound=2)  # the one that failed is still assumed at its node
    first, last = scene.unit.placements
    scene.groups.settled(PartlyBound(unit=scene.unit, bound=(first,), unbound=((last, CONFLICT),)), scene.pods)
    (event, condition) = await scene.written()
    assert event[0] == "EVENT p1"
    assert "gang g is partly bound: 1 of 2 required pods are bound; pod p1 is tried again" in event[1]["message"]
    assert (condition[1]["status"], condition[1]["reason"]) == ("False", "SchedulerError")
    assert scene.metrics.registry.get_sample_value("dovetail_gangs_partly_bound_total") == 1


LACKS = "it waits for members: 1 of 2 exist: create the missing pods again, or delete the running ones to free"


async def test_a_member_that_is_gone_is_not_tried_again_but_waited_for() -> None:
    scene = Scene(bound=1)
    first, last = scene.unit.placements
    scene.cluster.apply(Change(kind=Kind.PODS, key=str(last.pod), value=None))
    scene.groups.settled(PartlyBound(unit=scene.unit, bound=(first,), unbound=((last, CONFLICT),)), scene.pods)
    ((path, condition),) = await scene.written()
    assert path.startswith("PATCH")
    assert f"gang g is partly bound: 1 of 2 required pods are bound; {LACKS}" in condition["message"]
    assert condition["reason"] == "Unschedulable"


async def test_a_gang_that_runs_in_part_says_at_once_that_the_last_missing_member_is_gone() -> None:
    scene = Scene(bound=1)
    first, last = scene.unit.placements
    scene.groups.settled(PartlyBound(unit=scene.unit, bound=(first,), unbound=((last, CONFLICT),)), scene.pods)
    assert "p1 is tried again" in (await scene.written())[0][1]["message"]
    scene.groups.left(GANG)
    assert await scene.written() == []

    scene.cluster.apply(Change(kind=Kind.PODS, key=str(last.pod), value=None))
    scene.groups.left(GANG)

    ((_, condition),) = await scene.written()
    assert LACKS in condition["message"]
    assert "tried again" not in condition["message"]


async def test_a_gang_of_which_nothing_runs_says_nothing_when_a_member_goes() -> None:
    scene = Scene()
    scene.cluster.apply(Change(kind=Kind.PODS, key="default/p1", value=None))
    scene.groups.left(GANG)
    assert await scene.written() == []


async def test_why_a_gang_is_not_placed_is_taken_from_the_plan() -> None:
    scene = Scene()
    batch = b.batch(*scene.pods.values(), gangs=scene.unit.gangs)
    plan = b.plan(*(b.unplaced(pod, ReasonCode.GANG_UNPLACED, "too few fit") for pod in scene.pods.values()))
    scene.groups.decided(batch, plan)
    assert [each["message"] for _, each in await scene.written()] == ["too few fit"]


async def test_the_message_begins_with_what_kube_scheduler_says_of_the_group() -> None:
    scene = Scene()
    theirs = "pod group is unschedulable, minCount (2) cannot be satisfied"
    reasons = (
        Reason(code=ReasonCode.PREEMPTING, message="waits for p9", status="not about the group"),
        Reason(code=ReasonCode.GANG_UNPLACED, message="too few fit", status=theirs),
    )
    waiting = (Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=reasons) for pod in scene.pods.values())
    scene.groups.decided(b.batch(*scene.pods.values(), gangs=scene.unit.gangs), b.plan(*waiting))
    assert [each["message"] for _, each in await scene.written()] == [f"{theirs}; waits for p9; too few fit"]


async def test_a_plan_that_places_some_of_a_gang_says_nothing_of_the_others() -> None:
    scene = Scene()
    first, last = scene.pods.values()
    scene.groups.decided(
        b.batch(first, last, gangs=scene.unit.gangs), b.plan(b.placement(first, "n1"), b.unplaced(last))
    )
    assert await scene.written() == []


@pytest.mark.parametrize("source", ["dovetail.dev", "scheduling.x-k8s.io"])
async def test_gangs_without_an_object_of_the_server_have_no_condition(source: str) -> None:
    scene = Scene()
    scene.groups.report_unschedulable(GangId(b.NAMESPACE, "g", source), "no room")
    assert await scene.written() == []


async def test_a_write_that_fails_is_no_end() -> None:
    scene = Scene()
    scene.server.fails = True
    scene.groups.report_unschedulable(GANG, "no room")
    assert await scene.written() == []
    scene.server.fails = False
    assert await scene.written() == []
    scene.now += 61
    assert len(await scene.written()) == 1


async def test_an_exception_at_one_gang_keeps_no_other_from_being_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    other = GangId(b.NAMESPACE, "other", "scheduling.k8s.io")
    group = PodGroup(id=other, uid="uid-other", min_count=2, generation=1)
    scene.cluster.apply(Change(kind=Kind.POD_GROUPS, key="default/other", value=group))
    found = scene.cluster.pod_group

    def failing(gang: GangId) -> PodGroup | None:
        if gang == GANG:
            raise RuntimeError("a defect")
        return found(gang)

    monkeypatch.setattr(scene.cluster, "pod_group", failing)
    scene.groups.report_unschedulable(GANG, "for room")
    scene.groups.report_unschedulable(other, "for room")

    assert [path.rpartition("podgroups/")[2] for path, _ in await scene.written()] == ["other/status"]
    assert scene.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "pod_groups"}) == 1
