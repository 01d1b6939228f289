"""`dovetail devices` and `dovetail free` on saved decisions and on manifests: lists, JSON and YAML, exit statuses."""

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from scheduler.cli.sources import running_configuration
from scheduler.cli.sources.running_configuration import NamedSettings, RunningConfigurations
from scheduler.settings import default
from scheduler.simulation import devices_output, fleet_reading, simulator
from scheduler.simulation.devices_output import FleetAnswer
from scheduler.status.leader_report import ReservationReport
from scheduler.worker.recording import Record
from solver import fleet_of
from solver.domain import Claim, NodeReservation, PodId, Policy, Snapshot
from solver.domain.fleet import CounterLeft, DeviceState, Fleet, FleetDevice, SinceSource
from tests.support import builders as b
from tests.support import manifests as m
from tests.support.lease_server import LeaseServer, lease_of, reporting

Capture = pytest.CaptureFixture[str]
CLIQUE = {"nvidia.com/gpu.clique": "x", "node.kubernetes.io/instance-type": "big"}
GIB = 2**30 * 10**9
NOW = datetime(2026, 1, 3, 5, tzinfo=UTC)


def held(name: str, namespace: str, node: str, *devices: str) -> Claim:
    claim = b.held(name, *(b.result("gpu", each, node) for each in devices), node_name=node, namespace=namespace)
    return replace(claim, requests=(b.request("gpu", count=len(devices)),), reserved_for=(b.consumer(name, namespace),))


