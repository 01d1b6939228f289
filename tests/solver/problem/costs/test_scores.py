"""Scores place pods without devices as kube-scheduler's users expect it, after everything else."""

import itertools
from collections import Counter

import pytest
from msgspec.structs import replace

from solver.domain import SPREAD, Controller, Plan, Pod, Policy, SearchStage, SearchStatus, Weights
from solver.model.objective import evaluate
from solver.problem.costs.images import image_name, image_score
from solver.problem.costs.scores import best_case
from solver.search import scoring
from solver.solution import Choice, Solution
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support import tastes as t

MIB = 1024 * 1024
GPU = b.gpu_class()


def nodes_of(*objects: s.Objects, pods: list[Pod], policy: Policy | None = None) -> dict[str, str]:
    return {each.pod.name: each.node for each in planned(*objects, pods=pods, policy=policy).placements}


def planned(*objects: s.Objects, pods: list[Pod], policy: Policy | None = None) -> Plan:
    return s.plan(*objects, pods=pods, policy=policy)


def weighing(**weights: int) -> Policy:
    silent = dict.fromkeys(("least_allocated", "balanced_allocation", "image_locality", "free_of_devices"), 0)
    return Policy(weights=Weights(**{**silent, "topology_spread": 0, **weights}))


def test_the_emptier_node_is_better() -> None:
    running = replace(b.pod("r", cpu=32, memory="128Gi"), node_name="a")
    assert nodes_of(b.node("a"), b.node("b"), running, pods=[b.pod("p", cpu=1)]) == {"p": "b"}


def test_pods_of_a_batch_fill_equal_nodes_evenly() -> None:
    machines = [b.node(f"n{i}") for i in range(4)]
    found = nodes_of(machines, pods=[b.pod(f"p{i}", cpu=1, memory="1Gi") for i in range(12)])
    assert sorted(Counter(found.values()).values()) == [3, 3, 3, 3]


def test_a_larger_node_takes_more() -> None:
    machines = [b.node("small", cpu=16, memory="64Gi"), b.node("large", cpu=64, memory="256Gi")]
    found = Counter(nodes_of(machines, pods=[b.pod(f"p{i}", cpu=1, memory="4Gi") for i in range(10)]).values())
    assert found["large"] > 2 * found["small"]


def test_a_node_whose_cpu_and_memory_come_closer_together_is_better() -> None:
    running = [
        replace(b.pod("r1", cpu=32), node_name="a"),
        replace(b.pod("r2", memory="128Gi"), node_name="b"),
    ]
    policy = weighing(balanced_allocation=1)
    assert nodes_of(b.node("a"), b.node("b"), running, pods=[b.pod("p", cpu=8)], policy=policy) == {"p": "b"}
    assert nodes_of(b.node("a"), b.node("b"), running, pods=[b.pod("p", memory="32Gi")], policy=policy) == {"p": "a"}


def test_a_node_that_has_the_image_is_better() -> None:
    machines = [b.node("a"), t.with_images(b.node("b"), web=800 * MIB)]
    pod = replace(b.pod("p"), images=("web",))
    assert nodes_of(machines, pods=[pod], policy=weighing(image_locality=1)) == {"p": "b"}


def test_nodes_with_devices_are_left_to_those_that_need_them() -> None:
    running = replace(b.pod("r", cpu=50), node_name="plain")
    objects = (b.node("gpu"), b.node("plain"), b.gpu_slice("gpu"), GPU, running)
    assert nodes_of(*objects, pods=[b.pod("p", cpu=1)]) == {"p": "plain"}
    assert nodes_of(*objects, pods=[b.pod("p", cpu=1)], policy=weighing(least_allocated=1)) == {"p": "gpu"}


def machines(*names: str, group: str = "") -> list[b.SnapshotObject]:
    labels = {"nvidia.com/gpu.clique": group} if group else {}
    return [each for name in names for each in (b.node(name, labels=labels), b.gpu_slice(name))]


def small(count: int) -> list[Pod]:
    return [b.pod(f"p{i}", cpu=4, memory="8Gi") for i in range(count)]


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param((b.held("c", b.result("gpu", "gpu-0", "n2")),), id="a device in use"),
        pytest.param((replace(b.pod("r", cpu=60), node_name="n2"),), id="a pod without devices"),
    ],
)
def test_a_node_that_is_in_use_goes_before_whole_ones(beside: tuple[s.Objects, ...]) -> None:
    found = nodes_of(machines("n0", "n1", "n2", "n3"), *beside, GPU, pods=small(1))
    assert found == {"p0": "n2"}


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_pods_of_the_node_itself_leave_it_whole(owner: str) -> None:
    agents = [
        replace(b.pod("agent", cpu=8), node_name="n0", controller=Controller(kind=owner, uid="a")),
        replace(b.pod("other", cpu=8), node_name="n1"),
    ]
    assert nodes_of(machines("n0", "n1"), agents, GPU, pods=small(1)) == {"p0": "n1"}


