"""`dovetail fit --count`: ResourceQuotas end the count, and the answer names the one that does."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.simulation import fitting, plan_output, simulator
from solver.domain import Reason, ReasonCode, Unplaced
from tests.scheduler.cli.test_explain_command import reserved
from tests.scheduler.cli.test_fit import deployment
from tests.scheduler.cli.test_quota_command import quota as device_quota
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
DEVICES, CLAIMS = "gpu.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io"


def quota(hard: m.Manifest, name: str = "gpus", **more: Any) -> m.Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **more}}


def cluster(folder: Path, *objects: m.Manifest) -> Path:
    """A node of eight devices."""
    found = [m.node(cpu=16), m.slice_of(count=8), m.device_class(), m.template(), *objects]
    return m.write_json(folder / "cluster.json", found)


def counted(folder: Path, capsys: Capture, where: Path, *manifests: m.Manifest, count: str = "max") -> tuple[str, Any]:
    """Return the text, which has the sentence first, and the count; no warning may be left."""
    file = m.write_yaml(folder / "pods.yaml", *manifests)
    m.run("fit", "-f", file, "--cluster", where, "--count", count)
    printed = capsys.readouterr()
    assert "ResourceQuota" not in printed.err
    m.run("fit", "-f", file, "--cluster", where, "--count", count, "-o", "json")
    return " ".join(printed.out.split()), json.loads(capsys.readouterr().out)["count"]


def requests(**amounts: str) -> m.Manifest:
    return {"containers": [{"name": "main", "image": "pause", "resources": {"requests": amounts}}]}


QUOTA = "quota gpus of the namespace"
NAMELESS = "limits limits.memory, and spec.containers[0].resources.limits[memory] is missing"


@pytest.mark.parametrize(
    ("hard", "expected", "why"),
    [
        ({"pods": 3}, "3 pods would start now; no more would: ", "is used up: 3 of 3 pods"),
        (
            {"requests.cpu": "2500m"},
            "2 pods would start now; no more would: ",
            "has 500m of 2500m requests.cpu left, and 1 are asked for",
        ),
        ({DEVICES: 4}, "4 pods would start now; no more would: ", "is used up: 4 of 4 devices of class gpu"),
        ({CLAIMS: 1}, "1 pod would start now; no more would: ", f"is used up: 1 of 1 {CLAIMS}"),
        ({"pods": 0}, "No pod would start now: ", "is used up: 0 of 0 pods"),
        ({"limits.memory": "1Gi"}, "No pod would start now: ", NAMELESS),
        ({"pods": 100}, "8 pods would start now; no more would.", ""),
        ({"services": 0}, "8 pods would start now; no more would.", ""),
    ],
)
def test_a_quota_ends_the_count(hard: m.Manifest, expected: str, why: str, tmp_path: Path, capsys: Capture) -> None:
    pod = m.pod("new", template_name="t", **requests(cpu="1"))
    sentence, found = counted(tmp_path, capsys, cluster(tmp_path, quota(hard)), pod)

    assert sentence.startswith(f"{expected}{QUOTA} {why}." if why else expected)
    assert found["quota"] == (f"{QUOTA} {why}" if why else None)


@pytest.mark.parametrize(
    "hard",
    [{"pods": 3}, {"requests.cpu": "2500m"}, {DEVICES: 4}, {CLAIMS: 5}, {"pods": 6, DEVICES: 2}, {DEVICES: 20}],
)
def test_as_many_are_counted_as_start_of_more_replicas(hard: m.Manifest, tmp_path: Path, capsys: Capture) -> None:
    pod = m.pod("x", template_name="t", **requests(cpu="1"))
    where = cluster(tmp_path, quota(hard))
    m.run("simulate", "-o", "json", "-f", where, "-f", m.write_yaml(tmp_path / "many.yaml", deployment(12, pod)))
    placed = json.loads(capsys.readouterr().out)["placements"]

    assert counted(tmp_path, capsys, where, pod)[1]["copies"] == len(placed)


def test_pods_of_the_file_that_wait_in_the_cluster_are_counted_once(tmp_path: Path, capsys: Capture) -> None:
    """The quota's status counts them already; the file has them as the API server wrote them."""
    waiting = [m.pod(name) for name in ("a", "b")]
    for each in waiting:
        each["metadata"] |= {"namespace": "default", "uid": each["metadata"]["name"]}
        each["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    sentence, _ = counted(tmp_path, capsys, cluster(tmp_path, quota({"pods": 3}), *waiting), *waiting)

    assert sentence.startswith(f"3 pods would start now; no more would: {QUOTA} is used up: 3 of 3 pods.")


def test_extended_resources_of_a_quota(tmp_path: Path, capsys: Capture) -> None:
    where = cluster(tmp_path, quota({"requests.example.com/gpu": 2}))
    nodes = json.loads(where.read_text())["items"]
    nodes[0]["status"]["allocatable"]["example.com/gpu"] = 5
    m.write_json(where, nodes)
    limits = {"resources": {"limits": {"example.com/gpu": "1"}}}
    pod = m.pod("new", containers=[{"name": "main", "image": "pause", **limits}])

    sentence, found = counted(tmp_path, capsys, where, pod)

    refusal = "quota gpus of the namespace is used up: 2 of 2 requests.example.com/gpu"
    assert sentence.startswith(f"2 pods would start now; no more would: {refusal}.")
    assert found == {"copies": 2, "running": 0, "podsPerCopy": 1, "atMost": 2, "proven": True, "quota": refusal}


def test_what_runs_is_counted_and_replicas_of_the_file_are_copies(tmp_path: Path, capsys: Capture) -> None:
    """The Deployment asks for five: the quota admits two beside the pod that runs, so three of them are not created."""
    where = cluster(tmp_path, quota({"pods": 3}), m.pod("old", nodeName="n1"))
    sentence, found = counted(tmp_path, capsys, where, deployment(5, m.pod("x", template_name="t")))

    assert sentence.startswith(f"2 pods would start now; no more would: {QUOTA} is used up: 3 of 3 pods.")
    assert found["podsPerCopy"] == 1


def test_replicas_whose_claims_a_quota_refuses_are_equal_to_the_others(tmp_path: Path, capsys: Capture) -> None:
    where = cluster(tmp_path, quota({DEVICES: 2}))
    pods = [m.pod(name, template_name="t") for name in ("z", "y", "a")]
    sentence, found = counted(tmp_path, capsys, where, *pods)

    assert sentence.startswith(f"2 pods would start now; no more would: {QUOTA} is used up: 2 of 2 ")
    assert found["podsPerCopy"] == 1


def test_copies_of_different_pods_are_admitted_whole(tmp_path: Path, capsys: Capture) -> None:
    where = cluster(tmp_path, quota({"pods": 5}), quota({DEVICES: 7}, "others"))
    sentence, _ = counted(tmp_path, capsys, where, m.pod("gpu", template_name="t"), m.pod("cpu"))

    why = f"{QUOTA} has 1 of 5 pods left, and 2 are asked for"
    assert sentence.startswith(f"2 copies of 2 pods each would start now; no more would: {why}.")


def test_claims_of_a_pod_group_belong_to_a_copy(tmp_path: Path, capsys: Capture) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims}
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    pods = [
        m.pod(name, template_name="t", schedulingGroup={"podGroupName": "g"}, resourceClaims=claims) for name in "ab"
    ]
    sentence, _ = counted(tmp_path, capsys, cluster(tmp_path, quota({DEVICES: 3})), group, *pods)

    assert sentence.startswith(f"3 copies of 2 pods each would start now; no more would: {QUOTA} is used up")


