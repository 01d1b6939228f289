"""What servers and controllers would add to manifests before a scheduler sees them."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import DOCUMENTS, ClusterObjects
from scheduler.simulation.manifests.documents import Document, ManifestFiles
from scheduler.simulation.simulator import SimulationCase
from solver import missing_claims
from solver.domain import Claim, PodClaim, PodId
from tests.support import builders as b
from tests.support import manifests as m

CONTAINER = {"name": "main", "resources": {"limits": {"cpu": 0.5, "memory": "1Gi"}, "requests": {"memory": "1Mi"}}}


def case(*manifests: m.Manifest, live: tuple[Change, ...] = (), name: str = "dovetail") -> SimulationCase:
    assembly = CaseBuilder(live=live)
    assembly.add(Document(f"m{index}", each) for index, each in enumerate(manifests))
    return assembly.case(name)


def claims(found: SimulationCase) -> dict[str, Claim]:
    return {each.id.name: each for each in found.snapshot.claims}


def test_the_pods_of_the_manifests_are_found_once() -> None:
    """Commands ask for each of thousands of pods whether it is one of them."""
    made = CaseBuilder()
    made.add([Document("m", m.pod("p"))])

    assert [pod.id for pod in made.pods] == list(made.own)
    assert made.own is made.own
    assert made.pods is made.pods


def test_limits_are_requests_where_there_are_none() -> None:
    (pod,) = case(m.pod(containers=[CONTAINER])).batch.pods
    assert dict(pod.requests) == {"cpu": 500, "memory": 2**20}


def test_a_claim_is_stamped_as_the_claim_controller_does() -> None:
    found = case(m.template(), m.pod("p", template_name="t"))
    (pod,), (claim,) = found.batch.pods, found.snapshot.claims
    assert claim.id.name.startswith("p-gpu-")
    assert len(claim.id.name) == len("p-gpu-") + 5
    assert claim.owner_pod_uid == pod.uid != ""
    assert pod.claims == (PodClaim(entry="gpu", claim=claim.id, template="t"),)
    assert claim.requests[0].alternatives[0].count == 1


def test_names_are_the_same_each_time_and_never_longer_than_allowed() -> None:
    manifests = (m.template(), m.pod("p" * 70, template_name="t"))
    first, second = claims(case(*manifests)), claims(case(*manifests))
    assert first.keys() == second.keys()
    assert [len(name) for name in first] == [63]


def test_a_claim_that_the_controller_made_already_is_used() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    made = m.claim("p-gpu-abcde")
    made["metadata"] |= {
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [owner],
    }
    pod = m.pod("p", template_name="t")
    pod["metadata"]["uid"] = "u"
    found = case(m.template(), made, pod)
    assert list(claims(found)) == ["p-gpu-abcde"]
    assert found.batch.pods[0].claim_ids == (found.snapshot.claims[0].id,)


def test_an_entry_that_is_noted_is_not_stamped_again() -> None:
    pod = m.pod("p", template_name="t") | {"status": {"resourceClaimStatuses": [{"name": "gpu"}]}}
    found = case(m.template(), pod)
    assert found.snapshot.claims == ()
    assert found.batch.pods[0].claims[0].is_skipped


def told(found: SimulationCase) -> list[str]:
    return [each.message for each in missing_claims(found.batch.pods[0], lambda _: False)]


def waiting_for(template: str, namespace: str = "default") -> Change:
    value = replace(b.pod("p"), id=PodId(namespace, "p"), claims=(PodClaim(entry="gpu", template=template),))
    return Change(kind=Kind.PODS, key=str(value.id), value=value)


FIELD = "(spec.resourceClaims[0].resourceClaimTemplateName)"


def test_a_pod_whose_template_does_not_exist_says_so_as_its_condition_does() -> None:
    words = f"ResourceClaimTemplate absent does not exist; the pod waits for it {FIELD}"
    assert told(case(m.template(), m.pod("p", template_name="absent"))) == [words]
    assert told(case(m.template(), live=(waiting_for("absent"),), name=b.pod("p").scheduler_name)) == [words]


def test_a_live_claim_that_is_late_has_its_template_in_the_namespace_of_the_pod() -> None:
    late = "the claim of entry gpu, from ResourceClaimTemplate t, does not exist yet; the pod waits for it"
    name = b.pod("p").scheduler_name
    assert told(case(m.template(), live=(waiting_for("t"),), name=name)) == [late]
    assert told(case(m.template(), live=(waiting_for("t", "other"),), name=name)) == [
        f"ResourceClaimTemplate t does not exist; the pod waits for it {FIELD}"
    ]


def test_templates_that_may_not_be_listed_are_not_called_missing() -> None:
    found = ClusterObjects(changes=(waiting_for("t"),), forbidden=(DOCUMENTS[0][2].rpartition("/")[2],))
    made = CaseBuilder.of(found, ManifestFiles()).case(b.pod("p").scheduler_name)
    assert told(made) == [
        "the claim of entry gpu, from ResourceClaimTemplate t, does not exist yet; the pod waits for it"
    ]


def test_namespaces_that_no_file_shows_are_made_with_the_label_of_their_name() -> None:
    held = m.claim("held", status={})
    held["metadata"]["namespace"] = "with-a-claim"
    labelled = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "labelled", "labels": {"team": "red"}}}
    found = case(m.pod("p"), held, labelled).snapshot.namespaces
    assert [(each.name, dict(each.labels)) for each in found] == [
        ("default", {"kubernetes.io/metadata.name": "default"}),
        ("labelled", {"kubernetes.io/metadata.name": "labelled", "team": "red"}),
        ("with-a-claim", {"kubernetes.io/metadata.name": "with-a-claim"}),
    ]


@pytest.mark.parametrize(("forbidden", "names"), [((), ["default"]), (("namespaces",), ["default", "theirs"])])
def test_namespaces_of_a_cluster_are_made_where_they_may_not_be_listed_only(
    forbidden: tuple[str, ...], names: list[str]
) -> None:
    """One that a listing lacks was made since: its labels are not known, and no quota is guessed."""
    live = ClusterObjects(changes=(waiting_for("t", "theirs"),), forbidden=forbidden, is_live=True)
    files = ManifestFiles(documents=[Document("m", m.pod("own"))])
    assert [each.name for each in CaseBuilder.of(live, files).case("dovetail").snapshot.namespaces] == names


def test_a_missing_namespace_is_default() -> None:
    found = case(m.claim(), m.pod(claim_name="c"))
    assert str(found.snapshot.claims[0].id) == "default/c"
    assert str(found.batch.pods[0].id) == "default/p"


@pytest.mark.parametrize(
    ("status", "expected", "warning"),
    [
        pytest.param({"capacity": {"cpu": 2, "pods": 5}}, {"cpu": 2000, "pods": 5}, "", id="capacity counts"),
        pytest.param(
            {"allocatable": {"cpu": 1}}, {"cpu": 1000, "pods": 110}, "status.allocatable.pods: missing", id="no pods"
        ),
        pytest.param({}, None, "status.allocatable: missing", id="nothing"),
    ],
)
def test_a_node_gets_allocatable(status: dict[str, Any], expected: dict[str, int] | None, warning: str) -> None:
    found = case(m.node() | {"status": status})
    (node,) = found.snapshot.nodes
    assert expected is None or dict(node.allocatable) == expected
    assert dict(node.allocatable)["pods"] == (5 if not warning else 110)
    assert any(warning in each for each in found.warnings) if warning else not found.warnings


@pytest.mark.parametrize(
    ("kind", "spec", "names"),
    [
        pytest.param("Deployment", {"replicas": 2}, ["w-0", "w-1"], id="Deployment"),
        pytest.param("ReplicaSet", {}, ["w-0"], id="ReplicaSet"),
        pytest.param("StatefulSet", {"replicas": 0}, [], id="StatefulSet of none"),
        pytest.param("Job", {"parallelism": 3, "completions": 2}, ["w-0", "w-1"], id="Job"),
        pytest.param("Job", {"parallelism": 2, "suspend": True}, ["w-0", "w-1"], id="suspended Job"),
    ],
)
def test_workloads_give_pods(kind: str, spec: dict[str, Any], names: list[str]) -> None:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": m.pod()["spec"]}
    workload = {"apiVersion": group, "kind": kind, "metadata": {"name": "w"}, "spec": {**spec, "template": template}}
    pods = case(workload).batch.pods
    assert [pod.id.name for pod in pods] == names
    assert all(("a", "b") in pod.labels for pod in pods)


def test_pods_wait_by_priority_and_then_by_age() -> None:
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    young, old = m.pod("young"), m.pod("old")
    young["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    pods = (m.pod("new"), young, old, m.pod("first", priorityClassName="high"))
    assert [pod.id.name for pod in case(*pods, classes).batch.pods] == ["first", "old", "young", "new"]


def test_an_unknown_priority_class_is_named() -> None:
    (warning,) = case(m.node(), m.pod(priorityClassName="absent")).warnings
    assert warning == "m1 (Pod default/p): spec.priorityClassName: no PriorityClass absent: its priority counts as 0"


def test_a_priority_class_without_a_value_is_zero() -> None:
    plain = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "plain"}}
    found = case(m.node(), m.pod(priorityClassName="plain"), plain)
    assert (found.warnings, [pod.priority for pod in found.batch.pods]) == ((), [0])


def test_a_slice_without_a_generation_has_generation_zero() -> None:
    devices = m.slice_of()
    del devices["spec"]["pool"]["generation"]
    found = case(devices)
    assert (found.problems, [each.generation for each in found.snapshot.slices]) == ((), [0])


def test_objects_of_one_generate_name_are_several() -> None:
    generated = [m.pod(), m.pod()]
    for each in generated:
        each["metadata"] = {"generateName": "grp-"}
    live = (Change(kind=Kind.PODS, key="default/grp-1", value=b.pod("grp-1")),)
    assert {pod.id.name for pod in case(*generated, live=live).batch.pods} == {"grp-0", "grp-1", "grp-2"}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"status": {"phase": "Succeeded"}}, id="that has ended"),
        pytest.param({"spec": m.pod()["spec"] | {"nodeName": "n1"}}, id="that runs"),
    ],
)
def test_no_pod_waits(more: dict[str, Any]) -> None:
    assert case(m.node(), m.pod() | more).batch.pods == ()


def test_manifests_replace_objects_of_the_cluster() -> None:
    live = (
        Change(kind=Kind.NODES, key="n1", value=b.node("n1", labels={"from": "cluster"})),
        Change(kind=Kind.NODES, key="n2", value=b.node("n2")),
    )
    nodes = case(m.node("n1"), live=live).snapshot.nodes
    assert [(node.name, dict(node.labels).get("from")) for node in nodes] == [("n1", None), ("n2", None)]


def test_what_is_null_counts_as_absent() -> None:
    found = case(m.node(), m.pod("p", nodeSelector=None, tolerations=None) | {"status": None})
    assert (found.problems, len(found.batch.pods)) == ((), 1)


def test_the_newer_of_two_manifests_of_one_name_counts_and_is_told() -> None:
    found = case(m.node("n1", cpu=1), m.node("n1", cpu=2))
    assert dict(found.snapshot.nodes[0].allocatable)["cpu"] == 2000
    assert found.warnings == ("m1 (Node n1): stands twice: the last one counts",)


def pod_group(api_version: str = "scheduling.k8s.io/v1beta1", **spec: object) -> m.Manifest:
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def test_a_pod_group_makes_its_pods_a_gang() -> None:
    member = m.pod("p")
    member["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    found = case(pod_group(schedulingPolicy={"gang": {"minCount": 2}}), member, m.pod("other"))
    (gang,) = found.batch.gangs
    assert (gang.id.name, gang.min_count, gang.member_count, gang.invalid) == ("g", 2, 1, "")
    assert found.problems == ()


def test_a_group_of_coscheduling_is_read_beside_one_of_kubernetes() -> None:
    member = m.pod("p")
    member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    other = pod_group(schedulingPolicy={"gang": {"minCount": 2}})
    found = case(pod_group("scheduling.x-k8s.io/v1alpha1", minMember=3), other, member)
    assert [gang.min_count for gang in found.batch.gangs] == [3]


def test_a_claim_of_a_group_is_stamped_once_and_noted_for_its_pods() -> None:
    entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
    members = [m.pod(f"p{index}", template_name="t") for index in range(2)]
    for each in members:
        each["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    group = pod_group(schedulingPolicy={"gang": {"minCount": 2}}, resourceClaims=[entry])
    found = case(m.template(), group, *members)
    (claim,) = found.snapshot.claims
    assert claim.id.name.startswith("g-gpu-")
    assert claim.owner_group_uid == found.batch.gangs[0].uid
    assert [each.claim_ids for each in found.batch.pods] == [(claim.id,), (claim.id,)]
    assert found.batch.gangs[0].claims == (("gpu", claim.id, "t"),)


GOLD = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 9}


def job(name: str = "j", **spec: object) -> m.Manifest:
    pod = {"schedulerName": "dovetail", "containers": [], **spec.pop("pod", {})}  # type: ignore[dict-item] # a builder
    spec |= {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "ml"}, "spec": spec}


def test_a_job_with_scheduling_is_its_gang() -> None:
    terms: dict[str, object] = {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}
    terms["schedulingConstraints"] = {"topology": [{"key": "rack"}]}
    found = case(GOLD, job(parallelism=3, scheduling=terms, pod={"priorityClassName": "gold"}))
    (gang,) = found.batch.gangs
    assert (gang.id.namespace, gang.id.name, gang.invalid) == ("ml", "j-pgt-0", "")
    assert (gang.min_count, gang.member_count, gang.priority, gang.disruption) == (3, 3, 9, "all")
    assert [each.node_label for each in gang.levels] == ["rack"]
    assert {pod.gang for pod in found.batch.pods} == {gang.id}


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [({"schedulingPolicy": {"gang": {"minCount": 2}}}, 2), ({"disruptionMode": {"single": {}}}, 0)],
)
def test_the_minimum_of_a_job(scheduling: object, expected: int) -> None:
    (gang,) = case(job(parallelism=3, scheduling=scheduling)).batch.gangs
    assert gang.min_count == expected


def test_a_job_that_is_no_gang() -> None:
    assert case(job(parallelism=2)).batch.gangs == ()


def test_a_job_of_a_group_or_of_a_controller_gets_no_group_of_its_own() -> None:
    scheduling: dict[str, dict[str, object]] = {"schedulingPolicy": {"gang": {}}}
    named = job(scheduling=scheduling, pod={"schedulingGroup": {"podGroupName": "mine"}})
    owned = job("owned", scheduling=scheduling)
    owned["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "s", "controller": True}]
    found = case(named, owned)
    assert [(pod.id.name, pod.pod_group) for pod in found.batch.pods] == [("j-0", "mine"), ("owned-0", "")]


def test_pods_of_a_job_share_the_claim_of_its_group() -> None:
    entry = {"name": "gpu", "resourceClaimTemplateName": "t"}
    terms = {"schedulingPolicy": {"gang": {}}, "resourceClaims": [entry]}
    template = m.template()
    template["metadata"]["namespace"] = "ml"
    found = case(template, job(parallelism=2, scheduling=terms, pod={"resourceClaims": [entry]}))
    (claim,) = found.snapshot.claims
    assert claim.owner_group_uid == found.batch.gangs[0].uid
    assert [pod.pod_group_uid for pod in found.batch.pods] == [claim.owner_group_uid] * 2
    assert {pod.claim_ids for pod in found.batch.pods} == {(claim.id,)}


@pytest.mark.parametrize(
    ("version", "of_group", "of_pod", "said"),
    [
        ("v1beta1", {"priorityClassName": "gold"}, {"priorityClassName": "gold"}, ""),
        ("v1beta1", {}, {"priorityClassName": "gold"}, "pod p has priority 9 and PodGroup g has 0: write the same"),
        ("v1beta1", {"priorityClassName": "gold"}, {}, "pod p has priority 0 and PodGroup g has 9: write the same"),
        ("v1alpha2", {}, {"priorityClassName": "gold"}, ""),
    ],
)
def test_the_priority_of_a_group(version: str, of_group: m.Manifest, of_pod: m.Manifest, said: str) -> None:
    group = pod_group(f"scheduling.k8s.io/{version}", schedulingPolicy={"gang": {"minCount": 1}}, **of_group)
    pod = m.pod("p", schedulingGroup={"podGroupName": "g"}, **of_pod)
    (gang,) = case(GOLD, group, pod).batch.gangs
    assert gang.invalid.startswith(said) if said else not gang.invalid


def workload(*names: str) -> m.Manifest:
    templates = [{"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}} for name in names]
    spec = {"podGroupTemplates": templates}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"}, "spec": spec}


def test_a_workload_and_its_groups_match_or_a_warning_says_what_is_missing() -> None:
    policy = {"gang": {"minCount": 2}}
    group = pod_group(schedulingPolicy=policy, workloadRef={"workloadName": "w", "templateName": "worker"})
    assert not [each for each in case(workload("worker"), group).warnings if "emplate" in each]
    found = case(workload("driver"), group).warnings
    assert any("Workload default/w): no PodGroup is made from its template driver" in each for each in found)
    assert any("g): spec.workloadRef.templateName: Workload w has no template worker" in each for each in found)


def test_a_composite_group_is_warned_about() -> None:
    composite = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": {"name": "c"}}
    found = case({**composite, "spec": {}}, pod_group(schedulingPolicy={"basic": {}}))
    assert any("its PodGroups are gangs of their own" in each for each in found.warnings)
    assert not found.problems
