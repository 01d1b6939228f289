"""What the executor writes and reports: places that change hands, and what a plan waits for."""

import json
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.kube import repair_plans
from scheduler.kube.client import Client
from scheduler.kube.repair_plans import MoveState, PlanState, PlanStatus, RepairPlan, now_text
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe.metrics import Metrics
from scheduler.repair.advisor import Advisor, AdvisorParts
from scheduler.repair.executor import Executor
from scheduler.repair.plan_record import PlanRecord
from scheduler.settings import HoldLimits
from scheduler.settings.repairs import RepairBudget, RepairSettings
from scheduler.status.status_writer import StatusWriter
from solver.domain import HoldOwner, Move, Placement, Pod, PodId, Relocation, RepairGoal
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import cluster_of, gone, show, unit
from tests.support.repair_objects import NOW, evicted, move, plan

SETTINGS = RepairSettings(successor_seconds=100, budget=RepairBudget(moves_at_once=2))
TEAM = h.of_owner("rs", namespace="team")
HOLD = h.hold(
    "repair-1-1",
    h.place(TEAM, "n2", cpu=1),
    h.place(TEAM, "n3", cpu=1),
    owner=HoldOwner(api_version="v1", resource="repairplans", kind="RepairPlan", name="repair-1", uid="uid-plan"),
    deadline=int(NOW) + 600,
)
PLACE_A, PLACE_B = f"{HOLD.uid}/0", f"{HOLD.uid}/1"
MOVES = move("a", to="n2"), move("b", step=2, to="n3")


def running(name: str, **fields: Any) -> Pod:
    pod = Pod(id=PodId("team", name), uid=f"uid-{name}", node_name="n1", requests=(("cpu", 1000),))
    return h.owned(replace(pod, **fields), "rs")


class Server:
    """Keeps the plan, and writes down which pods were evicted."""

    def __init__(self, stored: RepairPlan) -> None:
        self.plan = stored
        self.evicted: list[str] = []
        self.messages: list[str] = []

    async def request(self, _: str, path: str, *, body: bytes = b"", **__: Any) -> bytes:
        if path.startswith(repair_plans.COLLECTION):
            status = msgspec.convert(json.loads(body)[-1]["value"], PlanStatus)
            self.plan = replace(self.plan, status=status)
            self.messages.append(status.message)
            return msgspec.json.encode(self.plan)
        if path.endswith("/eviction"):
            self.evicted.append(json.loads(body)["metadata"]["name"])
        return b"{}"


class Direct:
    """A writer that writes at once."""

    async def write(self, request: ApiCall[Any], *, is_status: bool = False) -> Any:
        del is_status
        return await request(timeout_seconds=1.0)


class Agreeing:
    """Stands where the moves are judged again."""

    async def still_possible(self, *_: object) -> str:
        return ""


class Ears:
    def record_moved(self, *_: object) -> None:
        """Nobody listens."""


class Stage:
    """Two pods of one ReplicaSet on n1, room for their successors on n2 and n3, and a leader; no room can be added."""

    def __init__(self, of: RepairPlan, *pods: Pod) -> None:
        self.server, self.metrics, self.now = Server(of), Metrics(), NOW
        nodes = (b.node(name, cpu=8) for name in ("n1", "n2", "n3"))
        self.cluster = cluster_of(*nodes, *pods)
        client, writer = cast("Client", self.server), cast("Writer", Direct())
        keeper = HoldKeeper((client, writer, self.cluster), HoldLimits(), Metrics(), lambda _: None, "none is left")
        parts: Any = (client, writer, self.cluster, None, None, None)
        self.executor = Executor(
            AdvisorParts(*parts),
            cast("Advisor", Agreeing()),
            keeper,
            (cast("StatusWriter", Ears()), self.metrics),
            (3600.0, lambda: self.now),
        )

    async def look(self, halted: str = "", settings: RepairSettings = SETTINGS) -> PlanStatus:
        stored = self.server.plan
        await self.executor.advance(stored, PlanRecord([stored], settings, self.now, halted))
        return self.server.plan.status

    def counted(self, result: str) -> float:
        found = self.metrics.registry.get_sample_value(
            "dovetail_repair_moves_total", {"goal": "Waiting", "result": result}
        )
        return found or 0.0


