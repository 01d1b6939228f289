"""The scheduler dies, stops or hangs in the middle of a batch: no pod is lost, and nothing is allocated twice."""

import concurrent.futures
import json
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.controlplane.plane import ControlPlane
from tests.support.controlplane import stopped, wait_until
from tests.support.shell_proxy import Dam, LossyProxy, is_allocation, is_binding, lossy
from tests.support.shell_world import Start, World, exit_status, wait_until_leading

pytestmark = pytest.mark.controlplane

LEASE = """
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
commit:
  requestTimeoutSeconds: 1
leaderElection:
  leaseName: "{name}"
  leaseNamespace: {namespace}
  leaseDurationSeconds: 15
  renewDeadlineSeconds: 12
  retryPeriodSeconds: 0.5
"""


def fill(world: World, nodes: int, pods: int) -> None:
    """Nodes with 8 devices each, and pods with one claim each, all of which exist when this returns."""
    world.add_nodes(nodes, devices=8)
    world.template()
    with concurrent.futures.ThreadPoolExecutor(8) as many:
        list(many.map(lambda number: world.pod(f"p{number}"), range(pods)))
    wait_until(lambda: len(world.claims()) == pods, seconds=120)


def allocated(world: World) -> int:
    """Count the claims that are allocated."""
    return sum("allocation" in each.get("status", {}) for each in world.claims())


def no_more_allocations(world: World, times: int = 10) -> Callable[[], bool]:
    """Give a condition that holds once the count of allocated claims has been the same so many times."""
    counts: deque[int] = deque(maxlen=times)

    def is_steady() -> bool:
        counts.append(allocated(world))
        return len(counts) == times and len(set(counts)) == 1

    return is_steady


@dataclass(frozen=True)
class Dammed:
    """A way to the server on which bindings stop after the first 20."""

    dam: Dam
    proxy: LossyProxy
    kubeconfig: Path

    def writes(self) -> list[str]:
        """Give what was written on this way, but for the lease."""
        return [each for each in self.proxy.writes if "/leases" not in each]


@pytest.fixture
def dammed(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Dammed]:
    """Bindings that stop until the dam is opened, or the test ends."""
    made = Dam(20, is_binding, once=True)
    with lossy(control_plane.admin, before=made.before) as proxy:
        try:
            yield Dammed(made, proxy, proxy.write_kubeconfig(tmp_path / "dam.kubeconfig"))
        finally:
            made.open()


def test_a_scheduler_that_was_killed_amid_300_pods_is_followed_by_one_that_finishes(
    world: World, start: Start, dammed: Dammed
) -> None:
    fill(world, nodes=40, pods=300)
    first = start(dammed.kubeconfig)
    wait_until(lambda: len(world.bound()) == 20)

    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not first.is_running())
    dammed.dam.open()
    start()

    wait_until(lambda: len(world.bound()) == 300, seconds=120)
    assert world.problems() == []


def test_a_scheduler_that_is_told_to_stop_ends_its_writes_and_leaves_nothing_half_done(
    world: World, start: Start, dammed: Dammed
) -> None:
    fill(world, nodes=15, pods=120)
    running = start(dammed.kubeconfig)
    wait_until(lambda: len(world.bound()) == 20)

    os.kill(running.pid, signal.SIGTERM)
    wait_until(lambda: '"stopping"' in running.log.read_text())
    dammed.dam.open()
    wait_until(lambda: not running.is_running())

    bound = len(world.bound())
    assert (exit_status(running), allocated(world)) == (0, bound)
    assert bound < 120, "what had not begun should have been left to the next one"
    assert world.problems() == []


def test_a_leader_that_hangs_beyond_its_lease_writes_nothing_when_it_wakes_up(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path, dammed: Dammed
) -> None:
    fill(world, nodes=40, pods=300)
    configuration = tmp_path / "config.yaml"
    configuration.write_text(LEASE.format(name=world.word, namespace=world.namespace))
    first = start(dammed.kubeconfig, f"--config={configuration}", leader_elect=True)
    wait_until_leading(first)
    second_held = Dam(60, is_allocation)
    with lossy(control_plane.admin, before=second_held.before) as proxy:
        second_kubeconfig = proxy.write_kubeconfig(tmp_path / "second.kubeconfig")
        second = start(second_kubeconfig, f"--config={configuration}", leader_elect=True)
        wait_until(lambda: len(world.bound()) == 20)
        # A write that is being sent as the process is stopped goes on when it wakes up.
        wait_until(no_more_allocations(world))

        with stopped(first.pid):
            dammed.dam.open()
            wait_until_leading(second)
            wait_until(lambda: second_held.is_holding and len(world.bound()) > 60, seconds=60)
            written = dammed.writes()
        # It wakes up with a plan for claims that its successor has planned otherwise and not written yet.
        wait_until(lambda: not first.is_running())
        second_held.open()
        wait_until(lambda: len(world.bound()) == 300, seconds=120)

    assert dammed.writes() == written
    assert exit_status(first) == 1
    assert world.problems() == []


def test_a_leader_that_is_told_to_stop_hands_over_at_once(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    configuration = tmp_path / "config.yaml"
    lease = LEASE.format(name=world.word, namespace=world.namespace).replace("Seconds: 15", "Seconds: 60")
    configuration.write_text(lease)
    arguments = (control_plane.kubeconfig, f"--config={configuration}")
    first = start(*arguments, leader_elect=True)
    wait_until_leading(first)
    start(*arguments, leader_elect=True)
    os.kill(first.pid, signal.SIGTERM)
    wait_until(lambda: not first.is_running())

    world.pod("p")

    wait_until(lambda: "p" in world.bound(), seconds=20)
    assert exit_status(first) == 0


def test_a_standby_follows_the_cluster_and_has_its_worker_before_it_leads(
    control_plane: ControlPlane, world: World, start: Start, tmp_path: Path
) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    configuration = tmp_path / "config.yaml"
    configuration.write_text(LEASE.format(name=world.word, namespace=world.namespace))
    arguments = (control_plane.kubeconfig, f"--config={configuration}")
    first = start(*arguments, leader_elect=True)
    wait_until_leading(first)
    second = start(*arguments, leader_elect=True)
    wait_until(lambda: '"standby"' in second.log.read_text())
    os.kill(first.pid, signal.SIGKILL)

    world.pod("p")

    wait_until(lambda: '"pod_placed"' in second.log.read_text())
    events = [json.loads(line)["event"] for line in second.log.read_text().splitlines()]
    ready, led = {"synced", "worker_started"}, ["standby", "leader", "pod_placed"]
    steps = [each for each in events if each in {*ready, *led}]
    assert (set(steps[:2]), steps[2:]) == (ready, led)
