"""`dovetail repair plan`: the fewest moves, from manifests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m

OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}]


def runs(name: str, node: str, device: str) -> list[m.Manifest]:
    """A pod with a controller on a node, and the claim that it holds a device by."""
    pod = m.pod(name, claim_name=f"{name}-gpu", nodeName=node)
    pod["metadata"] |= {"uid": f"uid-{name}", "ownerReferences": OWNER}
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": node, "device": device}
    status = {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [selector]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
    }
    claim = m.claim(f"{name}-gpu", status=status)
    claim["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    return [pod, claim]


@pytest.fixture
def fragmented(tmp_path: Path) -> Path:
    """Two nodes of two devices, one of each in use, and a pod that wants two of one node."""
    objects: list[Any] = [m.device_class(), m.template("two", count=2), m.pod("large", template_name="two")]
    for number in (1, 2):
        objects += [m.node(f"n{number}"), m.slice_of(f"n{number}"), *runs(f"small-{number}", f"n{number}", "gpu-0")]
    return m.write_json(tmp_path / "cluster.json", objects)


def test_the_plan_is_printed(fragmented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = m.run("repair", "plan", "--for", "pod", "default/large", "-f", fragmented)

    shown = capsys.readouterr().out
    assert status == 0
    assert "1 move (proven: it cannot be done with fewer)." in shown
    assert "default/small-" in shown


def test_the_plan_as_json(fragmented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run("repair", "plan", "--for", "pod", "large", "-f", fragmented, "-o", "json") == 0

    answer = json.loads(capsys.readouterr().out)
    (move,) = answer["moves"]
    assert answer["for"] == ["default/large"]
    assert (answer["found"], answer["proven"], answer["least"], answer["stepwise"]) == (True, True, 1, True)
    assert answer["placements"] == [{"pod": "default/large", "node": move["from"]}]
    assert {move["from"], move["to"]} == {"n1", "n2"}


def test_no_plan_is_no_success(fragmented: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    more = [*runs("more-1", "n1", "gpu-1"), *runs("more-2", "n2", "gpu-1")]
    other = m.write_json(tmp_path / "more.json", more)

    assert m.run("repair", "plan", "--for", "pod", "large", "-f", fragmented, other) == 1
    assert "No plan: no moves make enough room (proven)." in capsys.readouterr().out


def test_an_unknown_object_is_named(fragmented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wanted, message in (
        (("n1",), "pod default/n1 neither waits for this scheduler nor runs. Did you mean node/n1?"),
        (("pod", "nobody"), "pod default/nobody neither waits for this scheduler nor runs"),
        (("gang", "large"), "gang default/large neither waits for this scheduler nor runs"),
        (("node", "n9"), "there is no node n9\n"),
        (("node", "n11"), "there is no node n11: did you mean n1?"),
        (("domain", "rack=a"), "no node has the label rack=a"),
        (("domain", "rack"), "'domain rack' names no domain: write domain LABEL=VALUE"),
        (("namespace", "team"), "this command takes pod/NAME"),
    ):
        assert m.run("repair", "plan", "--for", *wanted, "-f", fragmented) == 2
        assert message in capsys.readouterr().err


def test_a_pod_on_devices_that_work_has_nowhere_to_go(fragmented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run("repair", "plan", "--for", "pod", "small-1", "-f", fragmented) == 0
    assert "Nothing to do: no pod of pod default/small-1 has to move." in capsys.readouterr().out


def test_a_pod_leaves_a_tainted_device(fragmented: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    selector = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    rule = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "broken"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }
    more = m.write_json(tmp_path / "rule.json", [rule])

    assert m.run("repair", "plan", "--for", "pod", "small-1", "-f", fragmented, more, "-o", "json") == 0

    answer = json.loads(capsys.readouterr().out)
    (move,) = answer["moves"]
    assert (answer["goal"], answer["for"], answer["least"]) == ("Devices", ["default/small-1"], 1)
    assert (move["pod"], move["from"], move["step"]) == ("default/small-1", "n1", 1)
    assert move["devices"][0] != "gpu.example.com/n1/gpu-0"
    assert m.run("repair", "plan", "--for", "pod", "small-1", "-f", fragmented, more) == 0
    assert (move["to"] == "n1") == ("n1 (another device)" in capsys.readouterr().out)


@pytest.mark.parametrize("wanted", [("node", "n1"), ("domain", "kubernetes.io/hostname=n1")])
def test_a_node_is_emptied(fragmented: Path, capsys: pytest.CaptureFixture[str], wanted: tuple[str, str]) -> None:
    assert m.run("repair", "plan", "--for", *wanted, "-f", fragmented) == 0

    shown = capsys.readouterr().out
    assert "default/small-1" in shown
    assert "1 move (proven: it cannot be done with fewer)." in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """Two nodes of two devices: `a` and `b` run on the first, `c` on the second, and each driver has a `gpu-0`."""
    objects: list[Any] = [m.device_class(), m.node("n1"), m.slice_of("n1"), m.node("n2"), m.slice_of("n2")]
    nic = m.slice_of("n2")
    nic["metadata"]["name"], nic["spec"]["driver"] = "n2-nic", "nic.example.com"
    objects += [nic, *runs("a", "n1", "gpu-0"), *runs("b", "n1", "gpu-1"), *runs("c", "n2", "gpu-0")]
    return m.write_json(tmp_path / "cluster.json", objects)


def test_what_would_leave_a_device_that_is_to_go(used: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run("repair", "plan", "--for", "device", "n1/gpu-0", "-f", used, "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    (move,) = answer["moves"]
    assert (answer["goal"], answer["subject"], answer["for"]) == ("Devices", "device n1/gpu-0", ["default/a"])
    assert (move["to"], move["devices"]) == ("n2", ["gpu.example.com/n2/gpu-1"])

    assert m.run("repair", "plan", "--for", "device/gpu.example.com/n2/gpu-0", "-f", used) == 0
    assert "n2 (another device)" in capsys.readouterr().out
    assert m.run("repair", "plan", "--for", "device/gpu.example.com/n2/gpu-1", "-f", used) == 0
    said = "Nothing to do: no pod of device gpu.example.com/n2/gpu-1 has to move.\n"
    assert capsys.readouterr().out == said


def test_what_becomes_of_pods_without_another_place(
    used: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, held = runs("bare", "n2", "gpu-1")
    del bare["metadata"]["ownerReferences"]
    more = m.write_json(tmp_path / "more.json", [bare, held])
    lost = "If it is lost all the same: "
    for words, ending in (
        (("device", "n1/gpu-0"), f"{lost}the successor of 1 pod would wait.\n"),
        (("device", "gpu.example.com/n2/gpu-1"), f"{lost}1 pod would be gone for good.\n"),
        (("node", "n2"), f"{lost}the successor of 1 pod would wait, 1 pod would be gone for good.\n"),
    ):
        assert m.run("repair", "plan", "--for", *words, "-f", used, more) == 1
        shown = capsys.readouterr().out
        assert shown.startswith(f"{' '.join(words)} cannot be emptied: 0 of ")
        assert shown.endswith(ending)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("device", "n2/gpu-0"), "n2/gpu-0 may be device gpu.example.com/n2/gpu-0 or device nic.example.com/n2/gpu-0"),
        (("device", "n1/gpu-9"), "there is no device n1/gpu-9: did you mean n1/gpu-"),
        (("device", "n1/"), "names no device: write device NODE/NAME or device DRIVER/POOL/NAME"),
        (("node", "n1/gpu-0"), "names no node: write node/NAME; device/n1/gpu-0 is a device"),
    ],
)
def test_a_device_has_to_be_named_by_where_it_is(
    words: tuple[str, str], said: str, used: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert m.run("repair", "plan", "--for", *words, "-f", used) == 2
    assert said in capsys.readouterr().err


def test_commands_that_take_no_device_name_the_one_that_does(capsys: pytest.CaptureFixture[str], used: Path) -> None:
    assert m.run("devices", "device/n1/gpu-0", "-f", used) == 2
    assert "`dovetail repair plan --for device/n1/gpu-0` says" in capsys.readouterr().err


def test_moves_of_running_pods_are_not_made_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run("repair", "plan") == 2
    assert "repair: plan needs --for" in capsys.readouterr().err


def test_the_old_name_warns(fragmented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run("defrag", "--for", "pod", "large", "-f", fragmented) == 0

    shown = capsys.readouterr()
    assert "`dovetail defrag` is now `dovetail repair plan`" in shown.err
    assert "1 move" in shown.out


def test_manifests_cannot_be_moved(fragmented: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert m.run("repair", "plan", "--for", "pod", "large", "-f", fragmented, "--apply") == 2
    assert "--apply moves pods of a live cluster" in capsys.readouterr().err


def member(name: str, template: str, **labelled: str) -> m.Manifest:
    """A pod of the gang `g` of two, by our own label."""
    pod = m.pod(name, template_name=template, schedulerName=labelled.pop("scheduler", "dovetail"))
    pod["metadata"] |= {
        "labels": {"dovetail.dev/gang": "g"} | labelled,
        "annotations": {"dovetail.dev/gang-minimum": "2"},
    }
    return pod


@pytest.mark.parametrize("scheduler", ["dovetail", "other"])
def test_a_gang_gets_all_the_moves_that_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scheduler: str
) -> None:
    objects: list[Any] = [m.device_class(), m.template("two", count=2)]
    objects += [member(f"member-{number}", "two", scheduler=scheduler) for number in range(2)]
    for number in range(4):
        objects += [m.node(f"n{number}"), m.slice_of(f"n{number}")]
        pod, claim = runs(f"small-{number}", f"n{number}", "gpu-0")
        pod["spec"]["schedulerName"] = scheduler
        objects += [pod, claim]
    path = m.write_json(tmp_path / "gang.json", objects)

    asked = ("repair", "plan", "--for", "gang", "g", "-f", path, "-o", "json")
    assert m.run(*asked, *(("--scheduler-name", scheduler) if scheduler == "other" else ())) == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["for"] == ["default/member-0", "default/member-1"]
    assert (len(answer["moves"]), answer["proven"], len(answer["placements"])) == (2, True, 2)
    assert len({each["node"] for each in answer["placements"]}) == 2


def group(name: str, policy: m.Manifest) -> m.Manifest:
    """A PodGroup as the Job controller makes one."""
    spec = {"schedulingPolicy": policy, "disruptionMode": {"single": {}}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "PodGroup", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("policy", "moves"), [({"basic": {}}, 1), ({"gang": {"minCount": 1}}, 0)], ids=["basic", "gang"]
)
def test_pods_of_jobs_make_room_unless_they_are_gangs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: m.Manifest, moves: int
) -> None:
    objects: list[Any] = [m.device_class(), m.template("two", count=2), m.pod("large", template_name="two")]
    for number in (1, 2):
        pod, claim = runs(f"small-{number}", f"n{number}", "gpu-0")
        pod["metadata"]["labels"] = {"batch.kubernetes.io/job-name": f"job-{number}"}
        pod["spec"]["schedulingGroup"] = {"podGroupName": f"job-{number}-pgt-0"}
        objects += [m.node(f"n{number}"), m.slice_of(f"n{number}"), pod, claim, group(f"job-{number}-pgt-0", policy)]
    path = m.write_json(tmp_path / "jobs.json", objects)

    assert m.run("repair", "plan", "--for", "pod", "large", "-f", path, "-o", "json") == (0 if moves else 1)

    answer = json.loads(capsys.readouterr().out)
    assert (len(answer["moves"]), answer["proven"]) == (moves, True)
    assert [each["reason"] for each in answer["staying"]] == (
        [] if moves else [f"it belongs to gang default/job-{number}-pgt-0 of Job job-{number}" for number in (1, 2)]
    )


def test_a_gang_that_cannot_be_whole_gets_no_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects: list[Any] = [m.device_class(), m.template("two", count=2)]
    objects += [member(f"member-{number}", "two") for number in range(2)]
    for number in range(2):
        objects += [m.node(f"n{number}"), m.slice_of(f"n{number}"), *runs(f"small-{number}", f"n{number}", "gpu-0")]
    path = m.write_json(tmp_path / "gang.json", objects)

    assert m.run("repair", "plan", "--for", "gang", "default/g", "-f", path) == 1
    assert "No plan" in capsys.readouterr().out


def test_a_saved_plan_is_found_again_by_replay(
    fragmented: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    assert m.run("repair", "plan", "--for", "pod", "large", "-f", fragmented, "-o", "json", "--save", saved) == 0
    planned = json.loads(capsys.readouterr().out)

    assert m.run("replay", saved, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == planned


def test_a_replay_says_that_other_moves_were_saved(
    fragmented: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    m.run("repair", "plan", "--for", "pod", "large", "-f", fragmented, "--save", saved)
    record = json.loads(saved.read_text())
    record["repair"]["found"]["moves"] = []
    saved.write_text(json.dumps(record))

    assert m.run("replay", saved) == 1
    assert "the moves are others than those that were saved" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused(
    fragmented: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert m.run("repair", "plan", "--for", "pod", "large", "-f", fragmented, "--save", tmp_path / "no" / "file") == 2
    assert "--save: " in capsys.readouterr().err
