"""Gangs that share one volume claim, which is bound by them together, on the real API server."""

import time
from pathlib import Path

import pytest

from tests.integration.test_binding_conditions import configured
from tests.integration.test_gangs import pod_group
from tests.support.controlplane import wait_until
from tests.support.marks import WITH_POD_GROUPS
from tests.support.shell_world import Start
from tests.support.volume_world import Provisioner, VolumeWorld

pytestmark = pytest.mark.controlplane


def gang(volumes: VolumeWorld, name: str, count: int, *claims: str, minimum: int | None = None) -> None:
    """Create a PodGroup and pods of it that share claims and have a device each."""
    pod_group(volumes.world, name, count if minimum is None else minimum)
    for index in range(count):
        entries = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        volumes.world.pod(f"{name}-{index}", schedulingGroup={"podGroupName": name}, volumes=entries)


@WITH_POD_GROUPS
def test_a_gang_shares_a_volume_that_exists_and_goes_where_it_is(volumes: VolumeWorld, start: Start) -> None:
    nodes = volumes.add_nodes(4, devices=1)
    volumes.world.template()
    volumes.volume("wide", *nodes[1:], mode="ReadWriteMany")
    volumes.claim("data", volumes.local, mode="ReadWriteMany")
    start()
    gang(volumes, "g", 3, "data")

    wait_until(lambda: len(volumes.world.bound()) == 3)
    assert set(volumes.world.bound().values()) == set(nodes[1:])
    assert volumes.problems() == []
    assert volumes.world.problems() == []


@WITH_POD_GROUPS
def test_a_gang_shares_a_volume_that_is_made_where_all_of_it_reaches_it(volumes: VolumeWorld, start: Start) -> None:
    nodes = volumes.add_nodes(5, devices=1)
    volumes.world.template()
    for node in nodes:
        volumes.zoned(node, "a" if node in nodes[:2] else "b")
    volumes.claim("data", volumes.made, mode="ReadWriteMany")
    start()
    gang(volumes, "g", 3, "data")
    wait_until(lambda: volumes.selected("data") in nodes[2:])
    wait_until(lambda: "waits for the volume of claim data" in volumes.world.condition("g-0").get("message", ""))
    assert volumes.world.bound() == {}

    with Provisioner(volumes, reach=(nodes[:2], nodes[2:])):
        wait_until(lambda: len(volumes.world.bound()) == 3)
    assert set(volumes.world.bound().values()) == set(nodes[2:])
    assert volumes.problems() == []
    assert volumes.world.problems() == []


@WITH_POD_GROUPS
def test_a_gang_whose_shared_volume_is_refused_gives_everything_back_and_goes_elsewhere(
    volumes: VolumeWorld, start: Start
) -> None:
    nodes = volumes.add_nodes(4, devices=1)
    volumes.world.template()
    for node in nodes:
        volumes.zoned(node, "a" if node in nodes[:2] else "b")
    volumes.claim("data", volumes.made, mode="ReadWriteMany")
    for node in nodes[2:]:
        volumes.world.label(node, "world", "later")
    start()
    with Provisioner(volumes, *nodes[:2], reach=(nodes[:2], nodes[2:])) as provisioner:
        gang(volumes, "g", 2, "data")
        wait_until(lambda: provisioner.refused != [])
        for node in nodes:
            volumes.world.label(node, "world", volumes.world.word if node in nodes[2:] else "gone")
        wait_until(lambda: len(volumes.world.bound()) == 2, seconds=60)
    assert set(volumes.world.bound().values()) == set(nodes[2:])
    assert volumes.problems() == []
    assert volumes.world.problems() == []


@WITH_POD_GROUPS
def test_a_gang_whose_shared_volume_comes_too_late_is_tried_again(
    volumes: VolumeWorld, start: Start, account: Path, tmp_path: Path
) -> None:
    nodes = volumes.add_nodes(2, devices=1)
    volumes.world.template()
    for node in nodes:
        volumes.zoned(node, "a")
    volumes.claim("data", volumes.made, mode="ReadWriteMany")
    start(account, configured(tmp_path, timeout=2))
    gang(volumes, "g", 2, "data")
    wait_until(lambda: "was not bound within 2 s" in volumes.world.condition("g-0").get("message", ""))
    assert volumes.world.bound() == {}

    with Provisioner(volumes, reach=(nodes,)):
        wait_until(lambda: len(volumes.world.bound()) == 2, seconds=60)
    assert volumes.problems() == []


def test_pods_of_no_gang_that_share_a_claim_are_bound_together(volumes: VolumeWorld, start: Start) -> None:
    nodes = volumes.add_nodes(3, devices=1)
    volumes.world.template()
    for node in nodes:
        volumes.zoned(node, "a")
    volumes.claim("data", volumes.made, mode="ReadWriteMany")
    start()
    for index in range(3):
        entries = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        volumes.world.pod(f"p-{index}", volumes=entries)
    with Provisioner(volumes, reach=(nodes,)):
        wait_until(lambda: len(volumes.world.bound()) == 3)
    assert set(volumes.world.bound().values()) == set(nodes)
    assert volumes.problems() == []
    time.sleep(0.5)
    assert len(volumes.claims()) == 1
