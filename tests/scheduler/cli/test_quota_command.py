"""`dovetail quota` on manifests, and what `simulate`, `fit` and `explain` say of quotas."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import manifests as m

Capture = pytest.CaptureFixture[str]
SETTINGS = """
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
profiles:
  - schedulerName: dovetail
    preemption: {devices: true, reclaim: {enabled: true}}
"""


def quota(name: str, parent: str = "", team: str = "", **resource: Any) -> m.Manifest:
    spec: m.Manifest = {"resources": [{"deviceClass": "gpu", **resource}]} if resource else {"resources": []}
    if parent:
        spec["parent"] = parent
    if team:
        spec["namespaceSelector"] = {"matchLabels": {"team": team}}
    return {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DeviceQuota", "metadata": {"name": name}, "spec": spec}


def namespace(name: str) -> m.Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}


def running(name: str, team: str, device: int) -> list[m.Manifest]:
    """A pod that holds a device of the only node, and has run for long."""
    own = m.pod(name, claim_name=name, nodeName="n1")
    own["metadata"] |= {"namespace": team, "uid": f"uid-{name}"}
    own["status"] = {"phase": "Running", "startTime": f"2026-01-01T0{device}:00:00Z"}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    held = m.claim(
        name,
        status={
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": f"gpu-{device}"}
                    ]
                },
                "nodeSelector": {"nodeSelectorTerms": terms},
            },
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        },
    )
    held["metadata"] |= {
        "namespace": team,
        "uid": f"claim-{name}",
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    }
    return [own, held]


def waiting(name: str, team: str) -> list[m.Manifest]:
    own, asked = m.pod(name, claim_name=name), m.claim(name)
    own["metadata"]["namespace"] = asked["metadata"]["namespace"] = team
    return [own, asked]


QUOTAS = (
    quota("company", limit=4),
    quota("red", "company", "red", guarantee=2),
    quota("blue", "company", "blue", guarantee=1),
)


def files(folder: Path, *objects: m.Manifest, quotas: tuple[m.Manifest, ...] = QUOTAS) -> Path:
    """A node of four devices, all of them blue's."""
    held = [each for index in range(4) for each in running(f"b{index}", "blue", index)]
    known = [m.node(cpu=16), m.slice_of(count=4), m.device_class(), namespace("red"), namespace("blue"), *quotas]
    return m.write_json(folder / "cluster.json", [*known, *held, *objects])


def settings(folder: Path) -> Path:
    path = folder / "config.yaml"
    path.write_text(SETTINGS, encoding="utf-8")
    return path


def test_the_tree_has_a_row_for_each_resource_and_says_who_would_lose_what(tmp_path: Path, capsys: Capture) -> None:
    assert m.run("quota", "-f", files(tmp_path)) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if "devices" in line and "gpu" in line][:3]
    assert rows == [
        ["company", "gpu", "devices", "3", "4", "4", "1", "0"],
        ["blue", "gpu", "devices", "1", "-", "4", "3", "0"],
        ["red", "gpu", "devices", "2", "-", "0", "0", "0"],
    ]
    assert "for red, if it asked for one more device of class gpu: blue/b3 of blue" in out
    assert "preemption.reclaim is off" in out


