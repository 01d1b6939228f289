"""Pods that share a claim for all devices, some of them for several nodes: what "all" is, and which pods may join."""

import pytest

from solver import solve, verify
from solver.domain import AllocationMode, Plan, Pod, Policy
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.volume_builders import storage_class, using, volume, volume_claim, with_storage

GPU = b.gpu_class()
WIDE = b.resource_slice("wide", b.device("w0"), b.device("w1"), at=b.scope(all_nodes=True))
EVERY = b.claim("every", b.request(mode=AllocationMode.ALL))
NODES = [b.node(name, labels={"zone": "b" if name == "n1" else "a"}) for name in ("n1", "n2", "n3")]


def checked(*objects: s.Objects, pods: list[Pod]) -> Plan:
    snapshot, batch = b.snapshot(*objects, GPU), b.batch(*pods)
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert verify.check(snapshot, batch, plan, Policy()) == ()
    assert not plan.report.defects
    return plan


def on(name: str, node: str, *claims: str) -> Pod:
    return b.pod(name, *claims, node_selector={"kubernetes.io/hostname": node})


def devices(plan: Plan) -> list[str]:
    return sorted(device for _, device in s.devices_of(plan, "every"))


def test_a_pod_joins_where_all_devices_would_be_more() -> None:
    """Once the claim is allocated only the reach of its devices counts, whichever way it came to be."""
    own = b.claim("own", b.request(count=2))
    nodes = [b.node("n1", cpu=5), b.node("n2", cpu=8)]
    pods = [b.pod("p", "every", cpu=1), b.pod("q", "every", "own", cpu=1)]

    plan = checked(nodes, WIDE, b.gpu_slice("n2", count=2), EVERY, own, pods=pods)

    assert s.nodes_of(plan) == {"p": "n1", "q": "n2"}
    assert devices(plan) == ["w0", "w1"]


@pytest.mark.parametrize("first", ["p", "q"])
def test_the_pod_that_sees_what_can_be_shared_is_placed_whichever_comes_first(first: str) -> None:
    pods = sorted([on("p", "n1", "every"), on("q", "n2", "every")], key=lambda pod: pod.id.name != first)

    plan = checked(NODES, WIDE, b.gpu_slice("n2", count=2), EVERY, pods=pods)

    assert len(plan.placements) == 2
    assert devices(plan) == ["w0", "w1"]


def test_a_device_of_some_nodes_is_one_of_all_devices_there() -> None:
    """Both pods see three devices: two that all nodes reach are not all."""
    zone = b.resource_slice("zone", b.device("z0"), at=b.scope(selector=b.node_selector(zone="a")))
    pods = [on("p", "n2", "every"), on("q", "n3", "every")]

    plan = checked(NODES, WIDE, zone, EVERY, pods=pods)

    assert len(plan.placements) == 2
    assert devices(plan) == ["w0", "w1", "z0"]


def test_pods_of_which_none_sees_only_what_can_be_shared_do_not_share_it() -> None:
    local = [b.gpu_slice(name, count=1) for name in ("n2", "n3")]
    pods = [on("p", "n2", "every"), on("q", "n3", "every")]

    plan = checked(NODES, WIDE, local, EVERY, pods=pods)

    assert len(plan.placements) == 1
    assert devices(plan) == ["gpu-0", "w0", "w1"]


@pytest.mark.parametrize("order", ["p q r", "q p r", "q r p", "r q p"])
def test_pods_go_with_the_one_whose_node_said_what_all_devices_are(order: str) -> None:
    """Four claims fit on three volumes two by two: the last pod is dropped where volumes are handed out."""
    volumes = [volume(pair, labels=dict.fromkeys(pair, "y")) for pair in ("ab", "bc", "ca")]
    claims = [volume_claim(name, selector={name[0]: "y"}) for name in ("a-p", "a-0", "b-1", "c-2")]
    rest = [using(b.pod(name, cpu=n), name) for n, name in enumerate(("a-0", "b-1", "c-2"), start=1)]
    pods = {"p": [using(on("p", "n1", "every"), "a-p")], "q": [on("q", "n2", "every")], "r": rest}
    local = b.gpu_slice("n2", count=2)
    world = with_storage(b.snapshot(NODES, WIDE, local, EVERY, GPU), storage_class(), *volumes, *claims)
    batch = b.batch(*(pod for key in order.split() for pod in pods[key]))

    plan = solve(world, batch, Policy(), s.PATIENT)

    assert verify.check(world, batch, plan, Policy()) == ()
    assert (len(plan.placements), len(plan.allocations)) in {(4, 1), (3, 0)}
    for each in plan.unplaced:
        assert each.reasons[0].code == "VolumeContended"


def overlapping(count: int) -> list[s.Objects]:
    """Devices of as many scopes, and a claim for one of each: three nodes are in all scopes, others in all but one."""
    keys = [f"k{number}" for number in range(count)]
    labels = [dict.fromkeys(keys, "y")] * 3 + [{key: "y" for key in keys if key != out} for out in keys]
    nodes = [b.node(f"n{number:02}", pods=1, labels=each) for number, each in enumerate(labels)]
    scopes = [b.scope(selector=b.node_selector(**{key: "y"})) for key in keys]
    slices = [b.resource_slice(key, b.device(key), driver=key, at=at) for key, at in zip(keys, scopes, strict=True)]
    local = [b.gpu_slice(f"n{number:02}", count=number + 1) for number in range(3)]
    claims = [b.claim("shared", *(b.request(key, key) for key in keys)), *(b.claim(f"c{i}") for i in range(4))]
    return [nodes, slices, local, claims, [b.device_class(key, driver=key) for key in keys]]


@pytest.mark.parametrize("count", [3, 6, 12])
def test_devices_of_many_scopes_that_overlap_are_shared_where_all_of_them_reach(count: int) -> None:
    pods = [b.pod(f"p{number}", "shared", f"c{number}", cpu=1) for number in range(4)]

    assert len(checked(*overlapping(count), pods=pods).placements) == 3


def test_where_devices_of_too_many_scopes_reach_pods_stay_together_in_every_search() -> None:
    """Of 12 scopes and one more for each of the three nodes, not every combination is looked at."""
    pods = [b.pod(f"p{number}", "shared", f"c{number}", cpu=1) for number in range(4)]
    pairs = [b.requirement("kubernetes.io/hostname", "In", f"n{i:02}", f"n{i + 3:02}") for i in range(3)]
    scopes = [b.scope(selector=b.node_selector(b.expressions(pair))) for pair in pairs]
    more = [b.resource_slice(f"x{i}", b.device("x"), driver="x", at=at) for i, at in enumerate(scopes)]
    claim = b.claim("x", b.request("x", "x"))

    plan = checked(*overlapping(12), more, claim, b.device_class("x", driver="x"), pods=[*pods, b.pod("x", "x", cpu=1)])

    assert len(plan.placements) >= 2
