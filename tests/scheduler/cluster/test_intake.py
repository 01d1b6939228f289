"""An object that raises while it is applied is its own problem, and the store stays as if it had been otherwise."""

import random
from typing import Any

import pytest
from msgspec import structs

from scheduler.change import Change, Kind, Object
from scheduler.cluster import Cluster, Intake
from scheduler.cluster.assume_cache import AssumeCache
from scheduler.cluster.devices import AllocatedDevices, SliceIndex
from scheduler.cluster.gangs import GangIndex
from scheduler.cluster.nominations import Nominations
from scheduler.cluster.object_store import ObjectStore
from scheduler.cluster.pod_index import PodIndex
from scheduler.cluster.table import Table
from scheduler.unreadable import closed
from solver.domain import Claim, DeviceId, Pod
from tests.support.builders import allocation, claim, gpu_class, gpu_slice, node, pod, result
from tests.support.cluster_builders import cluster_of, gone, key_of, seen

HELD = claim("held", allocation=allocation(result("gpu", "gpu-0", "n1")))
BASE = (
    node("n1", cpu=8),
    gpu_slice("n1", count=4),
    gpu_class(),
    HELD,
    structs.replace(pod("there", "held"), node_name="n1", requests=(("cpu", 500),)),
)
PLACES: list[tuple[type[Any], str, Object]] = [
    (GangIndex, "replace_pod", pod("hostile")),
    (PodIndex, "replace", pod("hostile")),
    (AssumeCache, "confirm_pod", pod("hostile")),
    (Nominations, "confirm", pod("hostile")),
    (ObjectStore, "_index_claims", pod("hostile", "held")),
    (AssumeCache, "confirm_claim", claim("hostile", allocation=allocation(result("gpu", "gpu-1", "n1")))),
    (AllocatedDevices, "_set", claim("hostile", allocation=allocation(result("gpu", "gpu-1", "n1")))),
    (AllocatedDevices, "_charge", claim("hostile", allocation=allocation(result("gpu", "gpu-1", "n1")))),
    (SliceIndex, "replace", structs.replace(gpu_slice("n2", count=1), name="hostile")),
    (AllocatedDevices, "slice_changed", structs.replace(gpu_slice("n2", count=1), name="hostile")),
    (Table, "replace", structs.replace(node("hostile", cpu=1))),
]
IDS = [f"{place.__name__}.{name}" for place, name, _ in PLACES]


