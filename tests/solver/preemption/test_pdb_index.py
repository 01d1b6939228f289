"""PodDisruptionBudgets protect the pods of their namespace, and cost the pods of others nothing."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import (
    SYSTEM_CRITICAL_PRIORITY,
    Batch,
    LabelRequirement,
    LabelSelector,
    Plan,
    Pod,
    PodDisruptionBudget,
    Policy,
    Snapshot,
    label_selectors,
)
from solver.preemption import pdb_index
from solver.preemption.pdb_index import PdbIndex
from solver.verify import check
from tests.support import builders as b
from tests.support.preemption_cases import RULES, decide, disruption_budget, running, victims

HOST = "kubernetes.io/hostname"
NAMESPACES, KEYS, VALUES = ("default", "other"), ("app", "tier", "absent"), ("a", "b")
requirements = st.builds(
    lambda key, how, values: LabelRequirement(key=key, operator=how, values=tuple(values)),
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(VALUES), max_size=2),
)
selectors = st.lists(requirements, max_size=2).map(lambda rows: LabelSelector(requirements=tuple(rows)))
budgets = st.builds(
    lambda namespace, selector, is_stale: PodDisruptionBudget(
        namespace=namespace, name="one", selector=selector, allowed=1, is_stale=is_stale
    ),
    st.sampled_from(NAMESPACES),
    st.none() | selectors,
    st.booleans(),
)
pods = st.builds(
    lambda namespace, found: b.pod("p", namespace=namespace, labels=found),
    st.sampled_from(NAMESPACES),
    st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES)),
)


@given(running_pods=st.lists(pods, max_size=6), asked=st.lists(pods, max_size=3), found=st.lists(budgets, max_size=5))
def test_the_index_finds_the_budgets_that_select_a_pod(
    running_pods: list[Pod], asked: list[Pod], found: list[PodDisruptionBudget]
) -> None:
    over = PdbIndex(replace(b.snapshot(), pods=tuple(running_pods), budgets=tuple(found)))
    for pod in (*running_pods, *asked):
        selecting = [n for n, each in enumerate(found) if each.selects(pod.id.namespace, dict(pod.labels))]
        is_out = len(selecting) > 1 or any(found[each].is_stale for each in selecting)
        positions = over.over(pod)
        assert (len(positions) > 1) == is_out
        assert set(positions) <= set(selecting)
        assert bool(positions) == bool(selecting)


def long_budgets(count: int, rows: int, namespace: str = "other") -> tuple[PodDisruptionBudget, ...]:
    """Budgets of a namespace that hold for all of its pods, at the end of a long look."""
    return tuple(
        PodDisruptionBudget(
            namespace=namespace,
            name=f"b{number}",
            selector=LabelSelector(
                requirements=tuple(
                    LabelRequirement(key=f"none-{number}-{row}", operator="DoesNotExist") for row in range(rows)
                )
            ),
        )
        for number in range(count)
    )


def crowd(*found: PodDisruptionBudget) -> Snapshot:
    """Pods of another namespace, each with labels of its own, beside one that may go."""
    others = [b.pod(f"o{n}", namespace="other", node_name="n1", cpu=1, labels={"app": f"o{n}"}) for n in range(30)]
    low = running("low", "n2", cpu=2)
    return replace(b.snapshot(b.node("n1", cpu=64), b.node("n2", cpu=2), others, low), budgets=found)


def test_budgets_of_another_namespace_are_not_put_to_every_pod() -> None:
    snapshot, high = crowd(*long_budgets(20, 20)), b.pod("high", cpu=2, priority=10, node_selector={HOST: "n2"})
    with mock.patch.object(label_selectors, "is_met", side_effect=label_selectors.is_met) as compared:
        plan = decide(snapshot, high)
        assert check(snapshot, Batch(pods=(high,)), plan, Policy(preemption=RULES)) == ()
    assert victims(plan) == ["low"]
    assert compared.call_count == 0


def test_victims_that_are_equal_are_put_to_their_budgets_once_by_the_check() -> None:
    webs = [running(f"web-{n}", "n1", cpu=1, labels={"app": "web"}) for n in range(8)]
    found = (disruption_budget("web", 8, app="web"), *(disruption_budget(f"b{n}", 0, app=f"x{n}") for n in range(20)))
    snapshot, high = replace(b.snapshot(b.node("n1", cpu=8), webs), budgets=found), b.pod("high", cpu=8, priority=10)
    plan = decide(snapshot, high)
    assert len(victims(plan)) == len(webs)
    with mock.patch.object(label_selectors, "is_met", side_effect=label_selectors.is_met) as compared:
        assert check(snapshot, Batch(pods=(high,)), plan, Policy(preemption=RULES)) == ()
    assert compared.call_count <= len(found) + 2 * len(webs)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(pdb_index, "MOST_REQUIREMENTS", 10)
    return 10


def scene(*found: PodDisruptionBudget) -> Snapshot:
    """A pod of each namespace that would have to go."""
    lows = [replace(running("low", "n1", cpu=2, namespace=each), uid=each) for each in NAMESPACES]
    return replace(b.snapshot(b.node("n1", cpu=4), lows), budgets=found)


def asked(snapshot: Snapshot, cpu: int, priority: int = 10) -> Plan:
    return decide(snapshot, b.pod("high", cpu=cpu, priority=priority))


def test_pods_of_a_namespace_whose_budgets_are_too_long_stay_and_others_go(short: int) -> None:
    matching_nothing = disruption_budget("none", 5, app="nobody")
    many = tuple(replace(matching_nothing, namespace="other") for _ in range(short))
    (victim,) = asked(scene(*many), 2).preemptions[0].victims
    assert victim.pod.namespace == "default"
    assert victims(asked(scene(*many), 4)) == []
    assert victims(asked(scene(*many[: short // 2]), 4)) == ["low", "low"]


def test_the_system_evicts_them_all_the_same(short: int) -> None:
    many = tuple(replace(each, namespace="other") for each in long_budgets(1, short + 1))
    assert victims(asked(scene(*many), 4, SYSTEM_CRITICAL_PRIORITY)) == ["low", "low"]


def test_when_the_time_is_up_what_is_not_known_yet_forbids_every_eviction() -> None:
    none, pod = disruption_budget("none", 5, app="nobody"), running("low", "n1")
    snapshot = replace(b.snapshot(b.node("n1"), pod), budgets=(none,))
    assert PdbIndex(snapshot).over(pod) == ()
    assert len(PdbIndex(snapshot, lambda: True).over(pod)) > 1
    assert PdbIndex(replace(snapshot, budgets=()), lambda: True).over(pod) == ()
