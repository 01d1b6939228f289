"""What happens between the decision and the binding: the plan is not forced on a cluster that has moved on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until
from tests.support.series import series
from tests.support.shell_proxy import is_allocation, is_binding, lossy, the_first
from tests.support.shell_world import RESOURCE, Start, World

pytestmark = pytest.mark.controlplane


def once_before(wanted: Callable[[str, str], bool], do: Callable[[], object]) -> Callable[[str, str], str]:
    """Do something before the first request that is like this reaches the server."""
    is_first = the_first(wanted)

    def before(method: str, path: str) -> str:
        if is_first(method, path):
            do()
        return path

    return before


def annotate(world: World, claim: str) -> None:
    path = f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims/{claim}"
    body = {"metadata": {"annotations": {"somebody": "wrote"}}}
    world.plane.request("PATCH", path, body, content="application/merge-patch+json")


def test_a_claim_that_changed_in_between_is_written_on_its_newer_state(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=1)
    world.claim("c")
    before = once_before(is_allocation, lambda: annotate(world, "c"))
    with lossy(control_plane.admin, before=before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        world.pod("p", claim="c")

        wait_until(lambda: "p" in world.bound())

    claim = world.get_claim("c")
    assert claim is not None
    assert claim["metadata"]["annotations"] == {"somebody": "wrote"}
    assert world.problems() == []


def test_a_claim_that_another_client_allocated_in_between_keeps_that_allocation(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(2, devices=1)
    world.claim("c")
    pods: list[dict[str, object]] = []
    other = world.nodes[1]

    def allocate() -> None:
        world.allocate("c", "gpu-0", other, *pods)

    with lossy(control_plane.admin, before=once_before(is_allocation, allocate)) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        pods.append(world.pod("p", claim="c"))

        wait_until(lambda: world.bound() == {"p": other})

    assert world.devices("c") == [f"{other}/gpu-0"]
    assert world.problems() == []


def test_what_was_written_for_a_pod_that_is_gone_is_taken_back(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=1)
    world.claim("c")
    before = once_before(is_binding, lambda: world.delete_pod("p"))
    with lossy(control_plane.admin, before=before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        world.pod("p", claim="c")
        wait_until(lambda: world.get_pod("p") is None)

        wait_until(lambda: world.devices("c") == [])
        world.pod("next", claim="c")
        wait_until(lambda: "next" in world.bound())

    assert world.problems() == []


def test_a_pod_that_another_client_bound_in_between_keeps_its_allocation(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=1)
    world.claim("c")

    def bind() -> None:
        path = f"/api/v1/namespaces/{world.namespace}/pods/p/binding"
        body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": world.nodes[0]}}
        world.plane.request("POST", path, body)

    with lossy(control_plane.admin, before=once_before(is_binding, bind)) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        world.pod("p", claim="c")

        wait_until(lambda: "Scheduled" in {each["reason"] for each in world.events("p")})

    assert world.devices("c") == [f"{world.nodes[0]}/gpu-0"]
    assert world.problems() == []


def test_nothing_is_taken_from_a_pod_that_another_client_bound_to_another_node(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(2, devices=1)
    world.claim("c")

    def bind() -> None:
        node, _, _ = world.devices("c")[0].partition("/")
        other = next(each for each in world.nodes if each != node)
        path = f"/api/v1/namespaces/{world.namespace}/pods/p/binding"
        world.plane.request("POST", path, {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": other}})

    with lossy(control_plane.admin, before=once_before(is_binding, bind)) as proxy:
        running = start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        world.pod("p", claim="c")

        wait_until(lambda: series(running, "dovetail_commit_conflicts_total") == 1)

    claim = world.get_claim("c")
    assert claim is not None
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["p"]


def test_when_one_claim_of_a_pod_cannot_be_had_the_other_is_taken_back(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(2, devices=2)
    world.claim("first")
    world.claim("second")
    pods: list[dict[str, object]] = []

    def is_second(method: str, path: str) -> bool:
        return is_allocation(method, path) and "/second/" in path

    def allocate_elsewhere() -> None:
        wait_until(lambda: world.devices("first") != [])
        node, _, _ = world.devices("first")[0].partition("/")
        other = next(each for each in world.nodes if each != node)
        world.allocate("second", "gpu-0", other, *pods)

    with lossy(control_plane.admin, before=once_before(is_second, allocate_elsewhere)) as proxy:
        running = start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        pods.append(world.pod("p", claims=("first", "second")))

        wait_until(lambda: "p" in world.bound())

        wait_until(lambda: series(running, "scheduler_schedule_attempts_total", result="scheduled") == 1)
        # A claim that stayed would have kept the pod from every node, until it was found and given free.
        assert series(running, "dovetail_unplaced_pods_total", reason="ClaimElsewhere") == 0
    assert world.problems() == []


def test_ours_yields_when_another_scheduler_takes_the_same_device(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(2, devices=1)
    world.claim("ours")
    world.claim("theirs")
    stranger = world.pod("stranger", claim="theirs", schedulerName="somebody-else")
    taken: list[str] = []

    def take_the_same() -> None:
        taken.extend(world.devices("ours"))
        node, _, device = taken[0].partition("/")
        world.allocate("theirs", device, node, stranger)

    is_ours = the_first(is_allocation)

    def after(method: str, path: str) -> bool:
        if is_ours(method, path):
            take_the_same()
            # The answer to our allocation is held back until the scheduler knows of theirs.
            wait_until(lambda: series(running, "dovetail_duplicate_devices_total") == 1)
        return False

    with lossy(control_plane.admin, after) as proxy:
        running = start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        world.pod("p", claim="ours")

        wait_until(lambda: "p" in world.bound())

        assert series(running, "dovetail_duplicate_devices_total") == 1
    assert world.devices("theirs") == taken
    assert world.devices("ours") != taken
    assert "DeviceHeldTwice" in {each["reason"] for each in world.events("p")}
    assert world.problems() == []
