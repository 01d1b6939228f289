"""A world with the component of repairs: the CustomResourceDefinition, the rights, and a fleet that has decayed."""

import contextlib
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.access import RequestError
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import DEPLOY
from tests.integration.test_repair_by_hand import node_of, replica_set
from tests.support.controlplane import wait_until
from tests.support.shell_world import World

COMPONENTS = DEPLOY.parents[1] / "components"
_HELD_NODES = COMPONENTS / "held-nodes" / "clusterrole.yaml"
PLANS = "/apis/dovetail.dev/v1alpha1/repairplans"
HOLDS = "/apis/dovetail.dev/v1alpha1/deviceholds"


def install_component(plane: ControlPlane) -> None:
    """Apply the manifests of `deploy/components/repair`, and of `holds`, which keeps the room of successors."""
    for folder in ("repair", "holds"):
        for name in ("crd.yaml", "clusterrole.yaml"):
            plane.kubectl("apply", "--server-side", "-f", str(COMPONENTS / folder / name))
    for name in ("repairplans", "deviceholds"):
        plane.kubectl("wait", "--for=condition=Established", f"crd/{name}.dovetail.dev")


def grant_held_nodes(plane: ControlPlane) -> None:
    """Apply `deploy/components/held-nodes`; `withdraw_held_nodes` takes it away again: other tests have the account."""
    plane.kubectl("apply", "--server-side", "-f", str(_HELD_NODES))


def withdraw_held_nodes(plane: ControlPlane) -> None:
    """Delete the component's role and binding, where they are there."""
    plane.kubectl("delete", "--ignore-not-found", "-f", str(_HELD_NODES))


def configured(world: World, folder: Path, mode: str, **repair: Any) -> str:
    """Write a configuration that repairs and saves its plans in `folder/saved`; give the argument that names it."""
    path = folder / f"{mode}.yaml"
    settings = {"mode": mode, "intervalSeconds": 0.5, "minimumRunSeconds": 0, "coolDownSeconds": 0, **repair}
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [{"schedulerName": world.scheduler}],
        "repair": settings,
        "history": {"files": {"folder": str(folder / "saved")}},
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return f"--config={path}"


def scatter(world: World) -> None:
    """Two nodes of two devices, one of each held by a ReplicaSet, and a pod `large` that wants two of one node."""
    world.add_nodes(2, devices=2)
    world.template()
    world.template("two", count=2)
    scattered_pods(world)
    world.pod("large", template="two")
    wait_until(lambda: bool(world.condition("large")))


def scattered_pods(world: World) -> None:
    """A pod of a ReplicaSet on each of two nodes."""
    replica_set(world, "first")
    wait_until(lambda: bool(node_of(world, "first")))
    world.pod("blocker")
    wait_until(lambda: "blocker" in world.bound())
    replica_set(world, "second")
    wait_until(lambda: bool(node_of(world, "second")))
    world.delete_pod("blocker")
    wait_until(lambda: "blocker" not in world.bound())
    assert node_of(world, "first") != node_of(world, "second")


def plans(world: World) -> list[Any]:
    """The RepairPlans about objects of this world."""
    items: list[Any] = world.plane.request("GET", PLANS)["items"]
    return [each for each in items if world.namespace in each["spec"]["goal"]["subject"]]


def remove_plans(world: World) -> None:
    """Delete what is left of the plans: another Dovetail of the shared control plane would take them for its own."""
    for each in plans(world):
        with contextlib.suppress(RequestError):
            world.plane.request("DELETE", f"{PLANS}/{each['metadata']['name']}")


def holds(world: World) -> list[Any]:
    """The DeviceHolds for pods of this world."""
    items: list[Any] = world.plane.request("GET", HOLDS)["items"]
    return [each for each in items if each["spec"]["groups"][0]["pods"]["namespace"] == world.namespace]
