"""`make perf`: the choice of workloads, the file for a test binary, the table and its page (pure)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.upstream.perf import measure, throughput, workloads
from e2e.upstream.perf.__main__ import MARKS, RECORD, main
from e2e.upstream.perf.throughput import Throughput
from e2e.upstream.perf.workloads import PerfWorkload, WorkloadError
from e2e.upstream.results import SchedulerName
from e2e.upstream.source import PERF
from e2e.versions import PAGE

CASE = {
    "name": "StarvationIndependent",
    "featureGates": {"A": True},
    "labels": ["performance"],
    "metricsCollectorConfig": {"metrics": {}},
    "workloadTemplate": [{"opcode": "createNodes", "countParam": "$initNodes"}],
    "workloads": [
        {"name": "small", "labels": ["short"], "threshold": 5, "params": {"initNodes": 5, "steadyState": True}},
        {"name": "gated", "params": {"initNodes": 5}, "featureGates": {"B": True}},
    ],
}


def sizes(case: dict[str, Any] = CASE) -> list[PerfWorkload]:
    return list(workloads.workloads("scheduler_perf/starvation", case))


def run(
    scheduler: SchedulerName, turn: int = 0, bound: int = 100, seconds: float = 1.0, because: str = ""
) -> Throughput:
    return Throughput(
        workload="Case/size",
        scheduler=scheduler,
        turn=turn,
        created=100,
        bound=bound,
        seconds=seconds,
        because=because,
    )


def values(measured: Sequence[Throughput]) -> tuple[str, ...]:
    (line,) = throughput.lines(measured)
    return line.bound, line.kube_scheduler, line.dovetail, line.ratio


def test_sizes_of_ours_come_after_those_of_upstream() -> None:
    names = [each.name for each in sizes()]
    assert names[:2] == ["StarvationIndependent/small", "StarvationIndependent/gated"]
    assert "StarvationIndependent/100Nodes_300Cloggers" in names[2:]


def test_every_size_of_ours_that_runs_by_default_is_defined() -> None:
    known = [each for name in ("StarvationIndependent", "GangScheduling") for each in sizes({**CASE, "name": name})]
    assert {each.case["name"] for each in workloads.chosen(known, None)} == {"StarvationIndependent", "GangScheduling"}


def test_a_test_binary_reads_one_workload_without_thresholds_and_metrics() -> None:
    (case,) = yaml.safe_load(sizes()[1].configuration())
    assert case.keys() == {"name", "featureGates", "workloadTemplate", "workloads"}
    assert case["workloads"] == [{"name": "gated", "params": {"initNodes": 5}, "featureGates": {"B": True}}]


def test_a_module_is_read_without_the_test_cases_that_say_nothing(tmp_path: Path) -> None:
    package = tmp_path / PERF / "dra" / "deeper"
    package.mkdir(parents=True)
    cases = [{**CASE, "name": "PublishResourceSlices"}, {**CASE, "name": "Kept"}]
    (package / workloads.CONFIGURATION).write_text(yaml.safe_dump(cases))
    found = workloads.read(tmp_path, ("dra", "affinity"))
    assert [each.name for each in found] == ["Kept/small", "Kept/gated"]
    assert {each.package for each in found} == {"scheduler_perf/dra/deeper"}


def test_workloads_are_chosen_by_a_regular_expression() -> None:
    assert [each.size for each in workloads.chosen(sizes(), "/(small|gated)$")] == ["small", "gated"]
    with pytest.raises(WorkloadError, match="no workload of these suites matches Nothing: --list"):
        workloads.chosen(sizes(), "Nothing")


def test_another_size_has_its_parameters_in_its_name() -> None:
    other = workloads.resized(sizes()[0], {"initNodes": 7})
    assert (other.size, other.params) == ("small:initNodes=7", {"initNodes": 7, "steadyState": True})
    assert workloads.resized(sizes()[0], {}) == sizes()[0]
    with pytest.raises(WorkloadError, match=r"small has no nodes; it has initNodes=5$"):
        workloads.resized(sizes()[0], {"nodes": 7})


def test_a_line_has_the_median_of_the_turns_and_the_ratio_of_each_turn() -> None:
    turns = [(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]
    measured = [
        each
        for turn, (peer, ours) in enumerate(turns)
        for each in (run("kube-scheduler", turn, seconds=peer), run("Dovetail", turn, seconds=ours))
    ]
    assert values(measured) == ("100", "50 (25–100)", "50", "1.00 (0.50–2.00)")


def test_slow_rates_have_a_digit_more() -> None:
    assert values([run("Dovetail", seconds=16.0)]) == ("100", "–", "6.2", "–")


def test_a_run_that_does_not_end_has_no_rate_and_is_told() -> None:
    late = run("Dovetail", 1, bound=12, because="did not end within 300 s")
    assert values([run("kube-scheduler", 1), late]) == ("100", "100", "failed", "–")
    assert values([run("Dovetail"), late]) == ("100", "–", "100, 1 failed", "–")
    assert throughput.failures([run("Dovetail"), late]) == [
        "Case/size, turn 2, Dovetail: did not end within 300 s; 12 of 100 pods bound."
    ]


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "    x.go:1: I1123 a line\n    x.go:86: FATAL ERROR:\n        \tError running workload x: op 2: no pod\n",
            "Error running workload x: op 2: no pod",
        ),
        ("panic: x\n", "failed without saying why, see its log"),
    ],
)
def test_the_log_says_why_a_run_failed(log: str, said: str) -> None:
    assert measure.failure(log) == said


def test_recorded_runs_give_the_table_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    throughput.write(tmp_path / RECORD, [run("kube-scheduler", seconds=2.0), run("Dovetail")])
    assert main(["--show", str(tmp_path)]) == 0
    assert "2.00" in capsys.readouterr().out


def test_recorded_turns_of_several_commands_are_paired_within_each() -> None:
    first = [run("kube-scheduler", seconds=2.0), run("Dovetail", seconds=1.0)]
    second = [run("kube-scheduler", seconds=1.0), run("Dovetail", seconds=1.0)]
    assert values(throughput.joined([first, second]))[-1] == "1.50 (1.00–2.00)"


def test_a_record_with_a_run_that_did_not_end_fails_the_command(tmp_path: Path) -> None:
    throughput.write(tmp_path / RECORD, [run("Dovetail", because="did not end within 1 s")])
    assert main(["--show", str(tmp_path)]) == 1


def test_a_parameter_that_is_no_number_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--set", "initNodes=many"])
    assert "'initNodes=many' is no NAME=N such as initNodes=200" in capsys.readouterr().err


def test_the_page_has_the_section_and_says_what_is_left_out() -> None:
    assert all(mark in PAGE.read_text() for mark in MARKS)
    page = throughput.markdown([run("Dovetail"), run("Dovetail", because="failed")], {"A": "creates no pods"})
    assert page.splitlines()[2:] == [
        "| Case/size | 100 | – | 100, 1 failed | – |",
        "",
        "- Case/size, turn 1, Dovetail: failed; 100 of 100 pods bound.",
        "- A is not run: it creates no pods.",
    ]
