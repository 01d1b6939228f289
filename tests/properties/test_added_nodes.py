"""Which nodes to add: the cheapest by brute force, and everything that is promised starts when it is decided again."""

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solver.decide
import solver.problem.prepare
from scheduler.simulation.adding import confirmed_nodes
from scheduler.worker.recording import Record
from solver import nodes_to_add, solve, verify, with_nodes
from solver.diagnosis import added_nodes
from solver.domain import (
    AddedNodes,
    Batch,
    Budget,
    Node,
    NodeLimit,
    Placement,
    Plan,
    Pod,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    SearchParams,
    SearchReport,
    SearchStage,
    SearchStatus,
    Snapshot,
    Unplaced,
)
from solver.preemption import what_if
from solver.problem.problem import Problem
from tests.support import builders as b
from tests.support.added_nodes import AddedNodesCase, case, cheapest, packing_case
from tests.support.large_additions import LargeCase, large_case

CASES = int(os.environ.get("ADDED_NODES_CASES", "150"))
LARGE_CASES = int(os.environ.get("ADDED_NODES_LARGE_CASES", "3"))
LARGE_NODES, LARGE_GANGS = (int(os.environ.get(f"ADDED_NODES_LARGE_{name}", "40")) for name in ("NODES", "GANGS"))
SECONDS = 60.0


def budget() -> Budget:
    return Budget(seconds=SECONDS, deterministic_seconds=20.0)


def answer(asked: AddedNodesCase) -> AddedNodes:
    return nodes_to_add(asked.snapshot, asked.batch, Policy(), asked.shapes, budget(), limits=asked.limits)


def counts(batch: Batch, placed: set[PodId]) -> tuple[int, ...]:
    """Count the placed pods by priority, the highest first."""
    found = Counter(pod.priority for pod in batch.pods if pod.id in placed)
    return tuple(found[each] for each in sorted({pod.priority for pod in batch.pods}, reverse=True))


def cluster(asked: AddedNodesCase, found: AddedNodes) -> Snapshot:
    return with_nodes(asked.snapshot, {each.name: each for each in asked.shapes}, found.nodes)


@settings(max_examples=CASES)
@given(seed=st.integers(0, 2**32))
def test_no_nodes_cost_less(seed: int) -> None:
    asked = case(seed)
    found, least = answer(asked), cheapest(asked)

    assert counts(asked.batch, {each.pod for each in found.placements}) == least.counts
    assert (found.price, len(found.nodes)) == (least.price, least.nodes)
    assert found.is_proven, "such a small case is proven"
    assert (found.least_price, found.least_count) == (least.price, least.nodes)


@settings(max_examples=CASES)
@given(seed=st.integers(0, 2**32))
def test_what_is_promised_keeps_every_rule_and_starts_when_it_is_decided_again(seed: int) -> None:
    asked = case(seed)
    found = answer(asked)
    there = cluster(asked, found)
    promised = Plan(
        placements=found.placements,
        allocations=found.allocations,
        unplaced=found.waiting,
        report=SearchReport(status=SearchStatus.OPTIMAL),
    )

    again = solve(there, asked.batch, Policy(), budget())

    assert verify.check(there, asked.batch, promised, Policy()) == ()
    placed = {each.pod for each in found.placements}
    assert counts(asked.batch, {each.pod for each in again.placements}) == counts(asked.batch, placed)