def cluster() -> Snapshot:
    """Free, held, tainted and shared devices, a cordoned node and an incomplete pool."""
    card = b.device("card-0", capacities={"memory": "40Gi"}, is_shareable=True)
    share = b.result("gpu", "card-0", "n3", share_id=b.share_id(1), consumed={"memory": "10Gi"})
    return b.snapshot(
        b.node("n1", labels=CLIQUE),
        b.node("n2", labels=CLIQUE, is_unschedulable=True),
        b.node("n3"),
        b.node("n4"),
        b.gpu_slice("n1", count=4),
        b.gpu_slice("n2", count=1),
        b.resource_slice("n3", card),
        replace(b.gpu_slice("n4", count=1), slice_count=2),
        b.taint_rule("repair", b.taint("ecc"), pool="n1", device_name="gpu-3"),
        b.gpu_class(),
        held("job", "red", "n1", "gpu-0"),
        replace(b.held("notebook", share, namespace="blue"), reserved_for=(b.consumer("notebook", "blue"),)),
        b.claim("big", b.request("gpu", count=4), namespace="red"),
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "case.json"
    record = Record(
        cause="a test",
        snapshot=cluster(),
        batch=b.batch(),
        policy=Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    simulator.save(path, record, keep_parameters=False)
    return path


def shown(*, is_wide: bool = False, knows_holders: bool = True) -> list[str]:
    to = io.StringIO()
    devices = fleet_of(cluster()).devices
    devices_output.show(devices, to, NOW, is_wide=is_wide, knows_holders=knows_holders)
    return to.getvalue().splitlines()


def test_devices_as_a_list() -> None:
    of_rule = "taint ecc:NoSchedule of DeviceTaintRule repair"
    of_pool = "pool gpu.example.com/n4 is incomplete: 1 of 2 slices of generation 1 are published"
    assert shown() == [
        "NODE   DEVICE   TYPE   STATE             NAMESPACE   CLAIM      POD        SINCE   SHARE         WHY",
        "n1     gpu-0    H100   held              red         job        job         2d5h",
        "n1     gpu-1    H100   free",
        "n1     gpu-2    H100   free",
        f"n1     gpu-3    H100   tainted                                                                   {of_rule}",
        f"n2     gpu-0    H100   node-cordoned{' ' * 61}node n2 is cordoned",
        "n3     card-0          shared            blue        notebook   notebook    2d5h   10Gi memory",
        f"n4     gpu-0    H100   pool-incomplete                                                           {of_pool}",
    ]


def test_pods_that_hold_devices_and_are_gone_are_marked() -> None:
    job = f"red/{b.consumer('job', 'red').name}"
    (uid,) = {each.uid for claim in cluster().claims if claim.id.name == "job" for each in claim.reserved_for}
    for pod_uids, gone in ((None, []), ({uid}, []), ({"another"}, [job])):
        (held, *_) = (each for each in fleet_of(cluster(), pod_uids=pod_uids).devices if each.holders)
        (holder,) = devices_output.document(Fleet(), [held])["items"][0]["holders"]
        assert (holder["pods"], holder["gonePods"]) == ([job], gone)
        to = io.StringIO()
        devices_output.show([held], to, NOW)
        assert ("job (gone)" in to.getvalue()) is bool(gone)


def partition(**counters: CounterLeft) -> FleetDevice:
    return FleetDevice(id=b.device_id("p-0", "n1"), state=DeviceState.BLOCKED, counters=tuple(counters.values()))


@pytest.mark.parametrize(
    ("counter", "state", "why"),
    [
        (
            CounterLeft("gpu-0", "memory", 40 * GIB, 30 * GIB, 80 * GIB),
            "blocked,counters",
            "takes 40Gi of counter gpu-0/memory, 30Gi left",
        ),
        (
            CounterLeft("gpu-0", "memory", 40 * GIB, 30 * GIB, 30 * GIB),
            "blocked,counters",
            "takes 40Gi of counter gpu-0/memory, there are 30Gi in all",
        ),
        (
            CounterLeft("gpu-0", "memory", 1, 0, 1, is_published=False),
            "blocked,groups",
            "no compatibility group in common with devices in use",
        ),
    ],
)
def test_a_blocked_device_says_what_blocks_it(counter: CounterLeft, state: str, why: str) -> None:
    to = io.StringIO()
    devices_output.show([partition(memory=counter)], to, NOW)
    row = to.getvalue().splitlines()[1]
    assert state in row.split()
    assert row.endswith(why)


def test_wide_has_what_is_left_and_the_groups() -> None:
    head, first, *_, card, _ = shown(is_wide=True)
    assert head.split()[-6:] == ["LEFT", "DRIVER", "POOL", "CLASSES", "ROOT", "DOMAIN"]
    assert first.split()[-5:] == ["gpu.example.com", "n1", "gpu", "n1-pci0", "x"]
    assert "30Gi memory" in card


def test_without_claims_no_device_is_called_free() -> None:
    """A caller that may not list claims does not know what is free."""
    states = [line.split()[3] for line in shown(knows_holders=False)[1:4]]
    assert states == ["held", "unknown", "unknown"]


@pytest.mark.parametrize(
    ("since", "source", "expected"),
    [
        ("2026-01-03T04:59:30Z", SinceSource.ALLOCATION, "30s"),
        ("2026-01-03T04:30:00Z", SinceSource.ALLOCATION, "30m"),
        ("2026-01-03T03:55:00Z", SinceSource.POD, ">1h5m"),
        ("2025-12-01T00:00:00Z", SinceSource.ALLOCATION, "33d"),
        ("2026-01-03T06:00:00Z", SinceSource.ALLOCATION, "0s"),
        ("", SinceSource.UNKNOWN, "unknown"),
        ("yesterday", SinceSource.ALLOCATION, "unknown"),
    ],
)
def test_since_when(since: str, source: SinceSource, expected: str) -> None:
    assert devices_output.age(since, source, NOW) == expected


def documents(saved: Path, capsys: Capture, *words: str) -> Any:
    """The JSON document; YAML says the same."""
    assert m.run(*words, "--snapshot", saved, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert m.run(*words, "--snapshot", saved, "-o", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == found
    return found


def test_devices_as_json_and_yaml(saved: Path, capsys: Capture) -> None:
    found = documents(saved, capsys, "devices", "node/n3")
    (pool,) = documents(saved, capsys, "devices")["unusablePools"]
    assert found["unusablePools"] == []  # that of n4

    assert (found["apiVersion"], found["kind"]) == ("output.dovetail.dev/v1alpha1", "DeviceList")
    assert (pool["pool"], pool["publishedSlices"], pool["statedSlices"]) == ("n4", 1, 2)
    assert found["items"] == [
        {
            "driver": "gpu.example.com",
            "pool": "n3",
            "device": "card-0",
            "node": "n3",
            "nodeCount": 1,
            "nodeGroup": None,
            "type": None,
            "classes": ["gpu"],
            "root": None,
            "domain": None,
            "state": "shared",
            "suspect": False,
            "reserved": False,
            "problems": [],
            "taints": [],
            "holders": [
                {
                    "claim": "blue/notebook",
                    "pods": ["blue/notebook"],
                    "gonePods": [],
                    "consumers": [],
                    "request": "gpu",
                    "shareID": b.share_id(1),
                    "consumed": {"memory": "10Gi"},
                    "adminAccess": False,
                    "since": b.TIMESTAMP,
                    "sinceSource": "allocation",
                }
            ],
            "capacity": {"memory": {"total": "40Gi", "left": "30Gi"}},
            "counters": [],
        }
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-n", "red"), {"n1/gpu-0"}),
        (("ns/blue",), {"n3/card-0"}),
        (("pod/red/job",), {"n1/gpu-0"}),
        (("resourceclaim/red/job",), {"n1/gpu-0"}),
        (("n2",), {"n2/gpu-0"}),
        (("n1", "-n", "red"), {"n1/gpu-0"}),
        (("--problems",), {"n1/gpu-3", "n2/gpu-0", "n4/gpu-0"}),
        (("n1", "--problems"), {"n1/gpu-3"}),
        (("n1", "-n", "blue"), set()),
        (("-l", "nvidia.com/gpu.clique=x"), {"n1/gpu-0", "n1/gpu-1", "n1/gpu-2", "n1/gpu-3", "n2/gpu-0"}),
        (("-l", "nvidia.com/gpu.clique=x", "-n", "blue"), set()),
    ],
)
def test_devices_are_chosen(saved: Path, capsys: Capture, words: tuple[str, ...], expected: set[str]) -> None:
    items = documents(saved, capsys, "devices", *words)["items"]
    assert {f"{each['pool']}/{each['device']}" for each in items} == expected


def test_a_reason_that_devices_of_a_node_share_is_said_once(tmp_path: Path, capsys: Capture) -> None:
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    devices = [{"name": f"gpu-{number}", "taints": [taint]} for number in range(4)]
    devices += [{"name": "other"}]
    body = m.slice_of("n1")
    body["spec"]["devices"] = devices
    file = m.write_json(tmp_path / "cluster.json", [m.device_class(), m.node("n1"), body])

    assert m.run("devices", "--problems", "-f", file) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[:5] for row in rows] == [["n1", "gpu-0", "…", "gpu-3", "tainted"]]
    assert "example.com/broken" in rows[0]


def test_a_faulty_device_stands_before_those_of_a_cordoned_node_which_are_one_row(
    tmp_path: Path, capsys: Capture
) -> None:
    cordoned, last = m.node("n1"), m.slice_of("n2")
    cordoned["spec"] = {"unschedulable": True}
    last["spec"]["devices"] = [{"name": "bad", "taints": [{"key": "example.com/broken", "effect": "NoSchedule"}]}]
    parts = m.slice_of("n1")
    parts["spec"]["devices"] = [
        {"name": f"mig-{at}", "attributes": {"productName": {"string": f"A100 {at}g"}}} for at in range(7)
    ]
    objects = [m.device_class(), cordoned, m.node("n2"), parts, last, *holding("job", "n1", 0)]
    held = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "mig-2"}
    objects[-1]["status"]["allocation"]["devices"]["results"] = [held]
    file = m.write_json(tmp_path / "cluster.json", objects)

    assert m.run("devices", "--problems", "-f", file) == 0
    _, *rows = (" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
    assert [row.split()[:2] for row in rows] == [["n2", "bad"], ["n1", "7"]]
    assert rows[1].startswith("n1 7 devices node-cordoned ")
    assert rows[1].endswith("; 1 of them is held")

    assert m.run("devices", "--problems", "-f", file, "-o", "wide") == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert sum("mig-" in row for row in rows) == 7
    assert rows[0].split()[1] == "bad"
    assert m.run("devices", "--problems", "-f", file, "-o", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 8


def test_where_no_device_has_a_problem_it_is_said(saved: Path, capsys: Capture) -> None:
    assert m.run("devices", "n3", "--problems", "--snapshot", saved) == 0
    assert capsys.readouterr().out == "No device of these has a problem.\n"


def test_free_as_a_list(saved: Path, capsys: Capture) -> None:
    assert m.run("free", "--snapshot", saved) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [" ".join(line.split()) for line in lines[:4]] == [
        "CLASS TYPE GROUP TOTAL HELD FREE UNUSABLE MAX/NODE MAX/ROOT MAX/DOMAIN FRAGMENTED",
        "gpu - - 1 0 1 0 1 - - 33%",
        "gpu H100 - 1 0 0 1 0 - - -",
        "gpu H100 big 5 1 2 2 2 2 2 33%",
    ]
    assert lines[4:] == [
        "",
        "Fragmentation: 33% of the free devices are of no use to a typical claim, as their node has too few left.",
        "",
        "`dovetail devices --problems` names the unusable and the tainted devices, and says why.",
        "Pool gpu.example.com/n4 cannot be used: 1 of 2 slices are published",
    ]


def test_free_devices_of_a_node_that_is_reserved_for_a_starving_pod(tmp_path: Path, capsys: Capture) -> None:
    hold = NodeReservation(pod=PodId("red", "eight"), uids=("u",), priority=0, nodes=("n1",))
    of_room = NodeReservation(pod=PodId("red", "large"), uids=("v",), priority=0, nodes=("n3",), takes_devices=False)
    record = Record(
        cause="a test",
        snapshot=cluster(),
        batch=replace(b.batch(), node_reservations=(hold, of_room)),
        policy=Policy(),
        seconds=60.0,
        deterministic_seconds=4.0,
    )
    path = tmp_path / "case.json"
    simulator.save(path, record, keep_parameters=False)

    assert m.run("devices", "--snapshot", path) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    why = "its node is reserved for a pod that has waited too long"
    assert rows[2:4] == [
        f"n1 gpu-1 H100 reserved {why}",
        f"n1 gpu-2 H100 reserved {why}",
    ]
    assert "shared" in next(row for row in rows if row.startswith("n3"))
    assert m.run("devices", "--snapshot", path, "-o", "json") == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [each["device"] for each in items if each["reserved"]] == ["gpu-1", "gpu-2"]

    said = "Of the free devices, 2 are on nodes that are reserved for a pod that has waited too long"
    assert m.run("free", "--snapshot", path) == 0
    assert said in capsys.readouterr().out
    assert m.run("free", "node/n3", "--snapshot", path) == 0
    assert "reserved" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part", "pods"),
    [
        (("-l", "nvidia.com/gpu.clique=x"), 0.3333, ["red/job"]),
        (("node/n3",), 0.3333, ["blue/notebook"]),
        (("-n", "red"), 0.3333, ["red/job"]),
        (("node/n2",), None, []),
    ],
)
def test_fragmentation_is_that_of_the_nodes_shown_and_its_causes_those_of_the_devices_shown(
    saved: Path, capsys: Capture, words: tuple[str, ...], part: float | None, pods: list[str]
) -> None:
    found = documents(saved, capsys, "free", *words)
    assert (found["fragmentation"], [each["pod"] for each in found["causes"]]) == (part, pods)
    assert m.run("free", *words, "--snapshot", saved) == 0
    assert ("Fragmentation: 33% of the free devices of these nodes" in capsys.readouterr().out) is (part is not None)


def test_free_leaves_out_columns_without_a_value(tmp_path: Path, capsys: Capture) -> None:
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node(), m.slice_of(count=3), m.device_class())
    assert m.run("free", "-f", path) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[-2:] == ["FREE", "MAX/NODE"]
    assert m.run("free", "-f", path, "-o", "wide") == 0
    assert "MAX/DOMAIN" in capsys.readouterr().out


def holding(name: str, node: str, count: int) -> list[m.Manifest]:
    """A pod on a node with a claim that holds so many of its devices."""
    device = {"request": "gpu", "driver": "gpu.example.com", "pool": node}
    results = [{**device, "device": f"gpu-{index}"} for index in range(count)]
    pod = m.pod(name, claim_name=name, nodeName=node)
    pod["metadata"]["uid"] = f"uid-{name}"
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
    }
    return [pod, m.claim(name, spec=m.claim_spec(count), status=status)]


