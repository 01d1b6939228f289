"""Kueue's admission check `dovetail.dev/placement`: what is let in has room, and what has none gives its quota back."""

import time

import pytest

from tests.support.controlplane import wait_until
from tests.support.kueue_world import Json, KueueWorld
from tests.support.neighbours import PARK_SECONDS, Neighbours

pytestmark = pytest.mark.neighbours

GROUP = "kueue.x-k8s.io/pod-group-name"


def state(world: KueueWorld, owner: str) -> str:
    """The state of the check in the Workload of an owner."""
    checks = world.workload(owner).get("status", {}).get("admissionChecks", [])
    return next((each["state"] for each in checks if each["name"] == world.word), "")


def message(world: KueueWorld, owner: str) -> str:
    checks = world.workload(owner).get("status", {}).get("admissionChecks", [])
    return next((each["message"] for each in checks if each["name"] == world.word), "")


def said_of_quota(world: KueueWorld, owner: str) -> str:
    """What Kueue says of the quota of a Workload that has none."""
    conditions = world.workload(owner).get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == "QuotaReserved"), "")


def growth(world: KueueWorld) -> Json:
    """The check in the Workload by which an elastic Job grows."""
    for workload in world.workloads():
        if "kueue.x-k8s.io/workload-slice-replacement-for" in workload["metadata"].get("annotations", {}):
            return next(iter(workload.get("status", {}).get("admissionChecks", [])), {"state": "", "message": ""})
    return {"state": "", "message": ""}


def is_parked(world: KueueWorld, owner: str) -> bool:
    found = world.workload(owner)
    is_marked = "dovetail.dev/parked" in found.get("metadata", {}).get("annotations", {})
    return is_marked and not found["spec"].get("active", True)


def test_what_has_no_room_is_parked_until_it_fits(world: KueueWorld) -> None:
    world.add_nodes(2, 1)
    world.queue("q", gpus=2, checks=(world.check(),))
    world.job("large", pods=1, gpus=2, queue="q")
    wait_until(lambda: "nodes are available" in message(world, "large"))
    wait_until(lambda: is_parked(world, "large"))
    world.job("small", pods=2, queue="q")
    wait_until(lambda: len(world.bound_of("small")) == 2)
    world.set_active("small", is_active=False)
    wait_until(lambda: world.bound_of("small") == [])
    assert is_parked(world, "large")
    world.more_devices(2)
    wait_until(lambda: len(world.bound_of("large")) == 1)
    assert "dovetail.dev/parked" not in world.workload("large")["metadata"].get("annotations", {})


def test_a_workload_that_fits_again_while_there_is_no_quota_gets_it_later(world: KueueWorld) -> None:
    world.add_nodes(2, 1)
    world.queue("q", gpus=2, checks=(world.check(),))
    world.job("large", pods=1, gpus=2, queue="q")
    wait_until(lambda: is_parked(world, "large"))
    world.job("small", pods=2, queue="q")
    wait_until(lambda: len(world.bound_of("small")) == 2)
    world.more_devices(2)
    wait_until(lambda: world.workload("large")["spec"].get("active", True))
    wait_until(lambda: "insufficient unused quota" in said_of_quota(world, "large"))
    time.sleep(2)  # Kueue has put it back into its queue, from where it does not come if it is kept back
    world.set_active("small", is_active=False)
    wait_until(lambda: len(world.bound_of("large")) == 1)


def test_quota_without_room_lets_nobody_in(world: KueueWorld) -> None:
    """Two nodes with a free device each are quota for a pod with two, and no room."""
    world.add_nodes(2, 3)
    world.queue("q", gpus=6, checks=(world.check(),))
    world.job("first", pods=2, gpus=2, queue="q")
    wait_until(lambda: len(world.bound_of("first")) == 2)
    world.job("second", pods=1, gpus=2, queue="q")
    wait_until(lambda: state(world, "second") == "Pending" and message(world, "second") != "")
    assert not world.is_true("second", "Admitted")
    world.set_active("first", is_active=False)
    wait_until(lambda: len(world.bound_of("second")) == 1)


