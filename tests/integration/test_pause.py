"""
Dovetail is removed while 300 pods are being placed, after `dovetail pause` and without it: nothing is stuck.

Pods that run keep their devices, pods that wait hold nothing after a pause, and everything can be deleted.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.dovetail import Dovetail
from solver.domain import FINALIZER
from tests.integration.test_crash import fill
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.shell_proxy import Dam, is_binding, lossy
from tests.support.shell_world import RESOURCE, Start, World

pytestmark = pytest.mark.controlplane
Capture = pytest.CaptureFixture[str]

PODS, BOUND = 300, 60


class Stage:
    """A world with 300 pods, on whose way to the server bindings stop after the first 60."""

    def __init__(self, world: World, start: Start, kubeconfig: Path, config: Path) -> None:
        self.world = world
        self._start = start
        self._kubeconfig = kubeconfig
        self._config = config

    def schedule(self, replicas: int) -> list[Dovetail]:
        """Start replicas, and wait until bindings stop."""
        fill(self.world, nodes=40, pods=PODS)
        arguments = (self._kubeconfig, f"--config={self._config}")
        started = [self._start(*arguments, leader_elect=True) for _ in range(replicas)]
        wait_until(lambda: len(self.world.bound()) == BOUND, seconds=90)
        return started

    def run(self, command: str, *arguments: str) -> int:
        """Pause or resume with an administrator's rights; give the exit status."""
        return m.run(command, "--kubeconfig", self.world.plane.kubeconfig, "--config", self._config, *arguments)


@pytest.fixture
def dam() -> Iterator[Dam]:
    made = Dam(BOUND, is_binding, once=True)
    yield made
    made.open()


@pytest.fixture
def stage(world: World, start: Start, dam: Dam, tmp_path: Path) -> Iterator[Stage]:
    config = tmp_path / "config.yaml"
    lease = {"leaseDurationSeconds": 15, "renewDeadlineSeconds": 12, "retryPeriodSeconds": 0.5}
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": world.scheduler}],
        "commit": {"requestTimeoutSeconds": 1},
        "leaderElection": {"leaseName": world.word, "leaseNamespace": world.namespace, **lease},
    }
    config.write_text(yaml.safe_dump(document))
    with lossy(world.plane.admin, before=dam.before) as proxy:
        yield Stage(world, start, proxy.write_kubeconfig(tmp_path / "dam.kubeconfig"), config)


def reserved(world: World) -> set[str]:
    """The uids of pods that claims are reserved for."""
    return {each["uid"] for claim in world.claims() for each in claim.get("status", {}).get("reservedFor", ())}


def lease(world: World) -> Any:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{world.namespace}/leases/{world.word}"
    return world.plane.request("GET", path)


def traces(world: World) -> list[str]:
    """What Dovetail has left on claims that no pod runs with, and on pods that wait."""
    adopted = [each for each in world.claims() if "dovetail.dev/adopted" in each["metadata"].get("annotations", {})]
    free = [each for each in world.claims() if "allocation" not in each.get("status", {})]
    waiting = [each for each in world.pods() if "nodeName" not in each["spec"]]
    return [
        *(each["metadata"]["name"] for each in adopted),
        *(each["metadata"]["name"] for each in free if FINALIZER in each["metadata"].get("finalizers", ())),
        *(each["metadata"]["name"] for each in waiting if each["status"].get("nominatedNodeName")),
    ]


def delete_all(world: World) -> None:
    """Delete all pods, and wait until they and their claims are gone."""
    for path in (
        f"/api/v1/namespaces/{world.namespace}/pods",
        f"{RESOURCE}/namespaces/{world.namespace}/resourceclaims",
    ):
        world.plane.request("DELETE", path, {"gracePeriodSeconds": 0})
    wait_until(lambda: not world.pods() and not world.claims(), seconds=60)


def test_paused_amid_300_pods_by_two_replicas_that_go_on_afterwards(stage: Stage, dam: Dam, capsys: Capture) -> None:
    world = stage.world
    leader, standby = stage.schedule(replicas=2)

    with ThreadPoolExecutor(1) as thread:
        pausing = thread.submit(stage.run, "pause")
        wait_until(lambda: '"stopping"' in leader.log.read_text())
        dam.open()
        status, said = pausing.result(), capsys.readouterr().err

    bound = world.bound()
    assert status == 0, said
    assert len(bound) in range(BOUND, PODS)
    assert f"{len(bound)} pods run and keep their devices, {PODS - len(bound)} wait" in said
    running = {each["metadata"]["uid"] for each in world.pods() if "nodeName" in each["spec"]}
    assert (reserved(world), traces(world), world.problems()) == (running, [], [])
    assert lease(world)["spec"]["holderIdentity"] == ""
    assert [leader.is_running(), standby.is_running()] == [True, True]

    assert stage.run("resume") == 0
    wait_until(lambda: len(world.bound()) == PODS, seconds=120)
    assert world.problems() == []


@pytest.mark.parametrize("removal", ["paused", "not paused"])
def test_killed_amid_300_pods_and_removed(stage: Stage, dam: Dam, capsys: Capture, removal: str) -> None:
    world = stage.world
    (only,) = stage.schedule(replicas=1)
    os.kill(only.pid, signal.SIGKILL)
    wait_until(lambda: not only.is_running())
    dam.lose()

    if removal == "paused":
        status, said = stage.run("pause"), capsys.readouterr().err
        assert status == 0, said
        assert f"{BOUND} pods run and keep their devices, {PODS - BOUND} wait" in said
        assert (len(reserved(world)), traces(world)) == (BOUND, [])
    else:
        assert len(reserved(world)) > BOUND  # what a pause would have taken back
    assert world.problems() == []
    delete_all(world)


def test_a_namespace_that_does_not_exist_is_said_at_once(stage: Stage, capsys: Capture) -> None:
    for command in ("pause", "resume"):
        assert stage.run(command, "--lease-namespace", "nowhere-at-all") == 2
        assert (
            f"{command}: namespace nowhere-at-all does not exist: name that of the scheduler" in capsys.readouterr().err
        )
