"""What protects pods from which preemptors; where a protection does not bind, its pods are evicted last."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from solver.domain import (
    SYSTEM_CRITICAL_PRIORITY,
    Batch,
    Gang,
    Plan,
    Pod,
    Policy,
    PreemptionRules,
    Protection,
    Snapshot,
)
from solver.verify import check
from tests.support import builders as b
from tests.support.preemption_cases import DEVICES, NOW, RULES, decide, disruption_budget, holding, running, victims

NODE = b.node("n1", cpu=2)
LABELS = {"app": "web"}
LOW = running("low", "n1", cpu=2, labels=LABELS, priority=-1000)


def asking(priority: int) -> Pod:
    return b.pod("asks", cpu=2, priority=priority)


def decided(snapshot: Snapshot, pod: Pod, rules: PreemptionRules = RULES) -> Plan:
    plan = decide(snapshot, pod, rules=rules)
    assert check(snapshot, Batch(pods=(pod,)), plan, Policy(preemption=rules)) == ()
    return plan


def annotated() -> Snapshot:
    return b.snapshot(NODE, replace(LOW, is_preemptible=False))


def two_budgets() -> Snapshot:
    budgets = tuple(disruption_budget(name, 5, **LABELS) for name in ("one", "two"))
    return replace(b.snapshot(NODE, LOW), budgets=budgets)


def a_budget_that_allows_none() -> Snapshot:
    return replace(b.snapshot(NODE, LOW), budgets=(disruption_budget("one", 0, **LABELS),))


def a_stale_budget() -> Snapshot:
    return replace(b.snapshot(NODE, LOW), budgets=(replace(disruption_budget("one", 5, **LABELS), is_stale=True),))


def a_gang_with_a_member_of_another_scheduler() -> Snapshot:
    members = [b.member(LOW, "g"), b.member(running("other", "n2", cpu=1), "g")]
    members[1] = replace(members[1], scheduler_name="default-scheduler")
    gang = Gang(id=b.gang("g", 2).id, min_count=2, member_count=2, running_count=2)
    return replace(b.snapshot(NODE, b.node("n2", cpu=1), members), gangs=(gang,))


SHIELDS = {
    "annotation": annotated,
    "two budgets": two_budgets,
    "a budget that allows none": a_budget_that_allows_none,
    "a stale budget": a_stale_budget,
    "a gang with a member of another scheduler": a_gang_with_a_member_of_another_scheduler,
}


@pytest.mark.parametrize("scene", SHIELDS.values(), ids=SHIELDS)
def test_a_pod_that_shields_itself_stays_for_users_and_goes_for_the_system(scene: Callable[[], Snapshot]) -> None:
    assert victims(decided(scene(), asking(SYSTEM_CRITICAL_PRIORITY - 1))) == []
    plan = decided(scene(), asking(SYSTEM_CRITICAL_PRIORITY))
    assert victims(plan) == ["low"]
    assert plan.preemptions[0].victims[0].breaks_budgets


@pytest.mark.parametrize(
    ("scene", "protection"),
    [
        pytest.param("annotation", Protection(annotation=False), id="annotation"),
        pytest.param("two budgets", Protection(budgets=False), id="budgets"),
        pytest.param("a gang with a member of another scheduler", Protection(gangs=False), id="gangs"),
    ],
)
def test_a_profile_says_what_protects(scene: str, protection: Protection) -> None:
    for name, made in SHIELDS.items():
        rules = replace(RULES, protection=protection)
        is_hit = name == scene or (not protection.budgets and "budget" in name)
        plan = decided(made(), asking(10), rules)
        assert victims(plan) == (["low"] if is_hit else []), name
        assert all(each.breaks_budgets is not protection.budgets for p in plan.preemptions for each in p.victims)


def test_a_profile_says_for_which_priorities_a_pod_is_protected() -> None:
    rules = replace(RULES, binds_below=100)
    assert victims(decided(annotated(), asking(99), rules)) == []
    assert victims(decided(annotated(), asking(100), rules)) == ["low"]


def test_pods_that_are_to_be_spared_go_last() -> None:
    nodes = [b.node("n1", cpu=2), b.node("n2", cpu=2)]
    plain = running("plain", "n2", cpu=2, priority=500)
    spared = replace(b.snapshot(nodes, replace(LOW, is_preemptible=False), plain))
    assert victims(decided(spared, asking(SYSTEM_CRITICAL_PRIORITY))) == ["plain"]


def test_of_those_that_are_to_be_spared_the_fewest_go() -> None:
    nodes = [b.node("n1", cpu=4), b.node("n2", cpu=4)]
    two = [replace(running(f"a{n}", "n1", cpu=2, priority=0), is_preemptible=False) for n in range(2)]
    one = [
        replace(running("b0", "n2", cpu=3, priority=5), is_preemptible=False),
        running("b1", "n2", cpu=1, priority=5),
    ]
    pod = b.pod("asks", cpu=4, priority=SYSTEM_CRITICAL_PRIORITY)
    assert victims(decided(b.snapshot(nodes, two, one), pod)) == ["b0", "b1"]


def test_a_pod_that_is_started_again_and_again_is_no_shield_against_the_system() -> None:
    objects: tuple[Any, ...] = (b.node("n1"), b.gpu_slice("n1", count=1), b.gpu_class(), b.claim("mine"))
    low, held = running("low", "n1", "c", seconds=10), holding("c", "n1", "gpu-0", consumers=("low",))
    rules = replace(DEVICES, minimum_run_seconds=300, now=NOW)
    snapshot = b.snapshot(*objects, held, low)
    assert victims(decided(snapshot, b.pod("asks", "mine", priority=10), rules)) == []
    assert victims(decided(snapshot, b.pod("asks", "mine", priority=SYSTEM_CRITICAL_PRIORITY), rules)) == ["low"]


def test_what_the_same_plan_places_is_evicted_for_no_pod() -> None:
    system, late = (
        b.pod("system", cpu=2, priority=SYSTEM_CRITICAL_PRIORITY + 1),
        b.pod("late", cpu=2, priority=SYSTEM_CRITICAL_PRIORITY),
    )
    plan = decide(b.snapshot(NODE), system, late)
    assert [each.pod.name for each in plan.placements] == ["system"]
    assert victims(plan) == []


def test_a_plan_that_breaks_a_budget_for_a_user_is_refused() -> None:
    plan = decide(two_budgets(), asking(SYSTEM_CRITICAL_PRIORITY))
    user = asking(10)
    rules = {each.rule for each in check(two_budgets(), Batch(pods=(user,)), plan, Policy(preemption=RULES))}
    assert "VictimBudget" in {str(each) for each in rules}
