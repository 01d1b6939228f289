"""Writes to volumes and their claims against the real API server, and what can be taken back of them."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster as Mirror
from scheduler.cluster import Unit
from scheduler.commit.volumes import PreparedVolume, VolumeBinder
from scheduler.kube import volume_writes
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import Conflict
from scheduler.kube.writer import NoFence, Writer
from solver.domain import (
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    PodId,
    Reason,
    ReasonCode,
    VolumeBinding,
    VolumeClaimId,
)
from tests.scheduler.kube.conftest import Cluster
from tests.support import builders as b

pytestmark = pytest.mark.controlplane


class Stored:
    """A class that waits and that no controller provisions for, a volume and two claims."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.word = secrets.token_hex(4)
        self.volumes: list[str] = []
        self.mirrors: list[Mirror] = []

    async def begin(self) -> None:
        body = {
            "metadata": {"name": self.word},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self.cluster.send("POST", "/apis/storage.k8s.io/v1/storageclasses", body)

    async def end(self) -> None:
        await self.cluster.send("DELETE", f"/apis/storage.k8s.io/v1/storageclasses/{self.word}")
        for name in self.volumes:
            await self.cluster.send("DELETE", f"/api/v1/persistentvolumes/{name}")

    async def volume(self, size: str = "1Gi") -> PersistentVolume:
        name = f"{self.word}-{len(self.volumes)}"
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.word,
            "hostPath": {"path": "/nowhere"},
        }
        self.volumes.append(name)
        await self.cluster.send("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
        while True:  # the controller looks at it first
            found = await volume_writes.read_volume(self.cluster.client, name)
            if found is not None and found.phase == "Available":
                return found
            await asyncio.sleep(0.05)

    async def claim(self, name: str) -> PersistentVolumeClaim:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.word,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        path = f"/api/v1/namespaces/{self.cluster.namespace}/persistentvolumeclaims"
        await self.cluster.send("POST", path, {"metadata": {"name": name}, "spec": spec})
        found = await volume_writes.read_volume_claim(self.cluster.client, VolumeClaimId(self.cluster.namespace, name))
        assert found is not None
        return found

    def binder(self, *objects: PersistentVolume | PersistentVolumeClaim) -> VolumeBinder:
        mirror = Mirror()
        for each in objects:
            kind, key = (
                (Kind.VOLUMES, each.name) if isinstance(each, PersistentVolume) else (Kind.VOLUME_CLAIMS, str(each.id))
            )
            mirror.apply(Change(kind=kind, key=key, value=each))
        self.mirrors.append(mirror)
        return VolumeBinder(self.cluster.client, mirror, Writer(RequestSlots(ConcurrencyLimit(most=8)), NoFence()))


@pytest.fixture
async def stored(cluster: Cluster) -> AsyncIterator[Stored]:
    made = Stored(cluster)
    await made.begin()
    yield made
    await made.end()


def placed(*bindings: VolumeBinding, pod: str = "p", node: str = "n1") -> Placement:
    return Placement(pod=PodId("x", pod), pod_uid=f"{pod}u", node=node, volumes=bindings)


def given(claim: PersistentVolumeClaim, volume: PersistentVolume, **changes: Any) -> VolumeBinding:
    found = {"claim": claim.id, "claim_uid": claim.uid, "volume": volume.name, "volume_uid": volume.uid}
    return VolumeBinding(**{**found, **changes})


async def test_a_volume_is_kept_for_a_claim_and_given_free_again(stored: Stored) -> None:
    claim, volume = await stored.claim("c"), await stored.volume("1Mi")  # too small: no controller binds it meanwhile
    binder, path = stored.binder(claim, volume), f"/api/v1/persistentvolumes/{volume.name}"
    prepared = _prepared(await binder.prepare([placed(given(claim, volume))]))
    (kept,) = (each.stored for each in prepared)
    assert isinstance(kept, PersistentVolume)
    assert (kept.claim, kept.claim_uid) == (claim.id, claim.uid)
    written = await stored.cluster.send("GET", path)
    assert written["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    with pytest.raises(Conflict):
        await volume_writes.claim_volume(stored.cluster.client, volume, claim)

    await binder.roll_back(prepared, is_begun=True)
    left = await stored.cluster.send("GET", path)
    assert "claimRef" not in left["spec"]
    assert "pv.kubernetes.io/bound-by-controller" not in left["metadata"].get("annotations", {})


async def test_a_node_is_selected_and_removed(stored: Stored) -> None:
    claim = await stored.claim("c")
    selected = await volume_writes.select_node(stored.cluster.client, claim, "n1")
    assert selected.selected_node == "n1"
    with pytest.raises(Conflict):
        await volume_writes.select_node(stored.cluster.client, claim, "n2")


async def test_an_outdated_view_is_written_on_a_live_read(stored: Stored) -> None:
    claim = await stored.claim("c")
    path = f"/api/v1/namespaces/{claim.id.namespace}/persistentvolumeclaims/c"
    await stored.cluster.send(
        "PATCH", path, {"metadata": {"labels": {"touched": "yes"}}}, content_type="application/merge-patch+json"
    )
    binding = VolumeBinding(claim=claim.id, claim_uid=claim.uid)
    (prepared,) = _prepared(await stored.binder(claim).prepare([placed(binding)]))
    assert isinstance(prepared.stored, PersistentVolumeClaim)
    assert (prepared.stored.selected_node, prepared.is_ours) == ("n1", True)


async def test_volumes_are_rolled_back_where_another_cannot_be_written(stored: Stored) -> None:
    one, two = await stored.claim("one"), await stored.claim("two")
    binder = stored.binder(one, two)
    first = VolumeBinding(claim=one.id, claim_uid=one.uid)
    second = VolumeBinding(claim=two.id, claim_uid="another")
    outcome = await binder.prepare([placed(first, second)])
    assert isinstance(outcome, Reason)
    assert outcome.code is ReasonCode.CONFLICT
    live = await volume_writes.read_volume_claim(stored.cluster.client, one.id)
    assert live is not None
    assert live.selected_node is None


async def test_a_selected_node_stays_once_provisioning_may_have_begun(stored: Stored) -> None:
    claim = await stored.claim("c")
    binder = stored.binder(claim)
    prepared = _prepared(await binder.prepare([placed(VolumeBinding(claim=claim.id, claim_uid=claim.uid))]))
    await binder.roll_back(prepared, is_begun=True)
    live = await volume_writes.read_volume_claim(stored.cluster.client, claim.id)
    assert live is not None
    assert live.selected_node == "n1"


async def test_a_claim_that_pods_share_is_written_once_and_waited_for_by_each(stored: Stored) -> None:
    claim = await stored.claim("c")
    elsewhere = VolumeBinding(claim=claim.id, claim_uid=claim.uid, node="n2")
    own = VolumeBinding(claim=claim.id, claim_uid=claim.uid)
    binder = stored.binder(claim)
    prepared = _prepared(await binder.prepare([placed(elsewhere), placed(own, pod="q", node="n2")]))
    assert [(each.placement.pod.name, each.is_ours) for each in prepared] == [("p", True), ("q", False)]
    live = await volume_writes.read_volume_claim(stored.cluster.client, claim.id)
    assert live is not None
    assert live.selected_node == "n2"
    assert {each.stored for each in prepared} == {live}

    await binder.roll_back(prepared, is_begun=False)
    freed = await volume_writes.read_volume_claim(stored.cluster.client, claim.id)
    assert freed is not None
    assert freed.selected_node is None


async def test_a_volume_that_other_pods_of_the_claim_need_is_not_rolled_back(stored: Stored) -> None:
    claim = await stored.claim("c")
    binding = VolumeBinding(claim=claim.id, claim_uid=claim.uid, node="n2")
    mine, other = placed(binding), placed(binding, pod="q", node="n3")
    binder = stored.binder(claim)
    prepared = _prepared(await binder.prepare([mine]))
    stored.mirrors[-1].apply(Change(kind=Kind.PODS, key="x/q", value=b.pod("q", namespace="x", uid="qu")))
    stored.mirrors[-1].assume(Unit(placements=(other,)))
    await binder.roll_back(prepared, is_begun=False)
    live = await volume_writes.read_volume_claim(stored.cluster.client, claim.id)
    assert live is not None
    assert live.selected_node == "n2"


async def test_a_volume_of_another_claim_is_refused(stored: Stored) -> None:
    one, two, volume = await stored.claim("one"), await stored.claim("two"), await stored.volume()
    await volume_writes.claim_volume(stored.cluster.client, volume, one)
    outcome = await stored.binder(two, volume).prepare([placed(given(two, volume))])
    assert isinstance(outcome, Reason)
    assert "was taken for claim" in outcome.message


def _prepared(outcome: tuple[PreparedVolume, ...] | Reason) -> tuple[PreparedVolume, ...]:
    assert isinstance(outcome, tuple)
    return outcome