def test_a_claim_that_pods_share_is_asked_for_once(tmp_path: Path, capsys: Capture) -> None:
    where = cluster(tmp_path, quota({DEVICES: 1, "pods": 4}))
    sentence, _ = counted(tmp_path, capsys, where, m.claim(), m.pod("p", claim_name="c"))

    assert sentence.startswith(f"4 pods would start now; no more would: {QUOTA} is used up: 4 of 4 pods")


@pytest.mark.parametrize(("terms", "copies"), [({}, 8), ({"activeDeadlineSeconds": 60}, 2)])
def test_only_pods_of_its_scope_count_in_a_quota(
    terms: m.Manifest, copies: int, tmp_path: Path, capsys: Capture
) -> None:
    where = cluster(tmp_path, quota({"pods": 2}, scopes=["Terminating"]))
    assert counted(tmp_path, capsys, where, m.pod("p", template_name="t", **terms))[1]["copies"] == copies


def test_nodes_end_the_count_before_the_quota(tmp_path: Path, capsys: Capture) -> None:
    sentence, found = counted(tmp_path, capsys, cluster(tmp_path, quota({DEVICES: 9})), m.pod("p", template_name="t"))

    assert sentence.startswith("8 pods would start now; no more would.")
    assert found["quota"] is None


@pytest.mark.parametrize(("count", "status"), [("3", 0), ("4", 1)])
def test_the_status_of_a_number_of_copies(count: str, status: int, tmp_path: Path) -> None:
    file = m.write_yaml(tmp_path / "pods.yaml", m.pod("p", template_name="t"))
    where = cluster(tmp_path, quota({DEVICES: 3}))
    assert m.run("fit", "-f", file, "--cluster", where, "--count", count) == status