class Fault:
    """Lets a method raise once, before or after it has done its work, or whenever it meets the hostile object."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, place: type[Any], name: str, *, after: bool, is_lasting: bool = False
    ) -> None:
        self.count, honest = 0, getattr(place, name)

        def method(own: Any, *arguments: Any, **options: Any) -> Any:
            if not (_is_about(arguments) if is_lasting else self.count == 0):
                return honest(own, *arguments, **options)
            self.count += 1
            if after:
                honest(own, *arguments, **options)
            raise ZeroDivisionError("a defect that one object meets")

        monkeypatch.setattr(place, name, method)


def _is_about(arguments: tuple[Any, ...]) -> bool:
    """Whether the hostile object is meant, as it was told: what stands for it does no harm."""
    values = [each for each in arguments if hasattr(each, "invalid")]
    return bool(values) and "hostile" in repr(arguments) and not any(each.invalid for each in values)


def facts(cluster: Cluster) -> tuple[Any, ...]:
    """Everything that can be asked of a store."""
    store = cluster.store
    return (
        cluster.snapshot(),
        {
            index: dict(store.allocated_devices.holders(DeviceId("gpu.example.com", "n1", f"gpu-{index}")))
            for index in range(4)
        },
        store.allocated_devices.contested(),
        {name: store.pod_index.on(name) for name in ("n1", "n2")},
        {key: set(pods) for key, pods in store.pods_by_claim.items()},
        store.placed_pods.values(),
    )


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("place", "name", "hostile"), PLACES, ids=IDS)
def test_a_defect_anywhere_in_the_mirror_leaves_every_index_right(
    monkeypatch: pytest.MonkeyPatch, place: type[Any], name: str, hostile: Object, *, after: bool
) -> None:
    cluster = cluster_of(*BASE)
    before = facts(cluster)
    intake = Intake(cluster)
    fault = Fault(monkeypatch, place, name, after=after)
    taken = intake.take(seen(hostile))
    assert fault.count
    assert "ZeroDivisionError: a defect that one object meets" in taken.problem
    monkeypatch.undo()
    intake.take(gone(hostile))
    assert facts(cluster) == before
    assert not intake.take(seen(hostile)).problem
    assert facts(cluster) == facts(cluster_of(*BASE, hostile))


def test_what_an_object_holds_counts_although_it_could_not_be_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(*BASE)
    hostile = structs.replace(pod("hostile"), node_name="n1", requests=(("cpu", 700),))
    Fault(monkeypatch, GangIndex, "replace_pod", after=True, is_lasting=True)
    taken = Intake(cluster).take(seen(hostile))
    assert isinstance(taken.change.value, Pod)
    assert taken.change.value.invalid
    there = cluster.store.pod_index.on("n1").values()
    assert sum(dict(each.requests)["cpu"] for each in there) == 1200


def test_a_claim_that_could_not_be_applied_keeps_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(*BASE)
    Fault(monkeypatch, AssumeCache, "confirm_claim", after=False, is_lasting=True)
    hostile = claim("hostile", allocation=allocation(result("gpu", "gpu-1", "n1")))
    taken = Intake(cluster).take(seen(hostile))
    assert isinstance(taken.change.value, Claim)
    assert taken.change.value.allocation == hostile.allocation


def test_after_the_first_defect_objects_of_the_kind_do_not_reach_the_mirror_before_they_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store is made again once, and not for every object that a user makes."""
    cluster, mended = cluster_of(*BASE), list[str]()
    honest = cluster.reindex

    def mend(kind: Kind, key: str, value: Object | None) -> None:
        mended.append(key)
        honest(kind, key, value)

    monkeypatch.setattr(cluster, "reindex", mend)
    Fault(monkeypatch, PodIndex, "replace", after=False, is_lasting=True)
    intake = Intake(cluster)
    for index in range(20):
        assert intake.take(seen(pod(f"hostile-{index}"))).problem
    assert mended == ["default/hostile-0"]
    assert not intake.take(seen(pod("good"))).problem


def test_what_held_devices_drew_is_remembered_when_everything_is_indexed_again() -> None:
    """A driver that alters a held device frees nothing, also after a mending."""
    cluster = cluster_of(*BASE)
    altered = structs.replace(gpu_slice("n1", count=4), devices=gpu_slice("n1", count=1).devices)
    cluster.apply(seen(altered))
    before = cluster.snapshot().draws
    cluster.reindex(Kind.NODES, "n1", cluster.node("n1"))
    assert cluster.snapshot().draws == before


@pytest.mark.parametrize("seed", range(20))
def test_a_mended_mirror_is_one_that_never_failed(seed: int) -> None:
    """Any of its objects may be the one that failed."""
    source = random.Random(seed)  # noqa: S311 - a test's dice
    cluster = cluster_of(*BASE)
    before = facts(cluster)
    each = source.choice(BASE)
    kind = seen(each).kind
    cluster.reindex(kind, key_of(each), cluster.seen(kind, key_of(each)))
    assert facts(cluster) == before


def test_a_change_with_a_value_of_another_kind_is_no_end() -> None:
    cluster = cluster_of(*BASE)
    taken = Intake(cluster).take(Change(kind=Kind.NODES, key="n1", value=gpu_class()))
    assert taken.problem
    assert facts(cluster) == facts(cluster_of(*BASE[1:], closed(BASE[0], "")))


def test_memory_that_is_used_up_is_no_objects_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(*_: Any, **__: Any) -> None:
        raise MemoryError

    cluster = cluster_of(*BASE)
    monkeypatch.setattr(PodIndex, "replace", replace)
    with pytest.raises(MemoryError):
        Intake(cluster).take(seen(pod("any")))
