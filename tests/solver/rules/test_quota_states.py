"""What is said of quotas: held, lent, waiting, and what contradicts the fleet."""

from msgspec.structs import replace

from solver import quotas_of
from solver.domain import (
    Claim,
    DeviceQuota,
    Namespace,
    Node,
    Policy,
    QuotaFleet,
    QuotaKey,
    QuotaState,
    QuotaTree,
    ResourceSlice,
    ResourceState,
    Snapshot,
    quota_states,
)
from solver.domain.quotas.quota_tree import PARENT_CYCLE
from solver.rules.quotas.fair_shares import targets
from tests.support import builders as b
from tests.support.quota_cases import CLASSES, devices, memory, namespaces, quota, whole_nodes

MODEL_A = {"model": "A"}


def _snapshot(*quotas: DeviceQuota, free: int = 2, held: int = 1, known: tuple[Namespace, ...] = ()) -> Snapshot:
    """Two nodes, each with `held` devices that red holds and `free` others, of model A with 2 of memory."""
    parts: list[Node | ResourceSlice | Claim] = []
    for name in ("n0", "n1"):
        made = [b.device(f"d{index}", attributes=MODEL_A, capacities={"memory": 2}) for index in range(held + free)]
        parts += [b.node(name), b.resource_slice(name, *made)]
        parts += [
            b.held(f"{name}-{index}", b.result("r", f"d{index}", name), node_name=name, namespace="red")
            for index in range(held)
        ]
    snapshot = b.snapshot(parts, CLASSES, known or namespaces())
    return replace(snapshot, quotas=tuple(sorted(quotas, key=lambda each: each.name)))


def _resource(state: QuotaState) -> ResourceState:
    (found,) = state.resources
    return found


def test_what_is_held_beyond_the_guarantee_is_lent() -> None:
    snapshot = _snapshot(
        quota("root", devices(6)), quota("red", devices(4, guarantee=1), parent="root", team="red"), held=2
    )
    root, red = quotas_of(snapshot, (), Policy())
    assert (root.quota, root.depth, root.namespaces) == ("root", 0, ("red",))
    assert (red.quota, red.depth, red.parent) == ("red", 1, "root")
    assert (_resource(red).held, _resource(red).lent, _resource(red).fleet) == (4, 3, 8)
    assert (_resource(root).guarantee, _resource(root).held, _resource(root).lent) == (1, 4, 3)


def test_capacities_and_nodes_are_counted_in_their_units() -> None:
    snapshot = _snapshot(quota("red", memory(), whole_nodes(), team="red"))
    (red,) = quotas_of(snapshot, (), Policy())
    assert [each.key.amount(each.held) for each in red.resources] == ["4", "2"]
    assert [each.key.amount(each.fleet or 0) for each in red.resources] == ["12", "2"]


def test_pods_wait_for_every_quota_whose_devices_they_may_get() -> None:
    snapshot = _snapshot(
        quota("root", devices(6, "any")),
        quota("red", devices(4, "model-a"), devices(4, "gpu"), parent="root", team="red"),
        quota("blue", devices(4), team="blue"),
    )
    claims = (b.claim("c", b.request("r", "gpu"), namespace="red"),)
    waiting = b.pod("p", "c", namespace="red")
    without = b.pod("plain", namespace="red")
    snapshot = replace(snapshot, claims=(*snapshot.claims, *claims))
    states = {each.quota: each for each in quotas_of(snapshot, (waiting, without), Policy())}
    assert [each.waiting for each in states["red"].resources] == [1, 1]
    assert _resource(states["root"]).waiting == 1
    assert _resource(states["blue"]).waiting == 0


def test_a_pod_with_an_extended_resource_waits_too() -> None:
    snapshot = _snapshot(quota("red", devices(4), team="red"))
    by_class = replace(b.pod("p", namespace="red"), requests=(("deviceclass.resource.kubernetes.io/gpu", 1),))
    unknown = replace(b.pod("q", namespace="red"), requests=(("example.com/none", 1),))
    (red,) = quotas_of(snapshot, (by_class, unknown), Policy())
    assert _resource(red).waiting == 1