def test_a_group_of_pods_takes_the_room_that_is_held_for_it(world: KueueWorld) -> None:
    world.add_nodes(2, 2)
    world.queue("q", gpus=4, checks=(world.check(),))
    total = {"kueue.x-k8s.io/pod-group-total-count": "2"}
    world.plain_pod("g-0", 2, queue="q", labels={GROUP: "g"}, annotations=total)
    world.plain_pod("g-1", 1, queue="q", labels={GROUP: "g"}, annotations=total)
    wait_until(lambda: len(world.bound_of("g-")) == 2)
    assert state(world, "g") == "Ready"


def test_what_a_person_deactivates_is_not_activated(world: KueueWorld) -> None:
    world.add_nodes(1, 1)
    world.queue("q", gpus=2, checks=(world.check(),))
    world.job("off", pods=1, gpus=2, queue="q")
    wait_until(lambda: message(world, "off") != "")
    world.set_active("off", is_active=False)
    world.more_devices(2)
    world.job("on", pods=1, gpus=2, queue="q")
    wait_until(lambda: len(world.bound_of("on")) == 1)
    assert not world.workload("off")["spec"]["active"]


def test_both_go_on_after_a_restart(world: KueueWorld, neighbours: Neighbours) -> None:
    world.add_nodes(1, 2)
    world.queue("q", gpus=4, checks=(world.check(),))
    world.job("runs", pods=1, gpus=2, queue="q")
    wait_until(lambda: len(world.bound_of("runs")) == 1)
    world.job("waits", pods=1, gpus=2, queue="q")
    wait_until(lambda: is_parked(world, "waits"))
    neighbours.dovetail.stop()
    neighbours.restart_kueue()
    world.set_active("runs", is_active=False)
    neighbours.restart_dovetail()
    wait_until(lambda: len(world.bound_of("waits")) == 1)


def test_a_queue_borrows_of_its_cohort_and_gives_the_room_back(world: KueueWorld) -> None:
    world.add_nodes(2, 2)
    check = world.check()
    reclaim: Json = {"preemption": {"reclaimWithinCohort": "Any"}}
    world.queue("mine", gpus=2, cohort="all", checks=(check,), **reclaim)
    world.queue("yours", gpus=2, cohort="all", checks=(check,), **reclaim)
    world.job("mine-0", pods=1, gpus=2, queue="mine")
    wait_until(lambda: len(world.bound_of("mine")) == 1)
    world.job("mine-1", pods=1, gpus=2, queue="mine")
    wait_until(lambda: len(world.bound_of("mine")) == 2)
    world.job("owner", pods=1, gpus=2, queue="yours")
    wait_until(lambda: len(world.bound_of("owner")) == 1)
    assert state(world, "owner") == "Ready"
    assert len(world.bound_of("mine")) == 1  # which of the two, Kueue says


def test_an_elastic_job_grows_and_keeps_the_pods_that_run(world: KueueWorld) -> None:
    """Kueue lets further pods come by quota alone, and would stop all of them if the check were rejected."""
    world.add_nodes(2, 2)
    world.queue("q", gpus=6, checks=(world.check(),))
    world.job("elastic", pods=1, gpus=2, queue="q", grows_to=3)
    wait_until(lambda: len(world.bound_of("elastic")) == 1)
    first = set(world.bound())
    world.scale("elastic", 3)
    wait_until(lambda: len(world.bound_of("elastic")) == 2)
    time.sleep(2 * PARK_SECONDS)
    assert growth(world)["state"] == "Ready"
    assert len(world.bound_of("elastic")) == 2
    world.more_devices(2)
    wait_until(lambda: len(world.bound_of("elastic")) == 3)
    assert first < set(world.bound())
