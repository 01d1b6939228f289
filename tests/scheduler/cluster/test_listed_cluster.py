"""What is listed once gives the snapshot and the gangs of a cache to which the same changes are applied."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.hostile.objects.draw import written
from e2e.hostile.objects.generator import generate
from e2e.hostile.offline.rounds import served
from scheduler.change import Change, Kind
from scheduler.cluster import Cluster, ListedCluster
from scheduler.kube.decode.objects import identify, read
from scheduler.kube.errors import DecodeError
from solver.domain import Pod
from tests.scheduler.cluster.test_cluster_properties import objects
from tests.support.builders import allocation, batch, claim, device, node, pod, resource_slice, result
from tests.support.cluster_builders import gone, seen

changes = st.lists(st.one_of(objects.map(seen), objects.map(gone)), max_size=30)


def applied(shown: list[Change]) -> Cluster:
    cluster = Cluster()
    for change in shown:
        cluster.apply(change)
    return cluster


@given(changes)
def test_the_snapshot_is_that_of_the_cache(shown: list[Change]) -> None:
    assert ListedCluster(shown).snapshot == applied(shown).snapshot()


def test_a_device_is_charged_as_its_slice_said_when_its_claim_came() -> None:
    slices = [
        resource_slice(
            "n1", device("d0", consumes={"card": {"memory": amount}}), generation=amount, name=f"n1-{amount}"
        )
        for amount in (1, 2)
    ]
    held = msgspec.structs.replace(claim("c"), allocation=allocation(result("r", "d0", "n1")))
    shown = [seen(each) for each in (slices[0], held, slices[1])]
    assert applied(shown).snapshot().draws
    assert ListedCluster(shown).snapshot == applied(shown).snapshot()
    assert not ListedCluster([*shown[::2], shown[1]]).snapshot.draws


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_objects_give_the_same_snapshot_and_gangs(seed: int) -> None:
    shown = list(hostile(seed, 250))
    cluster, listed = applied(shown), ListedCluster(shown)
    pods = [change.value for change in shown if isinstance(change.value, Pod)]
    assert listed.snapshot == cluster.snapshot()
    assert listed.with_gangs(batch(*pods)) == cluster.with_gangs(batch(*pods))
    assert [listed.pod(each.id) for each in pods] == [cluster.pod(each.id) for each in pods]


def hostile(seed: int, count: int) -> list[Change]:
    found = []
    for number in range(count):
        made = generate(seed, number)
        raw = written(served(made.manifest, number))
        try:
            key = identify(raw).key
        except DecodeError:
            continue
        if (value := read(made.kind, raw).value) is not None:
            found.append(Change(kind=made.kind, key=key, value=value))
    return found


def test_a_value_of_another_kind_is_a_defect_of_the_caller() -> None:
    with pytest.raises(TypeError, match="a change of a Pod carries a Node"):
        ListedCluster([Change(kind=Kind.PODS, key="default/p", value=node("n"))])
    assert ListedCluster([seen(pod("p"))]).pod(pod("p").id) == pod("p")
