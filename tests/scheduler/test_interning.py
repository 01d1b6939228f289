"""Equal parts of objects are kept once, and the table that finds them is bounded."""

from typing import Any, cast

import msgspec

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from scheduler.cluster.interning import DeviceInterner, Interner, size_of
from scheduler.kube.decode.objects import decode
from scheduler.worker import frames
from solver.domain import Allocation, Claim, ClaimId, Node, Pod, PodId, ResourceSlice
from tests.support import kube_objects

_LABELS = {f"example.com/label-{number}": f"value-{number}" for number in range(500)}


def _pod(name: str, **labels: str) -> Pod:
    found = decode(Kind.PODS, kube_objects.encoded(kube_objects.pod(name, meta={"labels": _LABELS | labels})))
    assert isinstance(found, Pod)
    return found


def _claim(name: str) -> Claim:
    found = decode(Kind.CLAIMS, kube_objects.encoded(kube_objects.claim(name)))
    assert isinstance(found, Claim)
    return found


def _published(name: str, model: str = "H100") -> dict[str, Any]:
    """Make a slice as its driver publishes it."""
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": model}, "root": {"int": number}, "uuid": {"string": f"{name}-{number}"}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(2)
    ]
    return kube_objects.resource_slice(name, devices=devices)


def _slice(name: str, model: str = "H100") -> ResourceSlice:
    """Make a slice as the replica gets it: nothing in it is shared by decoding."""
    found = decode(Kind.SLICES, kube_objects.encoded(_published(name, model)))
    change = frames.decode_change(frames.encode_change(Change(kind=Kind.SLICES, key=name, value=found)))
    assert isinstance(change.value, ResourceSlice)
    return change.value


def test_pods_of_one_template_share_their_parts() -> None:
    interner, first, second = Interner(), _pod("a"), _pod("b")
    assert first.labels is not second.labels
    interner.share(first)
    interner.share(second)
    assert first.labels is second.labels
    assert first.containers is second.containers


def test_pods_that_differ_in_one_label_share_the_others() -> None:
    interner, first, second = Interner(), _pod("a", index="0"), _pod("b", index="1")
    interner.share(first)
    interner.share(second)
    assert first.labels != second.labels
    assert sum(one is two for one, two in zip(first.labels, second.labels, strict=True)) == len(_LABELS)


def test_an_object_is_equal_to_what_it_was() -> None:
    interner = Interner()
    for made in (_pod("a"), _pod("b", index="1")):
        interner.share(made)
    shared = _pod("b", index="1")
    interner.share(shared)
    assert shared == _pod("b", index="1")


def test_claims_of_one_template_share_their_requests() -> None:
    interner, first, second = Interner(), _claim("a"), _claim("b")
    for each in (first, second):
        interner.share(each)
    assert first.requests is second.requests


def test_devices_of_equal_nodes_share_all_but_their_own_attributes() -> None:
    interner, first, second = DeviceInterner(), _slice("a"), _slice("b")
    for each in (first, second):
        interner.share(each)
    assert (first, second) == (_slice("a"), _slice("b"))
    for one, two in zip(first.devices, second.devices, strict=True):
        pairs = zip(one.attributes, two.attributes, strict=True)
        assert {mine[0]: mine is other for mine, other in pairs} == {"model": True, "root": True, "uuid": False}
        assert one.capacities is two.capacities


def test_decoding_shares_what_devices_of_the_api_server_have_in_common() -> None:
    bodies = [kube_objects.encoded(_published(name)) for name in ("a", "b")]
    first, second = (cast("ResourceSlice", decode(Kind.SLICES, body)) for body in bodies)
    for one, two in zip(first.devices, second.devices, strict=True):
        pairs = zip(one.attributes, two.attributes, strict=True)
        shared = {"model": True, "root": True, "uuid": False}
        assert {mine[0]: mine is other for mine, other in pairs} == shared
        assert one.capacities[0] is two.capacities[0]


def test_devices_share_with_those_of_their_kind_whatever_came_between() -> None:
    interner, first, other, second = DeviceInterner(), _slice("a"), _slice("c", model="A100"), _slice("b")
    for each in (first, msgspec.structs.replace(other, devices=other.devices[:1]), second):
        interner.share(each)
    assert first.devices[1].attributes[0] is second.devices[1].attributes[0]


def test_slices_of_many_kinds_are_not_kept_for_ever() -> None:
    interner, first, again = DeviceInterner(), _slice("a"), _slice("b")
    interner.share(first)
    for number in range(300):
        interner.share(msgspec.structs.replace(_slice("c"), driver=f"driver-{number}"))
    interner.share(again)
    assert first.devices[0].attributes[0] is not again.devices[0].attributes[0]


