import msgspec
import pytest

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Cluster
from solver.domain import Namespace
from tests.support.builders import (
    allocation,
    claim,
    device_class,
    device_id,
    gpu_slice,
    held,
    node,
    pod,
    resource_slice,
    result,
    taint,
    taint_rule,
)
from tests.support.cluster_builders import cluster_of, gone, seen, show

OBJECTS: list[Object] = [
    node("n1"),
    pod("p", node_name="n1"),
    Namespace(name="default"),
    gpu_slice("n1"),
    device_class("gpu"),
    claim("c"),
    taint_rule("r", taint("k")),
]
EVERY_KIND = pytest.mark.parametrize("each", OBJECTS, ids=lambda each: type(each).__name__)


@EVERY_KIND
def test_a_new_object_is_a_transition_from_nothing(each: Object) -> None:
    (transition,) = Cluster().apply(seen(each))

    assert (transition.before, transition.after) == (None, each)


@EVERY_KIND
def test_an_object_shown_again_as_it_was_changes_nothing(each: Object) -> None:
    assert cluster_of(each).apply(seen(each)) == ()


@EVERY_KIND
def test_a_deleted_object_is_a_transition_to_nothing(each: Object) -> None:
    (transition,) = cluster_of(each).apply(gone(each))

    assert (transition.before, transition.after) == (each, None)


@EVERY_KIND
def test_an_unknown_object_that_is_deleted_changes_nothing(each: Object) -> None:
    assert Cluster().apply(gone(each)) == ()


@EVERY_KIND
def test_a_deleted_object_leaves_nothing_behind(each: Object) -> None:
    cluster = cluster_of(each)
    cluster.apply(gone(each))

    assert cluster.snapshot() == Cluster().snapshot()


def test_a_value_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="a change of a Pod carries a Node"):
        Cluster().apply(Change(kind=Kind.PODS, key="default/p", value=node("n1")))


def test_a_snapshot_is_sorted_by_key_whatever_the_order_of_the_changes() -> None:
    nodes = [node("n2"), node("n10"), node("n1")]
    claims = [claim("b", namespace="y"), claim("c", namespace="x"), claim("a", namespace="y")]
    snapshot = cluster_of(nodes, claims).snapshot()

    assert [each.name for each in snapshot.nodes] == ["n1", "n10", "n2"]
    assert [str(each.id) for each in snapshot.claims] == ["x/c", "y/a", "y/b"]


def test_a_snapshot_holds_the_pods_that_hold_a_node() -> None:
    ended = msgspec.structs.replace(pod("ended", node_name="n1"), is_terminal=True)
    snapshot = cluster_of(pod("bound", node_name="n1"), pod("waiting"), ended).snapshot()

    assert [each.id.name for each in snapshot.pods] == ["bound"]


def test_a_pod_that_ends_leaves_the_snapshot() -> None:
    cluster = cluster_of(pod("p", node_name="n1"))
    show(cluster, pod("p"))

    assert cluster.snapshot().pods == ()


def test_kinds_that_did_not_change_keep_their_tuple() -> None:
    cluster = cluster_of(node("n1"), claim("c"), pod("p", node_name="n1"))
    first = cluster.snapshot()
    show(cluster, pod("q", node_name="n1"))
    second = cluster.snapshot()

    assert second.nodes is first.nodes
    assert second.claims is first.claims
    assert second.pods is not first.pods


def test_a_snapshot_does_not_change_with_the_cluster() -> None:
    cluster = cluster_of(node("n1"))
    snapshot = cluster.snapshot()
    show(cluster, node("n2"))

    assert [each.name for each in snapshot.nodes] == ["n1"]


def test_the_pods_that_use_a_claim_are_known() -> None:
    cluster = cluster_of(pod("b", "c"), pod("a", "c", "d"), pod("x", "d"))

    assert [each.id.name for each in cluster.pods_using(claim("c").id)] == ["a", "b"]


def test_a_pod_that_no_longer_uses_a_claim_is_forgotten_for_it() -> None:
    cluster = cluster_of(pod("a", "c"))
    show(cluster, pod("a", "d"))

    assert cluster.pods_using(claim("c").id) == ()
    assert [each.id.name for each in cluster.pods_using(claim("d").id)] == ["a"]


def test_a_device_held_alone_by_two_claims_is_held_twice() -> None:
    cluster = cluster_of(held("b", result("gpu", "gpu-0", "n1")), held("a", result("gpu", "gpu-0", "n1")))

    assert cluster.contested_devices() == ((device_id("gpu-0", "n1"), (claim("a").id, claim("b").id)),)


def test_a_device_held_alone_and_by_a_share_is_held_twice() -> None:
    share = held("b", result("gpu", "gpu-0", "n1", share_id="s"))
    cluster = cluster_of(held("a", result("gpu", "gpu-0", "n1")), share)

    assert cluster.contested_devices() == ((device_id("gpu-0", "n1"), (claim("a").id, claim("b").id)),)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"share_id": "s1"}, {"share_id": "s2"}, id="two shares"),
        pytest.param({}, {"is_admin": True}, id="admin access counts for nothing"),
    ],
)
def test_a_device_may_be_in_two_allocations(one: dict[str, object], other: dict[str, object]) -> None:
    claims = [
        held("a", result("gpu", "gpu-0", "n1", **one)),  # type: ignore[arg-type]  # keyword arguments of a table
        held("b", result("gpu", "gpu-0", "n1", **other)),  # type: ignore[arg-type]  # the same
    ]

    assert cluster_of(claims).contested_devices() == ()


def test_a_duplicate_ends_with_one_of_the_claims() -> None:
    cluster = cluster_of(held("a", result("gpu", "gpu-0", "n1")), held("b", result("gpu", "gpu-0", "n1")))
    show(cluster, claim("a"))

    assert cluster.contested_devices() == ()


def test_equal_pool_names_of_two_drivers_are_two_pools() -> None:
    claims = [
        held("a", result("gpu", "d0", "n1", driver="one.example.com")),
        held("b", result("gpu", "d0", "n1", driver="two.example.com")),
    ]

    assert cluster_of(claims).contested_devices() == ()


def test_a_deleted_slice_leaves_the_others() -> None:
    cluster = cluster_of(resource_slice("n1", name="s1"), resource_slice("n2", name="s2"))
    cluster.apply(gone(resource_slice("n1", name="s1")))

    assert [each.name for each in cluster.snapshot().slices] == ["s2"]


def test_a_claim_without_devices_is_allocated_all_the_same() -> None:
    cluster = cluster_of(claim("c", allocation=allocation()))

    assert cluster.contested_devices() == ()
    assert cluster.claim(claim("c").id) is not None


def test_namespaces_are_in_the_snapshot_with_their_labels() -> None:
    lab, office = Namespace(name="lab", labels=(("team", "x"),)), Namespace(name="office")
    cluster = cluster_of(office, lab)
    assert cluster.snapshot().namespaces == (lab, office)

    cluster.apply(gone(lab))
    assert cluster.snapshot().namespaces == (office,)
