"""When the volumes of a placement are bound, and what says that they will not be."""

import pytest
from msgspec.structs import replace

from scheduler.change import Change
from scheduler.cluster import Cluster
from scheduler.commit.volumes import PreparedVolume, VolumeReadiness, volume_readiness
from solver.domain import Placement, VolumeBinding
from tests.support import builders as b
from tests.support import volume_builders as v
from tests.support.cluster_builders import cluster_of, gone, seen, show

POD = v.using(b.pod("p"), "data")
DATA = replace(v.volume_claim("data"), resource_version="10")
DISK = replace(v.volume("disk"), resource_version="10")
KEPT = replace(DISK, claim=DATA.id, claim_uid=DATA.uid, resource_version="20")
SELECTED = replace(DATA, selected_node="n1", resource_version="20")
GIVEN = VolumeBinding(claim=DATA.id, claim_uid=DATA.uid, volume="disk", volume_uid=DISK.uid)
ASKED = VolumeBinding(claim=DATA.id, claim_uid=DATA.uid)


def stand() -> Cluster:
    return cluster_of(b.node("n1"), POD, DATA, DISK)


def prepared(binding: VolumeBinding) -> tuple[PreparedVolume, ...]:
    placement = Placement(pod=POD.id, pod_uid=POD.uid, node="n1", volumes=(binding,))
    return (PreparedVolume(placement=placement, binding=binding, stored=KEPT if binding.volume else SELECTED),)


def state(cluster: Cluster, binding: VolumeBinding) -> str:
    found = volume_readiness(cluster, prepared(binding))
    return found.problem or ", ".join(map(str, found.awaited)) or "ready"


WAITED = "the volume of claim data"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), WAITED, id="the watch is behind"),
        pytest.param((seen(KEPT),), WAITED, id="kept, not bound"),
        pytest.param((seen(KEPT), seen(replace(DATA, volume="disk"))), WAITED, id="half bound"),
        pytest.param((seen(KEPT), seen(replace(DATA, volume="disk", is_bind_completed=True))), "ready", id="bound"),
        pytest.param(
            (seen(replace(DISK, resource_version="30")),),
            'binding volumes: ClaimRef got reset for pv "disk"',
            id="given up by the controller",
        ),
        pytest.param((gone(DISK),), "binding volumes: volume disk was deleted meanwhile", id="volume gone"),
        pytest.param(
            (gone(DATA),), "binding volumes: volume claim default/data was deleted meanwhile", id="claim gone"
        ),
        pytest.param(
            (seen(replace(KEPT, node_affinity=v.on_nodes("n9"))), seen(replace(DATA, volume="disk"))),
            'binding volumes: pv "disk" node affinity doesn\'t match node "n1"',
            id="bound elsewhere",
        ),
    ],
)
def test_a_volume_that_is_kept(changes: tuple[Change, ...], expected: str) -> None:
    cluster = stand()
    for change in changes:
        cluster.apply(change)
    assert state(cluster, GIVEN) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), WAITED, id="the watch is behind"),
        pytest.param((seen(SELECTED),), WAITED, id="selected"),
        pytest.param(
            (seen(replace(DATA, resource_version="30")),),
            'binding volumes: provisioning failed for PVC "data"',
            id="refused",
        ),
        pytest.param(
            (seen(replace(SELECTED, selected_node="n2", resource_version="30")),),
            'binding volumes: provisioning failed for PVC "data"',
            id="made elsewhere",
        ),
        pytest.param(
            (seen(replace(SELECTED, volume="new", is_bind_completed=True, resource_version="30")),),
            WAITED,
            id="bound to a volume that no watch has shown",
        ),
        pytest.param(
            (
                seen(v.volume("new", nodes=["n1"], storage=v.DYNAMIC)),
                seen(replace(SELECTED, volume="new", is_bind_completed=True, resource_version="30")),
            ),
            "ready",
            id="made and bound",
        ),
        pytest.param(
            (
                seen(v.volume("new", nodes=["n2"], storage=v.DYNAMIC)),
                seen(replace(SELECTED, volume="new", is_bind_completed=True, resource_version="30")),
            ),
            'binding volumes: pv "new" node affinity doesn\'t match node "n1"',
            id="made for another node",
        ),
    ],
)
def test_a_volume_that_is_made(changes: tuple[Change, ...], expected: str) -> None:
    cluster = stand()
    for change in changes:
        cluster.apply(change)
    assert state(cluster, ASKED) == expected


def test_without_volumes_nothing_is_awaited() -> None:
    assert volume_readiness(stand(), ()) == VolumeReadiness(())


def test_one_of_several_is_enough_to_wait() -> None:
    cluster = stand()
    show(cluster, KEPT, replace(DATA, volume="disk", is_bind_completed=True))
    log = v.volume_claim("log")
    show(cluster, log)
    binding = VolumeBinding(claim=log.id, claim_uid=log.uid)
    more = replace_binding(binding)
    assert [str(each) for each in volume_readiness(cluster, (*prepared(GIVEN), more)).awaited] == [
        "the volume of claim log"
    ]


def replace_binding(binding: VolumeBinding) -> PreparedVolume:
    placement = Placement(pod=POD.id, pod_uid=POD.uid, node="n1", volumes=(binding,))
    stored = replace(v.volume_claim("log"), selected_node="n1", resource_version="99")
    return PreparedVolume(placement=placement, binding=binding, stored=stored)