def test_pods_without_devices_go_to_a_group_that_is_in_use() -> None:
    held = b.held("c", b.result("gpu", "gpu-0", "b0"))
    full = replace(b.pod("r", cpu=64), node_name="b0")
    found = nodes_of(machines("a0", "a1", group="a"), machines("b0", "b1", group="b"), held, full, GPU, pods=small(2))
    assert set(found.values()) == {"b1"}


def test_pods_of_a_batch_share_the_whole_nodes_that_they_need() -> None:
    plan = planned(machines(*(f"n{i}" for i in range(12))), GPU, pods=small(40))
    assert len({each.node for each in plan.placements}) == 3  # each has room for sixteen
    assert plan.report.status is SearchStatus.OPTIMAL


def test_pods_that_fit_nowhere_open_no_nodes_for_others() -> None:
    stuck = [b.pod(f"s{i}", cpu=100) for i in range(200)]
    found = nodes_of(machines(*(f"n{i}" for i in range(8))), GPU, pods=[*small(8), *stuck])
    assert len(set(found.values())) == 1


def test_room_elsewhere_is_counted_once_for_all_pods() -> None:
    labels = {"a": "b"}
    nodes = [b.node("c1", labels=labels), b.node("n9"), *(b.node(f"n{i}", labels=labels) for i in range(3))]
    slices = [b.gpu_slice(name) for name in ("n0", "n1", "n2", "n9")]
    bound_to_label = [b.pod(f"q{i}", cpu=4, memory="8Gi", node_selector=labels) for i in range(16)]
    found = nodes_of(nodes, slices, GPU, pods=[*small(16), *bound_to_label])
    assert Counter(found.values())["c1"] == 16
    assert len(set(found.values())) == 2


def test_large_pods_that_fit_only_on_whole_nodes_share_them() -> None:
    full = [b.node(f"c{i}") for i in range(20)]
    running = [replace(b.pod(f"r{i}", cpu=56), node_name=f"c{i}") for i in range(20)]
    large = [b.pod(f"l{i}", cpu=16) for i in range(8)]
    tiny = [b.pod(f"t{i}", cpu="100m") for i in range(96)]
    found = nodes_of(full, running, machines(*(f"n{i}" for i in range(8))), GPU, pods=[*large, *tiny])
    assert len({found[f"l{i}"] for i in range(8)}) <= 3


def test_pods_without_devices_share_the_nodes_that_pods_with_devices_open() -> None:
    asking = [b.pod(f"g{i}", f"c{i}", cpu=4, memory="8Gi") for i in range(8)]
    claims = [b.claim(f"c{i}") for i in range(8)]
    found = nodes_of(machines("n0", "n1", "n2", "n3"), claims, GPU, pods=[*asking, *small(8)])
    assert len(set(found.values())) == 1


def test_where_devices_are_spread_whole_nodes_are_like_others() -> None:
    policy = Policy(name="spread", levels=SPREAD)
    found = nodes_of(machines("n0", "n1", "n2", "n3"), GPU, pods=small(4), policy=policy)
    assert len(set(found.values())) == 4


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_replicas_spread_over_nodes_by_default(kind: str) -> None:
    machines = [b.node("n1", cpu=64, memory="256Gi"), b.node("n2", cpu=8, memory="32Gi")]
    pods = [t.replica(b.pod(f"p{i}", cpu=1, memory="1Gi"), "uid-1", kind) for i in range(4)]
    assert Counter(nodes_of(machines, pods=pods, policy=weighing(topology_spread=2)).values()) == {"n1": 2, "n2": 2}


def test_replicas_spread_over_zones_and_beside_those_that_run() -> None:
    machines = [b.node(f"n{i}", labels={t.ZONE: "aab"[i]}) for i in range(3)]
    running = [replace(t.replica(b.pod(f"r{i}"), "uid-1"), node_name=f"n{i}") for i in range(2)]
    found = nodes_of(machines, running, pods=[t.replica(b.pod("p"), "uid-1")], policy=weighing(topology_spread=2))
    assert found == {"p": "n2"}


def test_pods_of_jobs_are_not_spread_by_default() -> None:
    machines = [b.node("n1"), b.node("n2")]
    running = replace(t.replica(b.pod("r"), "uid-1", "Job"), node_name="n1")
    pod = t.replica(b.pod("p"), "uid-1", "Job")
    assert nodes_of(machines, running, pods=[pod], policy=weighing(topology_spread=2)) == {"p": "n1"}


def test_pods_with_devices_have_no_scores() -> None:
    found = planned(b.node("n"), b.gpu_slice("n"), GPU, b.claim("c"), pods=[b.pod("p", "c")])
    assert "scores" not in {level.name for level in found.report.levels}


def test_scores_come_last_and_are_proven_where_the_cheapest_places_are_taken() -> None:
    machines = [b.node(f"n{i}") for i in range(3)]
    level = planned(machines, pods=[b.pod(f"p{i}", cpu=1, memory="4Gi") for i in range(6)]).report.levels[-1]
    assert (level.name, level.proven) == ("scores", True)


