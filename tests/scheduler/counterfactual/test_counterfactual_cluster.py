"""The counterfactual cluster: how long pods live in it, who leaves when, and what it holds."""

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.counterfactual import counterfactual_cluster
from solver.domain import Controller, DeviceQuota, LabelSelector, Namespace, QuotaResource
from tests.support import builders as b
from tests.support.cluster_builders import gone
from tests.support.observed_scene import ObservedScene


@pytest.fixture
def scene() -> ObservedScene:
    """One node with two devices."""
    found = ObservedScene()
    found.begin()
    return found


def test_what_runs_at_the_start_runs_in_both_clusters_and_leaves_with_the_real_pod() -> None:
    scene = ObservedScene()
    scene.create(0, b.pod("old"))
    scene.bind(0, "old", "n0", "gpu-1")
    scene.begin(5)
    assert scene.node_of("old") == "n0"
    assert scene.held == {b.device_id("gpu-1", "n0"): ["old"]}

    scene.end(50, "old")
    assert scene.counterfactual == {}
    assert scene.held == {}


def test_a_pod_that_both_place_at_once_leaves_when_it_really_ends(scene: ObservedScene) -> None:
    scene.create(10, b.pod("p"))
    scene.decide(10)
    scene.bind(10, "p", "n0", "gpu-0")
    scene.end(70, "p")
    assert scene.counterfactual == {}


def test_a_pod_that_is_placed_later_runs_on_for_as_long_as_it_really_ran(scene: ObservedScene) -> None:
    scene.create(10, b.pod("p"))
    scene.bind(10, "p", "n0", "gpu-0")
    scene.decide(40)  # 30 seconds later
    scene.end(70, "p")  # after 60 seconds
    assert scene.held == {b.device_id("gpu-0", "n0"): ["p"]}

    scene.decide(99)
    assert scene.node_of("p") == "n0"
    scene.decide(100)
    assert scene.counterfactual == {}
    assert scene.held == {}


def test_a_pod_that_really_ended_while_it_waited_is_placed_and_runs_its_time(scene: ObservedScene) -> None:
    scene.create(0, b.pod("first"), gpus=2)
    scene.decide(0)
    scene.create(1, b.pod("second"))
    scene.bind(1, "second", "n0", "gpu-0")  # "first" waits really
    scene.decide(1)
    scene.end(21, "second")
    assert scene.node_of("first") == "n0"
    assert scene.counterfactual["second"] == ""  # it has not run yet

    scene.delete(30, "first")
    scene.decide(30)
    assert scene.node_of("second") == "n0"
    assert scene.held == {b.device_id("gpu-0", "n0"): ["second"]}  # its claim is really gone
    scene.decide(49)
    assert scene.node_of("second") == "n0"
    scene.decide(50)
    assert scene.counterfactual == {}


def test_a_pod_that_is_placed_sooner_keeps_its_devices_until_it_really_ends(scene: ObservedScene) -> None:
    scene.create(0, b.pod("p"))
    scene.decide(0)
    scene.bind(100, "p", "n0", "gpu-0")
    scene.decide(150)
    assert len(scene.held) == 1
    scene.end(160, "p")  # it ran for 60 seconds, and in the other cluster at least as long
    assert scene.held == {}


def test_a_pod_that_is_deleted_while_it_waits_leaves_both_clusters(scene: ObservedScene) -> None:
    scene.create(0, b.pod("p"))
    scene.decide(0)
    assert scene.node_of("p") == "n0"
    scene.show(5, replace(scene.pods["p"], is_deleting=True))
    assert scene.counterfactual == {}
    assert scene.held == {}


def test_a_pod_of_another_scheduler_takes_room_once_that_one_has_bound_it(scene: ObservedScene) -> None:
    scene.create(0, replace(b.pod("p"), scheduler_name="other"))
    scene.decide(0)
    assert scene.node_of("p") == ""
    scene.bind(8, "p", "n0", "gpu-0")
    scene.decide(10)
    assert scene.node_of("p") == "n0"


def test_a_gated_pod_is_decided_when_its_gates_are_gone(scene: ObservedScene) -> None:
    scene.create(0, b.pod("p", scheduling_gates=["wait"]))
    scene.decide(0)
    assert scene.node_of("p") == ""
    scene.show(5, replace(scene.pods["p"], scheduling_gates=()))
    scene.decide(5)
    assert scene.node_of("p") == "n0"


def test_a_static_pod_is_where_its_kubelet_made_it(scene: ObservedScene) -> None:
    static = replace(b.pod("mirror", node_name="n0", cpu=1), controller=Controller(kind="Node", uid="n"))
    scene.show(3, static)
    assert scene.node_of("mirror") == "n0"


def test_a_pod_whose_waiting_the_watch_skipped_is_decided_with_the_claims_that_it_has(scene: ObservedScene) -> None:
    scene.create(0, b.pod("p"))
    made = scene.pods["p"]
    scene.show(0, replace(made, claims=(b.waiting_entry(),)))
    scene.decide(0)
    scene.bind(9, "p", "n0", "gpu-1")
    scene.decide(10)
    assert [len(claims) for claims in scene.held.values()] == [1]


def test_a_pod_of_the_same_name_waits_for_the_end_of_the_one_before(scene: ObservedScene) -> None:
    scene.create(10, b.pod("p", uid="one"))
    scene.bind(10, "p", "n0", "gpu-0")
    scene.decide(40)
    scene.end(50, "p")  # it would end at 80
    scene.create(51, b.pod("p", uid="two"))
    scene.decide(60)
    assert scene.counterfactual == {"one": "n0", "two": ""}
    scene.decide(80)
    assert scene.counterfactual == {"two": "n0"}
    assert [len(claims) for claims in scene.held.values()] == [1]