def test_guarantees_above_the_fleet_and_unknown_classes_are_findings() -> None:
    snapshot = _snapshot(
        quota("red", devices(guarantee=4), team="red"),
        quota("blue", devices(guarantee=3), devices(1, "gqu"), team="blue"),
        quota("green", devices(4), team="green"),
    )
    said = {
        (each.quota, each.reason): each.message
        for state in quotas_of(snapshot, (), Policy())
        for each in state.findings
    }
    assert said.keys() == {
        ("red", "GuaranteesAboveFleet"),
        ("blue", "GuaranteesAboveFleet"),
        ("blue", "DeviceClassUnknown"),
    }
    assert "guarantee 7 devices of class gpu, and the fleet has 6" in said["red", "GuaranteesAboveFleet"]
    assert said["blue", "DeviceClassUnknown"] == (
        "spec.resources: no DeviceClass gqu can be read, so nothing counts for it: did you mean gpu?"
    )


def test_of_an_unknown_fleet_nothing_is_said() -> None:
    tree = QuotaTree.of((quota("red", devices(guarantee=4), team="red"),), namespaces())
    (red,) = quota_states(tree, lambda _, __: 2, {("red", frozenset({"gpu"})): 3}, None)
    assert red.findings == ()
    assert (_resource(red).held, _resource(red).lent, _resource(red).waiting, _resource(red).fleet) == (2, 0, 3, None)
    assert _resource(red).is_short
    key = QuotaKey("gpu")
    (known,) = quota_states(tree, lambda _, __: 4, {}, QuotaFleet(totals=((key, 8),), classes=("gpu",)))
    assert not _resource(known).is_short
    assert known.findings == ()


def test_a_pod_that_has_its_devices_or_asks_with_admin_access_does_not_wait_for_any() -> None:
    snapshot = _snapshot(quota("red", devices(4), team="red"))
    admin = b.claim("a", b.request("r", "gpu", is_admin=True), namespace="red")
    snapshot = replace(snapshot, claims=(*snapshot.claims, admin))
    pods = (b.pod("p", "n0-0", namespace="red"), b.pod("q", "a", namespace="red"))
    (red,) = quotas_of(snapshot, pods, Policy())
    assert _resource(red).waiting == 0


def test_a_chain_of_quotas_longer_than_the_stack() -> None:
    count = 3000
    chain = [quota("q0000", devices(9, guarantee=1))]
    chain += [quota(f"q{n:04}", devices(9), parent=f"q{n - 1:04}") for n in range(1, count)]
    chain[-1] = replace(chain[-1], selector=quota("x", team="red").selector, resources=(devices(9, guarantee=3),))
    tree = QuotaTree.of(chain, namespaces())
    key = chain[0].resources[0].key
    assert {tree.guarantee(index, key) for index in range(count)} == {3}
    states = quota_states(tree, lambda *_: 1, {}, None)
    assert [state.quota for state in states] == [each.name for each in chain]
    assert states[-1].depth == count - 1
    assert targets(tree, key, 8, {count - 1: 5}) == {count - 1: 5}


def test_a_cycle_below_which_others_hang_is_cut_once() -> None:
    ring = [quota(f"q{n}", parent=f"q{(n + 1) % 3}") for n in range(3)]
    below = [quota("z0", parent="q1"), quota("z1", parent="z0")]
    tree = QuotaTree.of([*ring, *below], ())
    assert [(each.quota, each.reason) for each in tree.findings] == [(f"q{n}", PARENT_CYCLE) for n in range(3)]
    assert tree.parents == (-1, -1, -1, 1, 3)
    assert tree.parents_first == (0, 1, 3, 4, 2)
