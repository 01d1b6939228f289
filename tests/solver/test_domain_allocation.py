"""Which topology domain a gang takes of several that would do: the fullest, so that empty ones stay whole."""

import itertools
from collections.abc import Sequence

import pytest

from solver import solve, verify
from solver.domain import Batch, Node, Plan, Pod, Policy, Snapshot
from solver.model.objective import evaluate
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from solver.solution import Choice, Solution
from tests.support import builders as b
from tests.support import solver_problems as p

RACK = "example.com/rack"
LEVEL = "domain-allocation"


def racks(cpu: int = 4, **counts: int) -> list[Node]:
    return [b.node(f"{rack}{i}", cpu=cpu, labels={RACK: rack}) for rack, count in counts.items() for i in range(count)]


def running(node: str, cpu: int) -> Pod:
    return b.pod(f"running-on-{node}", node_name=node, cpu=cpu)


def members(count: int, *, cpu: int = 1, claims: bool = False) -> list[Pod]:
    names = [f"g-{i}" for i in range(count)]
    return [b.member(b.pod(name, *([name] if claims else ()), cpu=cpu), "g") for name in names]


def placed(snapshot: Snapshot, pods: Sequence[Pod], *, is_required: bool = True) -> Plan:
    gang = b.gang("g", len(pods), b.by_label(RACK, is_required=is_required))
    batch = Batch(pods=tuple(pods), gangs=(gang,))
    plan = solve(snapshot, batch, Policy(), p.PATIENT)
    assert verify.check(snapshot, batch, plan) == ()
    assert len(plan.placements) == len(pods)
    return plan


def racks_of(plan: Plan) -> set[str]:
    return {node.rstrip("0123456789") for node in p.nodes_of(plan).values()}


@pytest.mark.parametrize("full", ["a", "b", "c"])
@pytest.mark.parametrize("is_required", [True, False])
def test_a_gang_takes_the_fullest_rack(full: str, *, is_required: bool) -> None:
    snapshot = b.snapshot(racks(a=2, b=2, c=2), running(f"{full}0", 3))
    plan = placed(snapshot, members(2), is_required=is_required)
    assert racks_of(plan) == {full}
    level = next(each for each in plan.report.levels if each.name == LEVEL)
    assert (level.value, level.proven) == (0, True)


def test_a_rack_that_is_too_full_is_passed_over_and_the_next_is_proven_the_best() -> None:
    snapshot = b.snapshot(racks(a=2, b=2, c=2), running("a0", 4), running("a1", 3), running("c1", 1))
    plan = placed(snapshot, members(2, cpu=2))
    assert racks_of(plan) == {"c"}
    assert all(each.proven for each in plan.report.levels if each.name == LEVEL)


def test_of_two_empty_racks_a_gang_takes_the_smaller() -> None:
    assert racks_of(placed(b.snapshot(racks(a=4, b=2, c=3)), members(2))) == {"b"}


@pytest.mark.parametrize("full", ["a", "b"])
def test_devices_in_use_count_where_pods_ask_for_no_cpu(full: str) -> None:
    nodes = racks(a=2, b=2)
    slices = [b.gpu_slice(node.name, count=4) for node in nodes]
    used = [b.held(f"used-{i}", b.result("gpu", f"gpu-{i}", f"{full}{i}")) for i in range(2)]
    claims = [b.claim(f"g-{i}", b.request(count=2)) for i in range(2)]
    plan = placed(b.snapshot(nodes, slices, b.gpu_class(), used, claims), members(2, cpu=0, claims=True))
    assert racks_of(plan) == {full}


def test_without_a_topology_there_is_no_such_level() -> None:
    batch = Batch(pods=tuple(members(2)), gangs=(b.gang("g", 2),))
    plan = solve(b.snapshot(racks(a=2, b=2)), batch, Policy(), p.PATIENT)
    assert LEVEL not in [each.name for each in plan.report.levels]


@pytest.mark.parametrize("loads", list(itertools.permutations((0, 1, 3))))
def test_no_whole_placement_of_the_gang_costs_less_than_the_plan(loads: tuple[int, ...]) -> None:
    nodes = racks(a=2, b=3, c=2)
    snapshot = b.snapshot(nodes, [running(f"{rack}0", load) for rack, load in zip("abc", loads, strict=True) if load])
    pods = members(3, cpu=2)
    plan = placed(snapshot, pods)
    batch = Batch(pods=tuple(pods), gangs=(b.gang("g", 3, b.by_label(RACK)),))
    problem = prepare(snapshot, batch, Policy(), SolverCache())
    position = [each.name for each in plan.report.levels].index(LEVEL)
    values = []
    for rack in "abc":
        inside = [index for index, node in enumerate(problem.inventory.nodes) if node.name.startswith(rack)]
        for chosen in itertools.product(inside, repeat=3):
            free = {index: int(problem.available.room.of("cpu")[index]) for index in inside}
            if all(chosen.count(index) * 2000 <= free[index] for index in inside):
                choices = [Choice(0, node, ()) for node in chosen]
                values.append(evaluate(problem, Solution(choices))[position])
    assert plan.report.levels[position].value == max(values)
