"""Each component of `deploy/components` on the real API server: what works with it, and what is said without it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.dovetail import Dovetail
from scheduler.features import OFF_BY_DEFAULT, Feature
from tests.integration.test_gangs import member, pod_group
from tests.integration.test_preemption import HIGH, plain
from tests.support import extended_world as extended
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.people import bind
from tests.support.repair_world import configured, install_component
from tests.support.shell_world import Json, Start, World
from tests.support.volume_world import VolumeWorld

ON = [each for each in Feature if each not in OFF_BY_DEFAULT]

pytestmark = pytest.mark.controlplane


class Granted:
    """A service account with the rights of `deploy/base` and of every component but one."""

    def __init__(self, world: World, without: Feature) -> None:
        self._world, self._without, self._bindings = world, without, list[str]()
        namespace = world.namespace
        world.plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "some"}})
        for role in ("dovetail", *(f"dovetail-{each.value}" for each in ON if each is not without)):
            self._bind(role)
        self.kubeconfig = world.plane.kubeconfig_for_service_account(namespace, "some")

    def add(self) -> None:
        """Add the component."""
        self._bind(f"dovetail-{self._without.value}")

    def clear(self) -> None:
        for path in self._bindings:
            self._world.plane.request("DELETE", path)

    def _bind(self, role: str) -> None:
        world = self._world
        self._bindings.append(bind(world.plane, role, world.namespace, "some", name=f"{world.word}-{role}"))


@pytest.fixture
def granted(request: pytest.FixtureRequest, world: World, account: Path) -> Iterator[Granted]:
    """The feature that is left out is the parameter; `account` has installed the roles."""
    assert account.exists()
    made = Granted(world, request.param)
    yield made
    made.clear()


def without(feature: Feature) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("granted", [feature], indirect=True, ids=[feature.value])


def said(running: Dovetail) -> list[str]:
    """The messages of the log about rights that are missed."""
    return [line["message"] for line in told(running) if line["level"] == "warning"]


def told(running: Dovetail) -> list[Json]:
    """All lines of the log about missing rights, of features as well that few need."""
    lines = (json.loads(line) for line in running.log.read_text().splitlines() if line.startswith("{"))
    return [line for line in lines if line["event"] == "right_missing"]


def check(running: Dovetail) -> str:
    """Return the line of the check; empty while the process asks anew what it may do."""
    return next((line for line in running.get("/readyz?verbose")[1].splitlines() if "]rights " in line), "")


def waits(world: World, pod: str, *words: str) -> None:
    """Wait until the condition of a pod has some words."""
    wait_until(lambda: all(each in world.condition(pod).get("message", "") for each in words))
    assert pod not in world.bound()


@without(Feature.VOLUMES)
def test_volumes_are_noticed_when_their_component_is_added(
    world: World, volumes: VolumeWorld, start: Start, granted: Granted
) -> None:
    (node,) = volumes.add_nodes(1)
    volumes.volume("v", node)
    volumes.claim("data", volumes.local)
    running = start(granted.kubeconfig)
    volumes.pod("p", "data")
    volumes.pod("plain")

    waits(world, "p", "may not get persistentvolumeclaims", "deploy/components/volumes grants it")
    wait_until(lambda: "plain" in world.bound())
    (line,) = said(running)
    assert "list volumeattachments.storage.k8s.io" in line
    assert "pods with PersistentVolumeClaims wait" in line
    assert check(running).startswith("[~]rights degraded")

    granted.add()
    wait_until(lambda: "p" in world.bound(), seconds=90)  # without a restart of the process
    assert check(running).startswith("[+]rights ok")


@without(Feature.PREEMPTION)
def test_no_pod_is_evicted_without_the_right_to(world: World, start: Start, granted: Granted) -> None:
    world.add_nodes(1, devices=1)
    running = start(granted.kubeconfig)
    plain(world, "low", "40")
    wait_until(lambda: "low" in world.bound())
    plain(world, "high", "40", **HIGH)

    waits(world, "high", "Insufficient cpu")
    (line,) = said(running)
    assert "create pods/eviction" in line
    assert "no pod is evicted for another one; deploy/components/preemption grants it" in line
    running.stop()

    granted.add()
    assert said(start(granted.kubeconfig)) == []
    wait_until(lambda: "high" in world.bound())


@pytest.mark.kubernetes(gates=("DRAExtendedResource",))
@without(Feature.EXTENDED_RESOURCES)
def test_a_pod_whose_resource_needs_a_claim_says_which_right_is_missing(
    world: World, start: Start, granted: Granted
) -> None:
    world.add_nodes(1, devices=1)
    extended.map_class(world)
    running = start(granted.kubeconfig)
    extended.pod(world, "p")

    waits(world, "p", 'cannot create resource "resourceclaims"', "deploy/components/extended-resources grants it")
    (line,) = said(running)
    assert "create resourceclaims.resource.k8s.io, delete resourceclaims.resource.k8s.io" in line
    running.stop()

    granted.add()
    assert said(start(granted.kubeconfig)) == []
    wait_until(lambda: "p" in world.bound())


@WITH_POD_GROUPS
@without(Feature.POD_GROUPS)
def test_pods_of_a_group_that_may_not_be_read_wait_and_say_so(world: World, start: Start, granted: Granted) -> None:
    world.add_nodes(1, devices=3)
    world.template()
    running = start(granted.kubeconfig)
    pod_group(world, "g", 2)
    for index in range(2):
        member(world, "g", index)
    world.pod("single")

    waits(world, "g-0", "may not list podgroups.scheduling.k8s.io", "deploy/components/pod-groups grants it")
    wait_until(lambda: "single" in world.bound())
    assert len(said(running)) == 1
    running.stop()

    granted.add()
    assert said(start(granted.kubeconfig)) == []
    wait_until(lambda: len(world.bound()) == 3)


@without(Feature.REPAIR)
def test_repairs_that_are_on_need_their_rights(world: World, start: Start, granted: Granted, tmp_path: Path) -> None:
    install_component(world.plane)
    running = start(granted.kubeconfig, configured(world, tmp_path, "advise"))

    wait_until(lambda: check(running).startswith("[~]rights degraded"))
    (line,) = said(running)
    assert "create repairplans.dovetail.dev" in line
    assert "no RepairPlan is made or carried out; deploy/components/repair grants it" in line

    granted.add()
    wait_until(lambda: check(running).startswith("[+]rights ok"), seconds=90)  # without a restart of the process
