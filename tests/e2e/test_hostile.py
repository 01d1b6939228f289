"""`make hostile`: what is measured is judged rightly, and a case that does harm fails; one small case for real."""

import asyncio
import contextlib
import math
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from e2e.controlplane.plane import ControlPlane
from e2e.hostile import keeper, mallory, online, probes, verdict
from e2e.hostile.__main__ import main
from e2e.hostile.cases import CASES
from e2e.hostile.cases.case import Manifest
from e2e.hostile.disturbance import ExpiredWatches
from e2e.hostile.extremes.served import served
from e2e.hostile.extremes.sizes import LARGEST_STORED, stored_bytes
from e2e.hostile.objects.draw import written
from e2e.hostile.objects.kinds import API_VERSIONS
from e2e.hostile.online import Found
from e2e.hostile.run import Setting, measure
from e2e.hostile.stream import Times, most_running
from e2e.hostile.verdict import Outcome, Wait
from e2e.objects import object_path
from scheduler.change import Kind
from tests.support.shell_proxy import Asked

IDLE = tuple(Wait(0.03) for _ in range(100))
NODES = 20


def outcome(during: tuple[Wait, ...] = IDLE, **fields: Any) -> Outcome:
    return Outcome(**{"case": "c", "about": "a", "before": IDLE, "during": during, "created": 1, **fields})


# what is measured


def test_a_pod_waits_from_the_moment_it_is_seen_to_the_moment_it_has_a_node() -> None:
    times = Times()
    times.see("a", has_node=False, now=1.0)
    times.see("a", has_node=True, now=1.5)
    times.see("a", has_node=True, now=9.0)
    assert times.waits(0.0, 2.0, 10.0) == (Wait(0.5),)


def test_a_pod_without_a_node_has_waited_until_now() -> None:
    times = Times()
    times.see("a", has_node=False, now=1.0)
    assert times.waits(0.0, 2.0, 8.0) == (Wait(7.0, is_bound=False),)
    assert times.waiting(0.0, 2.0) == 1


def test_pods_of_another_phase_do_not_count() -> None:
    times = Times()
    for name, now in (("before", 0.9), ("first", 1.0), ("after", 2.0)):
        times.see(name, has_node=True, now=now)
    assert times.waits(1.0, 2.0, 3.0) == (Wait(0.0),)


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        pytest.param(100, 0.99, 99, id="one of a hundred is above"),
        pytest.param(99, 0.99, 99, id="of fewer none is"),
        pytest.param(1, 0.99, 1, id="one"),
        pytest.param(4, 0.5, 2, id="the lower middle"),
        pytest.param(0, 0.99, 0, id="nothing"),
    ],
)
def test_percentiles_are_nearest_ranks(count: int, share: float, expected: float) -> None:
    waits = [Wait(float(number)) for number in range(count, 0, -1)]
    assert verdict.percentile(waits, share) == expected


def test_the_stream_uses_a_small_part_of_the_fleet() -> None:
    assert most_running(5.0) == 30


# what is judged


def test_a_case_without_harm_holds() -> None:
    assert outcome().failures == ()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"during": tuple(Wait(0.07) for _ in range(100))}, "2.3 times the idle one", id="median"),
        pytest.param({"during": (*IDLE[:97], Wait(2.5), Wait(2.5))}, "p99 is 2.5 s", id="p99"),
        pytest.param({"during": (*IDLE, Wait(1.0, is_bound=False))}, "1 good pods were left behind", id="left"),
        pytest.param({"during": ()}, "no good pod was created", id="no pods"),
        pytest.param({"created": 0, "refusal": "422: no"}, "no hostile object was admitted", id="refused"),
        pytest.param({"findings": ("it names others",)}, "it names others", id="finding of a probe"),
    ],
)
def test_a_case_that_does_harm_fails(changed: dict[str, Any], words: str) -> None:
    (failure,) = outcome(**changed).failures
    assert words in failure


def test_twice_the_idle_median_and_two_seconds_are_within_the_target() -> None:
    waits = (*(Wait(0.06) for _ in range(98)), Wait(2.0), Wait(2.0))
    assert outcome(waits).failures == ()


