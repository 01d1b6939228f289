"""What admission does to the pods of manifests: what it adds, what it refuses, and what may change the answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.change import Change, Kind
from scheduler.settings import load
from scheduler.simulation import simulator
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.manifests.documents import Document, ManifestFiles
from scheduler.simulation.simulator import SimulationCase
from solver.domain import Plan, PodClaim, ReasonCode
from tests.support import builders as b
from tests.support import manifests as m

Json = dict[str, Any]


def case(*manifests: Json, found: ClusterObjects | None = None) -> SimulationCase:
    reading = ManifestFiles([Document(f"m{index}", each) for index, each in enumerate(manifests, start=1)])
    return CaseBuilder.of(found or ClusterObjects(), reading).case("dovetail")


def plan(found: SimulationCase) -> Plan:
    return simulator.answer(simulator.recorded(found, load(None), "dovetail")).plan


def placed(found: SimulationCase) -> dict[str, str]:
    return {each.pod.name: each.node for each in plan(found).placements}


def waits(found: SimulationCase) -> dict[str, str]:
    return {each.pod.name: each.reasons[0].message for each in plan(found).unplaced}


def pod(name: str = "p", requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return m.pod(name, **{"containers": [{"name": "main", "resources": resources}], **spec})


def of_kind(kind: str, name: str, version: str = "v1", **more: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def limit_range(*limits: Json) -> Json:
    return of_kind("LimitRange", "bounds", spec={"limits": list(limits)})


def quota(hard: Json, **more: Any) -> Json:
    return of_kind("ResourceQuota", "gpus", spec={"hard": hard}, **more)


def deployment(replicas: int, own: Json) -> Json:
    body = {"replicas": replicas, "template": {"spec": own["spec"]}}
    return of_kind("Deployment", "web", "apps/v1", spec=body)


KATA = of_kind(
    "RuntimeClass",
    "kata",
    "node.k8s.io/v1",
    handler="kata",
    overhead={"podFixed": {"cpu": 2, "memory": "1Gi"}},
    scheduling={"nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
)


def test_a_runtime_class_selects_nodes_and_takes_room() -> None:
    plain, kata = m.node("plain", cpu=8), m.node("kata0", cpu=8)
    kata["metadata"]["labels"]["runtime"] = "kata"
    kata["spec"] = {"taints": [{"key": "kata", "effect": "NoSchedule"}]}
    pods = [pod(f"k-{index}", {"cpu": "4"}, runtimeClassName="kata") for index in range(2)]

    assert placed(case(plain, kata, KATA, *pods)) == {"k-0": "kata0"}


def test_a_runtime_class_that_is_not_there_may_change_the_answer() -> None:
    found = case(m.node(), pod(runtimeClassName="kata"))
    (warning,) = found.warnings
    assert warning == (
        "m2 (Pod default/p): spec.runtimeClassName: no RuntimeClass kata: its overhead, node selector and tolerations "
        "do not count, and would change the answer"
    )
    assert placed(found) == {"p": "n1"}


@pytest.mark.parametrize(
    ("own", "field"),
    [
        ({"runtimeClassName": "kata"}, "spec.runtimeClassName"),
        ({"priorityClassName": "gold"}, "spec.priorityClassName"),
    ],
)
def test_in_a_cluster_a_class_that_is_not_there_is_an_error(own: Json, field: str) -> None:
    cluster = ClusterObjects(is_live=True)
    found = case(m.node(), pod(**own), found=cluster)
    assert [(each.field, found.batch.pods) for each in found.problems] == [(field, ())]

    may_not_list = case(m.node(), pod(**own), found=replace(cluster, unlisted=("runtimeclasses", "priorityclasses")))
    assert len(may_not_list.batch.pods) == 1
    assert any(each.startswith("cannot list runtimeclasses, priorityclasses") for each in may_not_list.warnings)


def test_a_limit_range_gives_requests_that_take_room() -> None:
    item = {"type": "Container", "default": {"cpu": 4}, "defaultRequest": {"cpu": "3"}}
    found = case(m.node(cpu=8), limit_range(item), *(pod(f"p{index}") for index in range(3)))

    assert len(placed(found)) == 2


def test_what_a_limit_range_refuses_is_said_once_for_all_pods_of_a_workload() -> None:
    bounds = limit_range({"type": "Container", "max": {"cpu": "2"}})
    found = case(m.node(), bounds, deployment(50, pod(requests={"cpu": "3"}, limits={"cpu": "3"})))

    assert found.batch.pods == ()
    assert [str(each) for each in found.problems] == [
        f"m3, pod 1 (Pod default/web-0): spec.containers[0].resources.{which}[cpu]: is 3: LimitRange bounds allows at "
        "most 2 for a container"
        for which in ("requests", "limits")
    ]


def test_another_namespace_has_its_own_limits() -> None:
    bounds = limit_range({"type": "Container", "max": {"cpu": "2"}})
    bounds["metadata"]["namespace"] = "other"
    found = case(m.node(), bounds, pod(limits={"cpu": "3"}))

    assert (found.problems, placed(found)) == ((), {"p": "n1"})


def test_a_priority_that_is_not_that_of_the_class_is_refused() -> None:
    gold = of_kind("PriorityClass", "gold", "scheduling.k8s.io/v1", value=9, preemptionPolicy="Never")
    found = case(m.node(), gold, pod(priorityClassName="gold", priority=8))
    assert [each.message for each in found.problems] == [
        "is 8, and PriorityClass gold has 9: leave it out, the class sets it"
    ]
    (admitted,) = case(m.node(), gold, pod(priorityClassName="gold")).batch.pods
    assert (admitted.priority, admitted.preemption_policy) == (9, "Never")


def test_a_default_class_is_that_of_pods_that_name_none() -> None:
    gold = of_kind("PriorityClass", "gold", "scheduling.k8s.io/v1", value=9, globalDefault=True)
    (admitted,) = case(m.node(), gold | {"preemptionPolicy": "Never"}, pod()).batch.pods
    assert (admitted.priority, admitted.preemption_policy) == (9, "Never")


def test_a_pod_stands_a_node_that_is_not_ready_for_a_while() -> None:
    node = m.node()
    node["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}
    assert placed(case(node, pod())) == {"p": "n1"}


def test_a_pod_that_runs_has_been_admitted_before() -> None:
    bounds = limit_range({"type": "Container", "max": {"cpu": "1"}})
    running = pod("old", limits={"cpu": "3"}, nodeName="n1", overhead={"cpu": "1"})
    found = case(m.node(cpu=4), bounds, running, pod("new", limits={"cpu": "1"}))

    assert found.problems == ()
    assert "new" in waits(found)


def test_what_only_a_class_may_set_counts_with_a_warning() -> None:
    found = case(m.node(), pod(priority=7, preemptionPolicy="Never"))
    for field, warning in zip(("priority", "preemptionPolicy"), found.warnings, strict=True):
        assert warning.startswith(f"m2 (Pod default/p): spec.{field}: counts here, and the API server refuses it")
    (admitted,) = found.batch.pods
    assert (admitted.priority, admitted.preemption_policy) == (7, "Never")


class TestQuotas:
    """A ResourceQuota keeps pods and claims from being made."""

    def test_pods_beyond_the_quota_are_not_created(self) -> None:
        limited = quota({"pods": 3, "requests.cpu": "2500m"})
        old, new = pod("old", {"cpu": "1"}, nodeName="n1"), deployment(3, pod(requests={"cpu": "1"}))
        found = case(m.node(), limited, old, new)

        assert sorted(placed(found)) == ["web-0"]
        message = "is not created: quota gpus of the namespace has 500m of 2500m requests.cpu left, and 1 are asked for"
        assert waits(found) == {"web-1": message, "web-2": message}
        assert {each.reasons[0].code for each in plan(found).unplaced} == {ReasonCode.POD_NOT_CREATED}

    def test_a_gang_that_is_not_created_whole_waits(self) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        group = of_kind("PodGroup", "g", "scheduling.k8s.io/v1beta1", spec=spec)
        member = pod(schedulingGroup={"podGroupName": "g"})
        found = case(m.node(), group, quota({"pods": 2}), deployment(3, member))

        assert placed(found) == {}
        assert "quota gpus of the namespace is used up: 2 of 2 pods" in waits(found)["web-2"]

    def test_claims_beyond_the_quota_are_not_created(self) -> None:
        gpu = m.device_class()
        pods = [m.pod(f"p{index}", template_name="t") for index in range(3)]
        hard = {f"{gpu['metadata']['name']}.deviceclass.resource.k8s.io/devices": "2"}
        found = case(m.node(), m.slice_of(count=4), gpu, m.template(), quota(hard), *pods)

        assert sorted(placed(found)) == ["p0", "p1"]
        assert waits(found)["p2"].startswith(
            f"quota gpus of the namespace is used up: 2 of 2 devices of class {gpu['metadata']['name']}"
        )

    def test_the_status_counts_where_there_is_one(self) -> None:
        gpu = m.device_class()
        name = f"{gpu['metadata']['name']}.deviceclass.resource.k8s.io/devices"
        status = {"hard": {name: "2"}, "used": {name: "2"}}
        limited = quota({name: "2"}, status=status)
        found = case(m.node(), m.slice_of(), gpu, m.template(), limited, m.pod("p", template_name="t"))

        assert placed(found) == {}

    def test_a_named_claim_beyond_the_quota_cannot_be_created(self) -> None:
        gpu, claim = m.device_class(), m.claim()
        hard = {"count/resourceclaims.resource.k8s.io": "0"}
        found = case(m.node(), m.slice_of(), gpu, claim, quota(hard), m.pod("p", claim_name="c"))

        assert "used up: 0 of 0 count/resourceclaims.resource.k8s.io: the claim cannot be created" in waits(found)["p"]

    def test_a_cluster_of_files_has_its_usage_counted(self) -> None:
        """`fit --cluster`: the quota has no status there, and the running pods are counted."""
        running = [pod(f"old-{index}", nodeName="n1") for index in range(2)]
        reading = ManifestFiles([Document("c", each) for each in (m.node(), quota({"pods": 3}), *running)])
        found = case(pod("a"), pod("b"), found=CaseBuilder.as_cluster(reading))

        assert sorted(placed(found)) == ["a"]

    def test_a_saved_case_gives_the_same_answer(self, tmp_path: Path) -> None:
        asked = simulator.recorded(case(m.node(), quota({"pods": 1}), pod("a"), pod("b")), load(None), "dovetail")
        simulator.save(tmp_path / "saved.json", asked, keep_parameters=False)
        again = simulator.answer(simulator.load(tmp_path / "saved.json")).plan
        assert [each.pod.name for each in again.unplaced] == ["b"]
        assert again.unplaced == simulator.answer(asked).plan.unplaced

    def test_volume_claims_that_are_not_counted_are_told(self) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        found = case(m.node(), quota({"requests.storage": "1Gi"}), of_kind("PersistentVolumeClaim", "c", spec=spec))
        assert "ResourceQuota default/gpus: requests.storage: is not counted" in found.warnings

    def test_a_pod_of_the_cluster_says_which_quota_keeps_its_claim(self) -> None:
        """As `explain` sees it: the pod exists, its claim does not, and the quota's status says why."""
        gpu = m.device_class()
        name = f"{gpu['metadata']['name']}.deviceclass.resource.k8s.io/devices"
        limited = quota({name: "1"}, status={"hard": {name: "1"}, "used": {name: "1"}})
        reading = ManifestFiles([Document("c", each) for each in (m.node(), m.slice_of(), gpu, m.template())])
        cluster = CaseBuilder.as_cluster(reading)
        limited["metadata"]["namespace"] = "default"
        entry = PodClaim(entry="e", template="t")
        waiting = msgspec.structs.replace(b.pod("p"), scheduler_name="dovetail", claims=(entry,))
        changes = (*cluster.changes, Change(kind=Kind.PODS, key=str(waiting.id), value=waiting))
        seen = replace(cluster, changes=changes, documents=(*cluster.documents, Document("c", limited)))
        found = CaseBuilder.of(seen, ManifestFiles()).case("dovetail")

        assert waits(found)["p"].startswith("quota gpus of the namespace is used up: 1 of 1 devices of class ")

    def test_a_template_that_is_refused_is_not_called_missing(self) -> None:
        old = m.template() | {"apiVersion": "resource.k8s.io/v1alpha3"}
        found = case(m.node(), m.slice_of(), m.device_class(), old, m.pod("p", template_name="t"))

        assert waits(found)["p"] == (
            "its template is refused: the claim of entry gpu, from ResourceClaimTemplate t, is not created; the pod "
            "waits for it"
        )
        assert [each.field for each in found.problems] == ["apiVersion"]
