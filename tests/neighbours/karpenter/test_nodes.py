"""Nodes that Karpenter adds and takes away while Dovetail's pods come and go."""

import datetime as dt
import sys
import time
from collections.abc import Callable

import pytest

from e2e.neighbours.karpenter import NODE_CLAIMS, POOL_LABEL
from tests.support.controlplane import wait_until
from tests.support.hold_world import HOLDS, config_map
from tests.support.karpenter_world import DO_NOT_DISRUPT, GPUS_4, GPUS_8, KarpenterWorld
from tests.support.shell_world import Json

pytestmark = pytest.mark.neighbours

DISRUPTED = "karpenter.sh/disrupted"
MERGE = "application/merge-patch+json"
Record = Callable[[str, object], None]


def test_a_gang_of_whole_nodes_runs_when_the_last_slices_are_there(
    world: KarpenterWorld, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four nodes in one pass; the seconds are printed, and are those of this machine."""
    world.pool(GPUS_8)
    world.karpenter.driver.slice_seconds = 3.0
    try:
        began = time.monotonic()
        names = world.gang("g", 4, 8)
        wait_until(lambda: world.made() == 4)
        asked = time.monotonic() - began
        ran = world.run(*names)
    finally:
        world.karpenter.driver.slice_seconds = 0.0
    last = max(world.karpenter.driver.published[each] for each in world.ready_nodes())
    record_property("seconds_to_node_claims", asked)
    record_property("seconds_after_last_slice", ran - last)
    with capsys.disabled():
        sys.stdout.write(
            f"\n  gang of 4 × 8: nodes asked after {asked:.1f} s, slices after {last - began:.1f} s, "
            f"running {ran - last:.2f} s after the last slice\n"
        )
    assert world.made() == 4
    assert len(set(world.bound().values())) == 4


def test_a_pool_goes_to_zero_and_comes_back(
    world: KarpenterWorld, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    world.pool(GPUS_8, consolidate_after="1s")
    for turn in ("first", "second"):
        began = time.monotonic()
        names = world.gang(turn, 2, 8)
        ran = world.run(*names) - began
        assert world.made() == 2
        began = time.monotonic()
        for each in names:
            world.delete_pod(each)
        wait_until(lambda: world.made() == 0 and not world.ready_nodes(), seconds=120)
        gone = time.monotonic() - began
        record_property(f"{turn}_run_and_gone", (ran, gone))
        with capsys.disabled():
            sys.stdout.write(
                f"\n  {turn} gang of 2 × 8: running after {ran:.1f} s, no node {gone:.1f} s after its end\n"
            )


def test_pods_move_together_when_karpenter_consolidates_but_those_that_say_no(
    world: KarpenterWorld, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two half used nodes it drains one, and Dovetail places its pod on the other; annotated pods keep theirs."""
    kept, free = (world.pool(GPUS_8, name=name, consolidate_after="5s") for name in ("kept", "free"))
    on_kept = {POOL_LABEL: kept}
    for number in range(2):
        world.train(f"fills-{number}", 4, nodeSelector=on_kept)
        world.train(f"stays-{number}", 4, annotations={DO_NOT_DISRUPT: "true"}, nodeSelector=on_kept)
        world.run(f"fills-{number}", f"stays-{number}")
    stays = {name: world.bound()[name] for name in ("stays-0", "stays-1")}
    assert len(set(stays.values())) == 2
    template = {
        "metadata": {"labels": {"app": "serve"}},
        "spec": {**world.pod_spec("gpus-4"), "nodeSelector": {POOL_LABEL: free}},
    }
    deployment = {
        "metadata": {"name": "serve"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "serve"}}, "template": template},
    }
    path = f"/apis/apps/v1/namespaces/{world.namespace}/deployments"
    world.plane.request("POST", path, deployment)
    wait_until(lambda: len(serving(world)) == 4)
    assert world.made(free) == 2
    for node in set(serving(world).values()):  # the ReplicaSet deletes one of each node first
        pod = next(name for name, at in serving(world).items() if at == node)
        note = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"}}}
        where = f"/api/v1/namespaces/{world.namespace}/pods/{pod}"
        world.plane.request("PATCH", where, note, content=MERGE)
    for number in range(2):
        world.delete_pod(f"fills-{number}")
    began = time.monotonic()
    world.plane.request("PATCH", f"{path}/serve", {"spec": {"replicas": 2}}, content=MERGE)
    wait_until(lambda: world.made(free) == 1 and len(serving(world)) == 2, seconds=120)
    seconds = time.monotonic() - began
    record_property("seconds", seconds)
    with capsys.disabled():
        sys.stdout.write(f"\n  two half used nodes became one {seconds:.1f} s after they were half used\n")
    assert len(set(serving(world).values())) == 1
    assert world.made(kept) == 2
    assert {name: world.bound()[name] for name in stays} == stays