def test_scores_are_proven_where_room_forbids_the_cheapest_places() -> None:
    machines = [b.node("a", cpu=1), b.node("b", cpu=64)]
    running = replace(b.pod("r", cpu=60, memory="200Gi"), node_name="b")
    pods = [b.pod(f"p{i}", cpu=1) for i in range(4)]
    problem = s.problem(machines, running, pods=pods)
    level = planned(machines, running, pods=pods).report.levels[-1]
    assert level.proven
    assert level.value < -best_case(problem.costs.scores, problem.classes, problem.available.room)


def test_the_best_place_of_a_pod_alone_needs_no_relaxation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emptiest node is in the zone with most replicas: no place is the cheapest in all that counts."""
    machines = [b.node(f"n{i}", cpu=cpu, labels={t.ZONE: "aab"[i]}) for i, cpu in enumerate((64, 16, 8))]
    running = [replace(t.replica(b.pod(f"r{i}"), "uid-1"), node_name=f"n{i}") for i in range(2)]
    monkeypatch.delattr(scoring, "improve_scores")
    assert planned(machines, running, pods=[t.replica(b.pod("p", cpu=4), "uid-1")]).report.levels[-1].proven


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_pod_costs_at_least_what_its_best_place_does(count: int) -> None:
    machines = [b.node(f"n{i}", cpu=cpu, labels={t.ZONE: "aab"[i]}) for i, cpu in enumerate((64, 16, 8))]
    running = [replace(t.replica(b.pod(f"r{i}"), "uid-1"), node_name=f"n{i}") for i in range(2)]
    problem = s.problem(machines, running, pods=[t.replica(b.pod(f"p{i}", cpu=4), "uid-1") for i in range(count)])
    (pod_class,) = problem.classes
    costs = [
        -evaluate(problem, Solution([Choice(pod_class.index, node, ()) for node in nodes]))[-1]
        for nodes in itertools.combinations_with_replacement(range(3), count)
    ]
    limit = best_case(problem.costs.scores, problem.classes, problem.available.room)
    assert limit <= min(costs)
    assert count > 1 or limit == min(costs)


def test_the_bound_is_never_above_the_best_placing() -> None:
    machines = [b.node("a", cpu=8), b.node("b", cpu=16), b.node("c", cpu=64)]
    pods = [b.pod(f"p{i}", cpu=1 + i % 2) for i in range(4)]
    problem = s.problem(machines, pods=pods)
    limit = best_case(problem.costs.scores, problem.classes, problem.available.room)
    owners = [each.index for each in problem.classes for _ in each.members]
    costs = [
        -evaluate(problem, Solution([Choice(each, (code // 3**i) % 3, ()) for i, each in enumerate(owners)]))[-1]
        for code in range(3 ** len(owners))
    ]
    assert limit <= min(costs)
    assert min(costs) < max(costs)


def test_pods_without_devices_are_scored_around_pods_that_a_search_has_moved() -> None:
    machines = [b.node(f"g{i}") for i in range(2)] + [b.node(f"n{i}") for i in range(2)]
    slices = [b.gpu_slice(f"g{i}", count=4) for i in range(2)]
    claims = [b.claim(f"c{i}", b.request(count=count)) for i, count in enumerate((1, 3, 3, 1))]
    pods = [b.pod(f"p{i}", f"c{i}") for i in range(4)] + [b.pod(f"w{i}", cpu=1, memory="4Gi") for i in range(4)]
    found = nodes_of(machines, slices, GPU, claims, pods=pods)
    assert Counter(node for name, node in found.items() if name.startswith("w")) == {"n0": 2, "n1": 2}


@pytest.mark.parametrize(
    ("sizes", "count", "score"),
    [((), 1, 0), ((23 * MIB,), 1, 0), ((1000 * MIB,), 1, 100), ((5000 * MIB,), 1, 100), ((500 * MIB,), 1, 48)],
    ids=["none", "small", "large", "huge", "half"],
)
def test_an_image_is_worth_its_size_within_bounds(sizes: tuple[int, ...], count: int, score: int) -> None:
    assert image_score(sizes, count) == score


@pytest.mark.parametrize(
    ("text", "name"),
    [("web", "web:latest"), ("r:5000/web", "r:5000/web:latest"), ("web:1", "web:1"), ("a/b@sha256:0", "a/b@sha256:0")],
)
def test_an_image_has_a_tag(text: str, name: str) -> None:
    assert image_name(text) == name


def test_a_search_that_has_moved_things_leaves_pods_without_devices_well_scored() -> None:
    machines = [b.node("g0"), *(b.node(f"n{i}") for i in range(2))]
    pods = [b.pod("p0", "c0"), *(b.pod(f"w{i}", cpu=1, memory="4Gi") for i in range(4))]
    problem = s.problem(machines, b.gpu_slice("g0"), GPU, b.claim("c0"), pods=pods)
    plain = next(each.index for each in problem.classes if not each.parts)
    poor = Solution([Choice(plain, 1, ()) for _ in range(4)])

    found = scoring.search_and_score(problem, poor, s.PATIENT)

    assert Counter(choice.node for choice in found.solution.choices if choice.pod_class == plain) == {1: 2, 2: 2}
    assert found.stages[-1] == SearchStage.SCORES_LP
