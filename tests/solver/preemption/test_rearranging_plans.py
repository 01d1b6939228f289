"""Pods of the same plan are placed elsewhere where that spares running pods."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from solver.domain import Batch, Plan, Pod, Policy, PreemptionRules, Snapshot
from solver.preemption import preempt
from solver.verify import check
from tests.support import builders as b
from tests.support.neighbour_builders import neighbour, term
from tests.support.preemption_cases import (
    DEVICES,
    RULES,
    decide,
    disruption_budget,
    holding,
    running,
    victims,
)


def decided(snapshot: Snapshot, *pods: Pod, rules: PreemptionRules = RULES) -> Plan:
    plan = decide(snapshot, *pods, rules=rules)
    batch = Batch(pods=tuple(sorted(pods, key=lambda pod: -pod.priority)))
    assert check(snapshot, batch, plan, Policy(preemption=rules)) == ()
    return plan


def places(plan: Plan) -> dict[str, str]:
    found = (each for preemption in plan.preemptions for each in preemption.placements)
    return {each.pod.name: each.node for each in (*plan.placements, *found)}


@contextmanager
def in_place() -> Iterator[None]:
    """No pod of the plan is placed elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preempt, "_MOST_PODS", -1)
        yield


HIGH = b.pod("high", cpu=4, priority=10)
LOW = b.pod("low", cpu=1, priority=10)
SCENE = b.snapshot(b.node("n0", cpu=2), b.node("n1", cpu=4), running("one", "n1", cpu=1))
"""One pod needs all of n1; the other one is put there too, beside the one that runs."""


def test_a_pod_of_the_plan_goes_elsewhere_for_another() -> None:
    with in_place():
        before = decided(SCENE, HIGH, LOW)
    assert (places(before), victims(before)) == ({"low": "n1"}, [])

    plan = decided(SCENE, HIGH, LOW)

    assert (places(plan), victims(plan)) == ({"low": "n0", "high": "n1"}, ["one"])
    assert preempt.STAGE in plan.report.stages
    assert {level.name.partition(":")[0] for level in plan.report.levels} == {"placed"}


def test_a_cheaper_victim_goes_where_a_pod_of_the_plan_stands() -> None:
    snapshot = b.snapshot(
        *SCENE.nodes, b.node("n2", cpu=4), *SCENE.pods, *(running(f"two-{n}", "n2", cpu=2, priority=1) for n in (0, 1))
    )
    with in_place():
        assert victims(decided(snapshot, HIGH, LOW)) == ["two-0", "two-1"]

    assert victims(decided(snapshot, HIGH, LOW)) == ["one"]


def devices() -> Snapshot:
    """n1 has four devices, one of them in use; n2 has two."""
    return b.snapshot(
        b.node("n1"),
        b.node("n2"),
        b.gpu_slice("n1", count=4),
        b.gpu_slice("n2", count=2),
        b.gpu_class(),
        holding("a", "n1", "gpu-0"),
        running("a", "n1", "a"),
        b.claim("four", b.request("gpu", count=4)),
        b.claim("single", b.request("gpu", count=1)),
    )


def pinned(name: str, *claims: str) -> Pod:
    return b.pod(name, *claims, priority=10)


def test_a_device_of_the_plan_is_taken_on_another_node() -> None:
    pods = (pinned("whole", "four"), pinned("single", "single"))
    with in_place():
        assert places(decided(devices(), *pods, rules=DEVICES)) == {"single": "n1"}

    plan = decided(devices(), *pods, rules=DEVICES)

    assert (places(plan), victims(plan)) == ({"whole": "n1", "single": "n2"}, ["a"])


NEAR = neighbour("near", app="near", affinity=[term("kubernetes.io/hostname", app="near")])


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param((HIGH, LOW, replace(NEAR, priority=10)), id="rules between pods"),
        pytest.param((HIGH, b.member(LOW, "g")), id="a gang"),
        pytest.param((HIGH, replace(LOW, priority=11)), id="a higher priority"),
    ],
)
def test_pods_that_others_depend_on_stay(pods: tuple[Pod, ...]) -> None:
    with in_place():
        before = decided(SCENE, *pods)

    assert decided(SCENE, *pods) == before


def test_a_moved_pod_counts_against_no_bound() -> None:
    low = replace(LOW, labels=(("app", "web"),))
    shielded = replace(SCENE, budgets=(disruption_budget("web", 0, app="web"),))

    assert victims(decided(shielded, HIGH, low, rules=replace(RULES, most_victims=1))) == ["one"]


FULL = b.snapshot(b.node("n0", cpu=50), running("one", "n0", cpu=1), running("two", "n0", cpu=1))
"""Beside both that run there is room for a small pod; a large one needs the room of one of them."""
LARGE, SMALL = b.pod("large", cpu=49, priority=10), b.pod("small", cpu=1)


def test_no_second_pod_is_evicted_so_that_a_waiting_pod_gets_a_place() -> None:
    plan = decided(FULL, LARGE, SMALL)

    assert len(victims(plan)) == 1
    assert places(plan) == {"large": "n0"}


def test_a_waiting_pod_keeps_its_place_where_leaving_it_out_spares_no_pod() -> None:
    elsewhere = b.snapshot(*FULL.nodes, b.node("n1", cpu=1), *FULL.pods)
    plan = decided(elsewhere, LARGE, SMALL)

    assert len(victims(plan)) == 1
    assert places(plan) == {"large": "n0", "small": "n1"}
