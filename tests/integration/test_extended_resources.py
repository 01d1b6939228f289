"""Extended resources on the real API server: devices serve them where a class stands for them and no plugin does."""

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.support import extended_world as extended
from tests.support.controlplane import wait_until
from tests.support.extended_world import container, resource_of
from tests.support.shell_proxy import lossy, the_first
from tests.support.shell_world import Json, Start, World

pytestmark = [pytest.mark.controlplane, pytest.mark.kubernetes(gates=("DRAExtendedResource",))]


def runs(world: World, name: str) -> Callable[[], bool]:
    """The stand-in for the kubelet starts a pod only when its claim is allocated and reserved for it."""
    return lambda: extended.phase(world, name) == "Running"


def only_claim(world: World) -> Json:
    (claim,) = extended.special_claims(world)
    return claim


def test_devices_serve_a_resource_that_a_class_stands_for(world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    extended.map_class(world)
    start()
    made = extended.pod(world, "p", container("main", resource_of(world), 2))

    wait_until(runs(world, "p"))

    claim, status = only_claim(world), extended.status(world, "p")
    assert claim["metadata"]["name"].startswith("p-extended-resources-")
    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", made["metadata"]["uid"], True)
    assert "resource.kubernetes.io/delete-protection" in claim["metadata"]["finalizers"]
    assert extended.requests(claim) == {"container-0-request-1": (world.driver, 2)}
    assert len(world.devices(claim["metadata"]["name"])) == 2
    assert status == {
        "resourceClaimName": claim["metadata"]["name"],
        "requestMappings": [
            {
                "containerName": "main",
                "resourceName": resource_of(world),
                "requestName": "container-0-request-1",
            }
        ],
    }


def test_a_class_is_an_extended_resource_by_its_name(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    start()
    extended.pod(world, "p", container("main", f"deviceclass.resource.kubernetes.io/{world.driver}", 1))

    wait_until(runs(world, "p"))

    assert len(world.devices(only_claim(world)["metadata"]["name"])) == 1


@pytest.mark.kubernetes(since="1.35")
def test_every_container_gets_devices_of_its_own_and_init_containers_share_them(world: World, start: Start) -> None:
    world.add_nodes(1, devices=4)
    extended.map_class(world)
    resource = resource_of(world)
    start()
    init = (
        container("sidecar", resource, 1, restartPolicy="Always"),
        container("large", resource, 3),
        container("small", resource, 1),
    )
    extended.pod(world, "p", container("a", resource, 1), container("b", resource, 1), init=init)

    wait_until(runs(world, "p"))

    assert extended.requests(only_claim(world)) == {
        "container-0-request-1": (world.driver, 1),
        "container-1-request-1": (world.driver, 1),
        "container-3-request-1": (world.driver, 1),
        "container-4-request-1": (world.driver, 1),
    }
    assert extended.users(extended.status(world, "p")) == {
        "sidecar": ["container-0-request-1"],
        "large": ["container-3-request-1", "container-4-request-1", "container-1-request-1"],
        "small": ["container-3-request-1"],
        "a": ["container-3-request-1"],
        "b": ["container-4-request-1"],
    }


def test_a_plugin_serves_its_node_and_devices_serve_the_other(world: World, start: Start) -> None:
    world.add_nodes(2, devices=2)
    extended.map_class(world)
    extended.offer(world, world.nodes[0], 2)
    start()
    for number in range(4):
        extended.pod(world, f"p{number}")

    wait_until(lambda: len(world.bound()) == 4)

    by_plugin = {name for name, node in world.bound().items() if node == world.nodes[0]}
    assert len(by_plugin) == 2
    assert all(extended.status(world, name) == {} for name in by_plugin)
    assert all(extended.status(world, name) for name in world.bound().keys() - by_plugin)
    assert len(extended.special_claims(world)) == 2
    extended.pod(world, "waiting")
    wait_until(lambda: bool(world.condition("waiting")))
    message = world.condition("waiting")["message"]
    assert f"resource {resource_of(world)}: needs 1 device, 2 match" in message
    assert f"Insufficient {resource_of(world)}" in message


def test_a_pod_waits_where_a_plugin_offers_the_hardware_of_its_claim(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    extended.offer(world, world.nodes[0], 1)
    world.template()
    start()
    world.pod("p")
    wait_until(lambda: bool(world.condition("p")))
    assert resource_of(world) in world.condition("p")["message"]
    assert f"class {world.driver}" in world.condition("p")["message"]

    extended.offer(world, world.nodes[0], 0)

    wait_until(lambda: "p" in world.bound())


def test_devices_become_free_when_the_pod_ends(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    start()
    extended.pod(world, "first")
    wait_until(runs(world, "first"))
    extended.pod(world, "second")
    wait_until(lambda: bool(world.condition("second")))

    world.delete_pod("first")
    wait_until(runs(world, "second"))

    assert len([each for each in extended.special_claims(world) if "deletionTimestamp" not in each["metadata"]]) == 1


def test_claims_that_another_scheduler_made_are_usage(control_plane: ControlPlane, world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    extended.map_class(world)
    peer = extended.kube_scheduler(control_plane)
    try:
        extended.pod(world, "theirs", schedulerName="default-scheduler")
        wait_until(runs(world, "theirs"))
    finally:
        peer.stop()

    start()
    extended.pod(world, "ours")
    wait_until(runs(world, "ours"))
    extended.pod(world, "waiting")
    wait_until(lambda: bool(world.condition("waiting")))

    held = [device for claim in extended.special_claims(world) for device in world.devices(claim["metadata"]["name"])]
    assert len(held) == len(set(held)) == 2
    assert "waiting" not in world.bound()
    ours = extended.status(world, "ours")["requestMappings"]
    assert ours == extended.status(world, "theirs")["requestMappings"]


def test_a_claim_that_was_made_and_never_allocated_does_not_block_its_pod(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    left = extended.make_claim(world, extended.pod(world, "p"))

    start()
    wait_until(runs(world, "p"))

    assert extended.status(world, "p")["resourceClaimName"] != left["metadata"]["name"]
    assert len(extended.special_claims(world)) == 1


def test_a_claim_that_was_allocated_before_a_crash_does_not_hold_its_pod_up(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    pod = extended.pod(world, "p")
    left = extended.make_claim(world, pod)["metadata"]["name"]
    world.allocate(left, "gpu-0", world.nodes[0], pod)

    start()
    wait_until(runs(world, "p"))

    wait_until(lambda: world.get_claim(left) is None)
    assert len(world.devices(only_claim(world)["metadata"]["name"])) == 1


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param(("POST", "/resourceclaims"), id="the claim was made"),
        pytest.param(("PATCH", "/resourceclaims/"), id="its finalizer was written"),
        pytest.param(("PATCH", "/p/status"), id="it was announced"),
        pytest.param(("POST", "/binding"), id="the pod was bound"),
    ],
)
def test_an_answer_that_is_lost_leaves_one_claim(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path, lost: tuple[str, str]
) -> None:
    def is_it(asked: str, path: str) -> bool:
        return asked == lost[0] and lost[1] in path and world.namespace in path

    world.add_nodes(1, devices=1)
    extended.map_class(world)
    with lossy(control_plane.admin, the_first(is_it)) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "lossy.kubeconfig"))
        extended.pod(world, "p")
        wait_until(runs(world, "p"), seconds=60)
        time.sleep(1.5)

        assert proxy.lost
        assert len(extended.special_claims(world)) == 1


def test_the_claim_is_written_before_the_pod_is_bound(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    asked: list[str] = []

    def before(method: str, path: str) -> str:
        if method != "GET" and world.namespace in path and "/events" not in path:
            asked.append(f"{method} {re.sub('.*/(?=resourceclaims|pods)', '', path)}")
        return path

    with lossy(control_plane.admin, before=before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        extended.pod(world, "p")
        wait_until(runs(world, "p"))

    name = only_claim(world)["metadata"]["name"]
    assert asked == [
        "POST resourceclaims",
        f"PATCH resourceclaims/{name}",
        f"PATCH resourceclaims/{name}/status",
        "PATCH pods/p/status",
        "POST pods/p/binding",
    ]


@pytest.mark.parametrize("word", ["/p/status", "/p/binding"])
def test_a_crash_before_the_binding_leaves_nothing_that_blocks_the_pod(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path, word: str
) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    crashed = threading.Event()

    def before(method: str, path: str) -> str:
        if method != "GET" and path.endswith(word) and world.namespace in path and not crashed.is_set():
            os.kill(first.pid, signal.SIGKILL)
            crashed.set()
            return "/nothing"
        return path

    with lossy(control_plane.admin, before=before) as proxy:
        first = start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        extended.pod(world, "p")
        wait_until(crashed.is_set)
        wait_until(lambda: not first.is_running())
    left = only_claim(world)["metadata"]["name"]
    assert world.devices(left) == [f"{world.nodes[0]}/gpu-0"]
    start()

    wait_until(runs(world, "p"))
    wait_until(lambda: world.get_claim(left) is None)
    assert extended.status(world, "p")["resourceClaimName"] == only_claim(world)["metadata"]["name"]


def test_a_binding_that_is_refused_takes_the_claim_back(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)

    def before(method: str, path: str) -> str:
        if method == "POST" and path.endswith("/p/binding") and not deleted.is_set():
            world.delete_pod("p")
            deleted.set()
        return path

    deleted = threading.Event()
    with lossy(control_plane.admin, before=before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        extended.pod(world, "p")
        wait_until(deleted.is_set)

        wait_until(lambda: extended.special_claims(world) == [])


def test_a_server_that_does_not_keep_the_claim_in_the_status_binds_no_pod(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    """With the feature gate off the server drops the field, as it does with a status that is sent to the pod itself."""
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    asked: list[str] = []

    def before(method: str, path: str) -> str:
        if method == "PATCH" and path.endswith("/p/status") and not asked:
            asked.append(path)
            return path.removesuffix("/status")
        return path

    with lossy(control_plane.admin, before=before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig"))
        extended.pod(world, "p")
        wait_until(lambda: bool(world.condition("p")))

        assert "DRAExtendedResource" in world.condition("p")["message"]
        wait_until(runs(world, "p"))

    assert len(extended.special_claims(world)) == 1


def test_devices_that_have_to_be_got_ready_first_are_waited_for(world: World, start: Start) -> None:
    world.device = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    start()
    extended.pod(world, "p")

    wait_until(runs(world, "p"))

    (device,) = only_claim(world)["status"]["devices"]
    assert [(each["type"], each["status"]) for each in device["conditions"]] == [("attached", "True")]
    assert len(extended.special_claims(world)) == 1
