"""Manifests of objects that run in the cluster already: their pods are decided anew, and what they hold is free."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.settings import load
from scheduler.simulation import case_warnings, simulator
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.manifests.documents import LIVE, Document, ManifestFiles
from scheduler.simulation.simulator import SimulationCase, SimulationResult
from solver.domain import Claim, ConsumerReference, Controller, GangId, Pod, PodGroup
from tests.support import builders as b
from tests.support import manifests as m

NAME = "dovetail"


def changes(*objects: Pod | Claim | PodGroup) -> tuple[Change, ...]:
    kinds = {Pod: Kind.PODS, Claim: Kind.CLAIMS, PodGroup: Kind.POD_GROUPS}
    return tuple(Change(kind=kinds[type(each)], key=f"{each.id[0]}/{each.id[1]}", value=each) for each in objects)


def case(live: Sequence[Change], *manifests: m.Manifest, documents: Sequence[m.Manifest] = ()) -> SimulationCase:
    """A node with two devices, the class, objects of the cluster, and manifests of a file."""
    hardware = (m.node(), m.slice_of(), m.device_class())
    found = ClusterObjects(
        changes=(*CaseBuilder.of(ClusterObjects(), reading(hardware)).changes, *live),
        documents=tuple(Document(LIVE, each) for each in documents),
    )
    return CaseBuilder.of(found, reading(manifests)).case(NAME)


def reading(manifests: Sequence[m.Manifest]) -> ManifestFiles:
    return ManifestFiles([Document(f"pods.yaml: document {at}", each) for at, each in enumerate(manifests, start=1)])


def decided(found: SimulationCase) -> SimulationResult:
    return simulator.answer(simulator.recorded(found, load(None), NAME)).about(found.own)


def runs(name: str, *devices: str, **fields: Any) -> tuple[Pod, Claim]:
    """A running pod and its claim from a template, as the cluster has them."""
    pod = b.pod(name, f"{name}-gpu-x7k2p", node_name="n1")
    pod = replace(pod, **fields)
    results = (b.result("gpu", device, "n1", driver="gpu.example.com") for device in devices)
    claim = b.held(f"{name}-gpu-x7k2p", *results, node_name="n1")
    consumer = ConsumerReference.of(pod.id, pod.uid)
    return pod, replace(claim, owner_pod_uid=pod.uid, reserved_for=(consumer,))


def test_a_running_pod_does_not_keep_its_devices_from_its_own_manifest() -> None:
    found = case(changes(*runs("p", "gpu-0", "gpu-1")), m.template(count=2), m.pod("p", template_name="t"))

    answer = decided(found)

    assert [(str(each.pod), each.node) for each in answer.plan.placements] == [("default/p", "n1")]
    assert found.warnings == ("what runs already is decided anew, and what it holds counts as free: default/p",)


def test_another_pod_keeps_what_it_holds() -> None:
    live = changes(*runs("other", "gpu-0", "gpu-1"))

    assert not decided(case(live, m.template(), m.pod("p", template_name="t"))).plan.placements


def test_the_pods_of_a_deployment_are_replaced_by_those_of_its_manifest() -> None:
    labels = (("pod-template-hash", "5dfd9fbf67"),)
    own = Controller(kind="ReplicaSet", uid="rs")
    running = runs("web-5dfd9fbf67-x5hd6", "gpu-0", controller=own, labels=labels)
    stranger = runs("website-5dfd9fbf67-abcde", "gpu-1", controller=own, labels=labels)
    pod = m.pod("web", template_name="t")
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "template": {"spec": pod["spec"]}},
    }

    found = case(changes(*running, *stranger), m.template(), web)

    assert [str(pod.id) for pod in found.snapshot.pods] == ["default/website-5dfd9fbf67-abcde"]
    (placement,) = decided(found).plan.placements
    assert str(placement.pod) == "default/web-0"


def test_the_pods_of_a_job_are_replaced() -> None:
    own = Controller(kind="Job", uid="job")
    running = runs("train-0-abcde", "gpu-0", controller=own, labels=(("batch.kubernetes.io/job-name", "train"),))
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": m.pod("train", template_name="t")["spec"]}},
    }

    assert case(changes(*running), m.template(), job).snapshot.pods == ()


def test_a_claim_keeps_its_devices_while_another_pod_uses_it() -> None:
    both = b.held("shared", b.result("gpu", "gpu-1", "n1", driver="gpu.example.com"), node_name="n1")
    one, two = (b.pod(each, "shared", node_name="n1") for each in ("a", "b"))
    users = tuple(ConsumerReference.of(pod.id, pod.uid) for pod in (one, two))
    live = changes(one, two, replace(both, uid="", reserved_for=users))

    with_one = case(live, m.claim("shared"), m.pod("a", claim_name="shared")).snapshot.claims
    with_both = case(live, m.claim("shared"), *(m.pod(each, claim_name="shared") for each in "ab")).snapshot.claims

    assert [[each.name for each in claim.reserved_for] for claim in with_one if claim.allocation] == [["b"]]
    assert [claim.allocation for claim in with_both] == [None]


def test_a_pod_group_gives_its_claim_back_when_its_last_pod_is_replaced() -> None:
    group = PodGroup(id=GangId("default", "g", "scheduling.k8s.io"), uid="g-uid")
    reference = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="g-uid")
    held = b.held("g-gpu", b.result("gpu", "gpu-1", "n1", driver="gpu.example.com"), node_name="n1")
    member = b.pod("a", "g-gpu", node_name="n1")
    live = changes(group, replace(member, pod_group="g"), replace(held, reserved_for=(reference,)))
    manifest = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }

    alone = case(live, manifest).snapshot.claims
    with_pod = case(live, manifest, m.pod("a")).snapshot.claims

    assert [claim.allocation is not None for claim in alone] == [True]
    assert [claim.allocation for claim in with_pod] == [None]


def test_a_template_that_the_api_server_has_defaulted_is_the_same() -> None:
    there = m.template()
    (request,) = there["spec"]["spec"]["devices"]["requests"]
    request["exactly"] |= {"allocationMode": "ExactCount", "count": 1}
    edited = m.template(count=2)

    assert case((), m.template(), documents=[there]).problems == ()
    assert len(case((), edited, documents=[there]).problems) == 1


def test_the_answer_is_about_the_pods_of_the_files() -> None:
    waiting = b.pod("other", "absent")
    found = case(changes(waiting), m.template(), m.pod("p", template_name="t"))

    answer = decided(found)

    assert [str(each) for each in found.own] == ["default/p"]
    assert not answer.plan.unplaced
    assert answer.others == simulator.OtherPods(placed=(), waiting_count=1)


def test_pods_of_other_schedulers_are_left_out_and_told_of_only_where_they_are_of_the_files() -> None:
    other = b.pod("other")
    live = changes(replace(other, scheduler_name="default-scheduler"))

    assert case(live, m.pod("p")).left_out == ()
    found = case(live, m.pod("p"), m.pod("q", schedulerName="volcano"))
    (warning,) = case_warnings.of_pods(found, "dovetail")
    assert found.warnings == ()
    assert warning.startswith("1 pod without nodeName names another scheduler (volcano) than dovetail")


def test_other_pods_that_are_placed_are_named_where_one_of_the_files_waits() -> None:
    small = b.pod("other", priority=5)
    found = case(changes(small), m.template(count=3), m.pod("p", template_name="t"))

    answer = decided(found)

    assert [str(each.pod) for each in answer.plan.unplaced] == ["default/p"]
    assert answer.others is not None
    assert [str(each.pod) for each in answer.others.placed] == ["default/other"]
