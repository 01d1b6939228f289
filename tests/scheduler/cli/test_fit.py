"""`dovetail fit`: whether the pods of a file start now, how many of them, and what has to change for more."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import Configuration
from scheduler.settings.scheduler_names import NO_SCHEDULER, PAUSED
from scheduler.simulation import fitting, simulator
from solver.domain import ReasonCode
from solver.problem.devices import inventory_builder
from tests.scheduler.cli.test_explain_command import reserved
from tests.scheduler.cli.test_repair_plan import runs
from tests.scheduler.cli.test_simulated_preemption import CONFIG
from tests.support import manifests as m
from tests.support.calls import counted

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Two nodes of two devices each; a pod with a controller holds one device of each."""
    objects: list[m.Manifest] = [m.device_class(), m.template()]
    for name, node in (("small", "n1"), ("other", "n2")):
        objects += [m.node(node), m.slice_of(node), *runs(name, node, "gpu-0")]
    return m.write_json(tmp_path / "cluster.json", objects)


def fit(
    folder: Path, cluster: Path, capsys: Capture, *manifests: m.Manifest, count: str = "", config: str = ""
) -> tuple[int, Any]:
    file, settings = m.write_yaml(folder / "pods.yaml", *manifests), folder / "config.yaml"
    settings.write_text(config, encoding="utf-8")
    asked = (*(("--count", count) if count else ()), *(("--config", settings) if config else ()))
    status = m.run("fit", "-f", file, "--cluster", cluster, "-o", "json", *asked)
    return status, json.loads(capsys.readouterr().out)


def deployment(replicas: int, pod: m.Manifest) -> m.Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "template": {"spec": pod["spec"]}},
    }