def test_of_many_pods_that_keep_large_claims_out_of_nodes_it_is_said_how_many_are_not_named(
    tmp_path: Path, capsys: Capture
) -> None:
    nodes = [each for name in ("n0", "n1") for each in (m.node(name), m.slice_of(name, count=8))]
    small = [each for number in range(8) for each in holding(f"small-{number}", f"n{number % 2}", 1)]
    large = m.claim("large", spec=m.claim_spec(8))
    file = m.write_json(tmp_path / "cluster.json", [m.device_class(), *nodes, large, *small])

    assert m.run("free", "-f", file) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "2 nodes hold 4 pods each that keep" in line)
    named = re.findall(r"small-[0-9]", line)
    assert line.endswith(f" and {8 - len(named)} more")
    assert 0 < len(named) < 8


def test_pods_that_keep_large_claims_out_of_nodes_are_named(tmp_path: Path, capsys: Capture) -> None:
    small = [holding(f"small-{number}", f"n{number}", 1) for number in range(2)]
    large = m.claim("large", spec=m.claim_spec(4))
    nodes = [each for number in range(2) for each in (m.node(f"n{number}"), m.slice_of(f"n{number}", count=4))]
    file = m.write_json(tmp_path / "cluster.json", [m.device_class(), *nodes, large, *small[0], *small[1]])

    assert m.run("free", "-f", file) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "  2 nodes hold one pod each that keeps claims for 4 × gpu out: default/small-0 on n0, default/small-1 on n1"
        in lines
    )
    assert "  `dovetail repair plan --for pod/NAME` says which pods to move for one that waits." in lines
    assert "  Where none waits, `repair.mode: advise` has the scheduler plan moves that mend it." in lines
    assert m.run("free", "-f", file, "-o", "json") == 0
    causes = json.loads(capsys.readouterr().out)["causes"]
    assert {(each["class"], each["keepsOut"]) for each in causes} == {("gpu", 4)}


