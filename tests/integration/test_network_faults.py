"""Faults of the network between Dovetail and the API server: when they end all pods are bound, no device twice."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from scheduler.change import Kind
from scheduler.kube import paths
from tests.support.controlplane import stopped, wait_until
from tests.support.series import series
from tests.support.shell_proxy import (
    Asked,
    LossyProxy,
    OldLists,
    Storm,
    Told,
    is_allocation,
    is_binding,
    lossy,
    refusal,
)
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

LIMIT_SECONDS = 3.0
"""The age at which a watch is stale here; what nothing happens to is listed every 1.5 s then."""
FAULT_SECONDS = 4.0
CONFIGURATION = f"""
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
commit:
  requestTimeoutSeconds: 1
  maxWatchAgeSeconds: {LIMIT_SECONDS}
"""


class Scene(NamedTuple):
    """Two nodes with 8 devices each, and a scheduler whose way to the API server is a proxy."""

    world: World
    proxy: LossyProxy
    running: Dovetail

    def pods(self, numbers: range) -> None:
        """Create pods with one device each."""
        for number in numbers:
            self.world.pod(f"p{number}")

    def wait_until_well(self, count: int) -> None:
        """Wait until so many pods are bound, and look whether a device was given twice; fail where Dovetail ends."""

        def are_bound() -> bool:
            self.running.check()
            return len(self.world.bound()) == count

        wait_until(are_bound, seconds=90)
        assert self.world.problems() == []
        assert series(self.running, "dovetail_duplicate_devices_total") == 0


@pytest.fixture
def scene(control_plane: ControlPlane, world: World, start: Start, tmp_path: Path) -> Iterator[Scene]:
    world.add_nodes(2, devices=8)
    world.template()
    path = tmp_path / "config.yaml"
    path.write_text(CONFIGURATION)
    with lossy(control_plane.admin) as proxy:
        running = start(proxy.write_kubeconfig(tmp_path / "faulty.kubeconfig"), f"--config={path}")
        yield Scene(world, proxy, running)


def stale(running: Dovetail) -> set[str]:
    """Name the kinds that readiness calls stale."""
    status, text = running.get("/readyz?verbose")
    found = {line[3:].split()[0] for line in text.splitlines() if ": stale: nothing heard for " in line}
    assert not found or status == 503
    return found


def test_while_a_watch_is_stale_nothing_is_written_and_readiness_names_the_kind(scene: Scene) -> None:
    """The watch of the nodes ends, and every new one hangs; all else works."""
    ends = threading.Event()

    def meet(asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        if asked.path == "/api/v1/nodes" and not is_done:
            ends.wait(60)
        return None

    scene.world.pod("before")
    wait_until(lambda: "Scheduled" in {each["reason"] for each in scene.world.events("before")})
    scene.proxy.meet = meet
    scene.proxy.end_watches()
    wait_until(lambda: stale(scene.running) == {"nodes"})
    written = list(scene.proxy.writes)
    scene.world.pod("meanwhile")
    wait_until(lambda: series(scene.running, "dovetail_watch_age_seconds", resource="nodes") > 2 * LIMIT_SECONDS)
    assert scene.proxy.writes == written
    assert scene.world.bound().keys() == {"before"}
    ends.set()
    wait_until(lambda: stale(scene.running) == set())
    scene.wait_until_well(2)


def test_watches_that_end_again_and_again_lose_nothing(scene: Scene) -> None:
    for number in range(16):
        scene.world.pod(f"p{number}")
        scene.proxy.end_watches()
    scene.wait_until_well(16)


def test_after_a_suspend_devices_that_others_took_meanwhile_are_not_given_again(scene: Scene) -> None:
    world = scene.world
    scene.pods(range(4))
    wait_until(lambda: len(world.bound()) == 4)
    with stopped(scene.running.pid):
        scene.pods(range(4, 8))
        held = {device for claim in world.claims() for device in world.devices(claim["metadata"]["name"])}
        node, _, device = min({f"{node}/gpu-{index}" for node in world.nodes for index in range(8)} - held).partition(
            "/"
        )
        world.claim("theirs")
        world.allocate("theirs", device, node, world.pod("stranger", claim="theirs", schedulerName="somebody-else"))
        time.sleep(FAULT_SECONDS)
    scene.wait_until_well(8)


def test_a_list_that_is_old_gives_no_device_away_again(control_plane: ControlPlane, scene: Scene) -> None:
    """By the old list no claim holds a device. New pods come while it is served, so that a decision would use it."""
    collections = [paths.COLLECTIONS[Kind.CLAIMS], paths.COLLECTIONS[Kind.PODS]]
    old = OldLists(control_plane.admin, collections)
    scene.pods(range(8))
    wait_until(lambda: len(scene.world.bound()) == 8)
    expired = set(collections)

    def meet(asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        if asked.path in expired and "resourceVersion=" in asked.query:
            expired.discard(asked.path)
            return refusal(410)
        return old.meet(asked, is_done)

    scene.proxy.meet = meet
    scene.proxy.end_watches()
    scene.pods(range(8, 16))
    wait_until(lambda: old.told == set(collections))
    scene.wait_until_well(16)
    assert "went back from resourceVersion" in scene.running.log.read_text()


FAULTS: dict[str, Callable[[LossyProxy], None]] = {
    "requests are lost": lambda proxy: proxy.partition(answers=False),
    "connections are half closed": lambda proxy: proxy.partition(requests=False),
    "both ways are lost": lambda proxy: proxy.partition(),
    "answers are dropped after the server has acted": lambda proxy: proxy.lose_answers(),
    "answers are slow": lambda proxy: setattr(proxy, "delay_seconds", 0.4),
    "answers are slower than writes may take": lambda proxy: setattr(proxy, "delay_seconds", 1.5),
    "answers are cut": lambda proxy: setattr(proxy, "cut_bytes", 40),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_of_all_connections_all_pods_are_bound_and_no_device_is_given_twice(
    scene: Scene, fault: str
) -> None:
    """It begins amid a batch, and lasts longer than a watch may be silent."""
    scene.pods(range(8))
    wait_until(lambda: len(scene.world.bound()) >= 2)
    FAULTS[fault](scene.proxy)
    scene.pods(range(8, 12))
    time.sleep(FAULT_SECONDS)
    scene.proxy.recover()
    scene.pods(range(12, 16))
    scene.wait_until_well(16)


STORMS: dict[str, Callable[[], Storm]] = {
    "409 for allocations": lambda: Storm(409, 8, is_allocation),
    "429 for all": lambda: Storm(429, 20, lambda _, __: True),
    "500 for all": lambda: Storm(500, 20, lambda _, __: True),
    "500 for allocations that acted": lambda: Storm(500, 8, is_allocation, is_done=True),
    "504 for bindings that acted": lambda: Storm(504, 8, is_binding, is_done=True),
}


@pytest.mark.parametrize("storm", STORMS)
def test_after_a_storm_of_errors_all_pods_are_bound_and_no_device_is_given_twice(scene: Scene, storm: str) -> None:
    made = STORMS[storm]()
    scene.proxy.meet = made.meet
    scene.pods(range(16))
    wait_until(lambda: made.is_over, seconds=60)
    scene.wait_until_well(16)
