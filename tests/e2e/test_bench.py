"""`make bench`: workloads that are the same for the same seed, measures that can find fault, a table that shows it."""

import io
import lzma
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

import solver
from e2e.bench import ablation, asks, growth, measure, memory, recorded, table
from e2e.bench.__main__ import main
from e2e.bench.measure import Effort, LevelMeasure, Measure
from e2e.bench.workloads import Case, workloads
from scheduler.worker.recording import Record
from solver import verify
from solver.domain import Batch, Budget, LevelReport, Policy, SearchStage, Violation
from solver.problem.problem import Problem
from solver.search import scoring
from solver.search.stages import SearchResult
from solver.solution import Solution

QUICK = Effort(work=0.2, runs=1)


def level(**changes: int | str | bool) -> LevelMeasure:
    plain = LevelMeasure(name="placed:0", first_fit=5, greedy=6, final=7, bound=9, proven=False)
    return msgspec.structs.replace(plain, **changes)


def measured(*levels: LevelMeasure, findings: tuple[str, ...] = ()) -> Measure:
    return Measure(
        workload="W0",
        seed=3,
        nodes=10,
        pods=20,
        placed=7,
        levels=levels or (level(),),
        stages=("greedy", "lp-bound", "exact"),
        cold=2.0,
        seconds=(1.0, 3.0),
        work=0.5,
        findings=findings,
    )


def shown(*measures: Measure) -> str:
    text = io.StringIO()
    Console(width=100, file=text).print(table.render(measures))
    return text.getvalue()


def test_no_number_is_cut_however_long_it_is() -> None:
    made = table.render(
        [measured(level(name="spoiled-partitions", first_fit=-(10**15), final=-(10**15), bound=-(10**14)))]
    )
    text = io.StringIO()
    Console(width=table.width(made), file=text).print(made)
    assert "…" not in text.getvalue()


def small(name: str, pods: int) -> Case:
    case = workloads()[name].make(0)
    return Case(case.snapshot, Batch(pods=case.batch.pods[:pods]))


@pytest.mark.parametrize("name", ["W2t", "W3t", "W4", "W5", "W8", "W8h12"])
def test_a_seed_gives_the_same_case_again_and_another_seed_another(name: str) -> None:
    workload = workloads()[name]
    first, again, other = workload.make(1), workload.make(1), workload.make(2)
    assert (first == again, first.batch == other.batch) == (True, False)


def test_the_pods_of_a_case_come_in_queue_order() -> None:
    priorities = [pod.priority for pod in workloads()["W2t"].make(0).batch.pods]
    assert priorities == sorted(priorities, reverse=True)


@pytest.mark.parametrize("name", ["W2t", "W3t", "W4", "W5", "W8h12"])
def test_a_part_of_every_workload_is_solved_without_fault(name: str) -> None:
    found = measure.measure(name, 0, small(name, 40), Policy(), QUICK)
    assert table.problems([found]) == ()
    assert found.placed > 0


def test_priorities_can_be_summed() -> None:
    case = small("W8h12", 10)
    found = measure.measure("W8h12", 0, case, Policy(sums_priorities=True), QUICK)
    assert (found.levels[0].name, found.levels[0].final) == ("placed", sum(pod.priority for pod in case.batch.pods))


def test_a_gap_that_is_open_and_one_that_is_proven_are_shown() -> None:
    proven = level(name="placed:1", final=9, bound=9, proven=True)
    assert [each[4:] for each in cells(measured(proven, level()))] == [["9", "proven"], ["9", "2", "(22.2%)"]]


def test_nothing_is_said_of_bounds_after_a_level_that_is_open() -> None:
    later = level(name="placed:1", final=-5, bound=0)
    assert [each[4:] for each in cells(measured(level(), later))] == [["9", "2", "(22.2%)"], ["–", "open"]]


def test_nothing_is_cut_off_where_runs_take_long() -> None:
    slow = msgspec.structs.replace(measured(), seconds=(107.65, 1107.65), cold=3070.69)
    text = shown(slow)
    assert "…" not in text
    assert all(part in text for part in ("607.65", "107.65–1107.65", "cold 3070.69"))


def cells(found: Measure) -> list[list[str]]:
    """The cells of each level, from its name on; what the run took stands in the last column."""
    lines = [line for line in shown(found).splitlines() if "placed:" in line]
    return [" ".join(line[line.index("placed:") :].split()[: 7 if "(" in line else 6]).split() for line in lines]


def test_the_table_fits_a_hundred_columns() -> None:
    assert max(map(len, shown(measured(level(name="opened-devices", final=-1234567))).splitlines())) <= 100


def test_levels_of_which_there_is_nothing_to_say_are_left_out() -> None:
    idle = level(name="opened-devices", first_fit=0, greedy=0, final=0, bound=0, proven=True)
    assert "opened-devices" not in shown(measured(level(), idle))


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        pytest.param((level(final=4),), "the plan is worth less than first fit", id="below first fit"),
        pytest.param((level(final=5),), "the plan is worth less than the greedy", id="below the greedy"),
    ],
)
def test_a_plan_that_is_worse_is_a_problem(levels: tuple[LevelMeasure, ...], problem: str) -> None:
    assert f"W0 (seed 3): {problem}" in table.problems([measured(*levels)])


def test_a_later_level_may_be_worse_where_an_earlier_one_is_better() -> None:
    assert table.problems([measured(level(), level(name="opened-nodes", final=-9, greedy=-2, first_fit=-2))]) == ()


