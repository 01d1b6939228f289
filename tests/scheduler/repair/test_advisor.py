"""What the advisor asks the worker: which moves count as made, and which goals were tried a short time ago."""

from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace

from scheduler.kube import repair_plans
from scheduler.kube.repair_plans import MoveState, RepairPlan
from scheduler.queue import SchedulingQueue
from scheduler.repair.advisor import Advisor, AdvisorParts
from scheduler.repair.plan_record import PlanRecord
from scheduler.settings import Settings, default
from scheduler.settings.repairs import RepairSettings
from scheduler.worker import frames
from scheduler.worker.decision_recorder import DecisionRecorder
from solver.domain import Move, PodId, Relocation, RepairGoal
from tests.support.cluster_builders import cluster_of
from tests.support.repair_objects import NOW, evicted, plan

LIMITS = frames.IsolationLimits(end_seconds=60.0, cpu_seconds=60.0, memory_limit_mib=1024)


class Worker:
    """Writes down the orders, and answers that the first so many goals that are not skipped cannot be reached."""

    def __init__(self, *subjects: str) -> None:
        self.subjects = subjects
        self.orders: list[frames.PlanRepair] = []

    async def ask_child(self, order_of: Callable[..., frames.PlanRepair], *_: object) -> frames.RepairPlanned:
        order = order_of(1, LIMITS)
        self.orders.append(order)
        tried = [each for each in self.subjects if each not in order.skipped][: frames.MOST_GOALS]
        return frames.RepairPlanned(id=1, failures=tuple((each, "no moves make enough room") for each in tried))


class Recorder:
    def begin(self, _: object) -> None:
        """Nothing is saved."""


def advisor(worker: Worker, settings: Settings) -> Advisor:
    parts: Any = (None, None, cluster_of(), SchedulingQueue(["dovetail"]), worker, cast("DecisionRecorder", Recorder()))
    return Advisor(AdvisorParts(*parts), settings, lambda: NOW)


def solved_plan(*names: str) -> RepairPlan:
    moves = tuple(
        Move(pod=PodId("team", name), pod_uid=f"uid-{name}", source="n1", target="n2", step=step)
        for step, name in enumerate(names, start=1)
    )
    spec = repair_plans.spec_of(RepairGoal(), Relocation(is_found=True, moves=moves), {})
    return replace(plan(), spec=spec)


async def test_the_moves_that_are_left_are_judged_beside_those_under_way() -> None:
    worker = Worker()
    done = [replace(evicted("a", 9, MoveState.MOVED), place="h/0"), replace(evicted("b", 1), place="h/1")]
    judged = solved_plan("a", "b", "c")
    judged = replace(judged, status=replace(judged.status, moves=tuple(done)))
    await advisor(worker, default()).still_possible(judged, PlanRecord([judged], RepairSettings(), NOW))

    (order,) = worker.orders
    assert order.planned is not None
    assert [move.pod.name for move in order.planned.moves] == ["c"]
    assert order.under_way == (("uid-b", "h/1"),)


async def test_every_goal_has_its_turn_before_one_is_tried_again() -> None:
    """A look tries 16 goals: where so many wait that they take longer than the time of a retry, all come first."""
    subjects = [f"pod team/p{number:03}" for number in range(10 * frames.MOST_GOALS)]
    worker = Worker(*subjects)
    settings = default()
    asked = advisor(worker, settings)
    interval = settings.repair.interval_seconds
    for look in range(11):
        await asked.look(PlanRecord([], settings.repair, NOW + look * interval))

    assert [len(order.skipped) for order in worker.orders[:11]] == [frames.MOST_GOALS * look for look in range(11)]
    await asked.look(PlanRecord([], settings.repair, NOW + 11 * interval))
    assert subjects[0] not in worker.orders[-1].skipped
