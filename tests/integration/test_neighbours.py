"""Rules between pods on the real API server: what Dovetail does with them, next to kube-scheduler."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import wait_until
from tests.support.shell_proxy import Dam, is_binding, lossy
from tests.support.shell_world import Json, Start, World

pytestmark = pytest.mark.controlplane

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONES = ("a", "a", "b", "b")
"""Of the nodes that every scene has."""


def term(key: str, app: str, **more: Any) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def pod(world: World, name: str, app: str, scheduler: str = "", **spec: Any) -> None:
    """Create a pod without claims that stays on the world's nodes."""
    body = {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "schedulerName": scheduler or world.scheduler,
            "nodeSelector": {"world": world.word},
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "example.com/none"}],
            **spec,
        },
    }
    world.plane.request("POST", f"/api/v1/namespaces/{world.namespace}/pods", body)


def stage(world: World) -> None:
    """Give the world its nodes, in two zones."""
    world.add_nodes(len(ZONES), devices=1)
    for node, zone in zip(world.nodes, ZONES, strict=True):
        world.label(node, "zone", zone)
        world.label(node, HOST, node)


def zone_of(world: World, node: str) -> str:
    return ZONES[world.nodes.index(node)]


class Scene(NamedTuple):
    """Pods, how many of them get a node, what holds for those, and what the others are told."""

    create: Callable[[World, str], None]
    placed: int
    holds: Callable[[World, dict[str, str]], bool]
    told: str = ""


def replicas(world: World, scheduler: str) -> None:
    for index in range(5):
        apart = {"podAntiAffinity": {REQUIRED: [term(HOST, "web")]}}
        pod(world, f"web-{index}", "web", scheduler, affinity=apart)


def spread(world: World, scheduler: str) -> None:
    rule = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pod(world, "old", "web", scheduler, nodeName=world.nodes[0])
    for index in range(5):
        pod(world, f"web-{index}", "web", scheduler, topologySpreadConstraints=[rule])


def clients(world: World, scheduler: str) -> None:
    pod(world, "server", "db", scheduler, nodeName=world.nodes[3])
    for index in range(4):
        near = {"podAffinity": {REQUIRED: [term("zone", "db")]}}
        pod(world, f"client-{index}", "client", scheduler, affinity=near)


def friends(world: World, scheduler: str) -> None:
    for index in range(4):
        near = {"podAffinity": {REQUIRED: [term("zone", "friend")]}}
        pod(world, f"friend-{index}", "friend", scheduler, affinity=near)


def ports(world: World, scheduler: str) -> None:
    for index in range(5):
        port = {"containerPort": 8080, "hostPort": 8080}
        container = {"name": "main", "image": "example.com/none", "ports": [port]}
        pod(world, f"web-{index}", "web", scheduler, containers=[container])


def hermit(world: World, scheduler: str) -> None:
    """A running pod keeps the others out of its zone, with either scheduler."""
    away = {"podAntiAffinity": {REQUIRED: [term("zone", "web", namespaceSelector={})]}}
    pod(world, "hermit", "hermit", scheduler, nodeName=world.nodes[0], affinity=away)
    for index in range(3):
        pod(world, f"web-{index}", "web", scheduler)


SCENES = {
    "a node each": Scene(
        replicas, 4, lambda _, bound: len(set(bound.values())) == 4, "didn't match pod anti-affinity rules"
    ),
    "evenly over zones": Scene(
        spread, 6, lambda world, bound: Counter(zone_of(world, node) for node in bound.values()) == {"a": 3, "b": 3}
    ),
    "with a service": Scene(
        clients, 5, lambda world, bound: {zone_of(world, node) for node in bound.values()} == {"b"}
    ),
    "with each other": Scene(
        friends, 4, lambda world, bound: len({zone_of(world, node) for node in bound.values()}) == 1
    ),
    "one port per node": Scene(
        ports, 4, lambda _, bound: len(set(bound.values())) == 4, "didn't have free ports for the requested pod ports"
    ),
    "away from one that wants to be alone": Scene(
        hermit,
        4,
        lambda world, bound: {zone_of(world, node) for name, node in bound.items() if name != "hermit"} == {"b"},
    ),
}


@pytest.fixture(scope="module")
def peer(control_plane: ControlPlane) -> Iterator[str]:
    """kube-scheduler, for pods that name no other scheduler."""
    running = control_plane.start_kube_scheduler()
    yield "default-scheduler"
    running.stop()


