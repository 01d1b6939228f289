"""What a look at the fleet gets to: each kind of goals has its turn."""

from msgspec.structs import replace

from scheduler.cluster.assume_cache import Assumptions
from scheduler.worker import frames
from scheduler.worker.repair_planning import repair_planned
from solver import SolverCache
from solver.domain import Batch, GoalKind, RepairTargets
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.repair_cases import NO_RULES, POLICY, fleet, holder, moved, plan, wanting

LIMITS = frames.IsolationLimits(end_seconds=60.0, cpu_seconds=60.0, memory_limit_mib=1024)
ORDER = frames.PlanRepair(
    id=1,
    assumptions=Assumptions(),
    policy=POLICY,
    waiting=Batch(pods=()),
    targets=RepairTargets(),
    rules=NO_RULES,
    seconds=60.0,
    workers=1,
    limits=LIMITS,
)


def planned(*waiting: str, skipped: tuple[str, ...] = ()) -> frames.RepairPlanned:
    """Look at a fleet where a card of a movable pod failed and pods wait that are larger than a node."""
    objects = fleet(2, 2, holder("a", "n0", "gpu-0"))
    failed = b.taint_rule("failed", b.taint("broken"), pool="n0", device_name="gpu-0")
    claims = [b.claim(name, b.request(count=3)) for name in waiting]
    pods = tuple(b.pod(name, name, priority=number) for number, name in enumerate(waiting))
    order = replace(ORDER, waiting=Batch(pods=pods), skipped=skipped)
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


def test_moves_under_way_count_as_made_when_the_others_are_judged() -> None:
    """The first of two pods is ending when the second one is to go: its card is given to the pod that waits."""
    held = [holder(f"p{number}", f"n{number}", "gpu-0", owner=f"rs{number}") for number in range(4)]
    snapshot = b.snapshot(*fleet(4, 2, *held), b.claim("x", b.request(count=2)), b.claim("y", b.request(count=2)))
    goal = wanting(b.pod("x", "x"), b.pod("y", "y"))
    found = plan(snapshot, goal)
    first, second = found.moves
    ending = tuple(replace(pod, is_deleting=pod.id == first.pod) for pod in snapshot.pods)
    ((_, allocation),) = first.allocations
    device = allocation.results[0].device.device
    matcher = h.of_owner("rs", namespace=b.NAMESPACE)
    hold = h.hold("step", h.place(matcher, first.target, device, cpu=1))
    snapshot = h.holding(replace(snapshot, pods=ending), replace(hold, owner=replace(hold.owner, kind="RepairPlan")))
    judged = replace(ORDER, goal=goal, planned=replace(found, moves=(second,)))
    under_way = ((first.pod_uid, f"{hold.uid}/0"),)

    assert repair_planned(judged, SolverCache(), snapshot).violations != ()
    assert repair_planned(replace(judged, under_way=under_way), SolverCache(), snapshot).violations == ()
    # The room of the first successor is its own: nobody else may be planned to come there.
    taken = replace(second, target=first.target, allocations=((second.allocations[0][0], allocation),))
    twice = replace(judged, under_way=under_way, planned=replace(found, moves=(taken,)))
    assert repair_planned(twice, SolverCache(), snapshot).violations != ()