@settings(max_examples=max(1, CASES // 6))
@given(seed=st.integers(0, 2**32))
def test_columns_keep_limits_and_prove_nothing_that_is_not_so(seed: int) -> None:
    """Columns alone, against the exact model, which decides such small cases before columns are made."""
    asked = packing_case(seed)
    params = SearchParams(tiny_terms=0, tiny_packing_terms=0, without=frozenset({SearchStage.EXACT, SearchStage.LNS}))
    alone = replace(budget(), params=params)
    found = nodes_to_add(asked.snapshot, asked.batch, Policy(), asked.shapes, alone, limits=asked.limits)
    least = answer(asked)

    assert least.is_proven
    assert least.is_complete
    assert verify.check_added(found.nodes, asked.shapes, asked.limits) == ()
    placed, most = (counts(asked.batch, {each.pod for each in one.placements}) for one in (found, least))
    assert placed <= most
    if found.is_complete:
        assert placed == most
        assert found.least_price <= least.price <= found.price


@pytest.mark.parametrize("seed", range(20))
def test_without_its_dearest_node_less_starts(seed: int) -> None:
    asked = case(seed)
    found = answer(asked)
    price_of = {each.name: each.price for each in asked.shapes}
    for gone in found.nodes:
        rest = found.nodes[: found.nodes.index(gone)] + found.nodes[found.nodes.index(gone) + 1 :]
        there = with_nodes(asked.snapshot, {each.name: each for each in asked.shapes}, rest)
        again = solve(there, asked.batch, Policy(), budget())
        placed = counts(asked.batch, {each.pod for each in again.placements})
        assert placed < counts(asked.batch, {each.pod for each in found.placements}), price_of[gone.shape]


def confirmed(
    asked: LargeCase, deterministic_seconds: float, limits: tuple[NodeLimit, ...] = ()
) -> confirmed_nodes.Confirmed:
    """Find the nodes where a decision of the scheduler has so many seconds."""
    record = Record(
        cause="a test",
        snapshot=asked.snapshot,
        batch=asked.batch,
        policy=Policy(),
        seconds=SECONDS,
        deterministic_seconds=deterministic_seconds,
    )
    return confirmed_nodes.find(record, asked.batch, asked.shapes, limits)


@pytest.mark.parametrize("seed", range(LARGE_CASES))
def test_everything_that_is_promised_starts_in_a_large_cluster(seed: int) -> None:
    asked = large_case(seed, LARGE_NODES, LARGE_GANGS)
    found, there = confirmed(asked, 4.0)

    again = solve(there, asked.batch, Policy(), Budget(seconds=SECONDS, deterministic_seconds=4.0))

    promised = {each.pod for each in found.placements}
    assert promised <= {each.pod for each in again.placements}
    assert promised | {each.pod for each in found.waiting} == {pod.id for pod in asked.batch.pods}
    assert found.least_price <= found.price


@pytest.mark.parametrize("deterministic_seconds", [4.0, 1e-6])
def test_limits_hold_in_a_large_cluster_also_where_nodes_are_added_later(deterministic_seconds: float) -> None:
    """With next to no time the decision leaves pods out, and nodes are added for them within the same limits."""
    asked = large_case(0, 60, 30)
    sizes = tuple((shape.name, dict(shape.node.allocatable)["cpu"]) for shape in asked.shapes if "-a" in shape.name)
    limits = (
        NodeLimit(owner="a", resource="cpu", limit="500", left=500_000, sizes=sizes),
        NodeLimit(owner="b", resource="nodes", limit="1", left=1, sizes=(("p8-b", 1), ("p4-b", 1))),
        NodeLimit(owner="b", resource="nodes", limit="1", left=1, sizes=(("p2-b", 1), ("p1-b", 1))),
    )

    found, there = confirmed(asked, deterministic_seconds, limits)

    assert verify.check_added(found.nodes, asked.shapes, limits) == ()
    promised = Plan(
        placements=found.placements,
        allocations=found.allocations,
        unplaced=found.waiting,
        report=SearchReport(status=SearchStatus.FEASIBLE),
    )
    assert verify.check(there, asked.batch, promised, Policy()) == ()
    waiting = {each.pod for each in found.waiting}
    assert waiting.isdisjoint({each.pod for each in found.placements})
    assert any(reason.code is ReasonCode.NODE_LIMIT for each in found.waiting for reason in each.reasons)


def waiting(pod: Pod) -> Unplaced:
    return Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(Reason(code=ReasonCode.OUTRANKED, message="others"),))


@pytest.mark.parametrize(
    ("placed", "is_complete"), [("ab", True), ("abc", True), ("ac", False), ("a", False), ("c", False)]
)
def test_an_answer_is_complete_if_all_that_the_search_places_have_a_place(placed: str, *, is_complete: bool) -> None:
    """The search has placed `a` and `b`; that the decision places `c` instead of one of them makes up for nothing."""
    a, other, c = (b.pod(name) for name in "abc")
    found = AddedNodes(
        placements=tuple(
            Placement(pod=pod.id, pod_uid=pod.uid, node="n") for pod in (a, other, c) if pod.id.name in placed
        ),
        waiting=(waiting(c),),
        is_complete=True,
    )
    kept = confirmed_nodes.with_waiting(found, Batch(pods=(a, other, c)))
    assert kept.is_complete is is_complete
    assert sorted(each.pod.name for each in kept.waiting) == sorted(set("abc") - set(placed))


def test_a_decision_that_finds_less_gets_more_nodes() -> None:
    """It has next to no time here: best fit leaves out pods that the search for the cheapest nodes has placed."""
    asked = large_case(0, 60, 30)
    found, there = confirmed(asked, 1e-6)

    seconds = Budget(seconds=SECONDS, deterministic_seconds=4.0)
    cheapest_found = nodes_to_add(asked.snapshot, asked.batch, Policy(), asked.shapes, seconds)
    assert len(cheapest_found.nodes) < len(found.nodes), "the case shows nothing: the decision finds all of it"
    assert found.waiting == ()
    assert not found.is_proven
    assert found.least_price <= cheapest_found.price < found.price
    price_of = {each.name: each.price for each in asked.shapes}
    assert found.price == sum(price_of[each.shape] for each in found.nodes)
    assert len({each.name for each in found.nodes}) == len(found.nodes)
    promised = Plan(
        placements=found.placements,
        allocations=found.allocations,
        report=SearchReport(status=SearchStatus.FEASIBLE),
    )
    assert verify.check(there, asked.batch, promised, Policy()) == ()


def test_what_does_not_change_between_the_searches_and_decisions_of_an_answer_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One node of each shape, the cheapest nodes, the decision, more nodes for what it leaves out, and it again."""
    prepared, made = list[int](), list[str]()
    prepare, make_node = solver.problem.prepare.prepare, what_if._node  # noqa: SLF001 - what is counted

    def counting_prepare(snapshot: Snapshot, batch: Batch, *rest: Any, **more: Any) -> Problem:
        prepared.append(len(batch.pods))
        return prepare(snapshot, batch, *rest, **more)

    def counting_node(node: Node, name: str) -> Node:
        made.append(name)
        return make_node(node, name)

    monkeypatch.setattr(added_nodes, "prepare", counting_prepare)
    monkeypatch.setattr(solver.decide, "prepare", counting_prepare)
    monkeypatch.setattr(what_if, "_node", counting_node)
    asked = large_case(0, 60, 30)

    found, _ = confirmed(asked, 1e-6)

    every, missing = len(asked.batch.pods), prepared[3]
    assert prepared == [every, every, every, missing, every]
    assert 0 < missing < every
    assert len(made) == len(set(made)) > len(found.nodes)
