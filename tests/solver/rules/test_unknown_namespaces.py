"""A namespace that the API server has not shown yet may be of any quota: it gets nothing, and what it holds counts."""

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import Batch, Budget, DeviceQuota, PodId, Policy, ReasonCode
from solver.verify import check
from tests.solver.rules.test_quotas import asking, cluster, decide, holding
from tests.support import builders as b
from tests.support import extended_builders as extended
from tests.support.quota_cases import devices, memory, quota, whole_nodes

RED = quota("red", devices(4), team="red")
NOT_SEEN = "the API server does not show namespace new, so its DeviceQuota is not known"


def test_its_pods_get_no_devices_with_the_reason_and_others_do() -> None:
    (new, new_pod), (free, free_pod) = asking("new", team="new"), asking("free", team="green")
    plan = decide(cluster(new, free, quotas=(RED,)), new_pod, free_pod, b.pod("cpu", namespace="new"))

    assert {each.pod.name for each in plan.placements} == {"free", "cpu"}
    (reason,) = plan.unplaced[0].reasons
    assert (reason.code, reason.message) == (
        ReasonCode.QUOTA_EXCEEDED,
        f"{NOT_SEEN}; the pod is tried again when it does",
    )


def test_extended_resources_are_devices_too() -> None:
    pods = [
        replace(extended.pod(team, extended.container("main", gpu=1)), id=PodId(team, team))
        for team in ("new", "green")
    ]
    snapshot = replace(cluster(quotas=(RED,)), classes=(extended.gpu_class(),))
    plan = decide(snapshot, *pods)
    assert [each.pod.name for each in plan.placements] == ["green"]
    assert plan.unplaced[0].reasons[0].message.startswith(NOT_SEEN)


@pytest.mark.parametrize(
    "quotas", [(), (quota("root", devices(1)),), (quota("root", devices(1), team="red"), quota("leaf", parent="root"))]
)
def test_where_no_quota_selects_namespaces_nothing_is_kept_back(quotas: tuple[DeviceQuota, ...]) -> None:
    claim, pod = asking("new", team="new")
    assert len(decide(cluster(claim, quotas=quotas), pod).placements) == 1


def test_where_not_all_pods_fit_it_has_no_share() -> None:
    (new, new_pod), (red, red_pod), (blue, blue_pod) = (asking(each, 4, team=each) for each in ("new", "red", "blue"))
    quotas = (quota("red", devices(guarantee=4), team="red"), quota("blue", devices(guarantee=4), team="blue"))
    plan = decide(cluster(new, red, blue, quotas=quotas, nodes=1), new_pod, red_pod, blue_pod)
    assert len(plan.placements) == 1
    assert plan.placements[0].pod.name != "new"


def test_what_it_holds_counts_for_the_limit_of_every_quota() -> None:
    claim, pod = asking("one", 2)
    old = holding("old", "gpu-0", "gpu-1", team="gone", node="n1")
    (reason,) = decide(cluster(claim, old, quotas=(quota("red", devices(3), team="red"),)), pod).unplaced[0].reasons
    assert reason.code is ReasonCode.QUOTA_EXCEEDED
    assert "2 of at most 3 devices" in reason.message
    assert "what namespace gone holds counts too: the API server does not show it" in reason.message


def test_its_nodes_count_and_are_no_nodes_of_the_team() -> None:
    """It may be of red, which then has two nodes, or not: then red would have a second one with n1."""
    claim, pod = asking("one", 2)
    objects = claim, holding("own", "gpu-0", "gpu-1", "gpu-2"), holding("old", "gpu-0", team="gone", node="n1")
    plan = decide(cluster(*objects, quotas=(quota("red", whole_nodes(1), team="red"),)), pod)
    assert plan.unplaced[0].reasons[0].code is ReasonCode.QUOTA_EXCEEDED
    plan = decide(cluster(claim, objects[2], quotas=(quota("red", whole_nodes(1), team="red"),)), pod)
    assert plan.unplaced[0].reasons[0].code is ReasonCode.QUOTA_EXCEEDED
    (small, small_pod) = asking("small")
    plan = decide(cluster(small, *objects[1:], quotas=(quota("red", whole_nodes(1), team="red"),)), small_pod)
    assert plan.placements[0].node == "n0"


def test_a_capacity_counts_as_well() -> None:
    claim, pod = asking("one")
    quotas = (quota("red", memory(1), team="red"),)
    sized = b.resource_slice("n0", *(b.device(f"gpu-{n}", capacities={"memory": 1}) for n in range(4)))
    snapshot = replace(cluster(claim, holding("old", "gpu-0", team="gone"), quotas=quotas, nodes=1), slices=(sized,))
    assert decide(snapshot, pod).unplaced[0].reasons[0].code is ReasonCode.QUOTA_EXCEEDED
    assert len(decide(replace(snapshot, claims=(claim,)), pod).placements) == 1


def test_what_it_holds_is_no_part_of_a_guarantee() -> None:
    """Red has nothing, and so is within its guarantee of one, whoever holds the others."""
    (red, red_pod), (blue, blue_pod) = asking("red"), asking("blue", team="blue")
    quotas = (quota("red", devices(guarantee=1), team="red"), quota("blue", devices(), team="blue"))
    old = holding("old", "gpu-0", "gpu-1", "gpu-2", team="gone")
    plan = decide(cluster(red, blue, old, quotas=quotas, nodes=1), blue_pod, red_pod)
    assert [each.pod.name for each in plan.placements] == ["red"]


def test_the_checker_finds_a_plan_that_gives_it_devices_or_forgets_what_it_holds() -> None:
    policy, budget = Policy(), Budget(seconds=60.0, deterministic_seconds=10.0)
    for team, quotas, said in (("new", (RED,), "its quota is not known"), ("red", (RED,), "its limit is 4")):
        claim, pod = asking("one", 3, team=team)
        free = cluster(claim, holding("old", "gpu-0", "gpu-1", team="gone", node="n1"))
        batch = Batch(pods=(pod,))  # type: ignore[arg-type]
        plan = solve(free, batch, policy, budget)
        (violation,) = check(replace(free, quotas=quotas), batch, plan, policy)
        assert violation.rule == "QuotaLimit"
        assert said in violation.message


def test_room_held_for_pods_that_cannot_be_read_counts_for_nobody() -> None:
    claim, pod = asking("one", 4)
    snapshot = cluster(claim, holding("old", "gpu-0", team=""), quotas=(RED,))
    assert len(decide(snapshot, pod).placements) == 1