def test_free_as_json_and_yaml(saved: Path, capsys: Capture) -> None:
    found = documents(saved, capsys, "free", "--by", "class,node", "node/n1")

    assert (found["apiVersion"], found["kind"], found["by"]) == (
        "output.dovetail.dev/v1alpha1",
        "FreeDevices",
        ["class", "node"],
    )
    assert found["unusablePools"] == []  # that of n4
    everything = documents(saved, capsys, "free")["unusablePools"]
    assert everything == documents(saved, capsys, "devices")["unusablePools"] != []
    assert documents(saved, capsys, "free", "node/n4")["unusablePools"] == everything
    assert found["requests"] == [
        {"class": "gpu", "count": 1, "requests": 2},
        {"class": "gpu", "count": 4, "requests": 1},
    ]
    assert found["items"] == [
        {
            "class": "gpu",
            "node": "n1",
            "total": 4,
            "held": 1,
            "free": 2,
            "shared": 0,
            "blocked": 0,
            "unusable": 1,
            "tainted": 1,
            "largest": {"claim": 2, "node": 2, "root": 2, "domain": 2},
            "fragmentation": 0.3333,
            "causes": [
                {
                    "pod": "red/job",
                    "node": "n1",
                    "held": 1,
                    "stranded": 0.6667,
                    "class": "gpu",
                    "keepsOut": None,
                }
            ],
        }
    ]