def test_a_node_with_held_room_stays_while_it_is_held(
    world: KarpenterWorld, record_property: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two empty nodes: Karpenter takes the one away, and the other only when its hold has ended."""
    pools = {name: world.pool(GPUS_8, name=name, consolidate_after="5s") for name in ("held", "free")}
    for name, pool in pools.items():
        world.train(name, 8, nodeSelector={POOL_LABEL: pool})
    world.run("held", "free")
    node = world.bound()["held"]
    made = hold_on(world, node)
    wait_until(lambda: DO_NOT_DISRUPT in noted(world, node))
    began = time.monotonic()
    for name in pools:
        world.delete_pod(name)
    wait_until(lambda: world.made(pools["free"]) == 0, seconds=180)
    gone = time.monotonic() - began
    assert (world.made(pools["held"]), world.ready_nodes()) == (1, [node])

    world.plane.request("DELETE", f"{HOLDS}/{made['metadata']['name']}")
    wait_until(lambda: world.made(pools["held"]) == 0, seconds=180)
    both = time.monotonic() - began
    record_property("seconds", (gone, both))
    with capsys.disabled():
        sys.stdout.write(f"\n  an empty node was gone after {gone:.1f} s, a held one after {both:.1f} s\n")


def noted(world: KarpenterWorld, node: str) -> set[str]:
    """Return the names of a node's annotations."""
    return {*world.plane.request("GET", f"/api/v1/nodes/{node}")["metadata"].get("annotations", {})}


def hold_on(world: KarpenterWorld, node: str) -> Json:
    """Hold a device of a node that a pod still has, for a pod to come."""
    slices = world.plane.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
    own = next(each["spec"] for each in slices if each["spec"].get("nodeName") == node and each["spec"].get("devices"))
    device = {"driver": own["driver"], "pool": own["pool"]["name"], "names": [own["devices"][0]["name"]]}
    leaving = world.get_pod("held")
    assert leaving is not None
    group = {
        "pods": {"namespace": world.namespace, "labels": {"app": "later"}},
        "places": [{"node": node, "devices": [device]}],
    }
    deadline = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=900)
    spec = {
        "owner": config_map(world, "owner"),
        "deadline": f"{deadline:%Y-%m-%dT%H:%M:%SZ}",
        "groups": [group],
        "departing": [leaving["metadata"]["uid"]],
    }
    body = {
        "apiVersion": "dovetail.dev/v1alpha1",
        "kind": "DeviceHold",
        "metadata": {"generateName": f"{world.word}-"},
        "spec": spec,
    }
    made: Json = world.plane.request("POST", HOLDS, body)
    return made


def serving(world: KarpenterWorld) -> dict[str, str]:
    """The running pods of the Deployment, with their nodes."""
    running = world.running()
    return {name: node for name, node in world.bound().items() if name.startswith("serve") and name in running}


def test_no_pod_comes_to_a_node_that_karpenter_drains(world: KarpenterWorld) -> None:
    """A budget keeps the node in its drain; a pod that tolerates everything gets a new node all the same."""
    world.pool(GPUS_8)
    world.train("kept", 4, labels={"app": "kept"})
    world.run("kept")
    budget = {
        "metadata": {"name": "kept"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}},
    }
    budgets = f"/apis/policy/v1/namespaces/{world.namespace}/poddisruptionbudgets"
    world.plane.request("POST", budgets, budget)
    (claim,) = world.karpenter.node_claims(world.word)
    old = claim["status"]["nodeName"]
    world.plane.request("DELETE", f"{NODE_CLAIMS}/{claim['metadata']['name']}")

    def taints() -> set[str]:
        found = world.plane.request("GET", f"/api/v1/nodes/{old}")
        return {each["key"] for each in found["spec"].get("taints", [])}

    wait_until(lambda: DISRUPTED in taints())
    world.train("next", 4, tolerations=[{"operator": "Exists"}])
    world.run("next")
    assert world.bound()["kept"] == old
    assert world.bound()["next"] != old
    world.plane.request("DELETE", f"{budgets}/kept")
    wait_until(lambda: world.made() == 1 and "kept" not in world.bound())


def test_slices_that_come_long_after_the_nodes_hold_nobody_else_up(world: KarpenterWorld) -> None:
    """A gang waits for devices of its new nodes; a pod that needs a node of another shape runs meanwhile."""
    world.pool(GPUS_8, name="large")
    world.pool(GPUS_4, name="small")
    world.train("first", 4)
    world.run("first")
    world.karpenter.driver.slice_seconds = 8.0
    try:
        names = world.gang("g", 2, 8)
        wait_until(lambda: len(world.karpenter.nodes(f"{world.word}-large")) >= 2)
        world.delete_pod("first")
        world.train("second", 4)
        world.run("second")
        assert not set(names) & set(world.bound())
        world.run(*names)
    finally:
        world.karpenter.driver.slice_seconds = 0.0
