"""What the worker process does with a plan that breaks a rule."""

import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import pytest
from msgspec import structs

from scheduler.change import Change
from scheduler.cluster import Assumptions, Cluster, Intake, Transition
from scheduler.cluster.interning import DeviceInterner
from scheduler.worker import checked_plan, frames, serve
from scheduler.worker.change_log import without_known_pods
from scheduler.worker.serve import UNITS_PER_DEVICE
from solver import SolverCache, solve
from solver.domain import (
    Batch,
    Budget,
    Plan,
    Pod,
    PodId,
    Policy,
    SearchStatus,
    Snapshot,
    Undecided,
    UndecidedCause,
    Violation,
)
from solver.verify import VerifierCache
from solver.verify import check as honest_check
from tests.support.builders import batch, claim, gpu_class, gpu_slice, node, pod, snapshot
from tests.support.cluster_builders import seen

GOOD = tuple(pod(f"good-{index}", f"c{index}") for index in range(7))
POISON = pod("poison", "c7")
COST_UNITS = 1_000_000
WORLD = snapshot(node("n1"), gpu_slice("n1", count=8), gpu_class(), *(claim(f"c{index}") for index in range(8)))


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that finds a broken rule in every plan that places the poisonous pod."""

    def check(
        world: Snapshot, pods: Batch, plan: Plan, policy: Policy, cache: VerifierCache | None
    ) -> tuple[Violation, ...]:
        poisonous = [each for each in plan.placements if each.pod == POISON.id]
        found = tuple(Violation(rule="Poison", subject=str(each.pod), message="is poison") for each in poisonous)
        return honest_check(world, pods, plan, policy, cache) + found

    monkeypatch.setattr("solver.verify.check", check)


def decided(*pods: Pod) -> tuple[Plan | None, tuple[Violation, ...]]:
    return checked_plan.decide(WORLD, batch(*pods), Policy(), Budget(seconds=60.0), solve)


def test_a_plan_that_breaks_a_rule_is_replaced_by_the_greedy_one() -> None:
    def poisonous(world: Snapshot, pods: Batch, policy: Policy, budget: Budget) -> Plan:
        plan = solve(world, pods, policy, budget)
        first, *others = plan.placements
        return structs.replace(plan, placements=(structs.replace(first, pod=POISON.id), *others))

    plan, violations = checked_plan.decide(WORLD, batch(*GOOD), Policy(), Budget(seconds=60.0), poisonous)

    assert "Poison" in {each.rule for each in violations}
    assert plan is not None
    assert plan.report.status is SearchStatus.FALLBACK
    assert {each.pod for each in plan.placements} == {each.id for each in GOOD}


def test_where_the_greedy_plan_breaks_a_rule_too_there_is_none() -> None:
    plan, violations = decided(*GOOD, POISON)

    assert [each.rule for each in violations] == ["Poison"]
    assert plan is None


def test_a_greedy_plan_may_leave_pods_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(world: Snapshot, pods: Batch, policy: Policy, budget: Budget) -> Plan:
        return structs.replace(solve(world, pods, policy, budget), placements=())

    monkeypatch.setattr("solver.solve_greedily", _without_the_last)
    plan, violations = checked_plan.decide(WORLD, batch(*GOOD), Policy(), Budget(seconds=60.0), lying)

    assert violations
    assert plan is not None
    assert plan.undecided_pods() == (GOOD[-1].id,)


def _without_the_last(world: Snapshot, pods: Batch, policy: Policy, budget: Budget) -> Plan:
    later = pods.pods[-1].id
    plan = solve(world, pods.without({later}), policy, budget)
    return structs.replace(plan, undecided=(Undecided(later, UndecidedCause.LATER),))


def test_a_change_that_raises_ends_no_process_and_the_next_ones_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same change is fed to every process that follows: it would end each of them."""
    honest = Cluster.apply

    def apply(own: Cluster, change: Change) -> tuple[Transition, ...]:
        if isinstance(change.value, Pod) and change.value.id == POISON.id and not change.value.invalid:
            raise ZeroDivisionError
        return honest(own, change)

    monkeypatch.setattr(Cluster, "apply", apply)
    there = [structs.replace(each, node_name="n1") for each in (GOOD[0], POISON, GOOD[1])]
    changes = [frames.encode_change(each) for each in (seen(node("n1")), *map(seen, there))]
    plan = answered(changes, pod("new"))
    assert plan is not None
    assert [each.node for each in plan.placements] == ["n1"]


