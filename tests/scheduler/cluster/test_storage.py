"""The store of storage: what the watches gave, and what placements make of it until they are bound or forgotten."""

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster
from solver.domain import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    VolumeAttachment,
    VolumeBinding,
)
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.cluster_builders import cluster_of, gone, seen, show, unit

POD = v.using(b.pod("p"), "data", "made")
DATA, MADE = v.volume_claim("data"), v.volume_claim("made", storage=v.DYNAMIC)
DISK = v.volume("disk")
GIVEN = VolumeBinding(claim=DATA.id, claim_uid=DATA.uid, volume="disk", volume_uid=DISK.uid)
ASKED = VolumeBinding(claim=MADE.id, claim_uid=MADE.uid)
PLACED = Placement(pod=POD.id, pod_uid=POD.uid, node="n1", volumes=(GIVEN, ASKED))
UNIT = unit(PLACED)


def stand() -> Cluster:
    return cluster_of(b.node("n1"), POD, DATA, MADE, DISK)


def volume_of(cluster: Cluster) -> PersistentVolume:
    (found,) = cluster.snapshot().volumes
    return found


def claim_of(cluster: Cluster, name: str) -> PersistentVolumeClaim:
    (found,) = [each for each in cluster.snapshot().volume_claims if each.id.name == name]
    return found


def test_everything_that_is_known_of_storage_is_in_the_snapshot() -> None:
    objects = (
        v.storage_class(),
        CSINode(node="n1"),
        CSIStorageCapacity(namespace="s", name="c", storage_class="x"),
        CSIDriver(name="d"),
        VolumeAttachment(name="a", attacher="d", node="n1"),
    )
    found = cluster_of(DISK, DATA, *objects).snapshot()
    assert (found.volumes, found.volume_claims) == ((DISK,), (DATA,))
    known = (
        *found.storage_classes,
        *found.node_drivers,
        *found.storage_capacities,
        *found.storage_drivers,
        *found.attachments,
    )
    assert known == objects


def test_without_storage_the_tuples_stay_empty() -> None:
    found = cluster_of(b.node("n1")).snapshot()
    assert (found.volumes, found.volume_claims, found.storage_classes) == ((), (), ())


def test_what_is_known_already_is_no_transition() -> None:
    cluster = stand()
    assert cluster.apply(seen(DISK)) == ()
    (transition,) = cluster.apply(gone(DISK))
    assert (transition.before, transition.after) == (DISK, None)


def test_a_value_of_another_kind_is_a_defect() -> None:
    with pytest.raises(TypeError, match=f"persistentvolumes carries a {type(DATA).__name__}"):
        Cluster().apply(Change(kind=Kind.VOLUMES, key="x", value=DATA))


def test_an_assumed_placement_keeps_the_volume_and_selects_the_node() -> None:
    cluster = stand()
    transitions = cluster.assume(UNIT)
    assert {each.kind for each in transitions} == {Kind.PODS, Kind.VOLUMES, Kind.VOLUME_CLAIMS}
    assert (volume_of(cluster).claim, volume_of(cluster).claim_uid) == (DATA.id, DATA.uid)
    assert claim_of(cluster, "made").selected_node == "n1"
    assert claim_of(cluster, "data") == DATA
    assert cluster.observed_volume("disk") == DISK
    assert cluster.observed_volume_claim(MADE.id) == MADE


def test_a_pod_that_shares_a_claim_selects_the_node_of_another() -> None:
    cluster = stand()
    elsewhere = unit(replace(PLACED, volumes=(replace(ASKED, node="n7"),)))
    cluster.assume(elsewhere)
    assert claim_of(cluster, "made").selected_node == "n7"
    show(cluster, replace(MADE, selected_node="n7"))
    assert cluster.check(elsewhere) == ()
    show(cluster, replace(MADE, selected_node="n1"))
    assert [each.message for each in cluster.check(elsewhere)] == [
        "the volume of claim default/made is made on node n1"
    ]


def test_what_others_assume_of_a_claim_is_known() -> None:
    cluster = stand()
    cluster.assume(UNIT)
    assert not cluster.is_volume_assumed_by_others(ASKED, {POD.uid})
    assert cluster.is_volume_assumed_by_others(ASKED, {"another"})
    assert not cluster.is_volume_assumed_by_others(replace(ASKED, claim_uid="x"), {"another"})


def test_what_is_forgotten_is_free_again() -> None:
    cluster = stand()
    cluster.assume(UNIT)
    transitions = cluster.forget(UNIT)
    assert {each.kind for each in transitions} == {Kind.PODS, Kind.VOLUMES, Kind.VOLUME_CLAIMS}
    assert (volume_of(cluster), claim_of(cluster, "made")) == (DISK, MADE)


@pytest.mark.parametrize(
    "end",
    [pytest.param(seen(replace(POD, node_name="n1")), id="bound"), pytest.param(gone(POD), id="deleted")],
)
def test_nothing_is_assumed_for_a_pod_that_is_bound_or_gone(end: Change) -> None:
    cluster = stand()
    cluster.assume(UNIT)
    cluster.apply(end)
    assert cluster.assumptions().volumes == ()
    assert volume_of(cluster) == DISK


def test_what_the_watch_shows_counts_before_what_is_assumed() -> None:
    cluster = stand()
    cluster.assume(UNIT)
    other = replace(DISK, claim=MADE.id, claim_uid=MADE.uid)
    elsewhere = replace(MADE, selected_node="n2")
    show(cluster, other, elsewhere)
    assert (volume_of(cluster), claim_of(cluster, "made")) == (other, elsewhere)


def test_a_replica_assumes_what_the_original_does_and_no_more() -> None:
    original, replica = stand(), stand()
    original.assume(UNIT)
    assert replica.snapshot(original.assumptions()).volumes == original.snapshot().volumes
    assert replica.snapshot(original.assumptions()).volume_claims == original.snapshot().volume_claims
    original.forget(UNIT)
    assert replica.snapshot(original.assumptions()).volumes == (DISK,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(seen(DISK), "", id="nothing"),
        pytest.param(gone(DATA), "volume claim default/data was deleted", id="claim gone"),
        pytest.param(seen(replace(DATA, uid="x")), "volume claim default/data was deleted", id="another claim"),
        pytest.param(
            seen(replace(DATA, is_deleting=True)), "volume claim default/data is being deleted", id="claim deleted"
        ),
        pytest.param(
            seen(replace(DATA, volume="x")), "volume claim default/data was bound to volume x", id="bound otherwise"
        ),
        pytest.param(
            seen(replace(MADE, selected_node="n2")),
            "the volume of claim default/made is made on node n2",
            id="made elsewhere",
        ),
        pytest.param(gone(DISK), "volume disk was deleted", id="volume gone"),
        pytest.param(seen(replace(DISK, uid="x")), "volume disk was deleted", id="another volume"),
        pytest.param(seen(replace(DISK, is_deleting=True)), "volume disk is being deleted", id="volume deleted"),
        pytest.param(
            seen(replace(DISK, claim=MADE.id, claim_uid=MADE.uid)),
            "volume disk was taken for claim default/made",
            id="taken",
        ),
        pytest.param(seen(replace(DISK, claim=DATA.id, claim_uid=DATA.uid)), "", id="kept for it by now"),
    ],
)
def test_a_placement_is_checked_before_it_is_written(change: Change, message: str) -> None:
    cluster = stand()
    cluster.assume(UNIT)
    cluster.apply(change)
    assert [each.message for each in cluster.check(UNIT)] == ([message] if message else [])
