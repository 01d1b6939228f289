"""One's own cluster as a trace: what `dovetail observe` records is replayed with other policies."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from e2e.traces import __main__ as traces
from e2e.traces.observed import observed_policies, observed_replay, observed_trace
from e2e.traces.queues.job_figures import QueueRun
from e2e.traces.workload import TraceError
from scheduler.change import Change, Kind
from scheduler.counterfactual.observation_record import ObservationRecord, ObservationStart, RecordReader, older
from scheduler.counterfactual.observer import Observation, ObserverOptions
from scheduler.counterfactual.recorded_objects import ObjectLine
from scheduler.kube.client import Client
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.settings import default
from solver.domain import Claim, GangAnnotations, Pod, PodGroup
from tests.support import builders as b
from tests.support import observations
from tests.support.cluster_builders import seen

AS_THEY_ARE = cast("DiscoveredKinds", SimpleNamespace(as_meant=lambda changes: changes))
Scene = Sequence[tuple[float, Sequence[Change]]]
"""What the watches show: changes by their time. The first ones are listed before the observation begins."""


def observe(path: Path, scene: Scene, end: float, most_bytes: int = 1 << 20) -> list[str]:
    """Observe a scene; return what was said."""
    clock, said = [scene[0][0]], list[str]()
    options = ObserverOptions(
        scheduler_names=("dovetail",),
        interval=1000.0,
        settings=default(),
        say=said.append,
        show=lambda _: None,
        clock=lambda: clock[0],
    )

    async def run() -> None:
        with ObservationRecord(path, most_bytes) as record:
            made, stop = Observation(cast("Client", None), options, record), asyncio.Event()
            made._see(AS_THEY_ARE, scene[0][1])  # noqa: SLF001 - what the reflector calls
            following = asyncio.create_task(made._follow(stop))  # noqa: SLF001 - the loop of an observation
            await asyncio.sleep(0)
            for at, changes in scene[1:]:
                clock[0] = at
                made._see(AS_THEY_ARE, changes)  # noqa: SLF001
            clock[0] = end
            stop.set()
            await following

    asyncio.run(run())
    return said


def job(name: str, count: int) -> tuple[Pod, Claim]:
    return b.pod(name, name, cpu=1), b.claim(name, b.request("gpu", count=count))


def seen_all(*objects: b.SnapshotObject) -> list[Change]:
    return [seen(each) for each in objects]


def bound(pod: Pod, node: str) -> Change:
    return seen(replace(pod, node_name=node))


def gone(pod: Pod) -> Change:
    return Change(kind=Kind.PODS, key=str(pod.id), value=None)


NODES = [each for name in ("n1", "n2") for each in (b.node(name), b.gpu_slice(name, count=2))]
FIRST, SECOND, LARGE = job("first", 1), job("second", 1), job("large", 2)
SPREAD: Scene = [
    (1000.0, [*seen_all(*NODES), seen(b.gpu_class())]),
    (1010.0, [*seen_all(*FIRST), bound(FIRST[0], "n1")]),
    (1011.0, [*seen_all(*SECOND), bound(SECOND[0], "n2")]),
    (1012.0, [*seen_all(*LARGE)]),
    (1040.0, [gone(FIRST[0]), bound(LARGE[0], "n1")]),
    (1060.0, [gone(LARGE[0])]),
    (1100.0, [gone(SECOND[0])]),
]
"""Two small pods are spread over two nodes, and a large one waits for the end of the first."""


def runs_of(path: Path, *names: str) -> dict[str, QueueRun]:
    trace = observed_trace.read(path)
    found = {name: observed_replay.replay(trace, observed_policies.made(name), name) for name in names}
    return {observed_replay.RECORDED: observed_replay.recorded(trace), **found}


def test_a_recorded_cluster_is_replayed_with_other_policies(tmp_path: Path) -> None:
    observe(tmp_path / "record", SPREAD, 1120.0)
    runs = runs_of(tmp_path / "record", *observed_policies.SIMPLE, *observed_policies.DOVETAIL)
    waits = {name: {size: each.mean for size, each in run.waits.items()} for name, run in runs.items()}
    at_once, spread = {"1": 0.0, "2-4": 0.0}, {"1": 0.0, "2-4": 28.0}
    assert waits == {
        "recorded": spread,
        "first-fit": at_once,
        "best-fit": at_once,
        "kube-scheduler": spread,
        "dovetail": at_once,
        "dovetail-devices": at_once,
    }
    # Each pod runs as long as it really ran: 30 and 89 s with one device, 20 s with two.
    assert {name: round(run.used * 4 * 120, 6) for name, run in runs.items() if run.used} == dict.fromkeys(
        waits, 30 + 89 + 2 * 20
    )
    assert {(run.machines, run.gpus, run.jobs, run.stuck) for run in runs.values()} == {(2, 4, 3, 0)}


def test_pods_that_ran_before_keep_their_devices_until_they_really_end(tmp_path: Path) -> None:
    runs, claim = job("runs", 2)
    held = replace(b.held("runs", *(b.result("gpu", f"gpu-{at}", "n1") for at in range(2))), requests=claim.requests)
    other, waits = b.pod("other", cpu=1), job("waits", 2)
    scene: Scene = [
        (0.0, [*seen_all(*NODES[:2]), seen(b.gpu_class()), seen(held), bound(runs, "n1"), bound(other, "n1")]),
        (5.0, [*seen_all(*waits)]),
        (50.0, [gone(runs)]),
        (70.0, [bound(waits[0], "n1")]),
    ]
    observe(tmp_path / "record", scene, 100.0)
    found = runs_of(tmp_path / "record", "first-fit", "dovetail")
    assert {name: run.waits["2-4"].mean for name, run in found.items()} == {
        "recorded": 65.0,
        "first-fit": 45.0,
        "dovetail": 45.0,
    }
    assert {name: run.jobs for name, run in found.items()} == dict.fromkeys(found, 1)


@pytest.mark.parametrize("source", ["scheduling.k8s.io", "dovetail.dev"])
def test_a_gang_starts_whole_but_with_kube_schedulers_way(source: str, tmp_path: Path) -> None:
    """Its minimum is that of its PodGroup, or of its annotations."""
    gang = b.gang_id("g", source=source)
    note = GangAnnotations(min_count=2) if source == "dovetail.dev" else None
    members = [(replace(pod, gang=gang, gang_note=note), claim) for pod, claim in (job("g0", 2), job("g1", 2))]
    group = Change(kind=Kind.POD_GROUPS, key=f"{gang.namespace}/g", value=PodGroup(id=gang, uid="g", min_count=2))
    small, held = b.pod("small", "small"), b.held("small", b.result("gpu", "gpu-0", "n1"))
    scene: Scene = [
        (0.0, [*seen_all(*NODES, b.gpu_class(), held), group, bound(small, "n1")]),
        (10.0, [seen(each) for pair in members for each in pair]),
        (60.0, [gone(small), *(bound(pod, node) for (pod, _), node in zip(members, ("n1", "n2"), strict=True))]),
    ]
    observe(tmp_path / "record", scene, 100.0)
    found = runs_of(tmp_path / "record", "best-fit", "dovetail", "kube-scheduler")
    assert {name: run.waits["2-4"].mean for name, run in found.items()} == {
        "recorded": 50.0,
        "best-fit": 50.0,
        "dovetail": 50.0,
        "kube-scheduler": 25.0,
    }


def test_who_never_runs_waits_until_the_end_or_until_it_leaves(tmp_path: Path) -> None:
    stays, leaves = job("stays", 3), job("leaves", 3)
    scene: Scene = [(0.0, seen_all(*NODES, b.gpu_class(), *stays, *leaves)), (30.0, [gone(leaves[0])])]
    observe(tmp_path / "record", scene, 100.0)
    for name, run in runs_of(tmp_path / "record", "first-fit", "dovetail").items():
        assert (run.stuck, run.waits["2-4"].mean) == (1, (100 + 30) / 2), name


def test_only_what_changes_for_a_replay_is_recorded_again(tmp_path: Path) -> None:
    pod, claim = FIRST
    untold = [seen(replace(pod, node_name="n1", generation=7, started=4)), seen(replace(claim, resource_version="9"))]
    observe(tmp_path / "record", [*SPREAD[:2], (1011.0, untold), (1012.0, [seen(NODES[0])])], 1020.0)
    lines = [each for each in RecordReader(tmp_path / "record").lines() if isinstance(each, ObjectLine)]
    assert [str(each.kind) for each in lines if each.at > 1000] == ["pods", "resourceclaims", "pods"]
    assert b'"node_name"' in bytes(lines[-1].value)
    assert b"is_terminal" not in bytes(lines[-1].value)  # defaults are left out


def test_a_file_that_is_begun_anew_can_be_replayed_alone(tmp_path: Path) -> None:
    path = tmp_path / "record"
    others = [b.pod(f"other-{at}", cpu=1) for at in range(40)]
    many = [(1100.0 + at, [seen(each), gone(each)]) for at, each in enumerate(others)]
    observe(path, [*SPREAD[:4], *many], 1200.0, 24_000)
    assert older(path).exists()
    older(path).unlink()
    trace = observed_trace.read(path)
    assert {each.key for each in trace.initial if each.kind is Kind.NODES} == {"n1", "n2"}
    assert {"first", "large"} <= {life.pod.id.name for life in trace.lives.values()}
    assert observed_replay.replay(trace, observed_policies.made("first-fit"), "first-fit").waits["2-4"].jobs == 1


def test_a_cluster_that_becomes_too_large_is_replayed_until_then(tmp_path: Path) -> None:
    path = tmp_path / "record"
    many = [(1100.0 + at, [seen(b.pod(f"other-{at}", cpu=1))]) for at in range(90)]
    observe(path, [*SPREAD[:4], *many], 5000.0, 24_000)
    starts = [each for each in RecordReader(path).lines() if isinstance(each, ObservationStart)]
    assert [each.has_objects for each in starts] == [True, False]
    assert 1100.0 < observed_trace.read(path).ended < 1190.0


def test_a_cluster_that_is_too_large_is_observed_without_its_objects(tmp_path: Path) -> None:
    said = observe(tmp_path / "record", SPREAD, 1120.0, 4_000)
    assert said[-1] == "the cluster is too large to be replayed from the record: its objects are not recorded"
    assert not any(isinstance(each, ObjectLine) for each in RecordReader(tmp_path / "record").lines())
    with pytest.raises(TraceError, match="the cluster was too large; observe again"):
        observed_trace.read(tmp_path / "record")


def run(record: Path, *arguments: str) -> int:
    return traces.main(["observed", f"--record={record}", f"--results={record.parent / 'results'}", *arguments])


def test_the_command_prints_a_table_and_writes_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    observe(tmp_path / "record", SPREAD, 1120.0)
    assert run(tmp_path / "record", "--policies", "recorded", "dovetail", "--starvation", "300", "never") == 0
    shown = capsys.readouterr().out
    assert "3 pods on 2 nodes, 4 devices, 120 s" in shown
    found: list[dict[str, Any]] = msgspec.json.decode((tmp_path / "results" / "observed.json").read_bytes())
    assert [each["policy"] for each in found] == ["recorded", "dovetail-300", "dovetail-never"]
    assert all(each["policy"] in shown for each in found)


def test_a_record_of_an_older_version_is_named_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record"
    observations.report(path, observations.start(100.0), observations.sample(101.0))
    assert run(path) == 2
    said = capsys.readouterr().err
    assert f"{path}: no line has an object of the cluster" in said
    assert "observe again with this version of `dovetail observe`" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("nodes", "is no record of an observation"),
    ],
)
def test_a_file_that_is_no_record_is_named(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "record").write_text(text)
    assert run(tmp_path / "record") == 2
    assert said in capsys.readouterr().err


def test_an_object_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record"
    line = ObjectLine(at=1.0, kind=Kind.NODES, key="n1", value=msgspec.Raw(b'{"name":7}'))
    observations.report(path, observations.start(1.0), line, observations.sample(2.0))
    path.write_text(path.read_text() + msgspec.json.encode(line).decode() + "\n")
    assert run(path) == 2
    said = capsys.readouterr().err
    assert f"{path}, object line: value of nodes n1: Expected `str`, got `int` - at `$.name`" in said