SLOW = tuple(Wait(2.4) for _ in range(20))
"""What the bare writer's pods wait where the API server is slow."""


@pytest.mark.parametrize(("seconds", "holds"), [(4.8, True), (4.9, False)])
def test_where_the_api_server_alone_is_slow_good_pods_may_wait_twice_as_long_as_without_a_decision(
    seconds: float,
    holds: bool,  # noqa: FBT001 - what is expected
) -> None:
    assert (outcome(tuple(Wait(seconds) for _ in range(100)), bare=SLOW).failures == ()) is holds


def test_a_bare_writer_that_binds_nothing_is_no_comparison() -> None:
    silent = tuple(Wait(30.0, is_bound=False) for _ in range(20))
    failures = outcome(tuple(Wait(25.0) for _ in range(20)), bare=silent).failures
    assert failures[0] == "of 20 pods without a decision only 0 were bound: there is no comparison"
    assert len(failures) == 3


def test_a_pod_that_is_left_behind_fails_the_case_however_slow_the_api_server_is() -> None:
    assert outcome((*IDLE, Wait(1.0, is_bound=False)), bare=SLOW).failures == ("1 good pods were left behind",)


def test_the_control_needs_no_objects() -> None:
    assert outcome(created=0, needs_objects=False).failures == ()


def test_an_idle_phase_without_pods_proves_nothing() -> None:
    assert outcome(before=()).ratio == math.inf


def test_restarts_are_shown() -> None:
    shown = rendered(outcome(restarts=3, solver_restarts=14))
    assert " 3 " in shown
    assert " 14 " in shown


def test_the_table_says_what_fails() -> None:
    shown = rendered(outcome(case="good-one"), outcome(case="bad-one", findings=("x",)))
    lines = {line.split()[0]: line for line in shown.splitlines() if "-one" in line}
    assert "holds" in lines["good-one"]
    assert "FAILS" in lines["bad-one"]


def test_the_worst_come_first() -> None:
    left = outcome(case="left", during=(*IDLE, Wait(1.0, is_bound=False)))
    slow = outcome(case="slow", during=tuple(Wait(3.0) for _ in range(9)))
    assert [each.case for each in verdict.worst([outcome(case="fine"), slow, left], 2)] == ["left", "slow"]


def test_outcomes_are_read_back(tmp_path: Path) -> None:
    measured = (outcome(), outcome(during=(Wait(9.0, is_bound=False),), log=(("crashed", 3),)))
    verdict.write(tmp_path / "o.json", measured)
    assert verdict.read(tmp_path / "o.json") == measured


