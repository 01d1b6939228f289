"""Commands that ask a running scheduler, against the API itself: what they print, and their exit statuses."""

import asyncio
import io
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import yaml

from scheduler.api import api_server, scheduler_client, usage_answers
from scheduler.api.api_server import SchedulerApi, Subjects
from scheduler.cli import history
from scheduler.cli.main import main
from scheduler.cli.sources import absent_objects, watching
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import ClassKey, ClassSeconds, DeviceUsage, UsageSample, UsageTotals
from scheduler.kube.client import Client
from scheduler.observe.metrics import Metrics
from scheduler.page import history_listing
from scheduler.queue import SchedulingQueue
from scheduler.settings import ApiSettings, HistorySettings, default
from scheduler.simulation import devices_output, supply_output
from solver import fleet_of, grouped_supply
from solver.domain import (
    LevelReport,
    Placement,
    Plan,
    PodId,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    Unplaced,
    Victim,
)
from solver.domain.fleet import Grouping
from solver.model.objective import _LEVELS
from tests.scheduler.api.test_api_server import Reviewing
from tests.support.api_subjects import subjects
from tests.support.builders import allocation, claim, gpu_class, gpu_slice, held, node, pod, request, result, snapshot

Ask = Callable[..., int]
_HOST = default().metrics.node_group_label

FLEET = snapshot(
    node("n1"),
    node("n2"),
    gpu_slice("n1", count=2),
    gpu_slice("n2", count=2),
    gpu_class(),
    held("mine", result("gpu", "gpu-0", "n1"), namespace="team"),
    held("theirs", result("gpu", "gpu-1", "n1"), namespace="others"),
)

LEVELS = (
    LevelReport(name="placed:0", value=1, bound=1, proven=True),
    LevelReport(name="opened-nodes", value=3, bound=2, proven=False),
)


def _placement(name: str) -> Placement:
    return Placement(pod=PodId("team", name), pod_uid=name, node="gpu-4")


def _plan(*, placed: tuple[str, ...] = (), waiting: tuple[str, ...] = ()) -> Plan:
    reason = Reason(code=ReasonCode.NODE_UNSCHEDULABLE, message="request gpus: needs 1 device, 8 match, 0 free")
    return Plan(
        placements=tuple(map(_placement, placed)),
        unplaced=tuple(Unplaced(pod=PodId("team", each), pod_uid=each, reasons=(reason,)) for each in waiting),
        report=SearchReport(status=SearchStatus.FEASIBLE, levels=LEVELS),
    )


def _history() -> DecisionHistory:
    """`late` waits in two decisions, `soon` in the first; the third places both; `gone` is evicted."""
    begin, seconds = datetime.now(UTC) - timedelta(minutes=5), itertools.count()
    history = DecisionHistory(HistorySettings(), now=lambda: begin + timedelta(seconds=next(seconds)))
    for plan in (_plan(waiting=("late", "soon")), _plan(waiting=("late",)), _plan(placed=("late", "soon"))):
        number = history.begin()
        history.decided(
            number, plan, lambda _: None, profile="dovetail", pods=2, seconds=0.25, is_isolated=False, file="/f/x.json"
        )
    history.bound(3, _placement("late"), ("gpu.example.com/gpu-4/gpu-3",), 68.2)
    victim = Victim(pod=PodId("team", "gone"), pod_uid="gone", node="gpu-4", message="for a pod of another namespace")
    history.evicted(victim, PodId("others", "urgent"))
    history.bound(4, Placement(pod=PodId("others", "p"), pod_uid="p", node="gpu-5"), (), 0.5)
    return history


def _usage() -> DeviceUsage:
    usage = DeviceUsage(24)
    held = claim("c", request("gpu"), namespace="team", allocation=allocation(result("gpu", "gpu-0", "n1")))
    for now in (time.time() - 36, time.time()):
        usage.sample(UsageSample((held,), (gpu_slice("n1", count=4),)), lambda _: "", now)
    return usage


