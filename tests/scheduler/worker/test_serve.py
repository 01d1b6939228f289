"""What the solver's process does with a plan that breaks a rule."""

import pytest
from msgspec import structs

from scheduler.worker import serve
from solver import solve, solve_greedily
from solver.domain import Batch, Budget, Plan, Pod, Policy, ReasonCode, Snapshot, Violation
from solver.verify import check as honest_check
from tests.support.builders import batch, claim, gang, gpu_class, gpu_slice, member, node, pod, snapshot

GOOD = tuple(pod(f"good-{index}", f"c{index}") for index in range(7))
POISON = pod("poison", "c7")
WORLD = snapshot(node("n1"), gpu_slice("n1", count=8), gpu_class(), *(claim(f"c{index}") for index in range(8)))


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checker that finds a broken rule in every plan that places the poisonous pod."""

    def check(world: Snapshot, pods: Batch, plan: Plan, policy: Policy) -> tuple[Violation, ...]:
        poisonous = [each for each in plan.placements if each.pod == POISON.id]
        found = tuple(Violation(rule="Poison", subject=str(each.pod), message="is poison") for each in poisonous)
        return honest_check(world, pods, plan, policy) + found

    monkeypatch.setattr("scheduler.worker.serve.verify.check", check)


def decided(*pods: Pod) -> tuple[Plan | None, tuple[Violation, ...]]:
    return serve.decide(WORLD, batch(*pods), Policy(), Budget(seconds=60.0), solve)


def failed(plan: Plan) -> set[str]:
    return {
        each.pod.name for each in plan.unplaced if any(why.code is ReasonCode.SOLVER_FAILED for why in each.reasons)
    }


def test_a_pod_whose_plan_breaks_a_rule_takes_no_more_than_its_half_with_it() -> None:
    plan, violations = decided(*GOOD, POISON)

    assert [each.rule for each in violations] == ["Poison"]
    assert plan is not None
    assert len(plan.placements) == 4
    assert failed(plan) == {"good-4", "good-5", "good-6", "poison"}


@pytest.mark.parametrize("first", range(7), ids=str)
def test_a_gang_is_never_cut_in_two_when_a_batch_is_halved(first: int) -> None:
    """Each half would place it by itself, and by what a half sees it is too small; nothing of it may fail alone."""
    pods = [*GOOD]
    pods[first:first] = [POISON]
    members = {pods[index].id for index in (2, 4, 5)}
    mixed = tuple(member(each, "g") if each.id in members else each for each in pods)
    plan, _ = serve.decide(WORLD, batch(*mixed, gangs=[gang("g", 3)]), Policy(), Budget(seconds=60.0), solve)

    assert plan is not None
    assert len({each.pod for each in plan.placements} & members) in {0, 3}
    assert len(members & {each.pod for each in plan.unplaced if each.reasons[0].code is ReasonCode.SOLVER_FAILED}) in {
        0,
        3,
    }
    told = {each.pod for each in plan.placements} | {each.pod for each in plan.unplaced}
    assert told == {each.id for each in pods}


def test_a_gang_whose_plan_breaks_a_rule_leaves_the_others_alone() -> None:
    poisonous = (*(member(each, "g") for each in GOOD[:3]), member(POISON, "g"))
    plan, _ = serve.decide(
        WORLD, batch(*poisonous, *GOOD[3:], gangs=[gang("g", 4)]), Policy(), Budget(seconds=60.0), solve
    )
    assert plan is not None
    assert {each.pod for each in plan.placements} == {each.id for each in GOOD[3:]}


def test_what_is_held_and_who_is_overdue_stays_so_in_a_half(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Batch] = []

    def greedy(world: Snapshot, pods: Batch, policy: Policy, budget: Budget) -> Plan:
        seen.append(pods)
        return solve_greedily(world, pods, policy, budget)

    monkeypatch.setattr(serve, "solve_greedily", greedy)
    whole = Batch(pods=(*GOOD, POISON), overdue=(GOOD[0].id,))
    serve.decide(WORLD, whole, Policy(), Budget(seconds=60.0), solve)
    assert [each.overdue for each in seen] == [whole.overdue] * len(seen)


def test_alone_it_gets_no_plan() -> None:
    plan, _ = decided(POISON)
    assert plan is None


def test_a_plan_that_leaves_hard_pods_for_later_breaks_no_rule() -> None:
    def leaving(world: Snapshot, pods: Batch, policy: Policy, budget: Budget) -> Plan:
        later = (pods.pods[-1].id,)
        return structs.replace(solve(world, pods.without(later), policy, budget), later=later)

    plan, violations = serve.decide(WORLD, batch(*GOOD), Policy(), Budget(seconds=60.0), leaving)

    assert violations == ()
    assert plan is not None
    assert ([each.pod.name for each in plan.placements], plan.later) == (
        [each.id.name for each in GOOD[:-1]],
        (GOOD[-1].id,),
    )