@pytest.mark.parametrize(("fields", "status"), [({}, 0), ({"findings": ("x",)}, 1)], ids=["holds", "fails"])
def test_the_command_ends_with_the_verdict(
    fields: dict[str, Any], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict.write(tmp_path / "o.json", (outcome(case="told", **fields),))
    assert main([f"--show={tmp_path / 'o.json'}"]) == status
    assert "told" in capsys.readouterr().out


def test_a_stream_that_fills_the_fleet_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--nodes=4", "--rate=5"])
    assert "more than half of 4 nodes" in capsys.readouterr().err


def rendered(*outcomes: Outcome) -> str:
    console = Console(width=160, color_system=None)
    with console.capture() as capture:
        console.print(verdict.render(outcomes))
    return capture.get()


# cases


class Recorder:
    """Hands that keep what a case does with them, for so many steps of what it repeats."""

    nodes = NODES

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.made: list[Manifest] = []
        self.patched: list[str] = []

    async def make(self, *manifests: Manifest) -> None:
        self.made += manifests

    async def many(self, count: int, manifest: Callable[[int], Manifest]) -> None:
        await self.make(*(manifest(index) for index in range(count)))

    async def patch(self, manifest: Manifest, body: Manifest, subresource: str = "") -> None:
        assert body
        self.patched.append(object_path(manifest) + subresource)

    async def remove(self, manifest: Manifest) -> None:
        assert object_path(manifest)

    async def pause(self, seconds: float) -> None:
        assert seconds >= 0

    async def repeat(self, per_second: float, step: Callable[[int], Awaitable[None]]) -> None:
        assert per_second > 0
        for number in range(self._steps):
            await step(number)


def recorded(name: str, steps: int) -> Recorder:
    """What a case does, as far as it goes by itself."""
    recorder = Recorder(steps)

    async def run() -> None:
        await CASES[name].act(recorder)

    asyncio.run(run())
    return recorder


UNDISTURBED = sorted(name for name, each in CASES.items() if not each.disturbance and name != "control")
KINDS = {version: kind for kind, version in API_VERSIONS.items()}


@pytest.mark.parametrize("name", UNDISTURBED)
def test_a_case_makes_objects_that_can_be_sent(name: str) -> None:
    recorder = recorded(name, steps=120)
    assert recorder.made
    for each in recorder.made:
        assert object_path(each)
        size = len(written(each))
        if size > LARGEST_STORED:
            size = stored_bytes(KINDS[each["apiVersion"], each["kind"]], served(each))
        assert size < LARGEST_STORED  # what etcd takes
        assert len(written(each)) < 3 * 2**20  # what the API server reads


def test_a_disturbed_case_does_what_the_case_does() -> None:
    disturbed = {name: each for name, each in CASES.items() if each.disturbance}
    assert {each.disturbance for each in disturbed.values()} == {"restart", "relist"}
    for name, each in disturbed.items():
        assert each.act is CASES[name.removesuffix(f"-{each.disturbance}")].act


def test_a_watch_of_each_collection_is_refused_once_after_it_has_expired() -> None:
    watches = ExpiredWatches()

    def told(path: str, query: str = "watch=true") -> int | None:
        answer = watches.meet(Asked("GET", path, query, b""), is_done=False)
        return answer.status if answer is not None else None

    assert told("/api/v1/pods") is None
    watches.expire()
    assert (told("/api/v1/pods"), told("/api/v1/pods"), told("/api/v1/nodes")) == (410, None, 410)
    assert told("/api/v1/claims", "limit=500") is None
    watches.expire()
    assert told("/api/v1/pods") == 410


@pytest.mark.parametrize("name", UNDISTURBED)
def test_a_tenant_stays_in_its_namespace(name: str) -> None:
    recorder = recorded(name, steps=60)
    if CASES[name].rights == "tenant":
        assert {each["metadata"].get("namespace") for each in recorder.made} == {"mallory"}
    else:
        assert all(each["metadata"].get("namespace", "mallory") == "mallory" for each in recorder.made)


def test_no_case_takes_the_room_of_good_pods() -> None:
    made = [each for name in UNDISTURBED for each in recorded(name, steps=1).made if each["kind"] == "Pod"]
    nodes = {each["spec"].get("nodeName") for each in made}
    assert nodes <= {None, "special-0", "no-such-node"}


def test_the_cases_hold_everything_that_was_found() -> None:
    found = {
        "digits",
        "reservations",
        "alternatives",
        "regular-expressions",
        "costly-selectors",
        "waiting",
        "waiting-shapes",
        "deep-parameters",
        "dummy-gang",
        "versions",
        "names",
        "shields",
        "misspelt-selectors",
        "impossible-gangs",
        "large-pods",
    }
    assert found <= set(CASES)
    assert {each.probe for each in CASES.values()} == {"", *probes.PROBES}


def test_the_list_tells_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == list(CASES)


def test_what_mallory_told_last_is_read(tmp_path: Path) -> None:
    lines = [msgspec.json.encode(mallory.Told(created=number)).decode() for number in (1, 7)]
    (tmp_path / "log").write_text("\n".join((*lines, "Traceback …", "")))
    assert mallory.read_told(tmp_path / "log").created == 7
    assert mallory.read_told(tmp_path / "none") == mallory.Told()


def test_a_step_goes_on_until_the_case_ends() -> None:
    done: list[int] = []

    async def step(number: int) -> None:
        done.append(number)

    async def run() -> None:
        hands = mallory.Mallory(None, NODES)  # type: ignore[arg-type]  # nothing is sent
        task = asyncio.create_task(hands.repeat(100_000, step))
        while len(done) < 5:
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert done[:5] == [0, 1, 2, 3, 4]


# what else is looked at


def test_a_text_that_names_another_namespace_is_found() -> None:
    told = [("condition of a", "held by mallory/secret-0"), ("condition of b", "0/3 nodes are available")]
    assert probes.named(told, "mallory", ()) == ["condition of a names mallory: held by mallory/secret-0"]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        pytest.param("as held by secret-0.", True, id="its name alone"),
        pytest.param("as held by my-secret-0", False, id="a longer name"),
        pytest.param("request r1: 8 match", False, id="a name that may be a word"),
    ],
)
def test_a_telling_name_is_found_without_its_namespace(text: str, *, is_found: bool) -> None:
    assert bool(probes.named([("condition", text)], "mallory", {"secret-0", "r1"})) is is_found