def test_runs_that_differ_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = iter(range(99))

    def unsteady(*arguments: object) -> object:
        plan = solver.solve(*arguments)  # type: ignore[arg-type] # handed on as it came
        report = msgspec.structs.replace(plan.report, variable_count=next(plans))
        return msgspec.structs.replace(plan, report=report)

    monkeypatch.setattr("e2e.bench.measure.solve", unsteady)
    found = measure.measure("W8h12", 0, small("W8h12", 4), Policy(), QUICK)
    assert found.findings == ("runs gave different plans",)


def test_a_broken_rule_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = next(iter(verify.Rule))
    violation = Violation(rule=broken, subject="p", message="m")
    monkeypatch.setattr(verify, "check", lambda *_: (violation,))
    found = measure.measure("W8h12", 0, small("W8h12", 4), Policy(), QUICK)
    assert found.findings == (f"{broken}: p: m",)


def test_a_recorded_measure_is_shown_and_fails_as_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    measure.write(path, (measured(findings=("runs gave different plans",)),))
    assert main([f"--show={path}"]) == 1
    assert "W0 (seed 3): runs gave different plans" in capsys.readouterr().err


def test_memory_is_measured_for_both_processes() -> None:
    measured = memory.measure(nodes=100)
    assert [each.process for each in measured] == ["shell", "worker"]
    for each in measured:
        assert each.kib["bound pod with its claim"] > 1  # a pod, a claim and their keys are more than a KiB
        assert each.kib["waiting pod with its claim"] > 1
    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(memory.render(measured))
    assert "waiting pod with its claim, KiB" in console.export_text()


def test_recorded_cases_are_ten_and_small() -> None:
    sizes = [(recorded.FOLDER / f"{name}.json.xz").stat().st_size for name in recorded.names()]
    assert set(recorded.names()) == {each.name for each in recorded.recorded_scenarios()}
    assert (len(sizes), sum(sizes) < 10 * 2**20) == (10, True)


@pytest.mark.parametrize("name", recorded.names())
def test_a_recorded_case_is_read_as_it_was_written(name: str) -> None:
    content = lzma.decompress((recorded.FOLDER / f"{name}.json.xz").read_bytes())
    assert msgspec.json.encode(msgspec.json.decode(content, type=Record)) == content, "record it anew"


@pytest.mark.parametrize("name", ["first-available", "halves-and-whole", "memory-shares", "mig-mix", "preemption"])
def test_a_recorded_case_is_solved_without_fault(name: str) -> None:
    case = recorded.read(name)
    assert case.policy is not None
    found = measure.measure(name, 0, case, case.policy, QUICK)
    assert table.problems([found]) == ()
    assert all(level.proven for level in found.levels)


def test_an_ablation_says_what_a_stage_earns(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(problem: Problem, start: Solution, _: Budget) -> SearchResult:
        placed = 48 if problem.params.runs(SearchStage.EXACT) else 40
        return SearchResult(
            start, (LevelReport(name="placed:0", value=placed, bound=48, proven=placed == 48),), (), (0, 0)
        )

    monkeypatch.setattr(scoring, "search_and_score", searched)
    case, stages = recorded.read("mig-mix"), (SearchStage.EXACT, SearchStage.GANGS_FIRST)
    whole, worse, equal = ablation.ablated("mig-mix", case, case.policy or Policy(), QUICK, stages)
    assert [each.is_changed for each in (whole, worse, equal)] == [False, True, False]
    assert (worse.changes(), worse.run.proven - worse.whole.proven) == ("placed:0 -8", -1)
    text = io.StringIO()
    Console(width=200, file=text).print(ablation.render((whole, worse, equal)))
    assert all(part in text.getvalue() for part in ("placed:0 -8", "0 of 1 (-1)", "1 others"))


@pytest.mark.parametrize("stage", list(SearchStage))
def test_a_plan_keeps_the_rules_without_any_stage(stage: SearchStage) -> None:
    effort = Effort(work=0.05, runs=1, without=(stage,))
    found = measure.measure("W3t", 0, small("W3t", 30), Policy(), effort)
    assert table.problems([found]) == ()


def test_growth_decides_one_pod_and_all_and_after_a_device_went() -> None:
    size = growth.Size("nodes", "4", nodes=4, pods=6, kinds=(asks.gpus(1),))

    point = growth.measure(size, runs=2)
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(growth.render([point]))

    assert (point.placed, point.proven) == (6, True)
    assert tuple(map(len, (point.one_pod, point.all_pods, point.after_device))) == (2, 2, 4)
    assert "6 of 6" in capture.get()
    assert growth.markdown([point]).splitlines()[2].startswith("| nodes | 4 | 6 of 6 | yes |")


def test_a_device_is_taken_from_a_slice_that_has_one() -> None:
    snapshot = growth.case_of(growth.Size("nodes", "4", nodes=4, pods=1)).snapshot

    changed = growth.without_a_device(snapshot)

    assert sum(len(each.devices) for each in changed.slices) == sum(len(each.devices) for each in snapshot.slices) - 1


def test_half_of_the_devices_are_held_whatever_a_node_has() -> None:
    for size in (each for each in growth.sizes() if each.varied == "devices of a node"):
        snapshot = growth.case_of(replace(size, nodes=60)).snapshot
        held, all_devices = len(snapshot.pods), sum(len(each.devices) for each in snapshot.slices)

        assert all_devices == 60 * size.devices
        assert 0.3 < held / all_devices < 0.7
