"""`dovetail simulate` and `dovetail replay` as the command line has them: outputs, exit statuses, messages."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.fleet.fleets import demo_fleet
from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A node with two devices, their class, and a template."""
    return m.write_yaml(tmp_path / "cluster.yaml", m.node(), m.slice_of(), m.device_class(), m.template())


def answer(capsys: Capture, *arguments: str | Path) -> tuple[int, Any, str]:
    """Exit status, JSON and standard error."""
    status = m.run("simulate", "-o", "json", *arguments)
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


def test_a_pod_with_a_template_is_placed_with_a_device(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    pods = m.write_yaml(tmp_path / "pods.yaml", m.pod("p", template_name="t"))
    status, found, error = answer(capsys, "-f", cluster, pods)
    (placement,) = found["placements"]
    (claim,) = placement["claims"]
    assert (status, error, found["unplaced"]) == (0, "", [])
    assert (placement["pod"], placement["node"]) == ("default/p", "n1")
    assert claim["claim"].startswith("default/p-gpu-")
    assert claim["allocation"] == {
        "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
    }


def test_the_report_has_status_levels_and_seconds(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    pods = m.write_yaml(tmp_path / "pods.yaml", m.pod("p", template_name="t"))
    _, found, _ = answer(capsys, "-f", cluster, pods)
    assert (found.pop("apiVersion"), found.pop("kind")) == ("output.dovetail.dev/v1alpha1", "Plan")
    assert set(found) == {"placements", "unplaced", "preemptions", "report"}
    assert set(found["report"]) == {"status", "levels", "seconds"}
    assert found["report"]["status"] == "Optimal"
    assert found["report"]["levels"][0] == {"name": "placed:0", "value": 1, "bound": 1, "proven": True}
    assert found["report"]["seconds"] > 0


def test_pods_that_do_not_fit_give_status_1_and_their_reasons(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    pods = m.write_yaml(tmp_path / "pods.yaml", *(m.pod(f"p{index}", template_name="t") for index in range(3)))
    status, found, _ = answer(capsys, "-f", cluster, pods)
    assert status == 1
    assert len(found["placements"]) == 2
    (unplaced,) = found["unplaced"]
    assert unplaced["reasons"][0]["code"] == "Outranked"


def test_a_shared_claim_stands_under_every_pod(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    claim = m.claim("shared")
    pods = m.write_yaml(tmp_path / "pods.yaml", claim, m.pod("a", claim_name="shared"), m.pod("b", claim_name="shared"))
    _, found, _ = answer(capsys, "-f", cluster, pods)
    assert [[each["claim"] for each in placement["claims"]] for placement in found["placements"]] == [
        ["default/shared"],
        ["default/shared"],
    ]


def test_allocated_claims_and_running_pods_are_usage(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    held = m.claim("held", status={"allocation": {"devices": {"results": [result]}}})
    running = m.pod("running", claim_name="held", nodeName="n1")
    pods = m.write_yaml(tmp_path / "pods.yaml", held, running, m.pod("p", template_name="t"))
    status, found, error = answer(capsys, "-f", cluster, pods)
    (placement,) = found["placements"]
    assert (status, error) == (0, "")
    assert placement["claims"][0]["allocation"]["devices"]["results"][0]["device"] == "gpu-1"


def test_extended_resources_show_the_claim_that_would_be_made(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    device_class = m.device_class()
    device_class["spec"]["extendedResourceName"] = "example.com/gpu"
    container = {"name": "main", "image": "pause", "resources": {"limits": {"example.com/gpu": 2}}}
    pods = m.write_yaml(tmp_path / "pods.yaml", device_class, m.pod("p", containers=[container]))
    _, found, _ = answer(capsys, "-f", cluster, pods)
    (claim,) = found["placements"][0]["claims"]
    assert claim["claim"].startswith("default/p-extended-resources-")
    assert [each["device"] for each in claim["allocation"]["devices"]["results"]] == ["gpu-0", "gpu-1"]
    m.run("simulate", "-f", cluster, pods)
    assert "main example.com/gpu = gpu-0, gpu-1  (gpu.example.com)" in capsys.readouterr().out


def test_a_device_that_an_init_container_borrows_is_shown_with_both(
    cluster: Path, tmp_path: Path, capsys: Capture
) -> None:
    device_class = m.device_class()
    device_class["spec"]["extendedResourceName"] = "example.com/gpu"
    one = {"image": "pause", "resources": {"limits": {"example.com/gpu": 1}}}
    pod = m.pod("p", initContainers=[{"name": "prepare", **one}], containers=[{"name": "main", **one}])
    m.run("simulate", "-f", cluster, m.write_yaml(tmp_path / "pods.yaml", device_class, pod))
    assert "main, prepare example.com/gpu = gpu-0  (gpu.example.com)" in capsys.readouterr().out


def test_a_bad_manifest_is_named_and_the_others_are_decided(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    bad = m.pod("bad", containers=[{"name": 3}])
    pods = m.write_yaml(tmp_path / "pods.yaml", bad, m.pod("p", template_name="t"))
    status, found, error = answer(capsys, "-f", cluster, pods)
    assert status == 2
    assert [each["pod"] for each in found["placements"]] == ["default/p"]
    assert error == (
        f"dovetail: {pods}: document 1 (Pod default/bad): spec.containers[0].name: "
        "expected a text, got a whole number: put it in quotes\n"
    )


def test_what_is_no_yaml_is_named_by_line_and_takes_no_other(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("a: [\n---\n" + yaml.safe_dump(m.pod("p", template_name="t")), encoding="utf-8")
    status, found, error = answer(capsys, "-f", cluster, path)
    assert status == 2
    assert len(found["placements"]) == 1
    assert error.startswith(f"dovetail: {path}: document 1: not YAML: ")
    assert "at line 2" in error


def test_unknown_kinds_are_skipped_with_a_warning(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    pods = m.write_yaml(tmp_path / "pods.yaml", service, m.pod("p"))
    status, _, error = answer(capsys, "-f", cluster, pods)
    assert status == 0
    assert error == "dovetail: warning: skipped, because they decide nothing here: Service (v1)\n"


def test_pods_of_other_schedulers_are_left_out_and_said_once(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    others = [m.pod(f"o{index}", schedulerName="other") for index in range(2)]
    status, found, error = answer(capsys, "-f", cluster, m.write_yaml(tmp_path / "pods.yaml", *others))
    assert (status, found["placements"], found["unplaced"]) == (0, [], [])
    assert error == (
        "dovetail: warning: 2 pods without nodeName name another scheduler (other) than dovetail and are left out "
        "(see --scheduler-name)\n"
    )


def test_the_scheduler_name_chooses_whose_pods(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    pods = m.write_yaml(tmp_path / "pods.yaml", m.pod("a", schedulerName="other"), m.pod("b"))
    _, found, _ = answer(capsys, "-f", cluster, pods, "--scheduler-name", "other")
    assert [each["pod"] for each in found["placements"]] == ["default/a"]


def test_a_configuration_limits_what_is_owned(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
        "devices: {owned: {drivers: [other.example.com]}}\n",
        encoding="utf-8",
    )
    pods = m.write_yaml(tmp_path / "pods.yaml", m.pod("p", template_name="t"))
    status, found, _ = answer(capsys, "-f", cluster, pods, "--config", config)
    assert status == 1
    assert found["unplaced"][0]["reasons"][0]["code"] == "DevicesNotOwned"


def test_standard_input_is_read(cluster: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.BytesIO(yaml.safe_dump(m.pod("p", template_name="t")).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(text))
    status, found, _ = answer(capsys, "-f", cluster, "-f", "-")
    assert (status, len(found["placements"])) == (0, 1)


def test_yaml_says_the_same_as_json(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    pods = m.write_yaml(tmp_path / "pods.yaml", m.pod("p", template_name="t"), m.pod("q", template_name="absent"))
    _, found, _ = answer(capsys, "-f", cluster, pods)
    m.run("simulate", "-f", cluster, pods, "-o", "yaml")
    same = yaml.safe_load(capsys.readouterr().out)
    same["report"]["seconds"] = found["report"]["seconds"]
    assert same == found


def test_the_table_shows_devices_reasons_and_hints(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    pods = m.write_yaml(
        tmp_path / "pods.yaml", m.template("two", 3), m.pod("p", template_name="t"), m.pod("q", template_name="two")
    )
    assert m.run("simulate", "-f", cluster, pods) == 1
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert " p     n1      gpu = gpu-0  (gpu.example.com)" in lines
    at = next(number for number, line in enumerate(lines) if line.startswith(" q     waits   → "))
    assert any(line.strip().startswith("1 node: request gpu: needs 3 devices, 2 match") for line in lines[at:])
    assert lines[-1].startswith("1 of 2 pods placed on 1 node with 1 device; proven to be the best plan, ")


def test_pods_that_wait_for_the_same_reasons_share_a_row(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    names = ["a", *(f"p-{index}" for index in range(20)), *(f"q{index}" for index in range(0, 20, 2))]
    pods = m.write_yaml(
        tmp_path / "pods.yaml", m.template("many", 3), *(m.pod(each, template_name="many") for each in names)
    )
    m.run("simulate", "-f", cluster, pods)
    lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert lines[3][:2] == ["a", "waits"]
    assert lines[4] == ["p-0", "…", "p-19"]
    assert lines[10] == ["…", "31", "pods"]


def test_a_saved_case_gives_the_same_plan(tmp_path: Path, capsys: Capture) -> None:
    fleet = demo_fleet()
    hardware = m.write_json(tmp_path / "fleet.json", (*fleet.nodes, *fleet.classes, *fleet.slices))
    saved = tmp_path / "case.json"
    status, found, _ = answer(capsys, "-f", hardware, m.EXAMPLES, "--save", saved)
    assert m.run("replay", saved, "-o", "json") == status == 1
    again = json.loads(capsys.readouterr().out)
    again["report"]["seconds"] = found["report"]["seconds"]
    assert again == found
    assert json.loads(saved.read_bytes())["apiVersion"] == "record.dovetail.dev/v1alpha1"


@pytest.mark.parametrize(
    ("flags", "times"), [((), 0), (("--keep-parameters",), 1)], ids=["left out by default", "kept if asked"]
)
def test_opaque_parameters_are(
    flags: tuple[str, ...], times: int, cluster: Path, tmp_path: Path, capsys: Capture
) -> None:
    claim = m.claim()
    claim["spec"]["devices"]["config"] = [{"opaque": {"driver": "gpu.example.com", "parameters": {"key": "secret"}}}]
    pods = m.write_yaml(tmp_path / "pods.yaml", claim, m.pod("p", claim_name="c"))
    saved = tmp_path / "case.json"
    _, found, _ = answer(capsys, "-f", cluster, pods, "--save", saved, *flags)
    assert found["placements"][0]["claims"][0]["allocation"]["devices"]["config"][0]["opaque"]["parameters"] == {
        "key": "secret"
    }
    assert saved.read_bytes().count(b"secret") == times
    assert m.run("replay", saved, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["placements"][0]["node"] == "n1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["simulate"], "simulate: give manifests with -f FILE_OR_DIR, or --from-cluster", id="nothing"),
        pytest.param(["simulate", "-f", "/absent"], "dovetail: /absent: cannot be read: No such file", id="no file"),
        pytest.param(["simulate", "-f", "x", "-o", "xml"], "invalid choice: 'xml'", id="no such format"),
        pytest.param(["simulate", "-f", "x", "--config", "/absent"], "/absent: cannot be read", id="no configuration"),
        pytest.param(["simulate", "-f", "x", "--scheduler-name", "a b"], "'a b' is no name", id="no name"),
        pytest.param(
            ["simulate", "--from-cluster", "--kubeconfig", "/absent"],
            "simulate: /absent: no such file",
            id="no kubeconfig",
        ),
        pytest.param(["replay", "/absent"], "/absent: cannot be read: No such file", id="no saved case"),
    ],
)
def test_wrong_use_says_what_is_wrong(arguments: list[str], message: str, capsys: Capture) -> None:
    assert m.run(*arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "not a case that `dovetail simulate --save` wrote", id="no JSON"),
        pytest.param("{}", "not a case that `dovetail simulate --save` wrote", id="another JSON"),
    ],
)
def test_replay_refuses(text: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "case.json"
    path.write_text(text, encoding="utf-8")
    assert m.run("replay", path) == 2
    assert message in capsys.readouterr().err


def test_a_case_of_another_version_is_refused(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "case.json"
    answer(capsys, "-f", cluster, "--save", path)
    path.write_text(path.read_text(encoding="utf-8").replace("/v1alpha1", "/v9"), encoding="utf-8")
    assert m.run("replay", path) == 2
    assert "is a record.dovetail.dev/v9 Decision, and this version reads" in capsys.readouterr().err


def grouped(kind: str, name: str) -> m.Manifest:
    """A pod of the group `g`, by a PodGroup of one of the two sorts or by our label."""
    pod = m.pod(name, template_name="t")
    if kind == "scheduling.k8s.io":
        pod["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    elif kind == "scheduling.x-k8s.io":
        pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
    else:
        pod["metadata"] |= {"labels": {"dovetail.dev/gang": "g"}, "annotations": {"dovetail.dev/gang-minimum": "3"}}
    return pod


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        (
            "scheduling.k8s.io",
            {"apiVersion": "scheduling.k8s.io/v1beta1", "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}},
        ),
        ("scheduling.x-k8s.io", {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "spec": {"minMember": 3}}),
        ("dovetail.dev", None),
    ],
)
def test_a_gang_is_placed_whole_or_not_at_all(
    cluster: Path, tmp_path: Path, capsys: Capture, kind: str, group: Any
) -> None:
    objects = [] if group is None else [{**group, "kind": "PodGroup", "metadata": {"name": "g"}}]
    objects += [grouped(kind, f"p{index}") for index in range(3)]
    pods = m.write_json(tmp_path / "pods.json", objects)

    status, found, error = answer(capsys, "-f", cluster, pods)
    assert (status, error, found["placements"]) == (1, "", [])
    assert {reason["code"] for each in found["unplaced"] for reason in each["reasons"]} >= {"GangUnplaced"}

    more = m.write_json(tmp_path / "more.json", [m.node("n2"), m.slice_of("n2")])
    status, found, _ = answer(capsys, "-f", cluster, pods, more)
    assert (status, len(found["placements"])) == (0, 3)


@pytest.mark.parametrize(("version", "shares"), [("1.37", 2), ("1.36", 1), (None, 2)])
def test_fractional_steps_mean_what_they_mean_to_the_version(
    version: str | None, shares: int, tmp_path: Path, capsys: Capture
) -> None:
    published = m.slice_of()
    policy = {"default": "250m", "validRange": {"min": "0", "step": "250m"}}
    capacity = {"memory": {"value": "1", "requestPolicy": policy}}
    published["spec"]["devices"] = [{"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}]
    template = m.template()
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": "300m"}}
    pods = [m.pod(f"p{index}", template_name="t") for index in range(4)]
    path = m.write_yaml(tmp_path / "all.yaml", m.node(), published, m.device_class(), template, *pods)
    _, found, error = answer(capsys, "-f", path, *(("--kubernetes", version) if version else ()))
    assert error == ""
    assert len(found["placements"]) == shares
    m.run("simulate", "-f", path, *(("--kubernetes", version) if version else ()))
    assert " on 1 node with 1 device; " in capsys.readouterr().out


def test_a_cluster_has_its_own_version(capsys: Capture) -> None:
    assert m.run("simulate", "--from-cluster", "--kubernetes", "1.36") == 2
    assert "leave out --kubernetes" in capsys.readouterr().err