def test_held_devices_by_namespace(saved: Path, capsys: Capture) -> None:
    items = documents(saved, capsys, "free", "--by", "namespace")["items"]
    assert [(each["namespace"], each["total"], each["held"], each["shared"]) for each in items] == [
        ("blue", 1, 0, 1),
        ("red", 1, 1, 0),
    ]


def test_devices_of_manifests(tmp_path: Path, capsys: Capture) -> None:
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node(), m.slice_of(count=3), m.device_class())
    assert m.run("free", "-f", path, "-o", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)["items"]
    assert (found["class"], found["total"], found["free"], found["fragmentation"]) == ("gpu", 3, 3, None)
    assert found["group"] is None


def without(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cluster without claims, and with a kind that the caller may not list."""
    snapshot = replace(cluster(), claims=())
    answer = FleetAnswer(fleet_of(snapshot), forbidden=(kind,))
    monkeypatch.setattr(fleet_reading, "from_cluster", lambda *_, **__: answer)
    kubeconfig = tmp_path / "kubeconfig"
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    clusters = [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}]
    users = [{"name": "u", "user": {}}]
    kubeconfig.write_text(
        yaml.safe_dump({"current-context": "c", "contexts": contexts, "clusters": clusters, "users": users})
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setattr(running_configuration, "read", lambda *_: RunningConfigurations())


def test_a_caller_that_may_not_list_claims(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture) -> None:
    without("resourceclaims", monkeypatch, tmp_path)
    assert m.run("devices", "-o", "json") == 3
    printed = capsys.readouterr()

    assert {each["state"] for each in json.loads(printed.out)["items"]} == {"unknown", "unusable"}
    assert "cannot list resourceclaims: forbidden" in printed.err


@pytest.mark.parametrize("lease", [403, "more", "all"])
@pytest.mark.parametrize("command", ["devices", "free"])
def test_where_reserved_nodes_are_not_known_the_answer_may_be_wrong(
    command: str, lease: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    monkeypatch.setattr(fleet_reading, "from_cluster", lambda *_, **__: FleetAnswer(fleet_of(cluster())))
    runs = RunningConfigurations((NamedSettings("the defaults", default()),))
    monkeypatch.setattr(running_configuration, "read", lambda *_: runs)
    held = ReservationReport(uids=("u",), nodes=("n1",))
    report = reporting(reservations=(held,), more_reserved=1 if lease == "more" else 0)
    with LeaseServer(tmp_path).running() as server:
        server.leases["dovetail-system/dovetail"] = lease if lease == 403 else lease_of(report)
        status = m.run(command, "-o", "json", "--kubeconfig", server.kubeconfig)
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    reserved = found["reserved"] if command == "free" else [each["reserved"] for each in found["items"]].count(True)
    if lease == 403:
        assert command == "devices" or reserved is None
        assert command == "free" or {each["reserved"] for each in found["items"]} == {None}
    else:
        assert reserved == 2
    assert (status, printed.err.count("warning:")) == ((0, 0) if lease == "all" else (3, 1))
    assert len(server.asked) == 1


@pytest.mark.parametrize("command", ["devices", "free"])
def test_without_nodes_nothing_is_said(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    without("nodes", monkeypatch, tmp_path)
    assert m.run(command) == 2
    assert "nodes may not be listed, and without them it is not known which devices" in capsys.readouterr().err


def test_without_claims_nothing_is_said_about_what_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    without("resourceclaims", monkeypatch, tmp_path)
    assert m.run("free") == 2
    assert "resourceclaims may not be listed, and without them it is not known what is free" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["devices", "free"])
def test_of_a_fleet_with_an_unreadable_file_nothing_is_said(command: str, tmp_path: Path, capsys: Capture) -> None:
    gone = tmp_path / "gone.yaml"
    assert m.run(command, "-f", gone) == 2
    printed = capsys.readouterr()
    assert printed.err == f"dovetail: {gone}: cannot be read: No such file or directory\n"
    assert printed.out == ""


def test_an_object_may_stand_behind_the_file(tmp_path: Path, capsys: Capture) -> None:
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node("bare"), m.node(), m.slice_of(count=3), m.device_class())
    assert m.run("devices", "-f", path, "node/bare", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["items"] == []


@pytest.mark.parametrize("command", ["devices", "free"])
@pytest.mark.parametrize(("name", "meant"), [("bar", ": did you mean bare?"), ("another-rack", "")])
def test_a_node_that_does_not_exist_is_named(
    command: str, name: str, meant: str, tmp_path: Path, capsys: Capture
) -> None:
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node("bare"), m.node(), m.slice_of(count=3), m.device_class())
    assert m.run(command, "-f", path, f"node/{name}", "-o", "json") == 2
    printed = capsys.readouterr()
    assert printed.err == f"dovetail: {command}: there is no node {name}{meant}\n"
    assert printed.out == ""


def test_devices_of_a_node_that_is_gone_are_shown(tmp_path: Path, capsys: Capture) -> None:
    path = m.write_yaml(tmp_path / "cluster.yaml", m.node("bare"), m.slice_of("gone", count=1), m.device_class())
    assert m.run("devices", "-f", path, "node/gone", "-o", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("free", "--by", "colour"), "'colour' is none of class, type"),
        (("devices", "--snapshot", "gone.json"), "gone.json: cannot be read: No such file or directory"),
        (("devices", "-f", "x.yaml", "-w"), "--watch asks a live cluster again: leave out -f and --snapshot"),
        (("devices", "--snapshot", "a", "-f", "b"), "give --snapshot or -f"),
        (("devices", "pod/a/b/c", "--snapshot", "gone.json"), "names no pod"),
    ],
)
def test_wrong_arguments(capsys: Capture, words: tuple[str, ...], error: str) -> None:
    assert m.run(*words) == 2
    assert error in capsys.readouterr().err


def test_the_fragmentation_of_the_fleet_names_that_of_its_classes(tmp_path: Path, capsys: Capture) -> None:
    small = holding("small", "n0", 1)
    of_any = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "any", "count": 1}}]}
    large, one = m.claim("large", spec=m.claim_spec(4)), m.claim("one", spec={"devices": of_any})
    classes = (m.device_class(), {**m.device_class(), "metadata": {"name": "any"}})
    nodes = (m.node("n0"), m.slice_of("n0", count=4))
    file = m.write_json(tmp_path / "cluster.json", [*classes, *nodes, large, one, *small])

    assert m.run("free", "-f", file) == 0
    (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("Fragmentation: ")]
    assert "(50% of gpu, 0% of any; weighted by how often each is asked for)" in line


def test_a_device_in_place_of_a_node_is_told_where_its_node_is(saved: Path, capsys: Capture) -> None:
    assert m.run("devices", "gpu-3", "--snapshot", saved) == 2
    assert "no node gpu-3; it is a device of 1 node: write node/n1 for its devices" in capsys.readouterr().err
    assert m.run("devices", "n1/gpu-3", "--snapshot", saved) == 2
    assert "write node/NAME; node/n1 has the devices of that node" in capsys.readouterr().err


def test_free_says_which_devices_ordinary_pods_cannot_have(tmp_path: Path, capsys: Capture) -> None:
    """A taint of a node leaves its devices free, and `fit` gives them to no pod that does not tolerate it."""
    nodes = [m.node("n1"), m.node("n2"), m.node("n3")]
    nodes[1]["spec"] = {"taints": [{"key": "nvlink", "value": "a", "effect": "NoSchedule"}]}
    nodes[2]["spec"] = {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]}
    slices = [m.slice_of(name, 2) for name in ("n1", "n2", "n3")]
    file = m.write_yaml(tmp_path / "cluster.yaml", *nodes, *slices, m.device_class())

    assert m.run("free", "-f", file) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "Of the free devices, 2 are on nodes with taints: a pod that does not tolerate nvlink:NoSchedule cannot have "
        "them." in shown
    )
    assert m.run("free", "node/n1", "-f", file) == 0
    assert "with taints" not in capsys.readouterr().out
    assert m.run("free", "-f", file, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["behindTaints"] == 2
