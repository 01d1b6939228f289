"""`dovetail explain` on saved cases: the text at a hundred columns, JSON, and what a pod does that does not wait."""

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from scheduler.change import Change, Kind
from scheduler.cli.sources.absent_objects import KnownObjects, absence, absent
from scheduler.cli.sources.targets import Target, TargetKind
from scheduler.kube.pod_warnings import PodWarning
from scheduler.kube.pod_writes import PendingPod, PodScheduled
from scheduler.settings import default
from scheduler.settings.scheduler_names import NO_SCHEDULER, unserved
from scheduler.simulation import explanation, explanation_output, live_cluster, simulator
from scheduler.simulation.explanation_output import Explained
from scheduler.worker.recording import Record
from solver.domain import Controller, NodeReservation, OwnedDevices, Pod, Policy, PreemptionRules
from tests.support import builders as b
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
ROOT = "resource.kubernetes.io/pcieRoot"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A case of two kinds of nodes, with a pod that waits and one that fits."""
    return save(
        tmp_path / "case.json",
        *(b.node(f"n{number}") for number in range(12)),
        b.node("control", taints=(b.taint("node-role.kubernetes.io/control-plane"),)),
        *(b.gpu_slice(f"n{number}") for number in range(12)),
        *(b.held(f"h{number}", b.result("gpu", "gpu-1", f"n{number}")) for number in range(12)),
        *(b.held(f"g{number}", b.result("gpu", "gpu-6", f"n{number}")) for number in range(12)),
        b.gpu_class(),
        b.claim("c", b.request("gpus", count=4), constraints=(b.match(ROOT),)),
        b.claim("small", b.request("gpu")),
        b.pod("runs", node_name="n0"),
        pods=(b.pod("p", "c"), b.pod("q", "small")),
    )


def save(path: Path, *objects: Any, pods: tuple[Pod, ...], policy: Policy | None = None) -> Path:
    record = Record(
        cause="a test",
        snapshot=b.snapshot(*objects),
        batch=b.batch(*pods),
        policy=policy or Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(path, record, keep_parameters=False)
    return path


def test_the_diagnosis_of_a_pod_that_waits(saved: Path, capsys: Capture) -> None:
    status = m.run("explain", "pod", "default/p", "--snapshot", saved)

    text = capsys.readouterr().out
    assert status == 1
    assert text == (
        "Pod default/p waits. None of 13 nodes can take it now.\n"
        "It would fit with one of these (each was checked):\n"
        "  → 1 more free device under one pcieRoot, now held by default/g0  (n0)\n"
        "  → 3 instead of 4 for request gpus: in a new claim, as a claim cannot be changed  (n0)\n"
        "  → without the same resource.kubernetes.io/pcieRoot: in a new claim,\n"
        "    as a claim cannot be changed  (n0)\n"
        "  → dovetail repair plan --for pod/default/p looks for moves that make room\n"
        "\n"
        "12 nodes: n0 … n11\n"
        "  REQUEST  NEEDS  MATCH  IN USE  TAINTED  FREE  ALIGNED  FIT TOGETHER\n"
        "  gpus         4      8       2        0     6        3             3\n"
        "  conflict: request gpus: 4 devices; the same resource.kubernetes.io/pcieRoot;\n"
        "    devices in use by default/g0, default/h0\n"
        "\n"
        "1 node: control\n"
        "  node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }\n"
    )
    assert max(map(len, text.splitlines())) <= 100


def reserved(path: Path, *, gang_size: int = 1) -> Path:
    """A case with a node that is full, and one with a free device that is reserved for a pod of eight."""
    eight = replace(b.pod("eight", "eight"), creation="2026-01-01T12:00:00Z")
    hold = NodeReservation(
        pod=eight.id, uids=(eight.uid, *(f"uid-{number}" for number in range(1, gang_size))), priority=0, nodes=("n2",)
    )
    rules = PreemptionRules(now=int(dt.datetime(2026, 1, 1, 12, 10, tzinfo=dt.UTC).timestamp()))
    record = Record(
        cause="a test",
        snapshot=b.snapshot(
            *(b.node(name) for name in ("n1", "n2")),
            *(b.gpu_slice(name, count=8) for name in ("n1", "n2")),
            b.gpu_class(),
            *(b.held(f"a{number}", b.result("gpu", f"gpu-{number}", "n1")) for number in range(8)),
            *(b.held(f"b{number}", b.result("gpu", f"gpu-{number}", "n2")) for number in range(7)),
            b.claim("eight", b.request("gpus", count=8)),
            b.claim("one", b.request("gpu")),
        ),
        batch=replace(b.batch(eight, b.pod("one", "one")), overdue=(eight.id,), node_reservations=(hold,)),
        policy=Policy(preemption=rules),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(path, record, keep_parameters=False)
    return path


def test_a_pod_that_fits_only_on_a_reserved_node_waits_and_the_pod_is_named(tmp_path: Path, capsys: Capture) -> None:
    case = reserved(tmp_path / "case.json")
    assert m.run("explain", "one", "--snapshot", case) == 1
    text = capsys.readouterr().out
    assert text.startswith(
        "Pod default/one waits: node n2 is reserved for default/eight, which has waited 10m.\n"
        "Without that it would fit there.\n"
    )
    assert "1 node: n2  fits, but for the reservation for default/eight\n" in text
    assert "8 match" not in text, "what the other nodes lack stands in their blocks"

    assert m.run("explain", "one", "--snapshot", case, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["reserved"] == [{"nodes": ["n2"], "pod": "default/eight", "gangSize": 1}]
    assert found["reasons"][0]["message"] == "node n2 is reserved for pod default/eight, which has waited longer"


def test_a_change_uses_no_reserved_node(tmp_path: Path, capsys: Capture) -> None:
    """A pod of two would fit on the reserved node once one device more is free there: that is no change that helps."""
    case = simulator.load(reserved(tmp_path / "case.json"))
    two, pod = b.claim("two", b.request("gpus", count=2)), b.pod("two", "two")
    record = replace(
        case,
        snapshot=replace(case.snapshot, claims=(*case.snapshot.claims, two)),
        batch=replace(case.batch, pods=(*case.batch.pods, pod)),
    )
    simulator.save(tmp_path / "two.json", record, keep_parameters=False)
    assert m.run("explain", "two", "--snapshot", tmp_path / "two.json", "-o", "json") == 1
    changes = json.loads(capsys.readouterr().out)["changes"]
    assert changes
    assert {each["node"] for each in changes} == {"n1"}


def test_for_a_gang_the_reservation_says_how_many_pods_it_is_for(tmp_path: Path, capsys: Capture) -> None:
    m.run("explain", "one", "--snapshot", reserved(tmp_path / "case.json", gang_size=3))
    assert "reserved for default/eight and 2 more of its gang,\nwhich has waited 10m" in capsys.readouterr().out


def test_where_the_condition_says_that_a_pod_waits_it_is_printed_beside_the_node(tmp_path: Path) -> None:
    """The scheduler may know more than the API: its word stands below the answer, with its time."""
    asked = simulator.load(save(tmp_path / "case.json", b.node("n1"), pods=(b.pod("p"),)))
    since = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)
    condition = PodScheduled("False", "NodeReserved", "a node is reserved.", since)
    found = explanation.of_pod(asked, PendingPod(b.pod("p"), condition), is_live=True)
    to = io.StringIO()
    explanation_output.show(found, to)
    lines = to.getvalue().splitlines()
    assert lines[0] == "Pod default/p would be placed on node n1 by a decision now; the scheduler last said:"
    assert lines[-1] == "PodScheduled=False (NodeReserved) since 2026-01-01T12:00:00Z: a node is reserved."


def test_a_hint_counts_as_a_change(tmp_path: Path, capsys: Capture) -> None:
    """What to write instead stands above: the next line does not deny it."""
    of_other_model = b.device_class("gpu", "device.attributes['gpu.example.com'].model == 'H200'")
    case = (b.node("n1"), b.gpu_slice("n1"), of_other_model, b.claim("c", b.request("gpu")))
    m.run("explain", "pod", "p", "--snapshot", save(tmp_path / "case.json", *case, pods=(b.pod("p", "c"),)))

    text = capsys.readouterr().out
    assert "  → " in text
    assert "No other change that was tried makes it fit." in text


def test_what_a_node_lacks_is_said_once(tmp_path: Path, capsys: Capture) -> None:
    pod = b.pod("large", cpu=100)
    m.run("explain", "pod", "large", "--snapshot", save(tmp_path / "case.json", b.node("n1"), pods=(pod,)))

    text = capsys.readouterr().out
    assert "  Insufficient cpu: 100 needed, 64 left\n" in text
    assert "not possible" not in text
    assert "conflict" not in text


def test_a_pool_that_is_not_used_is_named(tmp_path: Path, capsys: Capture) -> None:
    objects = b.node("n1"), replace(b.gpu_slice("n1"), slice_count=2), b.gpu_class(), b.claim("c", b.request("gpu"))
    m.run("explain", "pod", "p", "--snapshot", save(tmp_path / "case.json", *objects, pods=(b.pod("p", "c"),)))

    said = "  pool gpu.example.com/n1 is incomplete: 1 of 2 slices of generation 1 are published\n"
    assert said in capsys.readouterr().out


def test_devices_that_another_scheduler_owns_are_named_for_each_kind_of_nodes(tmp_path: Path, capsys: Capture) -> None:
    objects = (b.node("n1"), b.node("n2"), b.gpu_slice("n1", count=2), b.gpu_slice("n2", count=1), b.gpu_class())
    policy = Policy(owned=OwnedDevices(drivers=("other.example.com",)))
    case = save(tmp_path / "case.json", *objects, b.claim("c", b.request("g")), pods=(b.pod("p", "c"),), policy=policy)

    assert m.run("explain", "pod", "p", "--snapshot", case) == 1
    text = capsys.readouterr().out
    assert (
        "  g            1      2       0        0     0        -             0\n  g: 2 left to another scheduler"
        in text
    )
    assert "  g: 1 left to another scheduler by the configuration\n" in text
    m.run("explain", "pod", "p", "--snapshot", case, "-o", "json")
    found = json.loads(capsys.readouterr().out)
    told = [each["leftOut"] for kind in found["nodes"] for each in kind["requests"]]
    assert sorted(told) == [[f"{count} left to another scheduler by the configuration"] for count in (1, 2)]


def test_a_pod_that_fits_is_placed(saved: Path, capsys: Capture) -> None:
    status = m.run("explain", "pod", "q", "--snapshot", saved)

    assert status == 0
    assert capsys.readouterr().out.startswith("Pod default/q would be placed on node n")


def test_the_story_as_json_and_yaml_is_the_same(saved: Path, capsys: Capture) -> None:
    assert m.run("explain", "pod", "default/p", "--snapshot", saved, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert m.run("explain", "pod", "default/p", "--snapshot", saved, "-o", "yaml") == 1

    assert yaml.safe_load(capsys.readouterr().out) == found
    assert (found.pop("apiVersion"), found.pop("kind")) == ("output.dovetail.dev/v1alpha1", "Explanation")
    assert set(found) == {
        *("pod", "waits", "unserved", "bound", "node", "reasons", "hints", "condition", "schedulingGates", "claims"),
        *("agreed", "kubeletWarnings", "preferred", "nodes", "lostTo", "proven", "reserved", "changes"),
    }
    assert found["nodes"][0]["requests"] == [
        {
            "request": "gpus",
            "needed": 4,
            "matching": 8,
            "inUse": 2,
            "tainted": 0,
            "free": 6,
            "aligned": 3,
            "together": 3,
            "leftOut": [],
        }
    ]


def test_a_pod_that_runs_already(saved: Path, capsys: Capture) -> None:
    assert m.run("explain", "pod", "default/runs", "--snapshot", saved) == 0
    assert capsys.readouterr().out.startswith(
        "Pod default/runs is bound to node n0.\n"
        "Without it, 12 of 13 nodes could take it now; a new decision would choose it again.\n"
    )


def test_a_bound_pod_says_its_devices_and_why_these(tmp_path: Path, capsys: Capture) -> None:
    results = (b.result("gpus", f"gpu-{number}", "n1") for number in range(2))
    claim = replace(
        b.claim("c", b.request("gpus", count=2), constraints=(b.match(ROOT),)),
        allocation=b.allocation(*results),
        reserved_for=(b.consumer("runs"),),
        finalizers=("resource.kubernetes.io/delete-protection",),
    )
    nodes = (b.node("n1"), b.gpu_slice("n1"), b.node("n2"), b.gpu_slice("n2", count=1), b.gpu_class())
    path = save(tmp_path / "case.json", *nodes, claim, b.pod("runs", "c", node_name="n1"), pods=())

    assert m.run("explain", "runs", "--snapshot", path) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "Pod default/runs is bound to node n1.\n"
        "Without it, 1 of 2 nodes could take it now; a new decision would choose it again.\n"
        "  gpus = gpu-0, gpu-1  (gpu.example.com)\n"
        f"  as its claim demands, {ROOT} is n1-pci0 for all\n"
    )
    assert m.run("explain", "runs", "--snapshot", path, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["bound"], found["waits"], found["node"], found["preferred"]) == (True, False, "n1", "n1")
    assert [len(each["allocation"]["devices"]["results"]) for each in found["claims"]] == [2]


def test_a_bound_pod_that_does_not_start_says_what_the_kubelet_says() -> None:
    message = "Failed to prepare dynamic resources: NodePrepareResources failed for ResourceClaim c: on fire"
    last = dt.datetime(2026, 1, 1, 0, 5, tzinfo=dt.UTC)
    warning = PodWarning("FailedPrepareDynamicResources", message, 7, last)
    text = io.StringIO()
    explanation_output.show(Explained(b.pod("p", node_name="n1"), is_live=True, warnings=(warning,)), text)
    assert text.getvalue() == (
        "Pod default/p is bound to node n1.\n"
        "  the kubelet does not start it: Failed to prepare dynamic resources: NodePrepareResources failed\n"
        "    for ResourceClaim c: on fire (FailedPrepareDynamicResources, 7 times, last 2026-01-01T00:05:00Z)\n"
    )
    found = explanation_output.document(Explained(b.pod("p", node_name="n1"), warnings=(warning,)))
    assert [(each["reason"], each["count"]) for each in found["kubeletWarnings"]] == [(warning.reason, 7)]


def test_uids_in_what_the_kubelet_says_become_names() -> None:
    pod_uid, claim_uid, other = (f"0000000{number}-0000-4000-8000-000000000000" for number in range(3))
    pod = replace(b.pod("p", "c", node_name="n1"), uid=pod_uid)
    claim = replace(b.claim("c"), uid=claim_uid)
    asked = Record(
        cause="a test",
        snapshot=b.snapshot(b.node("n1"), claim, pod),
        batch=b.batch(),
        policy=Policy(),
        seconds=1.0,
        deterministic_seconds=1.0,
    )
    message = f"pod p ({pod_uid}) is not allowed to use ResourceClaim c ({claim_uid}), but {other}"
    found = explanation.of_pod(asked, PendingPod(pod, None), (PodWarning("Failed", message, 1, None),), is_live=True)
    assert found.warnings[0].message == (
        f"pod p (pod default/p) is not allowed to use ResourceClaim c (claim default/c), but {other}"
    )


def test_a_gated_pod_as_json(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path / "case.json", b.node("n1"), pods=(b.pod("p", scheduling_gates=("a.example.com/b",)),))

    assert m.run("explain", "p", "--snapshot", path, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["waits"], found["schedulingGates"], found["nodes"]) == (True, ["a.example.com/b"], [])


def test_the_condition_is_printed_whole_and_its_hint_first() -> None:
    counts = "0/9 nodes are available: 9 cannot allocate all claims."
    condition = PodScheduled("False", "Unschedulable", f"{counts} Hint: write gpu.nvidia.com. request gpu: no class.")
    to = io.StringIO()

    explanation_output.show(Explained(b.pod("p"), condition=condition, is_live=True), to)

    lines = to.getvalue().splitlines()
    assert lines[:2] == ["Pod default/p waits.", "  → write gpu.nvidia.com"]
    assert " ".join(map(str.strip, lines[3:])) == f"PodScheduled=False (Unschedulable): {condition.message}"


def test_a_pod_that_no_scheduler_has_picked_up() -> None:
    to = io.StringIO()
    explanation_output.show(Explained(b.pod("p"), is_live=True), to)

    assert (
        "It has no condition PodScheduled: no scheduler has picked it up, or it has not reported yet." in to.getvalue()
    )


@pytest.fixture
def gang(tmp_path: Path) -> Path:
    """A gang of three of which one runs; two equal ones wait, and one of them fits."""
    record = Record(
        cause="a test",
        snapshot=b.snapshot(b.node("n1"), b.member(b.pod("a", cpu=40, node_name="n1"), "t")),
        batch=b.batch(
            *(b.member(b.pod(name, cpu=20), "t") for name in ("b", "c")),
            gangs=(replace(b.gang("t", 3, members=3), running_count=1),),
        ),
        policy=Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(tmp_path / "case.json", record, keep_parameters=False)
    return tmp_path / "case.json"


def test_pods_of_a_group_without_a_minimum_are_called_no_gang(gang: Path, tmp_path: Path, capsys: Capture) -> None:
    asked = simulator.load(gang)
    batch = replace(asked.batch, gangs=(replace(asked.batch.gangs[0], min_count=0),))
    simulator.save(tmp_path / "group.json", replace(asked, batch=batch), keep_parameters=False)
    assert m.run("explain", "gang/t", "--snapshot", tmp_path / "group.json") == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("Group default/t: 1 pod bound, 2 waiting. 1 of those that wait would fit now.")


def test_a_gang_of_a_job_is_named_with_it(gang: Path, tmp_path: Path, capsys: Capture) -> None:
    asked = simulator.load(gang)
    labels, job = (("batch.kubernetes.io/job-name", "train"),), Controller(kind="Job", uid="job")
    pods = tuple(replace(pod, labels=labels, controller=job) for pod in asked.batch.pods)
    simulator.save(tmp_path / "job.json", replace(asked, batch=replace(asked.batch, pods=pods)), keep_parameters=False)
    assert m.run("explain", "gang/t", "--snapshot", tmp_path / "job.json") == 1
    for words in (["gang/t"], ["job/train"], ["Jobs", "default/train"]):
        assert m.run("explain", *words, "--snapshot", tmp_path / "job.json") == 1
        assert capsys.readouterr().out.startswith("Gang default/t of Job train: 1 pod bound, 2 waiting")


def of_job(name: str, *, job: str = "train", **fields: Any) -> Pod:
    labels, controller = (("batch.kubernetes.io/job-name", job),), Controller(kind="Job", uid="job")
    return replace(b.pod(name, cpu=20, **fields), labels=labels, controller=controller)


def test_of_what_makes_pods_the_first_one_that_waits_is_explained(tmp_path: Path, capsys: Capture) -> None:
    pods = (of_job("b", creation="2026-01-02T00:00:00Z"), of_job("a", creation="2026-01-03T00:00:00Z"))
    path = save(tmp_path / "case.json", b.node("n1", cpu=10), of_job("c", node_name="n1"), pods=pods)
    assert m.run("explain", "job/train", "--snapshot", path) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("Pod default/b waits")
    assert printed.err == "dovetail: Job default/train has 3 pods, and 2 of them wait: this is pod b\n"

    path = save(tmp_path / "case.json", b.node("n1"), of_job("c", node_name="n1"), pods=())
    assert m.run("explain", "job", "train", "--snapshot", path) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Pod default/c ")
    assert printed.err == ""


def test_what_has_no_pods_or_several_gangs_is_told_what_to_write(tmp_path: Path, capsys: Capture) -> None:
    pods = tuple(b.member(of_job(name), name) for name in ("v", "u"))
    path = save(tmp_path / "case.json", b.node("n1"), pods=pods)
    for words, said in (
        ("job/train", "Job default/train has the gangs u, v: write gang/u"),
        ("job/trian", "there is no pod of Job default/trian: did you mean train?"),
        ("statefulset/train", "there is no pod of StatefulSet default/train"),
        ("workload/train", "'workload/train': this command takes pod/NAME or pod NAMESPACE/NAME or gang/NAME or gang "),
    ):
        assert m.run("explain", words, "--snapshot", path) == 2
        assert said in capsys.readouterr().err


def test_a_gang_says_what_runs_and_how_many_of_the_others_fit(gang: Path, capsys: Capture) -> None:
    assert m.run("explain", "gang/t", "--snapshot", gang) == 1
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(map(str.strip, lines[:2])).startswith(
        "Gang default/t: 1 pod bound, 2 waiting, at least 3 are needed. Without the gang's rules, 1 of those that wait"
    )
    assert "  default/a is bound to node n1" in lines
    assert "One of 2 equal pods:" in lines

    assert m.run("explain", "podgroup", "t", "--snapshot", gang, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["minCount"], found["fitting"]) == ("GangExplanation", 3, 1)
    assert [(each["count"], each["pod"]) for each in found["pods"]] == [(2, "default/b")]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A gang of five pods that all differ; only the fourth fits nowhere. Ten of its pods run."""
    record = Record(
        cause="a test",
        snapshot=b.snapshot(
            *(b.node(f"n{number}") for number in (1, 2, 4, 6, 8, 10, 12, 14)),
            *(b.member(b.pod(f"r{number}", node_name="n1"), "t") for number in range(10)),
        ),
        batch=b.batch(
            *(b.member(b.pod(f"p{cpu}", cpu=cpu), "t") for cpu in (1, 2, 3, 1000, 4)),
            gangs=(replace(b.gang("t", 1, members=15), running_count=10),),
        ),
        policy=Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(tmp_path / "case.json", record, keep_parameters=False)
    return tmp_path / "case.json"


def test_a_gang_with_many_kinds_of_pods_says_how_many_are_not_explained(mixed: Path, capsys: Capture) -> None:
    assert m.run("explain", "gang/t", "--snapshot", mixed) == 1
    text = capsys.readouterr().out
    assert text.count("Pod default/p") == 3
    assert "  and 2 more\n" in text
    assert text.endswith("\nThe gang has 2 more kinds of waiting pods: -o wide and -o json explain all of them.\n")


def test_all_kinds_of_pods_of_a_gang_and_all_names(mixed: Path, capsys: Capture) -> None:
    assert m.run("explain", "gang/t", "--snapshot", mixed, "-o", "wide") == 1
    text = capsys.readouterr().out
    assert text.count("Pod default/p") == 5
    assert "more" not in text
    assert "8 nodes: n1, n2, n4, n6, n8, n10, n12, n14" in text

    assert m.run("explain", "gang/t", "--snapshot", mixed, "-o", "json") == 1
    assert len(json.loads(capsys.readouterr().out)["pods"]) == 5


def test_a_gang_that_does_not_exist(gang: Path, capsys: Capture) -> None:
    assert m.run("explain", "gang/x", "--snapshot", gang) == 2
    assert "gang default/x does not exist, and no pod names it" in capsys.readouterr().err


def test_a_pod_that_does_not_exist(saved: Path, capsys: Capture) -> None:
    assert m.run("explain", "pod", "default/nobody", "--snapshot", saved) == 2
    assert capsys.readouterr().err == "dovetail: explain: pod default/nobody does not exist\n"


@pytest.mark.parametrize("name", ["a/b/c", "team/"])
def test_what_is_no_name_of_a_pod(name: str, saved: Path, capsys: Capture) -> None:
    assert m.run("explain", "pod", name, "--snapshot", saved) == 2
    expected = f"dovetail: explain: {f'pod {name}'!r} names no pod: write pod/NAME or pod NAMESPACE/NAME\n"
    assert capsys.readouterr().err == expected


def test_a_file_that_is_no_saved_case(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x.json").write_text("{}")

    assert m.run("explain", "pod", "default/p", "--snapshot", tmp_path / "x.json") == 2
    assert "not a case that `dovetail simulate --save` wrote" in capsys.readouterr().err


def test_a_pod_without_its_claim(tmp_path: Path, capsys: Capture) -> None:
    path = save(tmp_path / "case.json", b.node("n1"), pods=(b.pod("p", "c"),))

    assert m.run("explain", "pod", "p", "--snapshot", path) == 1
    assert "claim c does not exist yet" in capsys.readouterr().out


def test_a_member_of_a_gang_that_fits_alone_is_told_of_its_gang(tmp_path: Path, capsys: Capture) -> None:
    record = Record(
        cause="a test",
        snapshot=b.snapshot(b.node("n1")),
        batch=b.batch(b.member(b.pod("p"), "t"), gangs=(b.gang("t", 3, members=1),)),
        policy=Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(tmp_path / "case.json", record, keep_parameters=False)

    assert m.run("explain", "pod", "p", "--snapshot", tmp_path / "case.json") == 1
    text = capsys.readouterr().out
    assert text.startswith("Pod default/p waits. It would fit alone on 1 node.\n  → create 2 more pods")
    assert "\n  gang t waits for members: 1 of 3 exist\n" in text


def test_a_member_that_fits_alone_is_told_of_the_member_that_does_not(tmp_path: Path, capsys: Capture) -> None:
    gated = b.pod("q", scheduling_gates=("a.example.com/b",))
    record = Record(
        cause="a test",
        snapshot=b.snapshot(b.node("n1")),
        batch=b.batch(b.member(b.pod("p"), "t"), b.member(gated, "t"), gangs=(b.gang("t", 2, members=2),)),
        policy=Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(tmp_path / "case.json", record, keep_parameters=False)

    assert m.run("explain", "pod", "p", "--snapshot", tmp_path / "case.json") == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "gang t waits for 1 of its pods: pod q cannot be placed: the pod is gated by a.example.com/b" in text


def test_a_bound_pod_whose_claim_keeps_a_tainted_device(tmp_path: Path, capsys: Capture) -> None:
    path = save(
        tmp_path / "case.json",
        *(b.node("n1"), b.gpu_slice("n1"), b.gpu_class()),
        b.taint_rule("repair", b.taint("ecc"), pool="n1", device_name="gpu-0"),
        replace(b.held("c", b.result("gpu", "gpu-0", "n1")), reserved_for=(b.consumer("p"), b.consumer("other"))),
        b.pod("p", "c", node_name="n1"),
        pods=(),
    )

    assert m.run("explain", "pod", "p", "--snapshot", path) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Decided again, it would wait: claim c holds device gpu.example.com/n1/gpu-0, which has taint ecc" in text


def test_nodes_without_a_device_that_matches_are_one_line_with_all_their_names(tmp_path: Path, capsys: Capture) -> None:
    names = ("ant", "bee", "cow", "dog", "elk", "fox", "gnu")
    path = save(
        tmp_path / "case.json",
        *(b.node(name) for name in names),
        *(b.gpu_slice(name, count=1) for name in names),
        b.gpu_class(),
        b.claim("c", b.request("gpu", selectors=("device.driver == 'none'",))),
        pods=(b.pod("p", "c"),),
    )

    m.run("explain", "pod", "default/p", "--snapshot", path)

    lines = capsys.readouterr().out.splitlines()
    assert "7 nodes: ant, bee, cow, dog, elk, fox, gnu  no device matches" in lines
    assert not any("IN USE" in line for line in lines)


def test_a_gang_that_misses_a_member_says_what_completes_it(tmp_path: Path, capsys: Capture) -> None:
    record = Record(
        cause="a test",
        snapshot=b.snapshot(b.node("n1")),
        batch=b.batch(*(b.member(b.pod(name, cpu=1), "t") for name in ("a", "b")), gangs=(b.gang("t", 3, members=2),)),
        policy=Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(tmp_path / "case.json", record, keep_parameters=False)
    assert m.run("explain", "a", "--snapshot", tmp_path / "case.json") == 1
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(each.strip() for each in lines[1:3]) == (
        "→ create 1 more pod with the label dovetail.dev/gang=t, or write 2 as the annotation dovetail.dev/gang-minimum"
    )


def test_an_old_hint_of_the_condition_is_no_hint_beside_that_of_the_decision(saved: Path) -> None:
    condition = PodScheduled("False", "Unschedulable", "0/13 nodes are available. Hint: 2 of 4 would fit now.", None)
    found = explanation.of_pod(simulator.load(saved), PendingPod(b.pod("p", "c"), condition), is_live=True)
    first, moves = explanation_output.document(found)["hints"]
    assert first.startswith("3 of 4 would fit now; ")
    assert moves.startswith("dovetail repair plan --for pod/default/p ")


def test_fewer_devices_are_told_once(saved: Path) -> None:
    """The change says it, so that neither a hint nor the condition of now repeats it."""
    hint = "3 of 4 would fit now; to ask for so many, write a new claim, as a claim cannot be changed"
    message = f"0/13 nodes are available. Hint: {hint}. request gpus: needs 4."
    condition = PodScheduled("False", "Unschedulable", message, None)
    found = explanation.of_pod(simulator.load(saved), PendingPod(b.pod("p", "c"), condition), is_live=True)
    to = io.StringIO()

    explanation_output.show(found, to)

    text = to.getvalue()
    assert text.count("3 instead of 4 for request gpus") == 1
    assert "would fit now" not in text
    assert "PodScheduled=False (Unschedulable): 0/13 nodes are available. request gpus: needs 4." in text
    assert explanation_output.document(found)["condition"]["message"] == message


@pytest.mark.parametrize(("free", "is_named"), [(2, False), (4, True)])
def test_moves_are_named_only_where_enough_devices_are_free_in_all(
    tmp_path: Path, capsys: Capture, *, free: int, is_named: bool
) -> None:
    """Two nodes of four devices each, on which running pods hold all but some."""
    held = [(f"h{node}{number}", node, number) for node in ("n1", "n2") for number in range(4 - free // 2)]
    path = save(
        tmp_path / "case.json",
        *(each for node in ("n1", "n2") for each in (b.node(node), b.gpu_slice(node, count=4))),
        *(b.held(name, b.result("gpu", f"gpu-{number}", node)) for name, node, number in held),
        b.gpu_class(),
        b.claim("c", b.request("gpus", count=4)),
        pods=(b.pod("p", "c"),),
    )

    assert m.run("explain", "p", "--snapshot", path) == 1

    text = capsys.readouterr().out
    assert "now held by" in text
    assert ("dovetail repair plan --for pod/default/p looks for moves that make room" in text) == is_named


def test_a_pod_whose_scheduler_is_misspelt_waits_whatever_a_decision_would_say(tmp_path: Path) -> None:
    asked = simulator.load(save(tmp_path / "case.json", b.node("n1"), pods=(b.pod("p"),)))
    said = unserved("dovetial", default().scheduler_names)
    found = explanation.of_pod(asked, PendingPod(b.pod("p"), None), is_live=True)._replace(unserved=said)
    to = io.StringIO()
    explanation_output.show(found, to)
    assert found.waits
    assert " ".join(to.getvalue().split()).startswith(
        f"Pod default/p waits: {said}. With that name it would be placed on node n1."
    )
    assert explanation_output.document(found)["unserved"] == said


def test_where_no_scheduler_runs_a_pod_waits_for_one(tmp_path: Path) -> None:
    asked = simulator.load(save(tmp_path / "case.json", b.node("n1"), pods=(b.pod("p"),)))
    found = explanation.of_pod(asked, PendingPod(b.pod("p"), None), is_live=True)
    idle, to = found._replace(idle=NO_SCHEDULER), io.StringIO()
    explanation_output.show(idle, to)
    said = "Pod default/p waits: no Dovetail runs. Once one runs it would be placed on node n1."
    assert " ".join(to.getvalue().split()).startswith(said)
    assert explanation_output.document(idle) == explanation_output.document(found)


MADE = replace(b.pod("web-7f-abc"), controller=Controller(kind="ReplicaSet", uid="rs"))
KNOWN = KnownObjects(
    (b.pod("trainer"), MADE, b.member(b.pod("x"), "team"), b.pod("lonely", namespace="blue")),
    (("default", "group"),),
    frozenset({"default", "blue"}),
)


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "said"),
    [
        pytest.param(TargetKind.POD, "trianer", "default", "does not exist: did you mean trainer?", id="typo"),
        pytest.param(
            TargetKind.POD, "web", "default", "but pods with names that begin so: web-7f-abc", id="a Deployment"
        ),
        pytest.param(TargetKind.POD, "lonely", "default", "one of its name is in namespace blue", id="elsewhere"),
        pytest.param(TargetKind.POD, "p", "bleu", "namespace bleu does not exist: did you mean blue?", id="namespace"),
        pytest.param(TargetKind.POD, "zzz", "default", "pod default/zzz does not exist", id="nothing near"),
        pytest.param(TargetKind.POD_GROUP, "zzz", "default", "gang default/zzz does not exist, and no pod", id="gang"),
        pytest.param(TargetKind.POD_GROUP, "zzz", "default", "gangs of the namespace: group, team", id="gangs"),
        pytest.param(TargetKind.POD_GROUP, "teem", "default", "did you mean team?", id="a gang's typo"),
        pytest.param(TargetKind.POD_GROUP, "x", "blue", "there is none in it", id="no gang"),
    ],
)
def test_of_what_does_not_exist_what_is_near_is_named(kind: TargetKind, name: str, namespace: str, said: str) -> None:
    assert said in absent(Target(kind, namespace, name), KNOWN)


@pytest.mark.parametrize(
    ("target", "forbidden", "said"),
    [
        (Target(TargetKind.POD, "default", "trianer"), (), "pod default/trianer does not exist: did you mean trainer?"),
        (Target(TargetKind.POD, "default", "trainer"), (), ""),
        (Target(TargetKind.POD, "default", "trianer"), ("pods",), ""),
        (Target(TargetKind.POD, "bleu", "p"), (), "namespace bleu does not exist: did you mean blue?"),
        (Target(TargetKind.CLAIM, "default", "x"), (), "resourceclaim default/x does not exist"),
        (Target(TargetKind.NAMESPACE, "", "bleu"), (), "namespace bleu does not exist: did you mean blue?"),
        (Target(TargetKind.NAMESPACE, "", "blue"), (), ""),
    ],
)
def test_of_a_live_cluster_only_what_may_be_listed_does_not_exist(
    target: Target, forbidden: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = (Change(kind=Kind.PODS, key=str(pod.id), value=pod) for pod in KNOWN.pods if "pods" not in forbidden)
    namespaces = (Change(kind=Kind.NAMESPACES, key=name, value=None) for name in KNOWN.namespaces)
    listed = live_cluster.ClusterObjects((*pods, *namespaces), forbidden=forbidden)
    monkeypatch.setattr(live_cluster, "fetch", lambda *_: listed)
    assert absence(target, object()) == said  # type: ignore[arg-type]
