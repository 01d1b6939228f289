"""What controllers do about volumes before a scheduler sees the pods of manifests."""

from typing import Any

import msgspec

from scheduler.change import Change, Kind
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.simulator import SimulationCase
from solver import solve
from solver.domain import PersistentVolume, PersistentVolumeClaim, Plan, Policy, VolumeClaimId
from tests.support import manifests as m
from tests.support.solver_problems import PATIENT

Json = dict[str, Any]
WAITING = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "waiting"}}
WAITING |= {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
AT_ONCE = {**WAITING, "metadata": {"name": "at-once"}, "volumeBindingMode": "Immediate"}
SPEC: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def case(*manifests: Json, live: tuple[Change, ...] = ()) -> SimulationCase:
    assembly = CaseBuilder(live=live)
    assembly.add(Document(f"m{index}", each) for index, each in enumerate(manifests))
    return assembly.case("dovetail")


def plan(found: SimulationCase) -> Plan:
    return solve(found.snapshot, found.batch, Policy(), PATIENT)


def claim(name: str = "data", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**SPEC, **spec}}


def volume(name: str, size: Any, **spec: Any) -> Json:
    body = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": body}


def user(*entries: Json) -> Json:
    named = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return m.pod("p", containers=[{"name": "main"}], volumes=list(entries) or named)


def test_a_stateful_set_makes_a_claim_per_pod() -> None:
    template = {"spec": {"containers": [{"name": "main"}], "schedulerName": "dovetail"}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {**SPEC, "storageClassName": "waiting"}}],
        },
    }
    found = case(WAITING, body, m.node("n1"))
    assert [str(each.id) for each in found.snapshot.volume_claims] == ["default/data-web-0", "default/data-web-1"]
    assert [str(each) for pod in found.batch.pods for each in pod.volume_claims] == [
        "default/data-web-0",
        "default/data-web-1",
    ]
    assert len(plan(found).placements) == 2


def test_an_ephemeral_volume_has_a_claim_of_the_pod() -> None:
    entry = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {**SPEC, "storageClassName": "waiting"}}}}
    found = case(WAITING, user(entry), m.node("n1"))
    (made,) = found.snapshot.volume_claims
    assert (str(made.id), made.owner_pod_uid) == ("default/p-scratch", found.batch.pods[0].uid)
    assert len(plan(found).placements) == 1


def test_a_claim_that_waits_for_no_consumer_is_bound_to_the_smallest_volume_that_fits() -> None:
    found = case(claim(), volume("large", "10Gi"), volume("right", 2**31), volume("small", "1Mi"), user())
    (bound,) = found.snapshot.volume_claims
    assert (bound.volume, bound.is_bound) == ("right", True)
    assert {each.name: each.phase for each in found.snapshot.volumes} == {
        "large": "Available",
        "right": "Bound",
        "small": "Available",
    }


def test_a_volume_that_would_have_been_made_by_now_is_taken_to_be_usable_everywhere() -> None:
    found = case(AT_ONCE, claim(storageClassName="at-once"), user(), m.node("n1"))
    assert len(plan(found).placements) == 1
    assert any("assumed to be provisioned" in each for each in found.warnings)


def test_claims_without_a_class_have_the_default_one() -> None:
    marked = {"name": "waiting", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    found = case({**WAITING, "metadata": marked}, claim(), claim("own", storageClassName=""))
    assert {each.id.name: each.storage_class for each in found.snapshot.volume_claims} == {"data": "waiting", "own": ""}


def test_a_volume_that_names_its_claim_is_bound_to_it() -> None:
    kept = volume("kept", "1Gi", storageClassName="x", claimRef={"namespace": "default", "name": "data"})
    (bound,) = case(claim(), kept, user()).snapshot.volume_claims
    assert bound.volume == "kept"


def test_a_live_claim_is_not_made_again() -> None:
    made = PersistentVolumeClaim(
        id=VolumeClaimId("default", "p-scratch"), uid="live", volume="v", is_bind_completed=True, owner_pod_uid="u"
    )
    entry = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": SPEC}}}
    live = (Change(kind=Kind.VOLUME_CLAIMS, key="default/p-scratch", value=made),)
    (found,) = case(user(entry), live=live).snapshot.volume_claims
    assert found.uid == "live"


def live_claim(**more: Any) -> tuple[Change, ...]:
    """A claim of a live cluster that its controllers have not bound."""
    found = PersistentVolumeClaim(
        id=VolumeClaimId("default", "data"),
        uid="uid-data",
        storage_class="at-once",
        request=2**30 * 10**9,
        access_modes=("ReadWriteOnce",),
        **more,
    )
    return (Change(kind=Kind.VOLUME_CLAIMS, key="default/data", value=found),)


def test_a_live_claim_that_waits_for_its_volume_goes_on_waiting() -> None:
    found = case(AT_ONCE, user(), m.node("n1"), live=live_claim())

    assert [(each.volume, each.is_bound) for each in found.snapshot.volume_claims] == [("", False)]
    assert not any("assumed to be provisioned" in each for each in found.warnings)
    (waiting,) = plan(found).unplaced
    assert "unbound immediate PersistentVolumeClaims" in waiting.reasons[0].message


def test_a_live_claim_gets_a_volume_that_is_added() -> None:
    found = case(AT_ONCE, user(), m.node("n1"), volume("new", "2Gi", storageClassName="at-once"), live=live_claim())

    assert [(each.volume, each.is_bound) for each in found.snapshot.volume_claims] == [("new", True)]
    assert len(plan(found).placements) == 1


def test_a_live_claim_gets_no_live_volume_that_its_controllers_left() -> None:
    free = PersistentVolume(name="old", uid="old", storage_class="at-once", phase="Available", capacity=2**31 * 10**9)
    free = msgspec.structs.replace(free, access_modes=("ReadWriteOnce",))
    standing = (*live_claim(), Change(kind=Kind.VOLUMES, key="old", value=free))

    found = case(AT_ONCE, user(), m.node("n1"), live=standing)

    assert [each.volume for each in found.snapshot.volume_claims] == [""]
    assert [
        each.volume
        for each in case(
            AT_ONCE, claim(storageClassName="at-once"), user(), m.node("n1"), live=standing
        ).snapshot.volume_claims
    ] == ["old"]
