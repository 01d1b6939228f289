"""The series of alerts move when the fault is caused on the real API server; `make alerts` tests the rules."""

import os
import signal
import time
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e.chaos.process_faults import children
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import Dovetail
from tests.support.controlplane import stopped, wait_until
from tests.support.series import series
from tests.support.shell_proxy import Asked, Told, is_allocation, lossy, refusal
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

NO_TIME: Final = 0.0001
"""A budget that every decision breaks."""


PENDING: Final = "scheduler_pending_pods"
ATTEMPTS: Final = "scheduler_schedule_attempts_total"


def test_leader_budget_and_waiting_pods_are_seen(world: World, start: Start, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "leaderElection": {"leaseName": world.word, "leaseNamespace": world.namespace},
        "solver": {"budgetSeconds": NO_TIME},
        "metrics": {"intervalSeconds": 1},
    }
    config.write_text(yaml.safe_dump(document))
    leader = start(world.plane.kubeconfig, f"--config={config}", leader_elect=True)
    wait_until(lambda: series(leader, "leader_election_master_status") == 1)
    standby = start(world.plane.kubeconfig, f"--config={config}", leader_elect=True)
    assert series(standby, "leader_election_master_status") == 0
    world.add_nodes(1, devices=1)
    world.template("two", count=2)
    world.pod("too-large", template="two")
    wait_until(lambda: series(leader, "dovetail_decisions_over_budget_total") > 0)
    wait_until(lambda: series(leader, "dovetail_oldest_waiting_pod_seconds") > 1)
    leader.stop()
    wait_until(lambda: series(standby, "leader_election_master_status") == 1)


def worker_of(running: Dovetail) -> tuple[int, int]:
    """Give the fork server and the worker of a scheduler."""
    (server,) = children(running.pid)
    wait_until(lambda: bool(children(server)))
    return server, children(server)[0]


def test_a_worker_that_cannot_be_started_is_seen(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    running = start()
    server, worker = worker_of(running)
    with stopped(server, may_end=True):
        os.kill(worker, signal.SIGKILL)
        world.pod("p")
        wait_until(lambda: series(running, "dovetail_without_worker_seconds") > 1)
        assert world.bound() == {}
    wait_until(lambda: "p" in world.bound(), seconds=60)
    wait_until(lambda: series(running, "dovetail_without_worker_seconds") == 0)


def test_a_leader_that_decides_nothing_is_seen(world: World, start: Start) -> None:
    """The worker takes a pod and gives no answer, so that the next one stays in the activeQ."""
    world.add_nodes(1, devices=20)
    running = start()
    names = [f"p{number}" for number in range(20)]
    for name in names:
        world.claim(name)
    world.pod(names[0], claim=names[0])
    wait_until(lambda: series(running, ATTEMPTS, profile=world.scheduler, result="scheduled") == 1)
    with stopped(worker_of(running)[1], may_end=True):
        attempts, made = series(running, ATTEMPTS), 1
        while series(running, PENDING, queue="active") == 0 and made < len(names):
            world.pod(names[made], claim=names[made])
            made += 1
            time.sleep(0.2)
        assert series(running, PENDING, queue="active") > 0
        assert series(running, ATTEMPTS) == attempts
    wait_until(lambda: len(world.bound()) == made, seconds=60)


def test_conditions_and_events_that_wait_are_seen(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template("two", count=2)
    for number in range(80):
        world.pod(f"p{number}", template="two")
    running = start()
    wait_until(lambda: series(running, "dovetail_waiting_status_writes") > 30)


def test_attempts_that_fail_are_seen(control_plane: ControlPlane, world: World, start: Start, tmp_path: Path) -> None:
    def refuse(asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        return refusal(500) if is_allocation(asked.method, asked.path) and not is_done else None

    world.add_nodes(1, devices=1)
    world.template()
    with lossy(control_plane.admin) as proxy:
        running = start(proxy.write_kubeconfig(tmp_path / "refusing.kubeconfig"))
        proxy.meet = refuse
        world.pod("p")
        wait_until(lambda: series(running, ATTEMPTS, profile=world.scheduler, result="error") > 0, seconds=60)


def test_restarts_are_seen(start: Start) -> None:
    first = start()
    began = series(first, "process_start_time_seconds")
    first.stop()
    assert series(start(), "process_start_time_seconds") > began > 0
