"""Manifests that kubectl or the API server refuses: each is named by its field, with what to write instead."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.change import Kind
from scheduler.kube.decode import objects
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.manifests.api_validation import MOST_PODS, of_object
from scheduler.simulation.manifests.documents import Document
from tests.support import claim_mistakes
from tests.support import manifests as m

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def with_terms(kind: str, *terms: dict[str, Any], mode: str = REQUIRED) -> dict[str, Any]:
    return pod(affinity={kind: {mode: list(terms)}})


def with_nodes(*terms: dict[str, Any]) -> dict[str, Any]:
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}})


def claim(*requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests), **more}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": spec}


def exactly(**details: Any) -> dict[str, Any]:
    return {"name": "gpu", "exactly": {"deviceClassName": "gpu", **details}}


def group(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


TEMPLATE: Final[Mapping[str, object]] = {
    "name": "t",
    "schedulingPolicy": {"gang": {"minCount": 2}},
    "disruptionMode": {"all": {}},
}


def gang(version: str = "v1beta1", **spec: object) -> m.Manifest:
    return group(f"scheduling.k8s.io/{version}", schedulingPolicy={"gang": {"minCount": 2}}, **spec)


def workload(*templates: Mapping[str, object]) -> m.Manifest:
    spec = {"podGroupTemplates": list(templates)}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"}, "spec": spec}


def job(scheduling: dict[str, object]) -> m.Manifest:
    template = {"spec": m.pod()["spec"]}
    spec = {"parallelism": 2, "scheduling": scheduling, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c"}]}}
    spec = {"template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def named(kind: str, **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", **metadata}}


WRONG = [
    (named("Pod", name="a/b"), "metadata.name", "'a/b': write only a-z, 0-9, - and ., with a letter or digit at both"),
    (named("Pod", name="Trainer"), "metadata.name", "'Trainer': write only a-z"),
    (named("Node", name="node-"), "metadata.name", "with a letter or digit at both ends"),
    (named("Node", name="a..b"), "metadata.name", "write only"),
    (named("Pod", name="p" * 254), "metadata.name", "has 254 characters: write at most 253"),
    (named("Namespace", name="a.b"), "metadata.name", "'a.b': write only a-z, 0-9 and -, with"),
    (named("Namespace", name="n" * 64), "metadata.name", "has 64 characters: write at most 63"),
    (named("Pod", namespace="Team"), "metadata.namespace", "'Team': write only a-z, 0-9 and -"),
    (named("Pod", namespace="a/b"), "metadata.namespace", "'a/b': write only"),
    (
        pod(topologySpreadConstraints=[SPREAD | {"maxSkew": 0}]),
        "spec.topologySpreadConstraints[0].maxSkew",
        "1 or more",
    ),
    (
        pod(topologySpreadConstraints=[{**SPREAD, "minDomains": 0}]),
        "spec.topologySpreadConstraints[0].minDomains",
        "1 or",
    ),
    (
        pod(topologySpreadConstraints=[SPREAD | {"whenUnsatisfiable": "Never"}]),
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        "Never is not known: write DoNotSchedule or ScheduleAnyway",
    ),
    (
        pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone"}]),
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        "missing",
    ),
    (
        pod(topologySpreadConstraints=[{**SPREAD, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2}]),
        "spec.topologySpreadConstraints[0].minDomains",
        "goes with",
    ),
    (
        pod(topologySpreadConstraints=[{**SPREAD, "nodeTaintsPolicy": "honor"}]),
        "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
        "write Honor or Ignore",
    ),
    (
        pod(topologySpreadConstraint=[SPREAD]),
        "spec.topologySpreadConstraint",
        "did you mean topologySpreadConstraints?",
    ),
    (
        pod(topologySpreadConstraints=[{**SPREAD, "labelselector": {}}]),
        "spec.topologySpreadConstraints[0].labelselector",
        "did you mean labelSelector?",
    ),
    (
        with_terms("podAntiAffinity", TERM | {"topologyKey": ""}),
        f"spec.affinity.podAntiAffinity.{REQUIRED}[0].topologyKey",
        "is empty",
    ),
    (
        with_terms("podAffinity", TERM | {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
        f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].operator",
        "Is is not known: write In, NotIn, Exists or DoesNotExist",
    ),
    (
        with_terms("podAffinity", TERM | {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
        f"spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].values",
        "at least one",
    ),
    (
        with_terms("podAffinity", {"weight": 101, "podAffinityTerm": TERM}, mode=PREFERRED),
        f"spec.affinity.podAffinity.{PREFERRED}[0].weight",
        "write 1 to 100",
    ),
    (with_nodes(), f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", "at least one term"),
    (
        with_nodes({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1", "2"]}]}),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values",
        "one whole number",
    ),
    (
        with_nodes({"matchFields": [{"key": "metadata.labels", "operator": "In", "values": ["n"]}]}),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].key",
        "metadata.name",
    ),
    (pod(tolerations=[{"key": "a", "operator": "Equals"}]), "spec.tolerations[0].operator", "write Exists, Equal"),
    (pod(tolerations=[{"key": "a", "effect": "NoSchedul"}]), "spec.tolerations[0].effect", "NoSchedul is not known"),
    (pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]), "spec.tolerations[0].value", "takes none"),
    (pod(tolerations=[{"key": "a", "operator": "Gt", "value": "08"}]), "spec.tolerations[0].value", 'write "8"'),
    (pod(tolerations=[{"operator": "Equal"}]), "spec.tolerations[0].key", "missing"),
    (pod(preemptionPolicy="never"), "spec.preemptionPolicy", "write PreemptLowerPriority or Never"),
    (
        pod(containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 70000}]}]),
        "spec.containers[0].ports[0].hostPort",
        "write 1 to 65535",
    ),
    (
        pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]),
        "spec.containers[0].resources.requests[cpu]",
        "is -1: write 0 or more",
    ),
    (
        pod(resourceClaims=[{"name": "g", "resourceClaimTemplate": "t"}]),
        "spec.resourceClaims[0].resourceClaimTemplate",
        "did you mean resourceClaimTemplateName?",
    ),
    (pod(resourceClaims=[{"name": "g"}]), "spec.resourceClaims[0]", "names no claim"),
    (
        pod(resourceClaims=[{"name": "g", "resourceClaimName": "c", "resourceClaimTemplateName": "t"}]),
        "spec.resourceClaims[0]",
        "keep one of them",
    ),
    (
        pod(
            resourceClaims=[{"name": "g", "resourceClaimName": "c"}],
            containers=[{"name": "c", "resources": {"claims": [{"name": "h"}]}}],
        ),
        "spec.containers[0].resources.claims[0].name",
        "h is no entry of the pod's resourceClaims (g)",
    ),
    (claim(exactly(count=-1)), "spec.devices.requests[0].exactly.count", "is -1: write 1 or more"),
    (claim(exactly(allocationMode="Any")), "spec.devices.requests[0].exactly.allocationMode", "Any is not known"),
    (claim(exactly(allocationMode="All", count=2)), "spec.devices.requests[0].exactly.count", "leave it out"),
    (claim(exactly(selector=[])), "spec.devices.requests[0].exactly.selector", "did you mean selectors?"),
    (
        claim(exactly(capacity={"request": {"memory": "1Gi"}})),
        "spec.devices.requests[0].exactly.capacity.request",
        "did you mean requests?",
    ),
    (
        claim(exactly(tolerations=[{"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"}])),
        "spec.devices.requests[0].exactly.tolerations[0].effect",
        "write NoSchedule or NoExecute",
    ),
    (
        claim({"name": "g", "firstAvailable": [{"name": f"s{n}", "deviceClassName": "gpu"} for n in range(9)]}),
        "spec.devices.requests[0].firstAvailable",
        "at most 8",
    ),
    (claim(exactly(), exactly()), "spec.devices.requests[1].name", "gpu stands twice"),
    (
        claim(exactly(), constraints=[{"requests": ["nic"], "matchAttribute": "gpu.x/rack"}]),
        "spec.devices.constraints[0].requests[0]",
        "nic is no request of the claim (gpu)",
    ),
    (claim(exactly(), constraints=[{}]), "spec.devices.constraints[0]", "write one of them"),
    (
        claim(exactly(), constraints=[{"matchAttribute": "rack"}]),
        "spec.devices.constraints[0].matchAttribute",
        "write <driver>/rack",
    ),
    (group("scheduling.k8s.io/v1beta1"), "spec.schedulingPolicy", "missing"),
    (gang(disruptionMode="Pod"), "spec.disruptionMode", "write single: {} or all: {}"),
    (gang(disruptionMode={"single": {}, "all": {}}), "spec.disruptionMode", "write single: {} or all: {}"),
    (gang("v1alpha2", disruptionMode={"single": {}}), "spec.disruptionMode", "write Pod or PodGroup"),
    (gang(preemptionPolicy="Perhaps"), "spec.preemptionPolicy", "is Perhaps: write Never or PreemptLowerPriority"),
    (gang(preemptionPolice="Never"), "spec.preemptionPolice", "did you mean preemptionPolicy?"),
    (gang(priorityClassName="system-node-critical"), "spec.priorityClassName", "at most 1000000000"),
    (workload(), "spec.podGroupTemplates", "missing: write 1 to 8 templates"),
    (workload(*([TEMPLATE] * 9)), "spec.podGroupTemplates", "are 9: at most 8 are allowed"),
    (workload({**TEMPLATE, "name": ""}), "spec.podGroupTemplates[0].name", "missing: write a name"),
    (workload({"name": "t"}), "spec.podGroupTemplates[0].schedulingPolicy", "missing"),
    (job({"schedulingPolicy": {"gang": {}, "basic": {}}}), "spec.scheduling.schedulingPolicy", "exclude each other"),
    (
        job({"schedulingPolicy": {"gang": {"minCount": 3}}}),
        "spec.scheduling.schedulingPolicy.gang.minCount",
        "is 3: write at most spec.parallelism, 2",
    ),
    (job({"disruptionMode": {}}), "spec.scheduling.disruptionMode", "write single: {} or all: {}"),
    (job({"schedulingPolice": {}}), "spec.scheduling.schedulingPolice", "did you mean schedulingPolicy?"),
    (
        group("scheduling.k8s.io/v1beta1", schedulingPolicy={"gang": {"minCount": 0}}),
        "spec.schedulingPolicy.gang.minCount",
        "is 0: write 1 or more",
    ),
    (
        group("scheduling.k8s.io/v1beta1", schedulingPolicy={"gang": {"minCount": 2}, "basic": {}}),
        "spec.schedulingPolicy",
        "exclude each other",
    ),
    (group("scheduling.x-k8s.io/v1alpha1", minMember=0), "spec.minMember", "is 0: write 1 or more"),
    (deployment(replicas=-1), "spec.replicas", "is -1: write 0 or more"),
    (deployment(replicas="2"), "spec.replicas", "expected a whole number"),
    (deployment(replica=2), "spec.replica", "did you mean replicas?"),
    (deployment(template={}), "spec.template", "missing"),
    (
        deployment(template={"spec": {"toleration": []}}),
        "spec.template.spec.toleration",
        "did you mean tolerations?",
    ),
]


@pytest.mark.parametrize(("body", "field", "told"), WRONG, ids=[f"{row[1]} {row[2]}" for row in WRONG])
def test_a_mistake_is_named_by_its_field(body: dict[str, Any], field: str, told: str) -> None:
    ((where, message),) = of_object(body)
    assert (where, told in message) == (field, True)


RIGHT = [
    pod(topologySpreadConstraints=[{**SPREAD, "minDomains": 2, "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["a"]}]),
    pod(
        tolerations=[
            {"operator": "Exists"},
            {"key": "a", "operator": "Lt", "value": "-8"},
            {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 3},
        ]
    ),
    pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 1}}}]),
    pod(
        resourceClaims=[{"name": "g", "resourceClaimName": "c"}],
        containers=[{"resources": {"claims": [{"name": "g"}]}}],
    ),
    with_terms("podAffinity", TERM),
    with_nodes({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}),
    with_nodes({}),
    claim(
        {"name": "g", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]},
        constraints=[{"requests": ["g"], "matchAttribute": "x/a"}, {"requests": ["g/s"], "matchAttribute": "x/a"}],
        config=[{"requests": ["g/s"], "opaque": {"driver": "x", "parameters": {"request": 1}}}],
    ),
    claim(exactly(allocationMode="All"), exactly() | {"name": "h"}),
    group("scheduling.k8s.io/v1beta1", schedulingPolicy={"basic": {}}),
    gang(disruptionMode={"single": {}}, preemptionPolicy="Never", workloadRef={"workloadName": "w"}),
    gang("v1alpha2", disruptionMode="PodGroup"),
    workload(TEMPLATE),
    job({}),
    job({"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}}),
    job({"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}),
    group("scheduling.x-k8s.io/v1alpha1", minMember=1),
    deployment(replicas=0),
]


@pytest.mark.parametrize("body", RIGHT, ids=range(len(RIGHT)))
def test_what_the_api_server_takes_is_taken(body: dict[str, Any]) -> None:
    assert list(of_object(body)) == []


def claim_of(devices: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "c", "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": devices},
    }


@pytest.mark.parametrize(
    ("devices", "field", "told"),
    claim_mistakes.MISTAKES,
    ids=[f"{field} {told}" for _, field, told in claim_mistakes.MISTAKES],
)
def test_a_mistake_in_a_claim_is_named_by_its_field(devices: dict[str, Any], field: str, told: str) -> None:
    body = claim_of(devices)
    ((where, message),) = {each.field: each for each in of_object(body)}.values()
    assert (where, told in message) == (f"spec.devices.{field}", True)
    template = body | {"kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}}
    assert f"spec.spec.devices.{field}" in [each.field for each in of_object(template)]


@pytest.mark.parametrize("name", claim_mistakes.FINE)
def test_a_claim_that_the_api_server_takes_is_taken(name: str) -> None:
    assert list(of_object(claim_of(claim_mistakes.FINE[name]))) == []


def test_a_class_has_the_bounds_of_a_claim() -> None:
    spec = {"selectors": claim_mistakes.selectors(*["true"] * 33), "config": [{}]}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": spec}
    assert [each.field for each in of_object(body)] == ["spec.selectors", "spec.config[0].opaque"]


def test_a_claim_with_two_alternatives_of_one_name_is_a_bad_manifest_and_no_defect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = m.template()
    template["spec"]["spec"]["devices"] = claim_mistakes.devices(claim_mistakes.either("a", "a"))
    objects = [m.node(), m.slice_of(), m.device_class(), template, m.pod("p", template_name="t")]
    assert m.run("simulate", "-f", m.write_json(tmp_path / "f.json", objects)) == 2
    printed = capsys.readouterr()
    assert "firstAvailable[1].name: a stands twice: write another name" in printed.err
    assert "defect" not in printed.err + printed.out


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("Deployment", {"replicas": 10**9}, "replicas"),
        ("ReplicaSet", {"replicas": 10**400}, "replicas"),
        ("StatefulSet", {"replicas": 10**9}, "replicas"),
        ("Job", {"parallelism": 10**9}, "parallelism"),
        ("Job", {"parallelism": 10**9, "completions": 10**9}, "parallelism"),
    ],
)
def test_workloads_of_too_many_pods_are_refused_and_others_count(kind: str, spec: dict[str, Any], field: str) -> None:
    body = deployment(**spec) | {"kind": kind, "apiVersion": "batch/v1" if kind == "Job" else "apps/v1"}
    assembly = CaseBuilder()
    assembly.add([Document("m", body), Document("n", pod(schedulerName="dovetail"))])
    case = assembly.case("dovetail")
    (problem,) = case.problems
    assert (problem.subject, problem.field) == (f"{kind} d", f"spec.{field}")
    assert problem.message.endswith(f"pods: write at most {MOST_PODS}")
    assert len(case.batch.pods) == 1


def test_workloads_that_together_make_too_many_pods_are_refused_from_there_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.simulation.manifests.api_validation.MOST_PODS", 5)
    template = {"spec": {"schedulerName": "dovetail", "containers": [{"name": "c"}]}}
    assembly = CaseBuilder()
    for name, replicas in (("a", 3), ("b", 3), ("c", 2)):
        body = deployment(replicas=replicas, template=template) | {"metadata": {"name": name}}
        assembly.add([Document(name, body)])
    case = assembly.case("dovetail")
    assert [(each.source, each.field) for each in case.problems] == [("b", "spec")]
    assert sorted(each.id.name for each in case.batch.pods) == ["a-0", "a-1", "a-2", "c-0", "c-1"]


@pytest.mark.parametrize("count", [2**31, 10**30])
def test_a_gang_of_too_many_is_refused(count: int) -> None:
    body = group("scheduling.k8s.io/v1beta1", schedulingPolicy={"gang": {"minCount": count}})
    ((where, message),) = of_object(body)
    assert (where, message) == (
        "spec.schedulingPolicy.gang.minCount",
        f"is {count}: write 1 or more, at most 2147483647",
    )


def test_what_decoding_did_not_foresee_is_a_problem_of_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(kind: Kind, raw: bytes) -> object:
        if b'"bad"' in raw:
            raise ValueError("a surprise")
        return objects.decode(kind, raw)

    monkeypatch.setattr("scheduler.simulation.manifests.decoding.decode", decode)
    assembly = CaseBuilder()
    bad = pod(schedulerName="dovetail") | {"metadata": {"name": "bad", "namespace": "default"}}
    assembly.add([Document("m", bad), Document("n", pod(schedulerName="dovetail"))])
    case = assembly.case("dovetail")
    assert [str(each) for each in case.problems] == [
        "m (Pod default/bad): cannot be read (ValueError: a surprise): write it as the API has it"
    ]
    assert [each.id.name for each in case.batch.pods] == ["p"]


def test_a_mistake_in_a_template_is_told_once_and_nothing_else_is_stopped() -> None:
    assembly = CaseBuilder()
    wrong = deployment(replicas=3, template={"spec": {"schedulerName": "dovetail", "preemptionPolicy": "never"}})
    good = pod(schedulerName="dovetail")
    assembly.add(Document(f"m.yaml: document {n}", each) for n, each in enumerate((wrong, good), start=1))
    case = assembly.case("dovetail")
    (problem,) = case.problems
    assert str(problem).startswith("m.yaml: document 1 (Deployment d): spec.template.spec.preemptionPolicy: never")
    assert [each.id.name for each in case.batch.pods] == ["p"]


def test_a_budget_without_a_namespace_is_in_default_and_counts() -> None:
    assembly = CaseBuilder()
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {}}
    assembly.add([Document("m", budget)])
    (found,) = assembly.case("dovetail").snapshot.budgets
    assert found.namespace == "default"


@pytest.mark.parametrize(
    ("groups", "is_refused"),
    [(["a", "b"], False), ([], False), (["a", "b", "c"], True), (["a", "a"], True)],
    ids=["two", "none", "three", "one twice"],
)
def test_a_device_names_at_most_two_compatibility_groups(groups: list[str], is_refused: bool) -> None:  # noqa: FBT001 - a column of the table
    draws = {"counterSet": "card", "counters": {"slices": {"value": "1"}}, "compatibilityGroups": groups}
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "partitionTypeAttribute": "gpu.example.com/mode",
        "devices": [{"name": "mig", "consumesCounters": [draws]}],
    }
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    found = [str(each.field) for each in of_object(body)]
    assert found == (["spec.devices[0].consumesCounters[0].compatibilityGroups"] if is_refused else [])


DERIVED = {"name": "example.com/rack", "expression": "'a'"}


@pytest.mark.parametrize(
    ("constraint", "is_used"),
    [
        ({"matchAttribute": "example.com/rack"}, True),
        ({"distinctAttribute": "example.com/rack", "requests": ["gpu"]}, True),
        ({"matchAttribute": "example.com/rack", "requests": ["other"]}, False),
        ({"matchAttribute": "example.com/row"}, False),
    ],
)
def test_a_derived_attribute_has_to_be_compared(constraint: dict[str, Any], *, is_used: bool) -> None:
    other = {"name": "other", "exactly": {"deviceClassName": "gpu"}}
    body = claim(exactly(derivedAttributes=[DERIVED]), other, constraints=[constraint])
    errors = [(each.field, each.message) for each in of_object(body)]
    field = "spec.devices.requests[0].exactly.derivedAttributes[0].name"
    message = "example.com/rack is compared by no constraint of the request: write one, or leave it out"
    assert errors == ([] if is_used else [(field, message)])


def test_an_alternative_is_compared_by_its_own_name() -> None:
    alternatives = [{"name": name, "deviceClassName": "gpu", "derivedAttributes": [DERIVED]} for name in ("a", "b")]
    constraint = {"matchAttribute": "example.com/rack", "requests": ["gpu/a"]}
    body = claim({"name": "gpu", "firstAvailable": alternatives}, constraints=[constraint])
    assert [each.field for each in of_object(body)] == [
        "spec.devices.requests[0].firstAvailable[1].derivedAttributes[0].name"
    ]