def _image(name: str) -> dict[str, Any]:
    return {"names": [f"registry.example.com/{name}:v1"], "sizeBytes": 2**30}


def test_nodes_share_labels_images_and_amounts() -> None:
    interner = Interner()
    first, second = (
        cast("Node", decode(Kind.NODES, kube_objects.encoded(_node(name, _image("all"), _image(f"own-{name}")))))
        for name in ("a", "b")
    )
    for each in (first, second):
        interner.share(each)
    shared = [mine is other for mine, other in zip(first.images, second.images, strict=True)]
    assert dict(zip(["all", "own"], shared, strict=True)) == {"all": True, "own": False}
    assert first.allocatable is second.allocatable
    assert sum(mine is other for mine, other in zip(first.labels, second.labels, strict=True)) == 1


def _node(name: str, *images: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"example.com/own": name, "example.com/zone": "one"}},
        "status": {"allocatable": {"cpu": "8", "memory": "1Gi"}, "images": list(images)},
    }


def _allocated(name: str) -> Claim:
    """Make a claim of which nothing is shared: the names in it are those of other JSON texts."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": name}
    claim = kube_objects.claim(name)
    claim["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}}}
    found = decode(Kind.CLAIMS, kube_objects.encoded(claim))
    assert isinstance(found, Claim)
    return found


def test_allocations_on_one_node_share_its_names() -> None:
    interner, first, second = Interner(), _allocated("gpu-1"), _allocated("gpu-2")
    for each in (first, second):
        interner.share(each)
    assert (first, second) == (_allocated("gpu-1"), _allocated("gpu-2"))
    one, two = (cast("Allocation", each.allocation) for each in (first, second))
    assert one.node_selector is two.node_selector
    assert one.results[0].device.driver is two.results[0].device.driver
    assert one.results[0].device.pool is two.results[0].device.pool
    assert one.results[0].request is two.results[0].request
    assert first.id.namespace is second.id.namespace


def test_an_object_that_is_shared_again_keeps_its_parts() -> None:
    interner, claim = Interner(), _allocated("gpu-1")
    interner.share(claim)
    claim_id, device = claim.id, cast("Allocation", claim.allocation).results[0].device
    interner.share(claim)
    assert claim.id is claim_id
    assert cast("Allocation", claim.allocation).results[0].device is device


def test_the_cluster_keeps_one_id_of_an_object() -> None:
    cluster, pod, claim = Cluster(), _pod("a"), _claim("b")
    for kind, value in ((Kind.PODS, pod), (Kind.CLAIMS, claim)):
        cluster.apply(Change(kind=kind, key=str(value.id), value=value))
    assert next(iter(cluster.store.pods)) is pod.id
    assert next(iter(cluster.store.claims)) is claim.id


def test_names_that_nothing_has_any_more_are_dropped() -> None:
    interner = Interner()
    for number in range(40_000):
        interner.share(Pod(id=PodId(f"namespace-{number}", "a"), uid="u"))
    assert len(interner._texts) <= 2**15  # noqa: SLF001 - memory shows nowhere else


def test_what_is_gone_is_shared_by_nothing() -> None:
    Interner().share(None)


def test_the_table_keeps_no_more_alive_than_its_limit() -> None:
    interner = Interner(limit_bytes=100_000)
    for number in range(1000):
        interner.share(_pod(f"pod-{number}", **{f"own-{number}": "x" * 50}))
        assert interner.kept_bytes <= 100_000


def test_a_value_in_use_outlives_those_that_are_not() -> None:
    interner, first = Interner(limit_bytes=1_000_000), _pod("first")
    interner.share(first)
    for number in range(300):
        interner.share(_pod(f"pod-{number}", **{f"own-{number}": "x" * 50}))
        again = _pod("again")
        interner.share(again)
        assert again.labels is first.labels


def test_own_bytes_are_those_that_no_other_object_has() -> None:
    interner, first = Interner(), _pod("a")
    whole = interner.own_bytes(first)
    interner.share(first)
    assert whole > size_of(first.labels) > 20 * interner.own_bytes(_pod("b"))


def test_the_mirror_shares_what_it_takes() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply(Change(kind=Kind.PODS, key=f"ml/{name}", value=_pod(name)))
        cluster.apply(Change(kind=Kind.CLAIMS, key=f"ml/{name}", value=_claim(name)))
    pods = [cluster.observed_pod(PodId("ml", name)) for name in ("a", "b")]
    claims = [cluster.observed_claim(ClaimId("ml", name)) for name in ("a", "b")]
    assert all(pods)
    assert len({id(each.labels) for each in pods if each is not None}) == 1
    assert len({id(each.requests) for each in claims if each is not None}) == 1