def noted() -> RepairPlan:
    return plan(*MOVES, done=[replace(evicted("a", 1), place=PLACE_A), replace(evicted("b", 1), place=PLACE_B)])


@pytest.fixture
def swapping() -> Stage:
    """The pod `a` has left, and its successor is being bound with the place of `b`, whose eviction was delayed."""
    successor = running("new", node_name="")
    stage = Stage(noted(), running("b"), successor)
    show(stage.cluster, HOLD)
    placed = Placement(pod=successor.id, pod_uid=successor.uid, node="n3", place=PLACE_B)
    stage.cluster.assume(unit(placed))
    assert not stage.cluster.holds.is_open(PLACE_B)
    return stage


def states(status: PlanStatus) -> Sequence[tuple[str, MoveState, str]]:
    return [(each.uid, each.state, each.place) for each in status.moves]


async def test_a_place_that_is_just_being_used_fails_no_move_and_is_swapped_when_that_is_seen(swapping: Stage) -> None:
    before = swapping.server.plan
    await swapping.look()
    assert (swapping.server.plan, swapping.server.evicted) == (before, [])

    show(swapping.cluster, running("new", node_name="n3", place=PLACE_B))
    assert states(await swapping.look()) == [
        ("uid-a", MoveState.EVICTING, PLACE_B),
        ("uid-b", MoveState.EVICTING, PLACE_A),
    ]


async def test_a_swap_counts_no_move_and_evictions_name_the_node_of_the_new_place(swapping: Stage) -> None:
    show(swapping.cluster, running("new", node_name="n3", place=PLACE_B))
    await swapping.look()
    assert (swapping.counted("evicting"), swapping.counted("moved")) == (0, 0)

    await swapping.look()  # what became of `a`
    with capture_logs() as lines:
        await swapping.look()
    assert swapping.server.evicted == ["b"]
    assert [(each["pod"], each["to"]) for each in lines if each["event"] == "repair_evicted"] == [("team/b", "n2")]
    assert (swapping.counted("moved"), swapping.counted("evicted")) == (1, 1)


async def test_a_binding_that_fails_leaves_the_place_to_the_pod(swapping: Stage) -> None:
    await swapping.look()
    swapping.cluster.apply(gone(running("new", node_name="")))
    await swapping.look()

    assert swapping.server.evicted == ["b"]


def judged() -> RepairPlan:
    """A plan that was approved, and has evicted nobody yet."""
    moves = tuple(
        Move(pod=each.pod, pod_uid=each.uid, source=each.source, target=each.target, step=each.step) for each in MOVES
    )
    goal, found = RepairGoal(subject="pod team/x"), Relocation(is_found=True, moves=moves)
    spec = repair_plans.spec_of(goal, found, {each.uid: "rs" for each in MOVES})
    return replace(plan(), spec=spec, status=PlanStatus(state=PlanState.RUNNING, since=now_text(NOW - 900)))


@pytest.mark.parametrize(
    ("halted", "settings"),
    [
        ("an upgrade runs: API servers of two versions answer", SETTINGS),
        ("", replace(SETTINGS, budget=RepairBudget(moves_per_hour=0))),
    ],
    ids=["a halt", "a budget"],
)
async def test_the_time_without_room_counts_from_the_first_look_that_finds_none(
    halted: str, settings: RepairSettings
) -> None:
    stage = Stage(judged(), running("a"), running("b"))
    waits = await stage.look(halted, settings)
    assert waits.message
    stage.now += 900
    found = await stage.look()

    assert (found.state, found.since) == (PlanState.RUNNING, now_text(stage.now))
    assert found.message == "no room can be held: none is left"
    stage.now += 99
    assert (await stage.look()).state is PlanState.RUNNING
    stage.now += 2
    assert (await stage.look()).state is PlanState.STOPPED