def test_a_quota_of_another_namespace_ends_nothing(tmp_path: Path, capsys: Capture) -> None:
    other = quota({"pods": 1})
    other["metadata"]["namespace"] = "other"
    assert counted(tmp_path, capsys, cluster(tmp_path, other), m.pod("p", template_name="t"))[1]["copies"] == 8


NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "red"}}}
OF_DEVICES = "DeviceQuota few: 1 of at most 1 devices of class gpu are held, and the pod needs 1; raise the limit"


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        pytest.param(device_quota("few", team="red", limit=1), OF_DEVICES, id="DeviceQuota"),
        pytest.param(quota({DEVICES: 1}), f"{QUOTA} is used up: 1 of 1 devices of class gpu", id="ResourceQuota"),
        pytest.param(quota({"pods": 1}), f"{QUOTA} is used up: 1 of 1 pods", id="ResourceQuota of pods"),
    ],
)
def test_the_first_line_names_the_quota(limit: m.Manifest, why: str, tmp_path: Path, capsys: Capture) -> None:
    where = cluster(tmp_path, limit, NAMESPACE)
    file = m.write_yaml(tmp_path / "pods.yaml", deployment(2, m.pod("x", template_name="t")))

    assert m.run("fit", "-f", file, "--cluster", where) == 1
    lead = " ".join(capsys.readouterr().out.split())
    assert lead.startswith(f"It does not fit: 1 of 2 pods would start now: {why}")
    assert m.run("fit", "-f", file, "--cluster", where, "--count", "max", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["count"]["copies"], found["count"]["quota"].startswith(why)) == (1, True)
    assert found["bound"].startswith(why)


def test_of_a_pod_that_fits_the_count_says_that_device_quotas_end_it(tmp_path: Path, capsys: Capture) -> None:
    for most, why in ((3, "DeviceQuotas leave no more to the namespace (dovetail quota)"), (8, None)):
        where = cluster(tmp_path, device_quota("few", team="red", limit=most), NAMESPACE)
        _, found = counted(tmp_path, capsys, where, m.pod("new", template_name="t"))
        assert (found["copies"], found["quota"]) == (most, why)


def test_held_room_is_a_bound_and_a_lack_of_devices_none(tmp_path: Path) -> None:
    asked = simulator.load(reserved(tmp_path / "case.json"))
    own = frozenset(pod.id for pod in asked.batch.pods if pod.id.name == "one")
    found = fitting.fit(asked, own, None)
    assert "is reserved for" in found.bound
    assert fitting.sentence(found).endswith(f" would start now: {found.bound}.")

    (pod,) = (pod for pod in asked.batch.pods if pod.id in own)
    for code, said in (
        (ReasonCode.ROOM_HELD, "2 nodes would do, but the room is held for other pods to come"),
        (ReasonCode.DEVICES_IN_USE, ""),
    ):
        waits = Unplaced(pod=pod.id, pod_uid=pod.uid, reasons=(Reason(code=code, message="x", node_count=2),))
        assert plan_output.limit_of(asked, replace(found.result.plan, unplaced=(waits,))) == said


@pytest.mark.parametrize(
    ("limit", "devices", "sentence"),
    [
        pytest.param(2, 1, "Then 2 of 3 pods would start; fewer nodes do not. For more: ", id="some get a new node"),
        pytest.param(2, 4, "No node of these shapes helps: 2 of 3 pods would start on those that exist: ", id="none"),
        pytest.param(0, 1, "No node of these shapes helps: 0 of 3 pods would start on those that exist: ", id="no pod"),
    ],
)
def test_the_quota_that_no_node_helps_is_named(
    limit: int, devices: int, sentence: str, tmp_path: Path, capsys: Capture
) -> None:
    hardware = [m.node(cpu=16), m.slice_of(count=devices), m.device_class(), m.template()]
    known = device_quota("few", limit=limit)
    known["spec"]["namespaceSelector"] = {}
    where = m.write_json(tmp_path / "cluster.json", [*hardware, known])
    file = m.write_yaml(tmp_path / "pods.yaml", *(m.pod(f"p{number}", template_name="t") for number in range(3)))
    assert m.run("fit", "-f", file, "--cluster", where, "--add-nodes") == 1
    said = " ".join(capsys.readouterr().out.split())
    held = f"{limit} of at most {limit} devices of class gpu are held"
    why = f"DeviceQuota few: {held}, and the pod needs 1; raise the limit"
    assert f"{sentence}{why}" in said

    assert m.run("fit", "-f", file, "--cluster", where, "--add-nodes", "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["bound"].startswith(why)
    assert all(each["reasons"][0]["message"].startswith(why) for each in found["plan"]["unplaced"])