def test_what_is_read_of_the_cluster_is_prepared_once(
    tmp_path: Path, cluster: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others that wait, the pods of the file, and the copies are solved one after the other."""
    built = counted(monkeypatch, inventory_builder, "build_inventory")
    waiting = m.pod("waiting", template_name="t", priority=7)
    objects = [*json.loads(cluster.read_text())["items"], waiting]
    both = m.write_json(tmp_path / "both.json", objects)

    status, found = fit(tmp_path, both, capsys, m.pod("new", template_name="t"), count="max")

    assert (status, found["count"]["copies"]) == (0, 1)
    assert [len(nodes) for nodes in built].count(2) == 1, "that of both nodes; counting copies has those of one node"


def test_pods_that_start_now(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    status, found = fit(tmp_path, cluster, capsys, m.pod("new", template_name="t"))

    assert (status, found["fits"], found["moves"], found["changes"]) == (0, True, None, [])
    assert [each["pod"] for each in found["plan"]["placements"]] == ["default/new"]


def test_a_pod_that_starts_after_a_move(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    status, found = fit(tmp_path, cluster, capsys, m.template("two", count=2), m.pod("big", template_name="two"))

    assert (status, found["fits"]) == (1, False)
    (move,) = found["moves"]
    assert {move["from"], move["to"]} == {"n1", "n2"}


def test_a_pod_that_starts_after_an_eviction(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    urgent = m.pod("urgent", template_name="two", priority=1000)

    status, found = fit(tmp_path, cluster, capsys, m.template("two", count=2), urgent, config=CONFIG)

    assert (status, found["moves"], found["changes"]) == (1, None, [])
    assert len(found["plan"]["preemptions"][0]["victims"]) == 1


def test_a_pod_for_which_another_has_to_go(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    status, found = fit(tmp_path, cluster, capsys, deployment(3, m.pod("x", template_name="t")))

    assert status == 1
    assert len(found["plan"]["placements"]) == 2
    assert found["changes"][0]["message"] in {
        "1 more free device, now held by default/small",
        "1 more free device, now held by default/other",
    }


def test_no_pod_of_the_file_has_to_go(tmp_path: Path, capsys: Capture) -> None:
    empty = m.write_json(tmp_path / "empty.json", [m.device_class(), m.template(), m.node(), m.slice_of()])

    status, found = fit(tmp_path, empty, capsys, deployment(3, m.pod("x", template_name="t")))

    assert (status, found["changes"]) == (1, [])


def test_how_many_replicas_fit(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    status, found = fit(tmp_path, cluster, capsys, deployment(3, m.pod("x", template_name="t")), count="max")

    assert (status, found["fits"]) == (0, True)
    assert found["count"] == {
        "copies": 2,
        "running": 0,
        "podsPerCopy": 1,
        "atMost": 2,
        "proven": True,
        "quota": None,
    }


def of_deployment(cluster: Path, *nodes: str) -> tuple[Path, m.Manifest]:
    """A cluster in which a Deployment has a pod on each of some nodes, and the Deployment."""
    web = deployment(3, m.pod("x", template_name="t"))
    objects = json.loads(cluster.read_text())["items"]
    for number, node in enumerate(nodes):
        name = f"web-6b7f9c-{number}abcd"
        pod, claim = runs(name, node, "gpu-1")
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
        pod["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
        of_pod = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
        claim["metadata"] |= {
            "ownerReferences": [of_pod],
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
        }
        pod["metadata"]["labels"] = {"pod-template-hash": "6b7f9c"}
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6b7f9c", "uid": "rs", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
        objects += [pod, claim]
    path = cluster.parent / "deployed.json"
    return m.write_json(path, objects), web


def test_pods_of_the_file_that_run_keep_their_places(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    deployed, web = of_deployment(cluster, "n1")
    file = m.write_yaml(tmp_path / "pods.yaml", web)

    assert m.run("fit", "-f", file, "--cluster", deployed, "--count", "max") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("1 of these runs already; 1 more would start now.\n")
    assert "decided anew" not in printed.err

    status, found = fit(tmp_path, deployed, capsys, web, count="2")
    assert (status, found["count"]["copies"], found["count"]["running"], found["count"]["atMost"]) == (0, 2, 1, None)
    assert fit(tmp_path, deployed, capsys, web, count="3")[0] == 1
    assert m.run("fit", "-f", file, "--cluster", deployed, "--count", "1") == 0
    assert capsys.readouterr().out.startswith("1 of these runs already; more were not counted.\n")

    assert m.run("fit", "-f", file, "--cluster", deployed) == 1
    assert "1 of these runs already. It does not fit: 1 of 2 pods would start now" in capsys.readouterr().out


def test_where_all_pods_of_the_file_run_none_is_decided(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    deployed, web = of_deployment(cluster, "n1", "n2")
    web["spec"]["replicas"] = 2
    file = m.write_yaml(tmp_path / "pods.yaml", web)
    assert m.run("fit", "-f", file, "--cluster", deployed) == 0
    assert capsys.readouterr().out.startswith("2 of these run already, and no other pod is in the file.\n")
    assert m.run("fit", "-f", file, "--cluster", deployed, "--count", "max") == 0
    assert "2 of these run already; no more would start now." in capsys.readouterr().out


def test_pods_of_a_file_that_was_changed_are_decided_anew(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    deployed, web = of_deployment(cluster, "n1", "n2")
    container = web["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {**container.get("resources", {}), "requests": {"cpu": "7"}}
    file = m.write_yaml(tmp_path / "pods.yaml", web)
    m.run("fit", "-f", file, "--cluster", deployed, "--count", "max")
    printed = capsys.readouterr()
    assert "decided anew" in printed.err
    assert "already" not in printed.out


@pytest.mark.parametrize(("count", "status"), [("2", 0), ("3", 1)])
def test_a_number_of_copies(count: str, status: int, tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    assert fit(tmp_path, cluster, capsys, m.pod("new", template_name="t"), count=count)[0] == status


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ("1", ("1 pod would start now; more were not counted.", None, False)),
        ("2", ("2 pods would start now; more were not counted.", None, False)),
        ("3", ("2 pods would start now; no more would.", 2, True)),
    ],
)
def test_nothing_is_said_of_more_copies_than_asked_for(
    count: str, expected: tuple[str, int | None, bool], tmp_path: Path, cluster: Path, capsys: Capture
) -> None:
    _, found = fit(tmp_path, cluster, capsys, m.pod("new", template_name="t"), count=count)
    m.run("fit", "-f", tmp_path / "pods.yaml", "--cluster", cluster, "--count", count)

    sentence = capsys.readouterr().out.splitlines()[0]
    assert (sentence, found["count"]["atMost"], found["count"]["proven"]) == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([m.pod("none", nodeSelector={"no": "node"})], "No pod would start now."),
        (
            [m.pod("none", nodeSelector={"no": "node"}), m.pod("gpu", template_name="t")],
            "No copy of 2 pods would start now.",
        ),
        (
            [m.pod("gpu", template_name="t"), m.pod("more", template_name="t", tolerations=[{"operator": "Exists"}])],
            "1 copy of 2 pods would start now; no more would.",
        ),
    ],
)
def test_the_count_in_a_sentence(
    pods: list[m.Manifest], expected: str, tmp_path: Path, cluster: Path, capsys: Capture
) -> None:
    fit(tmp_path, cluster, capsys, *pods)
    m.run("fit", "-f", tmp_path / "pods.yaml", "--cluster", cluster, "--count", "max")

    assert capsys.readouterr().out.splitlines()[0] == expected


def test_a_cluster_that_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    file, gone = m.write_yaml(tmp_path / "pods.yaml", m.pod("new")), tmp_path / "gone.yaml"

    assert m.run("fit", "-f", file, "--cluster", gone) == 2
    printed = capsys.readouterr()
    assert f"{gone}: cannot be read: No such file or directory" in printed.err
    assert printed.out == ""


def test_objects_without_a_namespace_are_in_that_of_the_option(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    here = m.write_yaml(tmp_path / "pods.yaml", m.template(), deployment(2, m.pod("new", template_name="t")))
    assert m.run("fit", "-f", here, "--cluster", cluster, "-n", "team", "-o", "json") == 0
    placed = json.loads(capsys.readouterr().out)["plan"]["placements"]
    assert {each["pod"] for each in placed} == {"team/web-0", "team/web-1"}


def test_an_object_of_another_namespace_than_that_of_the_option(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    other = m.write_yaml(tmp_path / "pods.yaml", m.template() | {"metadata": {"name": "t", "namespace": "other"}})
    assert m.run("fit", "-f", other, "--cluster", cluster, "-n", "team") == 2
    printed = capsys.readouterr()
    assert "ResourceClaimTemplate other/t): metadata.namespace: is other, and -n is team" in printed.err
    assert printed.out == ""


def test_different_pods_are_counted_together(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    pods = (m.pod("gpu", template_name="t"), m.pod("cpu"))

    _, found = fit(tmp_path, cluster, capsys, *pods, count="max")

    assert (found["count"]["copies"], found["count"]["podsPerCopy"]) == (2, 2)


def test_waiting_pods_of_no_lower_priority_go_first_and_others_do_not(
    tmp_path: Path, cluster: Path, capsys: Capture
) -> None:
    objects = json.loads(cluster.read_text())["items"]
    waiting = [m.pod(f"w{number}", template_name="t", priority=number) for number in (0, 5)]
    m.write_json(cluster, [*objects, *waiting])

    _, equal = fit(tmp_path, cluster, capsys, m.pod("new", template_name="t", priority=0), count="max")
    _, higher = fit(tmp_path, cluster, capsys, m.pod("new", template_name="t", priority=1), count="max")

    assert (equal["count"]["copies"], equal["fits"]) == (0, False)
    assert (higher["count"]["copies"], higher["fits"]) == (1, True)


def test_the_status_is_about_the_pods_of_the_file(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    objects = json.loads(cluster.read_text())["items"]
    hopeless = m.pod("hopeless", template_name="nine")
    m.write_json(cluster, [*objects, m.template("nine", count=9), hopeless])

    status, found = fit(tmp_path, cluster, capsys, m.pod("new", template_name="t"))

    assert (status, found["plan"]["unplaced"]) == (0, [])


@pytest.mark.parametrize("count", ["0", "many", "-1", "9" * 5000])
def test_what_is_no_count(count: str, cluster: Path, capsys: Capture) -> None:
    assert m.run("fit", "-f", cluster, "--cluster", cluster, f"--count={count}") == 2
    assert capsys.readouterr().err == f"dovetail: fit: --count {count}: write max, or a number from 1 to 999999999\n"


def test_only_pods_that_cannot_be_counted_are_refused(
    cluster: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a defect")

    file = m.write_yaml(tmp_path / "pods.yaml", m.pod("new", template_name="t"))
    monkeypatch.setattr(fitting, "fit", fail)

    assert m.run("fit", "-f", file, "--cluster", cluster) == 70
    assert "This is a defect of Dovetail" in capsys.readouterr().err


def test_files_without_a_pod_to_place(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    file = m.write_yaml(tmp_path / "pods.yaml", m.template("two", count=2))

    assert m.run("fit", "-f", file, "--cluster", cluster) == 2
    assert capsys.readouterr().err == f"dovetail: fit: {file}: no pod waits for scheduler dovetail\n"


def test_a_reserved_node_is_left_to_the_pod_that_it_is_reserved_for(tmp_path: Path) -> None:
    asked = simulator.load(reserved(tmp_path / "case.json"))
    own = frozenset(pod.id for pod in asked.batch.pods if pod.id.name == "one")
    found = fitting.fit(asked, own, 5)
    assert not found.fits(1)
    assert found.copies is not None
    assert found.copies.bound == 0
    assert found.result.plan.unplaced[0].reasons[0].code is ReasonCode.NODE_RESERVED

    free = replace(asked, batch=replace(asked.batch, node_reservations=(), overdue=()))
    assert fitting.fit(free, own, 5).fits(1)


def test_the_table_says_it_in_a_sentence_first(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    file = m.write_yaml(tmp_path / "pods.yaml", m.template("two", count=2), m.pod("big", template_name="two"))
    m.run("fit", "-f", file, "--cluster", cluster)

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "It does not fit: 0 of 1 pod would start now."
    assert "All of them fit after these moves (dovetail repair plan makes them one by one):" in lines


@pytest.mark.parametrize("idle", [NO_SCHEDULER, PAUSED])
def test_where_no_scheduler_decides_no_pod_starts_and_the_answer_supposes_one(
    idle: str, cluster: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Configuration, "idle", idle)
    file = m.write_yaml(tmp_path / "pods.yaml", m.pod("new", template_name="t"))

    assert m.run("fit", "-f", file, "--cluster", cluster) == ExitStatus.NO
    said = capsys.readouterr().out.splitlines()[0]
    assert said == f"No pod would start: {idle}: It fits: 1 pod would start now."

    assert m.run("fit", "-f", file, "--cluster", cluster, "--scheduler-name", "dovetail") == ExitStatus.OK
    assert capsys.readouterr().out.splitlines()[0] == "It fits: 1 pod would start now."


def test_a_change_for_a_gang_starts_all_of_it(tmp_path: Path, capsys: Capture) -> None:
    """One device more on n0 lets one of two pods in: that starts nothing, and is not offered."""
    objects: list[m.Manifest] = [m.device_class(), m.template(count=4)]
    for node, held in (("n0", 1), ("n1", 4)):
        pod, claim = runs(f"u-{node}", node, "gpu-0")
        results = claim["status"]["allocation"]["devices"]["results"]
        results += [{**results[0], "device": f"gpu-{number}"} for number in range(1, held)]
        claim["spec"] = m.claim_spec(held)
        objects += [m.node(node), m.slice_of(node, count=4), pod, claim]
    cluster = m.write_json(tmp_path / "cluster.json", objects)
    pods = [m.pod(f"tr-{number}", template_name="t") for number in range(2)]
    for pod in pods:
        pod["metadata"] |= {"labels": {"dovetail.dev/gang": "tr"}, "annotations": {"dovetail.dev/gang-minimum": "2"}}
    file = m.write_yaml(tmp_path / "pods.yaml", *pods)

    assert m.run("fit", "-f", file, "--cluster", cluster) == 1

    out = capsys.readouterr().out
    assert "Gang default/tr would start after one of these, made in all its waiting pods (each was checked):" in out
    assert "→ when default/u-n0, default/u-n1 end: they hold 5 of the 8 matching devices" in out
    assert "→ 1 instead of 4 for request" in out
    assert "would fit now" not in out
    assert "1 more free device" not in out


def test_a_file_that_is_missing_is_said_once(cluster: Path, tmp_path: Path, capsys: Capture) -> None:
    assert m.run("fit", "-f", tmp_path / "nosuch.yaml", "--cluster", cluster) == 2
    error = capsys.readouterr().err
    assert "nosuch.yaml" in error
    assert error.count("\n") == 1


def test_nodes_are_added_for_the_pods_that_do_not_run(tmp_path: Path, cluster: Path, capsys: Capture) -> None:
    """One runs, one has a free device, and one needs a node: none is asked for the pod that is counted."""
    deployed, web = of_deployment(cluster, "n1")
    file = m.write_yaml(tmp_path / "pods.yaml", web)
    assert m.run("fit", "-f", file, "--cluster", deployed, "--add-nodes", "-o", "json") == 0
    printed = capsys.readouterr().out
    assert len(json.loads(printed)["nodes"]) == 1
    assert "~more" not in printed
    web["spec"]["replicas"] = 1
    m.write_yaml(file, web)
    assert m.run("fit", "-f", file, "--cluster", deployed, "--add-nodes") == 0
    told = capsys.readouterr()
    assert (told.out, "all pods of the file run already" in told.err) == ("", True)
    others = [m.pod(f"other{number}", template_name="t") for number in range(3)]
    m.write_json(deployed, [*json.loads(deployed.read_text())["items"], *others])
    assert m.run("fit", "-f", file, "--cluster", deployed, "--add-nodes", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["starts"], found["nodes"]) == ("AddedNodes", True, []), "no node for other pods"
    assert found["plan"]["placements"] == []
