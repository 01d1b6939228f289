"""Kueue's admission check `dovetail.dev/placement` on the API server; Kueue's part is done by hand."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail, install
from tests.support import kueue_stand_in
from tests.support.controlplane import wait_until
from tests.support.kueue_stand_in import KueueByHand
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

PARKED = "dovetail.dev/parked"
BY_CHECK = "DeactivatedDueToAdmissionCheck"


@pytest.fixture(scope="module")
def with_rights(control_plane: ControlPlane) -> Path:
    """A kubeconfig of the account that `deploy/overlays/kueue` makes; Kueue's kinds are defined."""
    kueue_stand_in.install(control_plane)
    return install(control_plane, "holds", "kueue")


@pytest.fixture
def kueue(world: World, with_rights: Path) -> Iterator[KueueByHand]:
    """What Kueue does."""
    assert with_rights.exists()
    made = KueueByHand(world)
    yield made
    made.clear()


@pytest.fixture
def checking(start: Start, with_rights: Path, tmp_path: Path, world: World) -> Dovetail:
    """Dovetail, which parks a Workload after two seconds without room."""
    config = tmp_path / "check.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": world.scheduler}],
        "admissionCheck": {"enabled": True, "parkAfterSeconds": 2},
    }
    config.write_text(yaml.safe_dump(document))
    return start(with_rights, f"--config={config}")


@pytest.mark.usefixtures("checking")
def test_the_check_is_active(kueue: KueueByHand) -> None:
    wait_until(kueue.is_active)


@pytest.mark.usefixtures("checking")
def test_a_workload_without_room_says_why_and_is_parked_until_it_fits(world: World, kueue: KueueByHand) -> None:
    world.add_nodes(1, 1)
    kueue.template(2)
    kueue.create("large")
    wait_until(lambda: "nodes are available" in kueue.state("large")[1])
    assert kueue.state("large")[0] == "Pending"
    wait_until(lambda: kueue.state("large")[0] == "Rejected")
    assert PARKED in kueue.get("large")["metadata"]["annotations"]
    kueue.deactivate("large", BY_CHECK)
    world.more_devices(2)
    wait_until(lambda: kueue.get("large")["spec"]["active"])
    assert PARKED not in kueue.get("large")["metadata"].get("annotations", {})
    assert not kueue.is_kept_back("large")


@pytest.mark.usefixtures("checking")
def test_what_a_person_deactivates_stays_so(world: World, kueue: KueueByHand) -> None:
    world.add_nodes(1, 1)
    kueue.template(1)
    kueue.template(2, "two")
    kueue.create("off", has_quota=False)
    kueue.deactivate("off")
    kueue.create("large", template="two")
    wait_until(lambda: kueue.state("large")[0] == "Rejected")
    kueue.deactivate("large")  # a person was faster than Kueue
    kueue.create("fits")
    wait_until(lambda: kueue.state("fits")[0] == "Ready")
    assert not kueue.get("off")["spec"]["active"]
    assert not kueue.get("large")["spec"]["active"]


@pytest.mark.usefixtures("checking")
def test_what_a_person_activates_is_queued_again(world: World, kueue: KueueByHand) -> None:
    world.add_nodes(1, 1)
    kueue.template(2)
    kueue.create("large")
    wait_until(lambda: kueue.state("large")[0] == "Rejected")
    kueue.deactivate("large", BY_CHECK)
    kueue.activate("large")
    wait_until(lambda: PARKED not in kueue.get("large")["metadata"].get("annotations", {}))
    assert not kueue.is_kept_back("large")


@pytest.mark.usefixtures("checking")
def test_a_missing_template_is_named_and_found_when_it_comes(world: World, kueue: KueueByHand) -> None:
    world.add_nodes(1, 1)
    kueue.create("early")
    wait_until(lambda: "ResourceClaimTemplate one of podset main does not exist" in kueue.state("early")[1])
    kueue.template(1)
    wait_until(lambda: kueue.state("early")[0] == "Ready")


@pytest.mark.usefixtures("checking")
def test_a_workload_that_cannot_be_read_stops_no_other(world: World, kueue: KueueByHand) -> None:
    world.add_nodes(1, 1)
    kueue.template(2)
    kueue.create("broken", podSets=[{"name": "main", "count": "two", "template": {}}])
    kueue.create("large")
    wait_until(lambda: "nodes are available" in kueue.state("large")[1])
    assert kueue.state("broken") == ("Pending", "")


@pytest.mark.usefixtures("checking")
def test_the_room_of_a_workload_that_is_let_in_is_for_its_pods(world: World, kueue: KueueByHand) -> None:
    world.add_nodes(1, 2)
    kueue.template(1)
    kueue.create("train", pods=2)
    wait_until(lambda: kueue.state("train")[0] == "Ready")
    world.pod("other")
    wait_until(lambda: world.condition("other").get("status") == "False")
    assert world.bound() == {}
    for index in range(2):
        kueue.member("train", index)
    wait_until(lambda: len(world.bound()) == 2)
    assert "other" not in world.bound()
    wait_until(lambda: kueue.holds() == [])
    assert world.problems() == []


@pytest.mark.usefixtures("checking")
def test_two_workloads_for_one_room_are_let_in_one_after_the_other(world: World, kueue: KueueByHand) -> None:
    world.add_nodes(1, 2)
    kueue.template(2)
    kueue.create("first")
    wait_until(lambda: kueue.state("first")[0] == "Ready")
    kueue.create("second")
    wait_until(lambda: "nodes are available" in kueue.state("second")[1])
    kueue.evict("first", "Preempted")
    wait_until(lambda: kueue.state("second")[0] == "Ready")
    kueue.delete("second")
    wait_until(lambda: kueue.holds() == [])


Again = Callable[[], Dovetail]


@pytest.fixture
def again(start: Start, with_rights: Path, tmp_path: Path) -> Again:
    """Start Dovetail once more with the same configuration."""
    return lambda: start(with_rights, f"--config={tmp_path / 'check.yaml'}")


def test_a_hold_outlives_the_scheduler(world: World, kueue: KueueByHand, checking: Dovetail, again: Again) -> None:
    world.add_nodes(1, 1)
    kueue.template(1)
    kueue.create("train")
    wait_until(lambda: kueue.state("train")[0] == "Ready")
    checking.stop()
    world.pod("other")
    again()
    kueue.member("train", 0)
    wait_until(lambda: "train-0" in world.bound())
    assert "other" not in world.bound()
