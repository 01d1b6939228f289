"""Gangs that ask for the same are decided as one: all in one decision, each whole or not at all."""

from typing import Any

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import Batch, Budget, Gang, GangId, GangLevel, Plan, Pod, Policy, Snapshot
from solver.preemption import victim_model
from solver.preemption.dry_run import DryRun
from solver.preemption.equal_gangs import EqualGangs
from solver.verify import check
from tests.solver.preemption.test_preemption_state import served
from tests.support import builders as b
from tests.support.preemption_cases import RULES, running, victims

POLICY = Policy(preemption=RULES)


def gang(name: str, *cpus: int, **fields: object) -> tuple[Gang, tuple[Pod, ...]]:
    """A gang that needs all of its pods."""
    key = GangId("default", name, "dovetail.dev")
    pods = (b.pod(f"{name}-{number}", cpu=cpu, priority=10) for number, cpu in enumerate(cpus))
    made = replace(Gang(id=key, min_count=len(cpus)), **fields)
    return made, tuple(replace(pod, gang=key) for pod in pods)


def batch(*gangs: tuple[Gang, tuple[Pod, ...]], others: tuple[Pod, ...] = ()) -> Batch:
    return Batch(pods=(*(pod for _, pods in gangs for pod in pods), *others), gangs=tuple(each for each, _ in gangs))


def cluster(count: int) -> Snapshot:
    """Nodes of two CPUs, with two pods of one each; those of later nodes have run longer."""
    pods = [running(f"p{n}-{index}", f"n{n}", cpu=1, seconds=10 * n + index) for n in range(count) for index in (0, 1)]
    return b.snapshot([b.node(f"n{n}", cpu=2) for n in range(count)], pods)


def decided(snapshot: Snapshot, wanted: Batch) -> Plan:
    plan = solve(snapshot, wanted, POLICY, Budget(seconds=60.0, deterministic_seconds=10.0))
    assert check(snapshot, wanted, plan, POLICY) == ()
    return plan


def test_more_equal_gangs_than_preemptors_are_served_in_one_decision_and_proven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(victim_model, "MOST_PREEMPTORS", 2)
    plan = decided(cluster(8), batch(*(gang(f"g{n}", 1, 1, 1) for n in range(4))))
    assert len(served(plan)) == 12
    assert victims(plan) == sorted(f"p{n}-{index}" for n in range(6) for index in (0, 1))  # the least work is lost
    assert {each.is_proven for each in plan.preemptions} == {True}


def test_each_gang_is_served_whole_or_not_at_all() -> None:
    """Three leaders would fit, or seven of the others."""
    same = running("same", "n3", cpu=1, priority=10)
    pods = [running(f"p{n}", f"n{n}", cpu=2 - n // 3) for n in range(4)]
    snapshot = b.snapshot([b.node(f"n{n}", cpu=2) for n in range(4)], pods, same)
    plan = decided(snapshot, batch(*(gang(f"g{n}", 2, 1) for n in range(4))))
    whole = {name.split("-")[0] for name in served(plan)}
    assert len(served(plan)) == 2 * len(whole) == 2 * 2


def test_they_count_once_among_other_preemptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_model, "MOST_PREEMPTORS", 2)
    single = b.pod("single", cpu=2, priority=10)
    plan = decided(cluster(4), batch(*(gang(f"g{n}", 1, 1) for n in range(3)), others=(single,)))
    assert len(served(plan)) == 7


def kinds(snapshot: Snapshot, wanted: Batch, monkeypatch: pytest.MonkeyPatch) -> list[dict[GangId, GangId]]:
    """Return what is found equal while a batch is decided."""
    found: list[EqualGangs] = []
    chosen = EqualGangs.chosen

    def noted(equal: EqualGangs, *given: Any) -> Any:
        found.append(equal)
        return chosen(equal, *given)

    monkeypatch.setattr(EqualGangs, "chosen", noted)
    decided(snapshot, wanted)
    return [dict(each.first_of) for each in found]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(gang("h", 1, 1), id="equal"),
        pytest.param(gang("h", 1, 1, 1), id="more pods"),
        pytest.param(gang("h", 2, 1), id="other pods"),
        pytest.param(gang("h", 1, 1, min_count=1), id="not whole"),
        pytest.param(gang("h", 1, 1, levels=(GangLevel(node_label="zone", is_required=False),)), id="with a level"),
    ],
)
def test_only_gangs_that_nothing_tells_apart_are_equal(
    other: tuple[Gang, tuple[Pod, ...]], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = gang("g", 1, 1)
    is_equal = request.node.callspec.id == "equal"
    expected = {first[0].id: first[0].id, other[0].id: first[0].id} if is_equal else {}
    assert expected in kinds(cluster(4), batch(first, other), monkeypatch)


def test_a_gang_of_which_some_run_is_like_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = gang("g", 1, 1), gang("h", 1, 1)
    there = replace(running("h-old", "n0", priority=10), gang=other[0].id)
    snapshot = cluster(4)
    snapshot = replace(snapshot, pods=tuple(sorted((*snapshot.pods, there), key=lambda pod: pod.id)))
    assert kinds(snapshot, batch(first, other), monkeypatch) == [{}]


def test_a_model_of_several_preemptors_has_all_nodes_as_long_as_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six pods need six nodes, which the first model has, unless it would have too many cells."""
    nodes = [b.node(f"n{n}", cpu=2) for n in range(8)]
    snapshot = b.snapshot(nodes, [running(f"p{n}", f"n{n}", cpu=2, seconds=10 * n) for n in range(8)])
    wanted, sizes, decide_together = batch(*(gang(f"g{n}", 2, 2) for n in range(3))), [], victim_model.decide_together

    def decide(dry_run: DryRun, *rest: Any) -> object:
        sizes.append(len(dry_run.names))
        return decide_together(dry_run, *rest)

    monkeypatch.setattr(victim_model, "decide_together", decide)
    monkeypatch.setattr(victim_model, "MOST_NODES", 4)
    for cells in (1 << 13, 1):
        monkeypatch.setattr(victim_model, "_FEW_CELLS", cells)
        plan = decided(snapshot, wanted)
        assert victims(plan) == [f"p{n}" for n in range(6)]
    assert sizes[0] == 8
    assert sizes[1:]
    assert max(sizes[1:]) <= 4


def test_a_model_of_one_kind_of_pods_has_more_nodes_than_one_of_many() -> None:
    assert victim_model.most_nodes(kinds=1, units=1000, nodes=1000) == 4096  # more than there are
    assert victim_model.most_nodes(kinds=10, units=1000, nodes=1000) == 8192 // 11
    assert victim_model.most_nodes(kinds=1, units=40_000, nodes=1000) == 8192 // 41
    assert victim_model.most_nodes(kinds=200, units=0, nodes=1000) == victim_model.MOST_NODES
    assert victim_model.most_nodes(kinds=1, units=0, nodes=0) == 8192