def test_what_does_not_survive_the_pipe_counts_as_it_did_before() -> None:
    replica, there = Cluster(), structs.replace(GOOD[0], node_name="n1", requests=(("cpu", 3),))
    unspeakable = structs.replace(there, labels=(("x", "\ud800"),))
    apply = partial(serve._apply, Intake(replica), replica, DeviceInterner())  # noqa: SLF001 - what `serve` does with each
    for each in (there, unspeakable, structs.replace(POISON, creation="\ud800")):
        apply(frames.encode_change(seen(each)))
    (found,) = replica.snapshot().pods
    assert (found.requests, bool(found.invalid)) == (there.requests, True)


def test_a_pod_that_is_named_and_not_there_any_more_comes_back_for_later() -> None:
    ours, theirs = pod("p"), structs.replace(pod("q"), uid="another")
    known = frozenset({ours.id, theirs.id, pod("r").id})
    changes = [frames.encode_change(seen(each)) for each in (node("n1"), ours, pod("q"))]
    (plan,) = answers(changes, ours, theirs, pod("r"), known=known)
    assert plan is not None
    assert [each.pod.name for each in plan.placements] == ["p"]
    assert [each.name for each in plan.undecided_pods(UndecidedCause.LATER)] == ["q", "r"]


def answered(changes: list[msgspec.Raw], *pods: Pod) -> Plan | None:
    (plan,) = answers(changes, *pods)
    return plan


def answers(
    changes: list[msgspec.Raw],
    *pods: Pod,
    solver: checked_plan.Solve = solve,
    count: int = 1,
    known: frozenset[PodId] = frozenset(),
) -> list[Plan | None]:
    """Run the process's loop in a thread: feed it, have it decide so many times, and close the pipe."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        service = serve._Service(theirs, solver)  # noqa: SLF001 - without the limit of the whole process
        loop = pool.submit(service.run, 0)
        order = frames.Decide(
            id=0,
            cost_units=COST_UNITS,
            batch=without_known_pods(Batch(pods=pods), known),
            known=known,
            assumptions=Assumptions(),
            policy=Policy(),
            seconds=60.0,
            deterministic_seconds=1.0,
            seed=0,
            workers=1,
        )
        ours.sendall(frames.encode(frames.Apply(tuple(changes))) + frames.encode(order) * count)
        stream = ours.makefile("rb")
        _, *found = (
            frames._answers.decode(stream.read(int.from_bytes(stream.read(8))))  # noqa: SLF001
            for _ in range(1 + count)
        )
        ours.shutdown(socket.SHUT_WR)
        loop.result(60)
    decisions = [each for each in found if isinstance(each, frames.Decided)]
    assert len(decisions) == count
    return [each.plan for each in decisions]


def test_batches_of_a_new_process_may_spend_more_the_more_devices_there_are() -> None:
    """Else the first pods of a large cluster, with the selectors that all pods have, are decided one by one."""
    allowed: list[int] = []

    def spending(world: Snapshot, pods: Batch, policy: Policy, budget: Budget, cache: SolverCache) -> Plan:
        allowed.append(budget.cost_units)
        cache.paid_units += 10**9
        return solve(world, pods, policy, budget)

    changes = [frames.encode_change(seen(each)) for each in (node("n1"), gpu_slice("n1", count=8))]
    plans = answers(changes, pod("a"), solver=spending, count=2)

    assert [len(each.placements) for each in plans if each is not None] == [1, 1]
    assert allowed == [COST_UNITS + 8 * UNITS_PER_DEVICE, COST_UNITS]


def test_a_plan_that_leaves_hard_pods_for_later_breaks_no_rule() -> None:
    plan, violations = checked_plan.decide(WORLD, batch(*GOOD), Policy(), Budget(seconds=60.0), _without_the_last)

    assert violations == ()
    assert plan is not None
    assert ([each.pod.name for each in plan.placements], plan.undecided_pods(UndecidedCause.LATER)) == (
        [each.id.name for each in GOOD[:-1]],
        (GOOD[-1].id,),
    )