async def _serve(about: Callable[[], Subjects], found: Future[str], stop: asyncio.Event) -> None:
    settings = ApiSettings(bind_address="127.0.0.1:0", requests_per_second=1000)
    api = SchedulerApi(settings, cast("Client", Reviewing()), Metrics())
    api.lead(about())
    async with api_server.serving(api, settings) as address:
        found.set_result(f"http://{address}")
        await stop.wait()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of an API with a history, in a thread with a loop of its own."""
    found, stop, loop = Future[str](), asyncio.Event(), asyncio.new_event_loop()
    queue = SchedulingQueue({"dovetail"})
    for at, (name, priority) in enumerate((("late", 0), ("urgent", 5))):
        queue.offer(pod(name, namespace="team", priority=priority), float(at))
    queue.offer(pod("theirs", namespace="others", priority=9), 3.0)
    about = partial(subjects, snapshot=FLEET, history=_history(), usage=_usage(), queue=queue)
    thread = threading.Thread(target=lambda: loop.run_until_complete(_serve(about, found, stop)), daemon=True)
    thread.start()
    yield found.result(timeout=60)
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.fixture
def ask(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a command with the kubeconfig of a user ("": without a token); an answer has a minute."""
    monkeypatch.setattr(scheduler_client, "_SECONDS", 60.0)

    def run(command: str, *words: str, user: str = "ops") -> int:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
            "users": [{"name": "u", "user": {"token": f"token-{user}"} if user else {}}],
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return main([command, f"--server={server}", f"--kubeconfig={path}", *words])

    return run