def test_pods_of_a_node_that_is_gone_wait_again_unless_they_are_really_there() -> None:
    scene = ObservedScene(nodes=2, devices=1)
    scene.begin()
    scene.create(0, b.pod("here", node_selector={"kubernetes.io/hostname": "n0"}))
    scene.decide(0)
    scene.create(0, b.pod("there"))
    scene.decide(0)
    scene.bind(1, "here", "n0", "gpu-0")
    scene.bind(1, "there", "n0", "gpu-0")  # elsewhere than in the counterfactual cluster
    assert scene.counterfactual == {"here": "n0", "there": "n1"}

    scene.compared.apply(gone(b.node("n1")), 5)
    assert scene.counterfactual == {"here": "n0", "there": ""}
    assert scene.held == {b.device_id("gpu-0", "n0"): ["here"]}
    scene.compared.apply(gone(b.node("n0")), 6)
    assert scene.counterfactual == {"there": ""}


def test_a_victim_waits_again_and_starts_over() -> None:
    scene = ObservedScene()
    scene.begin()
    scene.show(0, b.pod("small", cpu=60))
    scene.decide(0)
    assert scene.node_of("small") == "n0"
    scene.show(5, b.pod("big", cpu=60, priority=10))
    scene.decide(5)
    scene.decide(6)
    assert scene.compared.counterfactual.evictions == 1
    assert scene.counterfactual == {"small": "", "big": "n0"}


def test_a_plan_is_left_out_where_its_pod_or_its_claim_has_changed_meanwhile(scene: ObservedScene) -> None:
    pods = [b.pod(name) for name in ("gone", "other-claim", "as-planned")]
    scene.create(0, *pods)
    made = [b.claim_allocation(claim, b.result("request", "gpu-0", "n0")) for claim in scene.claims.values()]
    scene.show(1, replace(scene.claims["other-claim"], uid="another"))
    scene.delete(1, "gone")
    for pod, allocation in zip(pods, made, strict=True):
        waiting = replace(pod, claims=(b.entry(pod.id.name),))
        scene.compared.take(b.plan(b.placement(waiting, "n0"), allocation), b.batch(waiting), 2)
    assert scene.counterfactual == {"other-claim": "", "as-planned": "n0"}
    assert scene.held == {b.device_id("gpu-0", "n0"): ["as-planned"]}

    again = replace(pods[2], claims=(b.entry("as-planned"),))
    scene.compared.take(b.plan(b.placement(again, "n0"), made[2]), b.batch(again), 9)
    assert [life.placed_at for life in scene.compared.counterfactual.lives] == [None, 2]


def test_a_claim_that_nobody_runs_with_keeps_its_device_until_it_is_really_free() -> None:
    scene = ObservedScene(devices=1)
    held = b.held("outside", b.result("request", "gpu-0", "n0"), node_name="n0")
    scene.show(0, held)
    scene.begin()
    scene.create(1, b.pod("p"))
    scene.decide(1)
    assert scene.node_of("p") == ""
    scene.show(2, replace(held, allocation=None, reserved_for=()))
    scene.decide(2)
    assert scene.node_of("p") == "n0"


def test_a_shared_claim_is_free_when_its_last_pod_has_left(scene: ObservedScene) -> None:
    shared = b.claim("shared")
    scene.show(0, shared)
    for name in ("p", "q"):
        scene.pods[name] = b.pod(name, "shared")
        scene.show(0, scene.pods[name])
    scene.decide(0)
    assert len(scene.held) == 1
    scene.compared.apply(gone(scene.pods["p"]), 5)
    assert len(scene.held) == 1
    scene.compared.apply(gone(scene.pods["q"]), 6)
    assert scene.held == {}


def test_too_many_pods_that_have_really_ended_are_given_up(
    scene: ObservedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counterfactual_cluster, "MOST_LATE_PODS", 1)
    for name in ("p", "q"):
        scene.create(0, b.pod(name), gpus=3)  # it fits nowhere
        scene.bind(1, name, "n0", "gpu-0")
        scene.end(2, name)
    scene.decide(3)
    assert scene.counterfactual == {"q": ""}
    assert scene.compared.counterfactual.given_up == 1


def test_no_quota_is_exceeded_in_it_whatever_the_other_scheduler_gives() -> None:
    scene = ObservedScene()
    team = DeviceQuota(
        name="team",
        uid="uid-team",
        selector=LabelSelector(),
        resources=(QuotaResource(device_class=b.GPU_CLASS, limit=1),),
    )
    scene.show(0, Namespace(name=b.NAMESPACE))
    scene.compared.apply(Change(kind=Kind.QUOTAS, key="team", value=team), 0.0)
    scene.begin()
    scene.create(10, b.pod("first"), b.pod("second"))
    scene.decide(10)
    scene.bind(10, "first", "n0", "gpu-0")
    scene.bind(10, "second", "n0", "gpu-1")  # it knows no quotas
    scene.decide(20)
    assert scene.counterfactual == {"first": "n0", "second": ""}

    scene.end(70, "first")
    scene.decide(70)
    assert scene.counterfactual == {"second": "n0"}
    scene.create(80, b.pod("third"))
    scene.decide(80)
    assert scene.node_of("third") == ""
    wider = replace(team, resources=(QuotaResource(device_class=b.GPU_CLASS, limit=2),))
    scene.compared.apply(Change(kind=Kind.QUOTAS, key="team", value=wider), 90.0)
    scene.decide(90)
    assert scene.node_of("third") == "n0"