async def test_another_reason_why_no_room_can_be_held_is_the_same_wait() -> None:
    waiting = replace(judged().status, message="no room can be held: others have it", since=now_text(NOW - 50))
    stage = Stage(replace(judged(), status=waiting), running("a"), running("b"))
    found = await stage.look()

    assert (found.message, found.since) == ("no room can be held: none is left", now_text(NOW - 50))


@pytest.mark.parametrize("key", ["karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", "example.com/mine", ""])
async def test_no_pod_is_evicted_for_room_on_a_node_that_goes(key: str) -> None:
    """Its room was held before that; the pod tolerates everything, and names one key. Without a key it is cordoned."""
    tolerations = b.toleration(""), b.toleration("example.com/mine")
    pods = [running(name, tolerations=tolerations if key else ()) for name in ("a", "b")]
    stage = Stage(noted(), *pods)
    show(stage.cluster, HOLD)
    taints = (b.taint(key),) if key else ()
    show(stage.cluster, replace(b.node("n2", cpu=8, taints=taints), is_unschedulable=not key))
    found = await stage.look()
    if key == "example.com/mine":
        assert sorted(stage.server.evicted) == ["a", "b"]
        return
    assert states(found)[0] == ("uid-a", MoveState.FAILED, PLACE_A)
    assert (stage.server.evicted, stage.counted("failed")) == ([], 1)
    expected = f"pod team/a: node n2 of its successor has the taint {key or 'node.kubernetes.io/unschedulable'}"
    assert found.moves[0].message.startswith(expected)


async def test_a_node_that_goes_while_an_eviction_waits_for_its_turn_keeps_the_pod() -> None:
    stage = Stage(noted(), running("a"), running("b"))
    show(stage.cluster, HOLD)
    waits, sent = stage.executor, stage.server.request

    async def drained(_: str, path: str, **fields: Any) -> bytes:
        """The node of `b` is drained while the eviction of `a` is on its way."""
        if path.endswith("/a/eviction"):
            show(stage.cluster, b.node("n3", cpu=8, taints=(b.taint("karpenter.sh/disrupted"),)))
        return await sent(_, path, **fields)

    stage.server.request = drained  # type: ignore[method-assign]
    await waits.advance(stage.server.plan, PlanRecord([stage.server.plan], SETTINGS, stage.now))
    assert stage.server.evicted == ["a"]
    found = await stage.look()
    assert [each.state for each in found.moves] == [MoveState.EVICTING, MoveState.FAILED]
    assert stage.server.evicted == ["a"]


async def test_a_plan_says_no_longer_that_it_is_halted_when_its_pods_move() -> None:
    stage = Stage(noted(), running("a"), running("b"))
    show(stage.cluster, HOLD)
    assert (await stage.look("an upgrade runs")).message == "an upgrade runs"
    assert (await stage.look()).message == ""
    assert sorted(stage.server.evicted) == ["a", "b"]
    await stage.look()
    assert stage.server.messages == ["an upgrade runs", ""]


async def test_a_plan_says_no_longer_that_it_is_halted_when_it_waits_for_successors() -> None:
    halted = replace(noted(), status=replace(noted().status, message="an upgrade runs"))
    stage = Stage(halted)
    show(stage.cluster, HOLD)
    assert (await stage.look()).message == ""
    await stage.look()
    assert stage.server.messages == [""]


@pytest.mark.parametrize("lost", [[], [0]])
async def test_no_pod_leaves_when_room_of_a_pod_that_the_plan_is_for_is_lost(lost: list[int]) -> None:
    """One of a gang was deleted: the moves may be for nothing, and are judged again before the first one."""
    stage = Stage(judged(), running("a"), running("b"))
    wanted = h.hold("repair-1-wanted", h.place("x", "n1"), h.place("y", "n1"), owner=HOLD.owner, lost=lost)
    show(stage.cluster, HOLD, replace(wanted, deadline=HOLD.deadline))
    noted = {each.uid for each in (await stage.look()).moves}

    assert noted == (set() if lost else {"uid-a", "uid-b"})
    assert stage.server.evicted == []
