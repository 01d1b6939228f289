"""Pods with volumes on the real API server, whose own controller binds what Dovetail keeps and what is made."""

import time
from pathlib import Path

import pytest

from tests.integration.test_binding_conditions import configured
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start
from tests.support.volume_world import Provisioner, VolumeWorld

pytestmark = pytest.mark.controlplane


def test_pods_of_a_set_get_the_local_volumes_of_their_nodes(volumes: VolumeWorld, start: Start) -> None:
    nodes = volumes.add_nodes(4)
    for number, node in enumerate(nodes):
        volumes.volume(f"local-{number}", node)
    start()
    for number in range(5):
        volumes.claim(f"data-{number}", volumes.local)
        volumes.pod(f"set-{number}", f"data-{number}")

    wait_until(lambda: len(volumes.world.bound()) == 4)
    assert len(set(volumes.world.bound().values())) == 4
    assert volumes.problems() == []
    (waiting,) = {f"set-{number}" for number in range(5)} - set(volumes.world.bound())
    wait_until(lambda: "find available persistent volumes" in volumes.world.condition(waiting).get("message", ""))

    volumes.volume("late", nodes[0])
    wait_until(lambda: waiting in volumes.world.bound())
    assert volumes.problems() == []


def test_a_volume_is_made_on_the_node_that_is_chosen(volumes: VolumeWorld, start: Start) -> None:
    volumes.add_nodes(2)
    volumes.claim("data", volumes.made)
    start()
    volumes.pod("p", "data")
    wait_until(lambda: volumes.selected("data") != "")
    assert volumes.world.bound() == {}
    wait_until(lambda: "waits for the volume of claim data" in volumes.world.condition("p").get("message", ""))

    with Provisioner(volumes):
        wait_until(lambda: "p" in volumes.world.bound())
    assert volumes.world.bound()["p"] == volumes.selected("data")
    assert volumes.problems() == []


def test_a_node_that_the_provisioner_refuses_is_given_up_with_its_device(volumes: VolumeWorld, start: Start) -> None:
    first, second = volumes.add_nodes(2, devices=1)
    volumes.claim("data", volumes.made)
    volumes.world.claim("gpu")
    start()
    with Provisioner(volumes, first) as provisioner:
        volumes.world.label(second, "world", "later")
        volumes.pod("p", "data", device="gpu")
        wait_until(lambda: provisioner.refused != [])
        volumes.world.label(second, "world", volumes.world.word)
        volumes.world.label(first, "world", "gone")
        wait_until(lambda: volumes.world.bound() == {"p": second})
    assert volumes.world.devices("gpu") == [f"{second}/gpu-0"]
    assert volumes.problems() == []
    assert volumes.world.problems() == []


def test_a_bound_volume_leads_a_pod_to_its_node(volumes: VolumeWorld, start: Start) -> None:
    nodes = volumes.add_nodes(3)
    start()
    volumes.volume("only", nodes[1])
    volumes.claim("data", volumes.local)
    volumes.pod("first", "data")
    wait_until(lambda: "first" in volumes.world.bound())
    volumes.world.delete_pod("first")
    wait_until(lambda: volumes.world.get_pod("first") is None)

    volumes.pod("second", "data")
    wait_until(lambda: volumes.world.bound() == {"second": nodes[1]})
    volumes.pod("third", "data", nodeSelector={"kubernetes.io/hostname": nodes[0]})
    words = "node(s) didn't match PersistentVolume's node affinity"
    wait_until(lambda: words in volumes.world.condition("third").get("message", ""))


def test_a_claim_of_one_pod_goes_to_one_after_the_other(volumes: VolumeWorld, start: Start) -> None:
    nodes = volumes.add_nodes(2)
    volumes.volume("shared", *nodes, mode="ReadWriteOncePod")
    volumes.claim("data", volumes.local, mode="ReadWriteOncePod")
    start()
    for name in ("one", "two"):
        volumes.pod(name, "data")
    wait_until(lambda: len(volumes.world.bound()) == 1)
    (running,), names = volumes.world.bound(), {"one", "two"}
    (waiting,) = names - {running}
    wait_until(lambda: "ReadWriteOncePod" in volumes.world.condition(waiting).get("message", ""))
    assert list(volumes.world.bound()) == [running]

    volumes.world.delete_pod(running)
    wait_until(lambda: waiting in volumes.world.bound())


def test_no_more_volumes_are_attached_than_a_node_can_have(volumes: VolumeWorld, start: Start) -> None:
    (node,) = volumes.add_nodes(1)
    volumes.limit(node, 2)
    start()
    with Provisioner(volumes):
        for number in range(3):
            volumes.claim(f"data-{number}", volumes.made)
            volumes.pod(f"p{number}", f"data-{number}")
        wait_until(lambda: len(volumes.world.bound()) == 2)
        (waiting,) = {"p0", "p1", "p2"} - set(volumes.world.bound())
        wait_until(lambda: "exceed max volume count" in volumes.world.condition(waiting).get("message", ""))
        time.sleep(1)
        assert len(volumes.world.bound()) == 2

        volumes.world.delete_pod(next(iter(volumes.world.bound())))
        wait_until(lambda: waiting in volumes.world.bound())
    assert volumes.problems() == []


def test_a_pod_gets_a_volume_and_a_device_of_one_node(volumes: VolumeWorld, start: Start) -> None:
    _, middle, _last = volumes.add_nodes(3, devices=1)
    volumes.volume("local", middle)
    volumes.world.claim("gpu")
    volumes.claim("data", volumes.local)
    start()
    volumes.pod("p", "data", device="gpu")

    wait_until(lambda: volumes.world.bound() == {"p": middle})
    assert volumes.world.devices("gpu") == [f"{middle}/gpu-0"]
    assert volumes.problems() == []
    assert volumes.world.problems() == []


def test_an_ephemeral_volume_is_the_pods_own(volumes: VolumeWorld, start: Start) -> None:
    volumes.add_nodes(1)
    start()
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": volumes.made,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    entry = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    with Provisioner(volumes):
        volumes.pod("p", volumes=[entry])
        wait_until(lambda: "p" in volumes.world.bound())
    assert volumes.problems() == []


def test_a_volume_that_does_not_come_in_time_costs_the_pod_its_device(
    volumes: VolumeWorld, start: Start, account: Path, tmp_path: Path
) -> None:
    volumes.add_nodes(1, devices=1)
    volumes.claim("data", volumes.made)
    volumes.world.claim("gpu")
    start(account, configured(tmp_path, timeout=2))
    volumes.pod("p", "data", device="gpu")
    wait_until(lambda: volumes.world.devices("gpu") != [])
    wait_until(lambda: "was not bound within 2 s" in volumes.world.condition("p").get("message", ""))
    assert volumes.selected("data") == volumes.world.nodes[0]  # half of it may be there
    assert volumes.world.bound() == {}

    with Provisioner(volumes):
        wait_until(lambda: "p" in volumes.world.bound())
    assert volumes.problems() == []


def test_pods_that_wait_for_a_claim_hear_which(volumes: VolumeWorld, start: Start) -> None:
    volumes.add_nodes(1)
    start()
    volumes.pod("p", "data")
    wait_until(lambda: 'persistentvolumeclaim "data" not found' in volumes.world.condition("p").get("message", ""))
    volumes.claim("data", volumes.made)
    with Provisioner(volumes):
        wait_until(lambda: "p" in volumes.world.bound())
