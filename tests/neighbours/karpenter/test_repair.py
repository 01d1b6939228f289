"""Repairs beside Karpenter with consolidation on: who may take a node away, and when, while pods are moved."""

import sys
import time
from collections.abc import Callable, Iterator

import pytest

from e2e.neighbours.karpenter import NODE_CLAIMS, POOL_LABEL
from tests.support.controlplane import wait_until
from tests.support.hold_world import config_map, holds
from tests.support.karpenter_world import DO_NOT_DISRUPT, GPUS_8, KarpenterWorld
from tests.support.repair_world import PLANS
from tests.support.shell_world import Json

pytestmark = pytest.mark.neighbours

DISRUPTED = "karpenter.sh/disrupted"
MERGE = "application/merge-patch+json"
Record = Callable[[str, object], None]


@pytest.fixture(autouse=True)
def no_plans_left(world: KarpenterWorld) -> Iterator[None]:
    """Dovetail has one open plan at a time, and is that of all tests."""
    yield
    for each in world.plane.request("GET", PLANS)["items"]:
        world.plane.request("DELETE", f"{PLANS}/{each['metadata']['name']}")


def controller(world: KarpenterWorld) -> Json:
    """Make an owner whose controller is the test: it makes the successor of a pod when it wants to."""
    owner = config_map(world, "controller")
    return {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")} | {"controller": True}


def emptying(world: KarpenterWorld, node: str) -> Json | None:
    """Return the RepairPlan that empties a node."""
    found = world.plane.request("GET", PLANS)["items"]
    return next((each for each in found if each["spec"]["goal"]["subject"] == f"node {node}"), None)


def cordon(world: KarpenterWorld, node: str) -> Json:
    """Cordon a node, and return the plan that this brings."""
    world.plane.request("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}, content=MERGE)
    wait_until(lambda: emptying(world, node) is not None)
    made = emptying(world, node)
    assert made is not None
    return made


def approve(world: KarpenterWorld, plan: Json) -> None:
    world.plane.request(
        "PATCH", f"{PLANS}/{plan['metadata']['name']}", {"spec": {"decision": "Approved"}}, content=MERGE
    )


def status(world: KarpenterWorld, plan: Json) -> Json:
    found: Json = world.plane.request("GET", f"{PLANS}/{plan['metadata']['name']}").get("status", {})
    return found


def annotations(world: KarpenterWorld, node: str) -> set[str]:
    return {*world.plane.request("GET", f"/api/v1/nodes/{node}")["metadata"].get("annotations", {})}


def test_karpenter_leaves_the_node_of_a_successor_alone_and_takes_the_emptied_one(
    world: KarpenterWorld, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Of two empty nodes it takes the one away where no room is held, long before the successor comes to the other one.

    A pod that its annotation protects is not moved; when it has ended, the cordoned node is empty, and goes.
    """
    used, free = (world.pool(GPUS_8, name=name, consolidate_after="20s") for name in ("used", "free"))
    on_used, owner = {POOL_LABEL: used}, controller(world)
    world.train("moves", 4, owner=owner, nodeSelector=on_used)
    world.run("moves")
    world.train("stays", 4, owner=owner, annotations={DO_NOT_DISRUPT: "true"}, nodeSelector=on_used)
    world.train("fills", 8, nodeSelector=on_used)
    world.train("other", 8, nodeSelector={POOL_LABEL: free})
    world.run("stays", "fills", "other")
    old, new = world.bound()["moves"], world.bound()["fills"]
    assert world.bound()["stays"] == old
    for name in ("fills", "other"):
        world.delete_pod(name)
    began = time.monotonic()
    plan = cordon(world, old)
    assert [(each["name"], each["to"]) for each in plan["spec"]["moves"]] == [("moves", new)]
    approve(world, plan)
    wait_until(lambda: world.get_pod("moves") is None)

    wait_until(lambda: world.made(free) == 0, seconds=180)
    gone = time.monotonic() - began
    assert world.made(used) == 2
    assert sorted(world.ready_nodes()) == sorted((old, new))
    assert len(holds(world)) == 1
    assert DO_NOT_DISRUPT in annotations(world, new)

    world.train("moved", 4, owner=owner, annotations={DO_NOT_DISRUPT: "true"}, nodeSelector=on_used)
    world.run("moved")
    assert world.bound() == {"moved": new, "stays": old}
    wait_until(lambda: status(world, plan)["state"] == "Done")
    wait_until(lambda: holds(world) == [] and DO_NOT_DISRUPT not in annotations(world, new))

    world.delete_pod("stays")
    began = time.monotonic()
    wait_until(lambda: world.made(used) == 1, seconds=180)
    emptied = time.monotonic() - began
    assert world.bound() == {"moved": new}
    record_property("seconds", (gone, emptied))
    with capsys.disabled():
        sys.stdout.write(
            f"\n  a node without held room was gone after {gone:.1f} s, the emptied one {emptied:.1f} s after its end\n"
        )


def test_a_plan_stops_that_would_move_a_pod_to_a_node_which_karpenter_drains(world: KarpenterWorld) -> None:
    """Two pods move one after the other; the node for the second is drained while the first is on its way."""
    world.pool(GPUS_8, limits={"nodes": "3"})
    owner = controller(world)
    for node in range(2):
        world.train(f"moves-{node}", 4, owner=owner)
        world.run(f"moves-{node}")
    for node in range(2):
        world.train(f"pins-{node}", 4, labels={"app": "pins"})
        world.run(f"pins-{node}")
        world.train(f"fills-{node}", 4)
        world.run(f"fills-{node}")
    nodes = world.bound()
    (old,) = {nodes["moves-0"], nodes["moves-1"]}
    assert len(set(nodes.values())) == 3
    budget = {"metadata": {"name": "pins"}, "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "pins"}}}}
    world.plane.request("POST", f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets", budget)
    for node in range(2):
        world.delete_pod(f"fills-{node}")
    plan = cordon(world, old)
    first, second = plan["spec"]["moves"]
    assert {first["to"], second["to"]} == {nodes["pins-0"], nodes["pins-1"]}
    approve(world, plan)
    wait_until(lambda: world.get_pod(first["name"]) is None)

    drained = second["to"]
    (claim,) = (each for each in world.karpenter.node_claims(world.word) if each["status"]["nodeName"] == drained)
    world.plane.request("DELETE", f"{NODE_CLAIMS}/{claim['metadata']['name']}")
    wait_until(lambda: DISRUPTED in str(world.plane.request("GET", f"/api/v1/nodes/{drained}")["spec"].get("taints")))
    world.train("moved", 4, owner=owner)
    world.run("moved")
    assert world.bound()["moved"] == first["to"]

    wait_until(lambda: status(world, plan)["state"] == "Stopped")
    assert DISRUPTED in status(world, plan)["message"]
    assert [each["state"] for each in status(world, plan)["moves"]] == ["Moved"]
    assert world.bound()[second["name"]] == old
    left = world.get_pod(second["name"])
    assert left is not None
    assert left["metadata"]["uid"] == second["uid"]
    wait_until(lambda: holds(world) == [])
