"""Nodes with held room on the real API server: autoscalers are told to leave them alone, until no hold is there."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.features import Feature
from scheduler.holds.node_marks import KEPT_NODE
from tests.integration.test_missing_rights import Granted, check, granted, told, without
from tests.support.controlplane import wait_until
from tests.support.hold_world import config_map, devices_of, hold, holds, remove_holds
from tests.support.repair_world import grant_held_nodes, install_component, withdraw_held_nodes
from tests.support.shell_world import Json, Start, World

pytestmark = pytest.mark.controlplane

KARPENTER = "karpenter.sh/do-not-disrupt"
CLUSTER_AUTOSCALER = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
MERGE = "application/merge-patch+json"
__all__ = ["granted"]


@pytest.fixture(autouse=True)
def no_holds_left(world: World) -> Iterator[None]:
    """Other worlds share the API server."""
    install_component(world.plane)
    yield
    remove_holds(world)
    withdraw_held_nodes(world.plane)


def annotations(world: World, node: str) -> dict[str, str]:
    """What autoscalers read of a node, and what Dovetail says of it."""
    found = world.plane.request("GET", f"/api/v1/nodes/{node}")["metadata"].get("annotations", {})
    return {key: value for key, value in found.items() if key in {KARPENTER, CLUSTER_AUTOSCALER, KEPT_NODE}}


def is_kept(world: World, node: str) -> bool:
    return annotations(world, node).keys() == {KARPENTER, CLUSTER_AUTOSCALER, KEPT_NODE}


def annotate(world: World, node: str, **values: str | None) -> None:
    body = {"metadata": {"annotations": {KARPENTER: values["karpenter"]}}}
    world.plane.request("PATCH", f"/api/v1/nodes/{node}", body, content=MERGE)


def held(world: World, *nodes: str, seconds: float = 600.0) -> Json:
    places = [(node, devices_of(world, node)[:1]) for node in nodes]
    return hold(
        world, {"labels": {"app": "train"}}, *places, owner=config_map(world, f"o{len(holds(world))}"), seconds=seconds
    )


def end(world: World, made: Json) -> None:
    world.plane.request("DELETE", f"/apis/dovetail.dev/v1alpha1/deviceholds/{made['metadata']['name']}")


def test_a_node_is_kept_from_its_first_hold_to_its_last(world: World, start: Start) -> None:
    world.add_nodes(2, devices=2)
    first, second = world.nodes
    start(world.plane.kubeconfig)
    one = held(world, first)
    wait_until(lambda: is_kept(world, first), seconds=10)
    assert annotations(world, first)[KARPENTER] == annotations(world, first)[CLUSTER_AUTOSCALER] == "true"
    assert annotations(world, second) == {}

    two = held(world, second)
    wait_until(lambda: is_kept(world, second))
    end(world, one)
    wait_until(lambda: annotations(world, first) == {})
    assert is_kept(world, second)
    end(world, two)
    wait_until(lambda: annotations(world, second) == {})


def test_what_somebody_else_has_set_stays(world: World, start: Start) -> None:
    world.add_nodes(2, devices=1)
    theirs, changed = world.nodes
    annotate(world, theirs, karpenter="true")
    start(world.plane.kubeconfig)
    made = held(world, theirs, changed)
    wait_until(lambda: is_kept(world, changed) and is_kept(world, theirs))
    annotate(world, changed, karpenter="30m")
    end(world, made)

    wait_until(lambda: annotations(world, theirs) == {KARPENTER: "true"})
    wait_until(lambda: annotations(world, changed) == {KARPENTER: "30m"})


@pytest.mark.usefixtures("account")
def test_a_new_leader_takes_away_what_is_left(world: World, start: Start, own_lease: Path) -> None:
    world.add_nodes(2, devices=1)
    first, second = world.nodes
    leader = start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    gone, stays = held(world, first), held(world, second)
    wait_until(lambda: is_kept(world, first) and is_kept(world, second))
    os.kill(leader.pid, signal.SIGKILL)
    end(world, gone)
    start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)

    wait_until(lambda: annotations(world, first) == {})
    assert is_kept(world, second)
    end(world, stays)
    wait_until(lambda: annotations(world, second) == {})


@without(Feature.HELD_NODES)
def test_without_the_right_it_says_so_once_and_nothing_is_wrong(world: World, start: Start, granted: Granted) -> None:
    world.add_nodes(1, devices=1)
    (node,) = world.nodes
    running = start(granted.kubeconfig)
    held(world, node)
    wait_until(lambda: "right_missing" in running.log.read_text())
    (line,) = (each["message"] for each in told(running))
    assert "may not get nodes, patch nodes: autoscalers may drain nodes with held room" in line
    assert "deploy/components/held-nodes grants it" in line
    assert check(running).startswith("[+]rights ok")
    assert annotations(world, node) == {}

    grant_held_nodes(world.plane)
    granted.add()
    wait_until(lambda: is_kept(world, node), seconds=90)  # without a restart of the process