def _lines(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The lines that were printed, as cells, without the time of each."""
    return [line.split("   ", 1)[1].split() for line in capsys.readouterr().out.splitlines() if line]


def test_a_pods_history_names_node_and_devices(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("history", "pod/late") == 0

    head, waited, bound = _lines(capsys)
    assert head == ["DECISION", "NAMESPACE", "POD", "WHAT", "NODE", "DEVICES", "WHY"]
    assert waited[:4] == ["2", "team", "late", "Waits"]
    assert " ".join(waited).endswith("8 match, 0 free (the last of 2 decisions)")
    assert bound == ["3", "team", "late", "Bound", "gpu-4", "gpu-3", "(gpu.example.com)"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_the_limit_is_that_of_lines(ask: Ask, capsys: pytest.CaptureFixture[str], limit: int) -> None:
    assert ask("history", f"--limit={limit}") == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 1 + limit
    assert ("raise --limit" in printed.err) == (limit < 5)


def test_a_decision_about_many_pods_has_no_more_lines_than_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("a", "b", "c")
    kept = DecisionHistory(HistorySettings())
    plan = _plan(waiting=names)
    kept.decided(1, plan, lambda _: None, profile="dovetail", pods=3, seconds=0.25, is_isolated=False)
    history.show_pods(tuple(kept.newest(0)), 2, is_wide=False)
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2


def test_records_that_may_not_be_seen_take_no_line(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("history", "-A", "--limit=1", user="team") == 3
    assert [cells[:3] for cells in _lines(capsys)[1:]] == [["team", "gone", "Evicted"]]


def test_a_document_has_no_more_records_than_the_limit(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    """The newest record may not be seen, so that more are asked for than the limit."""
    assert ask("history", "-A", "--limit=1", "-o", "json", user="team") == 3
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [each["name"] for each in found["items"]] == ["gone"]
    assert found["truncated"]
    assert "there is more: raise --limit" in printed.err


def test_how_long_a_pod_waited_is_no_reason(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("history", "pod/late", "-o", "wide") == 0
    head, _, bound = capsys.readouterr().out.splitlines()
    assert "WAITED" in head
    assert bound.endswith("68.2 s")


def test_the_namespace_is_that_of_the_context(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("history") == 0

    what = {(cells[2], cells[3]) if cells[0].isdigit() else (cells[1], cells[2]) for cells in _lines(capsys)[1:]}
    assert what == {("late", "Waits"), ("late", "Bound"), ("soon", "Waits"), ("soon", "Placed"), ("gone", "Evicted")}


def test_where_nothing_is_known_it_says_since_when_something_would_be(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("history", "pod/nobody") == 0

    said = capsys.readouterr().out
    assert "Nothing is recorded of pod team/nobody; the history begins at 2" in said
    assert said.endswith(". What another replica decided before is in its log.\n")


def test_the_time_and_the_names_stay_whole_on_a_narrow_terminal(
    ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask("history") == 0
    times = set(re.findall(r"\d{4}-\S+Z", capsys.readouterr().out))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    assert ask("history") == 0
    narrow = capsys.readouterr().out
    assert times
    assert all(each in narrow for each in (*times, "late", "soon", "gone"))
    assert "…" not in narrow


def test_where_you_may_see_nothing_it_is_not_said_that_there_is_nothing(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("history", "-A", user="viewer") == 3
    assert "Nothing that you may see is recorded; the history begins at 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("user", "status", "why"),
    [("ops", 0, "for a pod of another namespace (pod others/urgent)"), ("team", 0, "for a pod of another namespace")],
)
def test_the_preemptor_is_named_to_users_who_may_list_it(
    ask: Ask, capsys: pytest.CaptureFixture[str], user: str, status: int, why: str
) -> None:
    assert ask("history", "pod/gone", user=user) == status
    assert capsys.readouterr().out.rstrip().endswith(why)


def test_what_several_decisions_say_of_a_pod_stands_at_the_time_of_the_last(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("history") == 0

    waits = [cells[:3] for cells in _lines(capsys)[1:] if "Waits" in cells]
    assert waits == [["1", "team", "soon"], ["2", "team", "late"]]


def test_decisions_have_a_line_each_with_their_levels(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("history", "-A", "--decisions") == 0

    _, *rows = _lines(capsys)
    assert [row[:7] for row in rows] == [
        ["1", "2", "0", "2", "0", "0.250", "Feasible"],
        ["2", "2", "0", "1", "0", "0.250", "Feasible"],
        ["3", "2", "2", "0", "0", "0.250", "Feasible"],
    ]
    assert " ".join(rows[0][7:]) == (
        "pods of priority 0 placed: 1 (best); nodes used that had no device in use: 3 (at best 2)"
    )


def test_every_level_has_words() -> None:
    assert history_listing.LEVEL_WORDS.keys() == set(_LEVELS)
    overdue = LevelReport(name="placed:7:overdue", value=1, bound=1, proven=True)
    assert history_listing.level_in_words(overdue) == "overdue pods of priority 7 placed: 1 (best)"
    for name, words in {
        "placed:7": "pods of priority 7 placed",
        "placed:7:guaranteed": "guaranteed pods of priority 7 placed",
        "placed-devices:7:overdue": "devices of overdue pods of priority 7 placed",
        "larger-pods:7": "squares of the devices of pods of priority 7 placed",
    }.items():
        level = LevelReport(name=name, value=3, bound=4, proven=False)
        assert history_listing.level_in_words(level) == f"{words}: 3 (at best 4)"


def test_what_may_not_be_listed_is_said(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("history", "-A", user="team") == 3

    assert "left out, because you may not list them: 1 pod, 1 namespace" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents_have_the_kind_and_version_of_all_commands(
    ask: Ask, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert ask("history", "-n", "team", "-o", form) == 0

    text = capsys.readouterr().out
    document = json.loads(text) if form == "json" else yaml.safe_load(text)
    assert (document["apiVersion"], document["kind"]) == ("output.dovetail.dev/v1alpha1", "History")
    assert document["items"][0]["result"] == "Evicted"


def test_usage_has_a_line_for_each_namespace_and_driver(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("usage") == 0

    text = capsys.readouterr().out
    assert "team" in text
    assert "25%" in text
    assert ask("usage", "--by", "class", "-n", "team", "-o", "json") == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["name"], item["deviceHours"]) == ("gpu", 0.01)


@pytest.mark.parametrize(
    ("words", "user", "text"),
    [
        (("history", "--since", "soon"), "ops", "'soon' is no time: write 30s, 15m, 1h, 2d or 1h30m"),
        (("history", "node/x"), "ops", "this command takes pod/NAME"),
        (("history", "job/x"), "ops", "not a job; write pod/NAME for each of its pods"),
        (("history", "gang/x"), "ops", "; write pod/NAME for each of its pods"),
        (("history", "-n", "others"), "team", "cannot list pods in the namespace 'others'"),
        (("history",), "", "write --service-account NAMESPACE/NAME"),
        (("history", "--service-account=x"), "ops", "--service-account: 'x' is not valid: write NAMESPACE/NAME"),
        (("history", "--server=http://example.com"), "ops", "write https://HOST:PORT"),
        (("usage", "--limit", "1"), "ops", "unrecognized arguments"),
    ],
)
def test_mistakes_are_explained(
    ask: Ask, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], user: str, text: str
) -> None:
    try:
        status: object = ask(*words, user=user)
    except SystemExit as ended:
        status = ended.code

    assert status == 2
    assert text in capsys.readouterr().err


def test_devices_of_a_running_scheduler_are_printed_as_those_of_a_cluster(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = io.StringIO()
    devices = [each for each in fleet_of(FLEET, node_group_label=_HOST).devices if each.node == "n1"]
    devices_output.show(devices, printed, datetime.now(UTC))

    assert ask("devices", "node/n1") == 0
    assert capsys.readouterr().out == printed.getvalue()
    assert ask("devices", "pod/absent") == 0
    assert capsys.readouterr().out == devices_output.NO_DEVICE


def test_devices_that_claims_hold_which_you_may_not_list_have_no_holder(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("devices", "node/n1", user="viewer") == 3
    output = capsys.readouterr()
    assert "mine" in output.out
    assert "others" not in output.out
    assert output.err == "dovetail: warning: left out, because you may not list them: 1 device, 1 namespace\n"


@pytest.mark.parametrize("form", ["table", "json"])
def test_free_of_a_running_scheduler_is_that_of_a_cluster(
    form: str, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = fleet_of(FLEET, node_group_label=_HOST)
    supply = grouped_supply(fleet, fleet.devices, (Grouping.NODE, Grouping.NAMESPACE))
    printed = io.StringIO()
    supply_output.show(supply, fleet, printed)

    assert ask("free", "--by", "node,namespace", "-o", form) == 0
    found = capsys.readouterr().out
    if form == "table":
        assert found == printed.getvalue()
    else:
        document = json.loads(found)
        assert document["items"] == supply_output.document(supply, fleet)["items"]
        assert document["reserved"] is None


def test_a_running_scheduler_does_not_say_which_devices_are_reserved(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("devices", "node/n2", "-o", "json") == 0
    assert [each["reserved"] for each in json.loads(capsys.readouterr().out)["items"]] == [None, None]


@pytest.mark.parametrize("command", ["devices", "free"])
def test_a_running_scheduler_is_not_asked_about_files(
    command: str, ask: Ask, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert ask(command, "-f", str(tmp_path)) == 2
    assert "leave out -f and --snapshot" in capsys.readouterr().err


def test_the_queue_of_a_running_scheduler_has_its_order_and_states(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("queue", "-o", "wide") == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert head[:8] == ["#", "POD", "PRIORITY", "WAITS", "REASON", "STATE", "ATTEMPTS", "GANG"]
    assert [row[:3] for row in rows] == [["2", "urgent", "5"], ["3", "late", "0"]]
    assert {row[5] for row in rows} == {"active"}
    assert ask("queue", "-A", "-o", "json") == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["pods"]] == ["theirs", "urgent", "late"]


@pytest.mark.parametrize("command", ["devices", "history", "queue"])
def test_an_answer_of_a_running_scheduler_can_be_watched(
    command: str, ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(command) == 0
    once = capsys.readouterr().out

    def twice(asked: Callable[[], object], show: Callable[[object], object]) -> None:
        show(asked())
        show(asked())
        raise KeyboardInterrupt

    monkeypatch.setattr(watching, "watch", twice)
    assert ask(command, "--watch") == 130
    assert capsys.readouterr().out == once * 2


def test_the_queue_of_a_running_scheduler_takes_no_selector(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("queue", "-l", "app=web") == 2
    assert "leave out -l and --scheduler-name" in capsys.readouterr().err


def test_a_class_is_averaged_over_the_time_in_which_it_was_counted() -> None:
    key, hour = ClassKey("gpu", "gpu.example.com"), 3600.0
    classes = {key: ClassSeconds(8 * hour, 32 * hour)}
    totals = UsageTotals(0.0, 2 * hour, 2 * hour, hour, {}, {}, classes)
    (found,) = usage_answers.classes_of(totals)
    assert (found.held_device_hours, found.idle_device_hours, found.devices) == (8.0, 24.0, 32.0)


def test_a_namespace_without_usage_that_does_not_exist_is_said(
    ask: Ask, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent_objects, "absence", lambda target, _: f"{target} does not exist")
    assert ask("usage", "-n", "nosuch") == 2
    printed = capsys.readouterr()
    assert printed.err.endswith("namespace nosuch does not exist\n")
    assert printed.out == ""
    assert ask("usage", "-n", "team") == 0