def test_conditions_and_events_of_ours_are_read() -> None:
    pods: list[Manifest] = [
        {"metadata": {"name": "a"}, "status": {"conditions": [{"message": "why"}]}},
        {"metadata": {"name": "b"}},
    ]
    events: list[Manifest] = [
        {"reportingController": "dovetail/host", "regarding": {"name": "a"}, "note": "note"},
        {"reportingController": "kubelet", "regarding": {"name": "a"}, "note": "mallory/x"},
    ]
    assert [text for _, text in probes.texts(pods, events)] == ["why", "note "]


def test_complaints_of_a_log_are_counted() -> None:
    log = (
        '{"level":"info","event":"cycle"}\n{"level":"error","event":"crashed"}\n' * 2 + "Traceback (most recent\n  x\n"
    )
    assert dict(keeper.complaints(log)) == {"crashed": 2, "traceback": 1}


def test_the_processes_of_a_process_and_their_memory_are_found() -> None:
    with subprocess.Popen(["sleep", "60"]) as started:
        assert started.pid in keeper.children(os.getpid())
        assert keeper.resident_mib(os.getpid()) > 10
        started.kill()
    assert keeper.resident_mib(started.pid) == 0


def found(**fields: Any) -> Found:
    base = Found()
    base.made[Kind.PODS], base.admitted[Kind.PODS] = 100, 61
    base.waits = IDLE
    for name, value in fields.items():
        setattr(base, name, value)
    return base


def test_objects_that_were_admitted_and_did_no_harm_are_no_failure() -> None:
    assert found().failures == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({"harm": ["objects up to 59: the scheduler ended"]}, "the scheduler ended", id="an end"),
        pytest.param({"waits": (*IDLE, Wait(1.0, is_bound=False))}, "left behind", id="left"),
        pytest.param({"waits": tuple(Wait(3.0) for _ in range(9))}, "p99", id="late"),
        pytest.param({"admitted": type(Found().admitted)({Kind.PODS: 60})}, "only 60%", id="too few admitted"),
    ],
)
def test_an_online_run_that_finds_something_fails(fields: dict[str, Any], words: str) -> None:
    (failure,) = found(**fields).failures
    assert words in failure


def test_the_online_table_counts_by_kind() -> None:
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(online.render(found()))
    (line,) = [each for each in capture.get().splitlines() if each.strip().startswith("pods")]
    assert line.split() == ["pods", "100", "61", "39", "0", "0"]


@pytest.mark.controlplane
def test_a_case_is_measured_beside_good_pods(control_plane: ControlPlane) -> None:
    setting = Setting(nodes=4, per_second=2.0, idle_seconds=4.0, seconds=15.0)
    noted: list[int] = []
    (measured,) = asyncio.run(measure(control_plane, [CASES["escapes"]], setting, lambda each: noted.append(len(each))))
    assert noted == [1]
    assert measured.refused == 0
    assert 0 < measured.created <= 200  # as many as a busy machine makes in the time
    assert any(each.is_bound for each in measured.bare)
    assert len(measured.before) >= 5
    assert len(measured.during) >= 5
    assert (measured.left, measured.restarts) == (0, 0)
