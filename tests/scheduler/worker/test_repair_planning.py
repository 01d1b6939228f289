"""What a look at the fleet gets to: each kind of goals has its turn."""

from scheduler.cluster.assume_cache import Assumptions
from scheduler.worker import frames
from scheduler.worker.repair_planning import repair_planned
from solver import SolverCache
from solver.domain import Batch, GoalKind, RepairTargets
from tests.support import builders as b
from tests.support.repair_cases import NO_RULES, POLICY, fleet, holder, moved

LIMITS = frames.IsolationLimits(end_seconds=60.0, cpu_seconds=60.0, memory_limit_mib=1024)


def planned(*waiting: str, skipped: tuple[str, ...] = ()) -> frames.RepairPlanned:
    """Look at a fleet where a card of a movable pod failed and pods wait that are larger than a node."""
    objects = fleet(2, 2, holder("a", "n0", "gpu-0"))
    failed = b.taint_rule("failed", b.taint("broken"), pool="n0", device_name="gpu-0")
    claims = [b.claim(name, b.request(count=3)) for name in waiting]
    pods = tuple(b.pod(name, name, priority=number) for number, name in enumerate(waiting))
    order = frames.PlanRepair(
        id=1,
        assumptions=Assumptions(),
        policy=POLICY,
        waiting=Batch(pods=pods),
        targets=RepairTargets(),
        rules=NO_RULES,
        skipped=skipped,
        seconds=60.0,
        workers=1,
        limits=LIMITS,
    )
    return repair_planned(order, SolverCache(), b.snapshot(*objects, failed, claims))


def test_however_many_pods_wait_that_no_moves_help_a_failed_card_is_left() -> None:
    found = planned(*(f"p{number}" for number in range(40)))

    assert found.goal is not None
    assert found.found is not None
    assert (found.goal.kind, moved(found.found)) == (GoalKind.DEVICES, ["a"])
    assert [subject for subject, _ in found.failures] == [f"pod default/p{number}" for number in range(39, 23, -1)]


def test_goals_that_failed_a_short_time_ago_leave_their_turn_to_the_next_ones() -> None:
    found = planned("p0", "p1", skipped=("pod default/p1",))
    assert [subject for subject, _ in found.failures] == ["pod default/p0"]
