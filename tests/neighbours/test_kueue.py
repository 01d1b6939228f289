"""What Kueue lets in, Dovetail places; what Kueue takes back, Dovetail frees."""

from typing import Any

import pytest

from tests.support.controlplane import wait_until
from tests.support.kueue_world import KueueWorld
from tests.support.neighbours import Neighbours

Json = dict[str, Any]

pytestmark = pytest.mark.neighbours

GROUP = "kueue.x-k8s.io/pod-group-name"
GATES = {"kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"}


def gates_of(world: KueueWorld, pod: str) -> set[str]:
    found = world.get_pod(pod) or {}
    return {each["name"] for each in found.get("spec", {}).get("schedulingGates", [])}


def reserved(world: KueueWorld) -> str:
    """The devices that count in the first queue."""
    status = world.plane.request("GET", f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{world.queues[0]}")["status"]
    used = {each["name"]: each["total"] for each in status["flavorsReservation"][0]["resources"]}
    return str(used["gpus"])


def is_suspended(world: KueueWorld, job: str) -> bool:
    found = world.plane.request("GET", f"/apis/batch/v1/namespaces/{world.namespace}/jobs/{job}")
    return bool(found["spec"]["suspend"])


@pytest.mark.parametrize("gang", [False, True], ids=["", "gang"])
def test_a_job_with_claims_of_a_template_runs_when_it_is_admitted(world: KueueWorld, *, gang: bool) -> None:
    world.add_nodes(2, 2)
    world.queue("q", gpus=4)
    world.job("train", pods=2, gpus=2, queue="q", gang=gang)
    wait_until(lambda: len(world.bound_of("train")) == 2)
    assert sorted(world.bound_of("train")) == sorted(world.nodes)
    assert len(set(world.taken())) == 4
    assert world.is_true("train", "Admitted")
    wait_until(lambda: reserved(world) == "4")


def test_a_plain_pod_waits_behind_two_gates_with_its_claim(world: KueueWorld) -> None:
    world.add_nodes(1, 2)
    world.queue("q", gpus=1)
    world.plain_pod("first", queue="q")
    wait_until(lambda: "first" in world.bound())
    world.plain_pod("second", queue="q")
    wait_until(lambda: len(world.claims()) == 2)
    assert gates_of(world, "second") == GATES
    assert "kueue.x-k8s.io/managed" in (world.get_pod("second") or {})["metadata"]["finalizers"]
    assert world.condition("second").get("reason") == "SchedulingGated"
    assert len(world.taken()) == 1
    world.delete_pod("first")
    wait_until(lambda: "second" in world.bound())
    assert gates_of(world, "second") == set()


def test_a_group_of_pods_is_let_in_as_one(world: KueueWorld) -> None:
    world.add_nodes(2, 1)
    world.queue("q", gpus=2)
    total = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    world.plain_pod("g-0", queue="q", labels={GROUP: "g"}, annotations=total)
    wait_until(lambda: len(world.claims()) == 1)
    assert gates_of(world, "g-0") == GATES
    world.plain_pod("g-1", queue="q", labels={GROUP: "g"}, annotations=total)
    wait_until(lambda: len(world.bound_of("g-")) == 2)
    for name in ("g-0", "g-1"):
        pod = world.get_pod(name) or {}
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/workload"] == "g"
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/podset"]


def test_a_queue_borrows_of_its_cohort_and_gives_back(world: KueueWorld) -> None:
    world.add_nodes(1, 4)
    reclaim: Json = {"preemption": {"reclaimWithinCohort": "Any"}}
    world.queue("mine", gpus=2, cohort="all", **reclaim)
    world.queue("yours", gpus=2, cohort="all", **reclaim)
    world.job("borrows", pods=2, gpus=2, queue="mine")
    wait_until(lambda: len(world.bound_of("borrows")) == 2)
    world.job("returns", pods=1, gpus=2, queue="yours")
    wait_until(lambda: len(world.bound_of("returns")) == 1)
    assert is_suspended(world, "borrows")
    assert world.bound_of("borrows") == []
    assert len(world.taken()) == 2


def test_what_kueue_preempts_makes_room_for_what_preempts_it(world: KueueWorld) -> None:
    world.add_nodes(1, 2)
    world.queue("q", gpus=2, preemption={"withinClusterQueue": "LowerPriority"})
    high = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "value": 100}
    path = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
    world.plane.request("POST", path, {**high, "metadata": {"name": world.word}})
    try:
        world.job("low", pods=2, queue="q", gang=True)
        wait_until(lambda: len(world.bound_of("low")) == 2)
        labels = {"kueue.x-k8s.io/priority-class": world.word}
        world.job("high", pods=2, queue="q", gang=True, labels=labels)
        wait_until(lambda: len(world.bound_of("high")) == 2)
        assert is_suspended(world, "low")
        assert world.bound_of("low") == []
    finally:
        world.plane.request("DELETE", f"{path}/{world.word}")


def test_a_deactivated_workload_frees_its_devices_until_it_is_active_again(world: KueueWorld) -> None:
    world.add_nodes(1, 2)
    world.queue("q", gpus=2)
    world.job("paused", pods=1, gpus=2, queue="q")
    wait_until(lambda: len(world.bound_of("paused")) == 1)
    world.set_active("paused", is_active=False)
    wait_until(lambda: world.pods() == [] and world.claims() == [])
    world.job("next", pods=1, gpus=2, queue="q")
    wait_until(lambda: len(world.bound_of("next")) == 1)
    world.set_active("next", is_active=False)
    world.set_active("paused", is_active=True)
    wait_until(lambda: len(world.bound_of("paused")) == 1)


def test_both_go_on_after_a_restart(world: KueueWorld, neighbours: Neighbours) -> None:
    world.add_nodes(1, 4)
    world.queue("q", gpus=4)
    world.job("runs", pods=2, queue="q", gang=True)
    wait_until(lambda: len(world.bound_of("runs")) == 2)
    neighbours.dovetail.stop()
    world.job("admitted", pods=2, queue="q", gang=True)
    wait_until(lambda: world.is_true("admitted", "Admitted") and len(world.pods()) == 4)
    neighbours.restart_kueue()
    assert world.bound_of("admitted") == []
    neighbours.restart_dovetail()
    wait_until(lambda: len(world.bound_of("admitted")) == 2)
    world.job("waits", pods=1, queue="q")
    wait_until(lambda: bool(world.workload("waits")))
    assert not world.is_true("waits", "QuotaReserved")
    neighbours.restart_kueue()
    world.set_active("runs", is_active=False)
    wait_until(lambda: len(world.bound_of("waits")) == 1)
    assert len(set(world.taken())) == 3


def test_a_job_with_a_claim_by_name_never_starts(world: KueueWorld) -> None:
    """Kueue refuses it, whatever devices are free; docs/kueue.md says so."""
    world.add_nodes(1, 2)
    world.queue("q", gpus=2)
    world.claim("shared")
    world.job("named", pods=1, queue="q", resourceClaims=[{"name": "devices", "resourceClaimName": "shared"}])
    world.job("other", pods=1, queue="q")
    wait_until(lambda: len(world.bound_of("other")) == 1)
    assert is_suspended(world, "named")
    assert not world.is_true("named", "QuotaReserved")
