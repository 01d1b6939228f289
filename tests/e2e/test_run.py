"""`make run`: the table's rows from pods and claims (pure), and the whole of it on a real control plane."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from rich.console import Console

from e2e import table
from e2e.controlplane.plane import REPOSITORY
from e2e.fleet import fleets
from e2e.run import __main__ as run_command
from e2e.run import real, view
from e2e.run.__main__ import verdict
from e2e.scenarios.examples import EXPECT, EXPECT_REASON, Expectation, read_examples
from e2e.table import Row
from tests.support.controlplane import wait_until

Object = dict[str, Any]


def pod(name: str = "p", *, node: str = "", phase: str = "Pending", message: str = "", **metadata: Any) -> Object:
    conditions = [{"type": "PodScheduled", "status": "False", "message": message}] if message else []
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, **metadata},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": conditions},
    }


def claim(*devices: str, reserved_for: tuple[str, ...] = ("p",), **result: Any) -> Object:
    results = [{"request": "r", "driver": "d", "pool": "n", "device": device, **result} for device in devices]
    consumers = [{"resource": "pods", "name": uid, "uid": uid} for uid in reserved_for]
    return {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": consumers}}


def expecting(state: str, reason: str = "") -> dict[str, str]:
    return {EXPECT: state, EXPECT_REASON: reason} if reason else {EXPECT: state}


def row(pods: Object, *claims: Object) -> Row:
    (found,) = table.rows([pods], claims)
    return found


@pytest.mark.parametrize(
    ("given", "state"),
    [
        pytest.param(pod(), "Pending", id="waits"),
        pytest.param(pod(node="n"), "Bound", id="has a node and does not run yet"),
        pytest.param(pod(node="n", phase="Running"), "Running", id="runs"),
        pytest.param(pod(node="n", phase="Running", deletionTimestamp="now"), "Ending", id="is being deleted"),
        pytest.param(pod(node="n", phase="Succeeded"), "Succeeded", id="has ended"),
    ],
)
def test_the_state_is_what_a_person_calls_it(given: Object, state: str) -> None:
    assert row(given).state == state


def test_a_pod_has_the_devices_of_all_its_claims() -> None:
    assert row(pod(), claim("gpu-0"), claim("nic-1")).devices == ("gpu-0", "nic-1")


def test_a_pod_has_no_devices_of_claims_that_are_reserved_for_others() -> None:
    assert row(pod(), claim("gpu-0", reserved_for=("q",))).devices == ()


def test_a_share_says_how_much_memory_it_is() -> None:
    assert row(pod(), claim("gpu-0", consumedCapacity={"memory": "10Gi", "cores": "25"})).devices == ("gpu-0 (10Gi)",)


def test_a_waiting_pod_says_why() -> None:
    assert row(pod(message="no device matches")).waits_because == "no device matches"


def test_a_bound_pod_waits_for_nothing_whatever_its_condition_says() -> None:
    assert row(pod(node="n", message="old news")).waits_because == ""


def test_where_containers_are_real_a_pod_has_what_they_printed() -> None:
    given = pod(node="n", phase="Running")
    given["spec"]["containers"] = [{"name": "server"}, {"name": "proxy"}]
    said = {("p", "server"): ("d/n/gpu-0", "d/n/gpu-1", "d/n/gpu-2/0123456789")}
    (found,) = table.rows([given], [claim("gpu-7")], said)
    assert (found.state, found.seen) == ("Starting", ("gpu-0, gpu-1, gpu-2 (share 01234567)",))
    (found,) = table.rows([given], [claim("gpu-7")], {**said, ("p", "proxy"): ()})
    assert found.state == "Running"
    assert found.seen == ("server: gpu-0, gpu-1, gpu-2 (share 01234567)", "proxy: none")
    assert "proxy: none" in table.plain([found])
    assert next(view.changes((), [found])).endswith("gpu-2 (share 01234567); proxy: none")


def test_where_containers_are_real_a_pod_that_does_not_run_has_what_its_claims_have() -> None:
    (found,) = table.rows([pod(node="n")], [claim("gpu-7")], {})
    assert (found.state, found.seen) == ("Bound", ("gpu-7",))


def test_the_table_says_whose_devices_it_shows() -> None:
    of_claims = Row(pod="p", state="Running", devices=("gpu-0",))
    of_containers = Row(pod="p", state="Running", containers=(table.Container("main", ("gpu-0",)),))
    assert "CONTAINERS" not in table.plain([of_claims])
    assert "DEVICES IN CONTAINERS" in table.plain([of_containers])


def test_rows_are_sorted_by_namespace_and_name() -> None:
    pods = [pod("b"), pod("a"), pod("c", namespace="another")]
    assert [each.pod for each in table.rows(pods, [])] == ["another/c", "a", "b"]


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        pytest.param((), "", id="none"),
        pytest.param(("gpu-1",), "gpu-1", id="one"),
        pytest.param(("gpu-1", "gpu-0"), "gpu-0, gpu-1", id="two are both named"),
        pytest.param(tuple(f"gpu-{n}" for n in range(8)), "gpu-0…gpu-7", id="a run becomes a range"),
        pytest.param(tuple(f"gpu-{n}" for n in (8, 9, 10, 11)), "gpu-8…gpu-11", id="counted as numbers, not as text"),
        pytest.param(("gpu-0", "gpu-1", "gpu-2", "nic"), "gpu-0…gpu-2, nic", id="a range and another"),
        pytest.param(tuple("abcdef"), "a, b, c, d, +2", id="only the first are shown"),
    ],
)
def test_long_lists_of_devices_are_shortened(devices: tuple[str, ...], text: str) -> None:
    assert table.shorten(devices) == text


@pytest.mark.parametrize(
    ("given", "is_good"),
    [
        pytest.param(pod(phase="Running", node="n", annotations=expecting("Running")), True, id="runs as expected"),
        pytest.param(pod(annotations=expecting("Running")), False, id="waits where it should run"),
        pytest.param(pod(annotations=expecting("Pending", "80Gi")), False, id="waits without a reason"),
        pytest.param(
            pod(message="0 have 80Gi", annotations=expecting("Pending", "80Gi")), True, id="waits and says why"
        ),
        pytest.param(
            pod(message="no cpu", annotations=expecting("Pending", "80Gi")), False, id="waits for another reason"
        ),
        pytest.param(pod(annotations=expecting("Pending")), False, id="waits unseen by any scheduler"),
        pytest.param(pod(), True, id="of which nothing is expected"),
    ],
)
def test_a_pod_is_as_its_annotation_says(given: Object, is_good: bool) -> None:  # noqa: FBT001 - a table's column
    assert row(given).is_as_expected is is_good


def test_a_difference_says_what_was_expected_and_what_is() -> None:
    found = row(pod(message="no cpu", annotations=expecting("Pending", "80Gi")))
    assert found.difference == 'p is to end Pending for "80Gi" and is Pending: no cpu'


def test_the_table_fits_100_columns() -> None:
    long = "0/7 nodes are available: " + "7 cannot allocate all claims, " * 9
    text = table.plain(
        [Row(pod="a" * 80, state="Running", node="n" * 60), Row(pod="p", state="Pending", waits_because=long)]
    )
    assert max(map(len, text.splitlines())) <= 100


def test_the_table_shows_the_whole_reason() -> None:
    words = " ".join(f"word{number}" for number in range(60))
    text = table.plain([Row(pod="p", state="Pending", waits_because=words)])
    assert re.findall(r"word\d+", text) == words.split()


COUNTED = "0/9 nodes are available: 1 Insufficient nvidia.com/gpu, 8 cannot allocate all claims."


def test_on_a_terminal_the_hint_comes_first_and_the_counts_last() -> None:
    waiting = Row(pod="p", state="Pending", waits_because=f"{COUNTED} Hint: did you mean x? request gpu: none matches.")
    assert waiting.reason == f"Hint: did you mean x? request gpu: none matches. {COUNTED}"
    assert next(view.changes((), [waiting])).startswith("p: Pending: Hint: did you mean x?")


@pytest.mark.parametrize("message", [COUNTED, "no nodes available to schedule pods.", ""])
def test_a_reason_of_one_part_stays_as_it_is(message: str) -> None:
    assert Row(pod="p", state="Pending", waits_because=message).reason == message


def test_a_reason_has_the_lines_that_a_terminal_leaves() -> None:
    rows = [Row(pod="p", state="Pending", waits_because="why"), *(Row(pod="q", state="Running") for _ in range(29))]
    assert view.longest_reason(rows, 102, 24) == 4 * 40
    assert view.longest_reason(rows, 102, 46) == 11 * 40
    several = tuple(table.Container(name, ()) for name in ("server", "metrics", "proxy"))
    assert (
        view.longest_reason([*rows[1:], Row(pod="r", state="Running", containers=several), rows[0]], 102, 49) == 11 * 40
    )


def test_text_for_files_has_no_control_codes() -> None:
    assert "\x1b" not in table.plain([Row(pod="p", state="Running", node="n", devices=("gpu-0",))])


def test_a_pod_of_a_deployment_is_shown_without_the_hash() -> None:
    assert row(pod("web-7c66985ccd-4tkwh", labels={"pod-template-hash": "7c66985ccd"})).short_name == "web-…-4tkwh"


def test_only_what_changed_is_told() -> None:
    before = [Row(pod="a", state="Running"), Row(pod="b", state="Pending"), Row(pod="c", state="Running")]
    after = [Row(pod="a", state="Running"), Row(pod="b", state="Running", node="n", devices=("gpu-0",))]
    assert list(view.changes(before, after)) == ["b: Running on n with gpu-0", "c: gone"]


def test_it_is_not_settled_before_all_pods_are_there() -> None:
    assert not view.is_settled([Row(pod="a", state="Running", expected=Expectation("Running"))], 2)


def test_the_verdict_names_every_pod_that_differs() -> None:
    console = Console(width=100, color_system=None)
    rows = [
        Row(pod="a", state="Running", expected=Expectation("Running")),
        Row(pod="b", state="Pending", expected=Expectation("Running")),
    ]
    with console.capture() as capture:
        status = verdict(rows, 2, console)
    assert status == 1
    assert capture.get() == ("1 of 2 pods ended as their examples say.\n  b is to end Running and is Pending\n")


def test_a_real_node_is_made_like_that_of_the_fleet() -> None:
    fleet = fleets.demo_fleet()
    nodes = {each["metadata"]["name"]: real.spec_of(each, fleet) for each in fleet.nodes}
    assert nodes["h100-nvlink-1"].labels["nvidia.com/gpu.clique"] == "5b1a.0"
    assert nodes["h100-nvlink-1"].kubelet["registerWithTaints"][0]["key"] == "nvidia.com/nvlink-domain"
    assert list(nodes["h100-1"].drivers) == ["gpu.nvidia.com", "dra.net"]
    assert (nodes["cpu-1"].cpus, nodes["cpu-1"].drivers) == (16, {})
    published = [each for node in nodes.values() for slices in node.drivers.values() for each in slices]
    assert published == [{"devices": each["spec"]["devices"]} for each in fleet.slices]


def test_where_nodes_cannot_be_the_command_says_why_and_what_can(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_command, "unusable", lambda *_: "real nodes need root")
    assert run_command.main(["--nodes", "--once"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        "",
        "No node can run here: real nodes need root. `make run` shows the same without.\n",
    )


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "e2e.run", *arguments]


@pytest.mark.controlplane
@pytest.mark.parametrize("gates", ["on", "defaults"])
def test_once_ends_well_with_every_example_as_it_says(tmp_path: Path, gates: str) -> None:
    arguments = command("--once", "--timeout=60", f"--folder={tmp_path}", f"--gates={gates}")
    done = subprocess.run(arguments, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=180)
    log = tmp_path / "dovetail.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text()[-4000:] if log.exists() else "")
    count = sum(example.pod_count for example in read_examples())
    assert f"{count} of {count} pods ended as their examples say." in done.stdout


@pytest.mark.controlplane
@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGINT, 0, id="by Ctrl-C"),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, id="by SIGKILL"),
    ],
)
def test_its_end_is_the_end_of_everything_that_it_started(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with subprocess.Popen(
        command(f"--folder={tmp_path}"), cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout
        said = ""
        try:
            for line in run.stdout:
                said += line
                if "dovetail history --server=" in line:
                    break
            assert any("e2e.dovetail" in words for words in processes_in(tmp_path)), said
            assert [said.count(f"{name} ") for name in ("cannot-fit", "gpu-beside-its-data")] == [1, 1], said
            (program,) = re.findall(r"dovetail=(\S+)", said)
            assert Path(program).exists()
            (page,) = re.findall(r"in a browser: (\S+)", said)
            about = f"{page}v1alpha1/decisions?namespace=default&pod=gpu-beside-its-data"
            wait_until(lambda: what_happened(about) == "Bound")
            run.send_signal(number)
            assert run.wait(90) == status, said
        finally:
            run.kill()  # or the block would wait for it for ever
    wait_until(lambda: processes_in(tmp_path) == [])


def what_happened(url: str) -> str:
    """The last event of a pod on the page; nothing while the page does not answer yet."""
    try:
        with urlopen(url, timeout=30) as answer:  # noqa: S310 - the address of our own page
            events = json.load(answer)["events"]
    except OSError:
        return ""
    return str(events[0]["what"]) if events else ""


def processes_in(folder: Path) -> list[str]:
    """Find the processes whose command line names a folder, apart from this one."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(folder) in words:
                found.append(words)
    return found
