"""The exhaustive search for one pod gives what relaxation and exact model prove, and no plan that breaks a rule."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from e2e.bench import asks, clusters
from e2e.bench.clusters import Share
from solver import SolverCache, solve
from solver.domain import (
    PACK,
    SPREAD,
    TOPOLOGY,
    Batch,
    Device,
    ExpectedPod,
    Plan,
    Policy,
    SearchParams,
    SearchStage,
    Snapshot,
)
from solver.model.fragmentation import Uses
from solver.model.objective import CountedSolution
from solver.problem.problem import Problem
from solver.search import exhaustive
from solver.solution import Solution
from solver.verify import check
from tests.support import builders as b
from tests.support.expected_pods import expecting, kinds_of
from tests.support.solver_problems import PATIENT
from tests.support.strategies import Situation, situations

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], max_examples=100)
MODELS = replace(PATIENT, params=SearchParams(without=frozenset({SearchStage.EXHAUSTIVE})))
POLICIES = tuple(
    Policy(
        levels=levels,
        group_labels=("zone",),
        group_attributes=("gpu.example.com/numa",),
        counts_devices=levels == TOPOLOGY,
    )
    for levels in (PACK, SPREAD, TOPOLOGY)
)


def assert_models_agree(snapshot: Snapshot, batch: Batch, policy: Policy) -> Plan:
    """Solve with both, and compare what is proven; return the plan of the exhaustive search."""
    plan, other = solve(snapshot, batch, policy, PATIENT), solve(snapshot, batch, policy, MODELS)
    assert check(snapshot, batch, plan, policy) == ()
    assert SearchStage.EXHAUSTIVE not in other.report.stages
    proven = [level.name for level in other.report.levels if level.proven]
    values = {each.name: each.value for each in plan.report.levels}
    assert [values[name] for name in proven] == [each.value for each in other.report.levels if each.name in proven]
    assert len(plan.placements) == len(other.placements)
    return plan


@PROPERTY
@given(situation=situations(most_pods=1), policy=st.sampled_from(POLICIES))
def test_one_pod_gets_what_the_models_prove(situation: Situation, policy: Policy) -> None:
    assert_models_agree(situation.snapshot, situation.batch, expecting(policy, situation))


@PROPERTY
@given(situation=situations(most_pods=4), policy=st.sampled_from(POLICIES))
def test_one_pod_of_several_gets_what_the_models_prove(situation: Situation, policy: Policy) -> None:
    """The policy expects all of them."""
    assume(len(situation.batch.pods) > 1)
    for pod in situation.batch.pods:
        batch = structs.replace(situation.batch, pods=(pod,))
        assert_models_agree(situation.snapshot, batch, expecting(policy, situation))


@PROPERTY
@given(situations(), st.sampled_from(POLICIES), st.lists(st.integers(0, 8), min_size=1, max_size=3))
def test_pods_without_devices_beside_expected_ones_break_no_rule_and_no_bound(
    situation: Situation, policy: Policy, cpus: list[int]
) -> None:
    plain = tuple(b.pod(f"plain-{at}", cpu=cpu) for at, cpu in enumerate(cpus))
    batch = structs.replace(situation.batch, pods=(*situation.batch.pods, *plain))
    plan = solve(situation.snapshot, batch, expecting(policy, situation), PATIENT)
    assert check(situation.snapshot, batch, plan, policy) == ()
    assert all(level.value <= level.bound for level in plan.report.levels)


ASKS = {
    "a GPU": (clusters.h100_alone, asks.gpus(1)),
    "three GPUs": (clusters.h100_alone, asks.gpus(3)),
    "a GPU and a card": (clusters.h100, asks.pairs(1)),
    "two GPUs of a NUMA node": (clusters.h100, asks.together(2)),
    "two of the first that is there": (clusters.h100, asks.first_available((2, clusters.H200.product), (2, ""))),
    "a MIG device": (clusters.partitionable, asks.profile("1g.5gb")),
    "a large MIG device": (clusters.partitionable, asks.profile("3g.20gb")),
    "a share": (clusters.shareable, asks.share(20)),
}


@pytest.mark.parametrize("name", ASKS)
@pytest.mark.parametrize("levels", [PACK, SPREAD, TOPOLOGY], ids=["pack", "spread", "topology"])
@pytest.mark.parametrize("expects", [False, True], ids=["", "expected"])
def test_pods_that_come_one_by_one_are_searched_exhaustively(
    name: str, levels: tuple[str, ...], *, expects: bool
) -> None:
    """Each finds the cluster as those before it have left it."""
    make, ask = ASKS[name]
    snapshot = clusters.cluster(5, Share(100, make))
    pods, claims = asks.waiting([ask] * 12, (1,) * 12)
    policy, cache = Policy(levels=levels, expected=kinds_of(pods[:1], claims) if expects else ()), SolverCache()
    snapshot = clusters.waiting(snapshot, claims)
    for pod in pods:
        batch = Batch(pods=(pod,))
        plan = assert_models_agree(snapshot, batch, policy)
        assert plan == solve(snapshot, batch, policy, PATIENT, cache)
        assert plan.report.stages == (SearchStage.EXHAUSTIVE,)
        assert all(level.proven for level in plan.report.levels)
        snapshot = placed(snapshot, plan, batch)


def placed(snapshot: Snapshot, plan: Plan, batch: Batch) -> Snapshot:
    """Carry out a plan for pods with claims of their own."""
    nodes = {each.pod: each.node for each in plan.placements}
    made = {each.claim: each.allocation for each in plan.allocations}
    running = [structs.replace(pod, node_name=nodes[pod.id]) for pod in batch.pods if pod.id in nodes]
    claims = (structs.replace(each, allocation=made.get(each.id, each.allocation)) for each in snapshot.claims)
    pods = sorted((*snapshot.pods, *running), key=lambda pod: pod.id)
    return structs.replace(snapshot, claims=tuple(claims), pods=tuple(pods))


def test_nodes_are_told_apart_by_the_partitions_that_they_still_have() -> None:
    """Both nodes have half of their memory left; on n1 the large partition can still be had, on n2 it is in use."""

    def part(name: str, profile: str, memory: int) -> Device:
        capacities = {"memory": memory * 10}
        return b.device(
            name, attributes={"profile": profile}, capacities=capacities, consumes={"card": {"memory": memory}}
        )

    parts = (part("big", "big", 2), *(part(f"{name}-{at}", name, 1) for name in ("mid", "small") for at in "ab"))
    held = {"n1": ("mid-a", "mid-b"), "n2": ("big",)}
    snapshot = b.snapshot(
        b.gpu_class(),
        b.claim("c", b.request(selectors=("device.attributes['gpu.example.com'].profile == 'small'",))),
        *(b.node(name) for name in held),
        *(b.resource_slice(name, *parts, name=f"{name}-parts", slice_count=2) for name in held),
        *(
            b.resource_slice(name, name=f"{name}-counters", slice_count=2, counter_sets={"card": {"memory": 4}})
            for name in held
        ),
        *(
            b.claim(f"of-{name}-{each}", allocation=b.allocation(b.result("gpu", each, name)))
            for name, devices in held.items()
            for each in devices
        ),
    )
    plan = assert_models_agree(snapshot, b.batch(b.pod("p", "c")), Policy())
    assert [each.node for each in plan.placements] == ["n2"]
    assert plan.report.stages == (SearchStage.EXHAUSTIVE,)


def nodes_in_use(*amounts: int, is_alike: bool = False) -> list[b.SnapshotObject]:
    """Make nodes with a device each, of which so much is in use; they have as much cpu where they are alike."""
    return [
        each
        for at, used in enumerate(amounts)
        for each in (
            b.node(f"n{at}", cpu=1 if is_alike else 1 + at),
            b.resource_slice(f"n{at}", b.device("gpu-0", capacities={"milli": 1000}, is_shareable=True)),
            b.held(
                f"of-n{at}",
                b.result("gpu", "gpu-0", f"n{at}", share_id=b.share_id(at), consumed={"milli": used}),
                node_name=f"n{at}",
            ),
        )
    ]


@pytest.mark.parametrize(
    ("nodes", "params", "is_searched"),
    [
        (nodes_in_use(*range(1, 301)), SearchParams(), True),
        (nodes_in_use(*range(1, 301)), SearchParams(exhaustive_expected_ways=300, exhaustive_steps=300), True),
        (nodes_in_use(*range(1, 301)), SearchParams(exhaustive_steps=299), False),
        (nodes_in_use(*range(1, 301)), SearchParams(exhaustive_expected_ways=299), False),
        (nodes_in_use(*[1] * 300), SearchParams(exhaustive_expected_pairs=300), True),
        (nodes_in_use(*[1] * 300), SearchParams(exhaustive_expected_pairs=299), False),
        (nodes_in_use(*[1] * 300, is_alike=True), SearchParams(exhaustive_expected_pairs=1), True),
    ],
    ids=["as shipped", "enough", "steps", "ways", "equal devices", "too many with equal devices", "equal nodes"],
)
def test_where_pods_are_expected_many_ways_are_compared(
    nodes: list[b.SnapshotObject], params: SearchParams, *, is_searched: bool
) -> None:
    """Rows for the room of each of these nodes would make the exact model take seconds."""
    claim = b.claim("c", b.request("gpu", capacity={"milli": 100}))
    asked = (b.request("gpu", capacity={"milli": 1}),)
    kind = ExpectedPod(share=1000, requests=(("cpu", 1),), device_requests=asked)
    snapshot = b.snapshot(*nodes, b.gpu_class(), claim)
    plan = solve(snapshot, b.batch(b.pod("p", "c")), Policy(expected=(kind,)), replace(PATIENT, params=params))
    assert (plan.report.stages == (SearchStage.EXHAUSTIVE,)) is is_searched
    assert len(plan.placements) == 1


def test_levels_of_devices_are_asked_once_for_all_nodes_that_serve_a_pod_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pod takes the same of each of 101 nodes, and room for what is expected of all but the last."""
    counted = list[Solution]()

    def counting(problem: Problem, solution: Solution, uses: Uses) -> CountedSolution:
        counted.append(solution)
        return CountedSolution(problem, solution, uses)

    monkeypatch.setattr(exhaustive, "CountedSolution", counting)
    claim = b.claim("c", b.request("gpu", capacity={"milli": 100}))
    kind = ExpectedPod(share=1000, device_requests=(b.request("gpu", capacity={"milli": 601}),))
    snapshot = b.snapshot(*nodes_in_use(*range(300, 401)), b.gpu_class(), claim)
    plan = solve(snapshot, b.batch(b.pod("p", "c")), Policy(expected=(kind,)), PATIENT)
    assert plan.report.stages == (SearchStage.EXHAUSTIVE,)
    assert len(counted) == 2, "no way, and one for all ways"