@pytest.fixture(params=["dovetail", "kube-scheduler"])
def scheduler(request: pytest.FixtureRequest, world: World, start: Start) -> str:
    """The name of the scheduler whose turn it is; the world has its nodes by then."""
    stage(world)
    if request.param == "kube-scheduler":
        name: str = request.getfixturevalue("peer")
        return name
    start()
    return world.scheduler


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_both_schedulers_keep_the_rule_and_place_as_many(world: World, scheduler: str, scene: Scene) -> None:
    scene.create(world, scheduler)
    total = len(world.pods())

    wait_until(lambda: len(world.bound()) == scene.placed)
    waiting = sorted({each["metadata"]["name"] for each in world.pods()} - world.bound().keys())
    wait_until(lambda: all(world.condition(name).get("status") == "False" for name in waiting))

    bound = world.bound()
    assert scene.holds(world, bound)
    assert len(waiting) == total - scene.placed
    for name in waiting:
        condition = world.condition(name)
        assert condition["reason"] == "Unschedulable"
        assert scene.told in condition["message"]


def test_a_pod_that_waits_for_a_node_of_its_own_gets_it_when_another_leaves(world: World, start: Start) -> None:
    stage(world)
    replicas(world, "")
    start()
    wait_until(lambda: len(world.bound()) == 4)
    (waiting,) = {each["metadata"]["name"] for each in world.pods()} - world.bound().keys()
    wait_until(lambda: bool(world.condition(waiting)))

    world.delete_pod(next(iter(world.bound())))

    wait_until(lambda: waiting in world.bound())
    assert len(set(world.bound().values())) == 4


def test_a_pod_with_affinity_follows_the_pod_that_it_waits_for(world: World, start: Start) -> None:
    stage(world)
    start()
    near = {"podAffinity": {REQUIRED: [term("zone", "db")]}}
    pod(world, "client", "client", affinity=near)
    wait_until(lambda: bool(world.condition("client")))
    assert "didn't match pod affinity rules" in world.condition("client")["message"]

    pod(world, "server", "db", nodeName=world.nodes[2])

    wait_until(lambda: "client" in world.bound())
    assert zone_of(world, world.bound()["client"]) == "b"


def test_a_pod_that_the_labels_of_a_namespace_keep_out_comes_in_when_they_change(
    control_plane: ControlPlane, world: World, start: Start
) -> None:
    stage(world)
    path = f"/api/v1/namespaces/{world.namespace}"
    control_plane.request(
        "PATCH", path, {"metadata": {"labels": {"noisy": world.word}}}, content="application/merge-patch+json"
    )
    selector = {"matchLabels": {"noisy": world.word}}
    for node in world.nodes:
        away = {"podAntiAffinity": {REQUIRED: [term(HOST, "web", namespaceSelector=selector)]}}
        pod(world, f"hermit-{node}", "hermit", nodeName=node, affinity=away)
    start()
    pod(world, "web", "web")
    wait_until(lambda: bool(world.condition("web")))
    assert "didn't satisfy existing pods anti-affinity rules" in world.condition("web")["message"]

    control_plane.request(
        "PATCH", path, {"metadata": {"labels": {"noisy": None}}}, content="application/merge-patch+json"
    )

    wait_until(lambda: "web" in world.bound())


def test_a_pod_with_affinity_to_a_pod_waits_for_its_binding(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    stage(world)
    dam = Dam(0, lambda method, path: is_binding(method, path) and "/store/" in path)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "held.kubeconfig"))
        pod(world, "store", "store")
        wait_until(lambda: any("/store/binding" in each for each in proxy.writes))
        pod(world, "web", "web", affinity={"podAffinity": {REQUIRED: [term("zone", "store")]}})
        time.sleep(3.0)
        assert world.bound() == {}

        world.delete_pod("store")
        wait_until(lambda: "affinity" in str(world.condition("web").get("message", "")))
        assert world.bound() == {}
        dam.open()
        pod(world, "store", "store")
        wait_until(lambda: world.bound().keys() == {"store", "web"})

    assert len({zone_of(world, node) for node in world.bound().values()}) == 1


def test_in_a_chain_no_pod_is_bound_before_those_that_its_affinity_needs(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    stage(world)
    for name, on in (("a", "b"), ("b", "c")):  # a pod with affinity is there first, and decided first
        pod(world, name, name, affinity={"podAffinity": {REQUIRED: [term("zone", on)]}})
    pod(world, "c", "c")
    dam = Dam(0, lambda method, path: is_binding(method, path) and "/b/" in path)
    with lossy(control_plane.admin, before=dam.before) as proxy:
        start(proxy.write_kubeconfig(tmp_path / "held.kubeconfig"))
        wait_until(lambda: any("/b/binding" in each for each in proxy.writes))
        time.sleep(3.0)
        assert world.bound().keys() == {"c"}

        world.delete_pod("b")
        wait_until(lambda: "affinity" in str(world.condition("a").get("message", "")))
        dam.open()
        time.sleep(1.0)
        assert world.bound().keys() == {"c"}
        pod(world, "b", "b", affinity={"podAffinity": {REQUIRED: [term("zone", "c")]}})
        wait_until(lambda: world.bound().keys() == {"a", "b", "c"})

    assert len({zone_of(world, node) for node in world.bound().values()}) == 1