def test_of_pods_that_wait_it_says_whom_they_displace(tmp_path: Path, capsys: Capture) -> None:
    where = files(tmp_path, *waiting("r0", "red"), *waiting("r1", "red"))
    assert m.run("quota", "red", "-f", where, "--config", settings(tmp_path), "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "QuotaList"
    assert found["reclaimEnabled"]
    (red,) = found["items"]
    assert (red["name"], red["parent"], red["namespaces"]) == ("red", "company", ["red"])
    (resource,) = red["resources"]
    assert {name: resource[name] for name in ("guarantee", "held", "lent", "waiting", "fleet")} == {
        "guarantee": "2",
        "held": "0",
        "lent": "0",
        "waiting": 2,
        "fleet": "4",
    }
    victims = {each["pod"]["name"]: [one["name"] for one in each["victims"]] for each in found["reclaims"]}
    assert sorted(name for names in victims.values() for name in names) == ["b2", "b3"]
    assert {one["quota"] for each in found["reclaims"] for one in each["victims"]} == {"blue"}


def test_what_is_free_is_taken_from_nobody(tmp_path: Path, capsys: Capture) -> None:
    known = [m.node(cpu=16), m.slice_of(count=4), m.device_class(), namespace("red"), *QUOTAS]
    assert m.run("quota", "-f", m.write_json(tmp_path / "c.json", known)) == 0
    assert "for red, if it asked for one more device of class gpu: nobody, it is free" in capsys.readouterr().out
    assert m.run("quota", "-f", tmp_path / "c.json", "--no-reclaim") == 0
    assert "if it asked" not in capsys.readouterr().out


def test_findings_stand_below_and_an_unknown_name_is_an_answer(tmp_path: Path, capsys: Capture) -> None:
    where = files(tmp_path, quotas=(quota("red", "nobody", "red", guarantee=9),))
    assert m.run("quota", "-f", where) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "there is no DeviceQuota nobody" in out
    assert "guarantee 9 devices of class gpu, and the fleet has 4" in out
    for name, meant in (("blue", ""), ("rad", ": did you mean red?")):
        assert m.run("quota", name, "-f", where) == 2
        assert capsys.readouterr().err.endswith(f"there is no DeviceQuota {name}{meant}\n")
    assert m.run("quota", "-f", m.write_json(tmp_path / "none.json", [m.node()])) == 0
    assert "There is no DeviceQuota" in capsys.readouterr().out


def test_a_namespace_in_place_of_a_quota_is_told_what_to_write(tmp_path: Path, capsys: Capture) -> None:
    where = files(tmp_path, quotas=(quota("leaf", team="red", guarantee=1),))
    assert m.run("quota", "red", "-f", where) == 2
    assert "no DeviceQuota red; namespace red has quota leaf: write leaf, or -n red\n" in capsys.readouterr().err
    for words in (["namespace/red"], ["ns/red"], ["namespace", "red"]):
        assert m.run("quota", *words, "-f", where) == 2
        assert "write -n red" in capsys.readouterr().err


def test_pods_that_no_quota_counts_are_no_warning(tmp_path: Path, capsys: Capture) -> None:
    """Of those that wait for another Dovetail's profile the answer leaves out what they wait for."""
    path = settings(tmp_path)
    path.write_text(path.read_text() + "  - schedulerName: plain\n", encoding="utf-8")
    for name, team, count in (("dovetial", "red", 0), ("plain", "other", 0), ("plain", "red", 1)):
        own, asked = waiting("p", team)
        own["spec"]["schedulerName"] = name
        assert m.run("quota", "-f", files(tmp_path, own, asked), "--config", path) == 0
        assert capsys.readouterr().err.count(f"names another scheduler ({name})") == count
        assert m.run("quota", "blue", "-f", files(tmp_path, own, asked), "--config", path) == 0
        assert capsys.readouterr().err == "", "another quota's pods change nothing of what is shown"


def test_the_map_and_the_page_have_the_same_numbers(tmp_path: Path, capsys: Capture) -> None:
    where = files(tmp_path, *waiting("r0", "red"))
    assert m.run("map", "-f", where, "-o", "json") == 0
    quotas = {each["name"]: each for each in json.loads(capsys.readouterr().out)["quotas"]}
    assert {name: each["depth"] for name, each in quotas.items()} == {"company": 0, "blue": 1, "red": 1}
    assert (quotas["blue"]["resources"][0]["held"], quotas["red"]["resources"][0]["waiting"]) == ("4", 1)
    assert "namespaces" not in quotas["red"]


def test_simulate_fit_and_explain_keep_limits_of_files(tmp_path: Path, capsys: Capture) -> None:
    quotas = (quota("company", limit=5), quota("red", "company", "red", limit=1), quota("blue", "company", "blue"))
    held = running("r", "red", 4)
    known = [m.node(cpu=16), m.slice_of(count=8), m.device_class(), namespace("red"), namespace("blue"), *quotas, *held]
    where, new = m.write_json(tmp_path / "c.json", known), m.write_json(tmp_path / "p.json", waiting("r0", "red"))
    said = (
        "DeviceQuota red: 1 of at most 1 devices of class gpu are held, and the pod needs 1; raise the limit, or wait"
    )

    assert m.run("simulate", "-f", where, "-f", new, "--save", tmp_path / "saved.json") == 1
    assert said in " ".join(capsys.readouterr().out.split())
    assert m.run("fit", "-f", new, "--cluster", where) == 1
    assert said in " ".join(capsys.readouterr().out.split())
    assert m.run("explain", "pod", "red/r0", "--snapshot", tmp_path / "saved.json") == 1
    assert said in " ".join(capsys.readouterr().out.split())

    copies = m.pod("b", template_name="t")
    copies["metadata"]["namespace"] = "blue"
    made = m.template()
    made["metadata"]["namespace"] = "blue"
    file = m.write_json(tmp_path / "more.json", [copies, made])
    m.run("fit", "-f", file, "--cluster", where, "--count", "max", "-o", "json")
    assert json.loads(capsys.readouterr().out)["count"]["copies"] == 4


def test_a_quota_whose_pods_wait_for_something_else_is_asked_all_the_same(tmp_path: Path, capsys: Capture) -> None:
    (own, asked) = waiting("large", "red")
    own["spec"]["containers"][0].setdefault("resources", {})["requests"] = {"cpu": "999"}
    assert m.run("quota", "-f", files(tmp_path, own, asked)) == 0
    assert "for red, if it asked for one more device of class gpu: blue/b3 of blue" in capsys.readouterr().out


def test_of_a_pod_that_waits_it_says_who_has_not_run_for_long_enough(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blue's pods have run for 25 s, and then for as long as they have to."""
    started = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    held = [each for index in range(4) for each in running(f"b{index}", "blue", index)]
    for each in held:
        if each["kind"] == "Pod":
            each["status"]["startTime"] = "2026-01-01T00:00:00Z"
    known = [m.node(cpu=16), m.slice_of(count=4), m.device_class(), namespace("red"), namespace("blue"), *QUOTAS]
    where = m.write_json(tmp_path / "young.json", [*known, *held, *waiting("r0", "red")])
    for seconds, is_young in ((25, True), (600, False)):
        now = (started + dt.timedelta(seconds=seconds)).timestamp()
        monkeypatch.setattr("scheduler.simulation.simulator.time.time", lambda now=now: now)
        assert m.run("quota", "-f", where, "--config", settings(tmp_path)) == 0
        out = capsys.readouterr().out
        assert m.run("quota", "-f", where, "--config", settings(tmp_path), "-o", "json") == 0
        (found,) = json.loads(capsys.readouterr().out)["reclaims"]
        assert "if it asked" not in out
        assert found["pod"] == {"namespace": "red", "name": "r0"}
        assert bool(found["victims"]) != is_young
        young = [(each["quota"], each["ranSeconds"]) for each in found["tooYoung"]]
        assert (young, found["minimumRunSeconds"]) == (([("blue", 25)], 600) if is_young else ([], None))
        said = "of blue has run for 25 s; minimumRunSeconds of preemption.reclaim is 600"
        assert (said in out and "for pod red/r0 of red, which waits: nobody yet: blue/b" in out) == is_young


def test_a_device_that_is_free_does_not_hide_a_pod_that_waits_for_more(tmp_path: Path, capsys: Capture) -> None:
    own, asked = waiting("large", "red")
    asked["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    known = [m.node(cpu=16), m.slice_of(count=1), m.device_class(), namespace("red"), *QUOTAS, own, asked]
    where = m.write_json(tmp_path / "c.json", known)
    assert m.run("quota", "-f", where) == 0
    out = capsys.readouterr().out
    assert "for pod red/large of red, which waits: nobody (`dovetail explain pod/red/large` says why)" in out
    assert "it is free" not in out
    assert m.run("quota", "-f", where, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)["reclaims"]
    assert (found["pod"], found["isFree"]) == ({"namespace": "red", "name": "large"}, False)


def test_a_pod_of_lower_priority_is_preempted_and_not_reclaimed(tmp_path: Path, capsys: Capture) -> None:
    (own, asked) = waiting("high", "red")
    own["spec"]["priority"] = 100
    where = files(tmp_path, own, asked)
    assert m.run("quota", "-f", where) == 0
    (line,) = (each for each in capsys.readouterr().out.splitlines() if "for pod red/high of red" in each)
    assert line.endswith("of blue (its priority is lower)")
    assert m.run("quota", "-f", where, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)["reclaims"]
    assert [each["isReclaimed"] for each in found["victims"]] == [False]


def test_a_gang_has_its_name(tmp_path: Path, capsys: Capture) -> None:
    members = []
    for name in ("r0", "r1"):
        (own, asked) = waiting(name, "red")
        own["metadata"]["labels"] = {"dovetail.dev/gang": "train", "batch.kubernetes.io/job-name": "tune"}
        job = {"apiVersion": "batch/v1", "kind": "Job", "name": "tune", "uid": "job", "controller": True}
        own["metadata"]["ownerReferences"] = [job]
        own["metadata"]["annotations"] = {"dovetail.dev/gang-minimum": "2"}
        members += [own, asked]
    where = files(tmp_path, *members)
    assert m.run("quota", "-f", where) == 0
    assert "for gang red/train (Job tune) of red: blue/b" in capsys.readouterr().out
    assert m.run("quota", "-f", where, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)["reclaims"]
    assert (found["pod"], found["gang"]) == (None, {"namespace": "red", "name": "train"})
    assert [each["isReclaimed"] for each in found["victims"]] == [True, True]


def test_a_pod_of_a_group_without_a_minimum_has_its_own_name(tmp_path: Path, capsys: Capture) -> None:
    (own, asked) = waiting("r0", "red")
    own["spec"]["schedulingGroup"] = {"podGroupName": "tune-pgt-0"}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "tune-pgt-0", "namespace": "red"},
        "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}},
    }
    assert m.run("quota", "-f", files(tmp_path, own, asked, group)) == 0
    assert "for pod red/r0 of red: blue/b" in capsys.readouterr().out
    asked["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    known = [m.node(cpu=16), m.slice_of(count=1), m.device_class(), namespace("red"), *QUOTAS, own, asked, group]
    assert m.run("quota", "-f", m.write_json(tmp_path / "stuck.json", known)) == 0
    assert "for pod red/r0 of red, which waits: nobody (`dovetail explain pod/red/r0`" in capsys.readouterr().out


def test_it_says_how_many_devices_it_did_not_ask_for(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.simulation.quotas.next_reclaims._MOST_QUESTIONS", 2)
    names = [f"team{n}" for n in range(5)]
    quotas = tuple(quota(name, "", name, guarantee=1) for name in names)
    where = files(tmp_path, *map(namespace, names), quotas=quotas)
    assert m.run("quota", "-f", where) == 0
    out = capsys.readouterr().out
    assert [name for name in names if f"for {name}, if it asked" in out] == ["team0", "team1"]
    assert "3 further devices not asked for" in out
    assert m.run("quota", "team4", "-f", where, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert ([each["quota"] for each in found["reclaims"]], found["notAsked"]) == (["team4"], 3)


def test_it_says_which_profiles_reclaim(tmp_path: Path, capsys: Capture) -> None:
    path = settings(tmp_path)
    path.write_text(path.read_text() + "  - schedulerName: plain\n", encoding="utf-8")
    arguments = "quota", "-f", files(tmp_path), "--config", path
    assert m.run(*arguments) == 0
    assert "preemption.reclaim" not in capsys.readouterr().out
    assert m.run(*arguments, "--scheduler-name", "plain") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "preemption.reclaim of profile plain is off (it is on for dovetail)" in said
    assert m.run(*arguments, "--scheduler-name", "plain", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["reclaimEnabled"], found["reclaimingProfiles"]) == (False, ["dovetail"])


def test_files_without_namespaces_are_bound_by_quotas_that_select_by_name(tmp_path: Path, capsys: Capture) -> None:
    named = quota("named", limit=1)
    named["spec"]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "green"}}
    objects = [m.node(cpu=16), m.slice_of(count=4), m.device_class(), named, *waiting("g0", "green")]
    where = m.write_json(tmp_path / "cluster.json", [*objects, *waiting("g1", "green"), *waiting("o", "other")])
    assert m.run("simulate", "-f", where, "-o", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert len(found["placements"]) == 2
    assert "DeviceQuota named: 1 of at most 1 devices of class gpu are held" in json.dumps(found)
    more = m.write_json(tmp_path / "more.json", waiting("g2", "green"))
    assert m.run("fit", "-f", more, "--cluster", where, "--count", "max") == 1
    assert "DeviceQuota named" in capsys.readouterr().out
