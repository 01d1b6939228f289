"""`measure compare`: the table from recorded samples (pure), scenarios that are fair, one small comparison for real."""

import itertools
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from e2e import dovetail
from e2e.compare import samples
from e2e.compare.__main__ import main, turns
from e2e.compare.contestants import DOVETAIL, PEER_DEFAULT, PEER_UNLIMITED, WRITER
from e2e.compare.race import Race
from e2e.compare.samples import Sample
from e2e.controlplane import wire
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import ComponentError
from e2e.fleet import publish
from e2e.scenarios import workload
from e2e.scenarios.joint import joint_scenarios
from e2e.scenarios.workload import Scenario

SCENARIOS = {**workload.scenarios(), **joint_scenarios()}


def sample(
    *,
    scenario: str = "s",
    scheduler: str = "dovetail",
    bound: int = 10,
    seconds: float = 2.0,
    first: float = 0.0,
    turn: int = 0,
    findings: tuple[str, ...] = (),
) -> Sample:
    return Sample(
        scenario=scenario,
        scheduler=scheduler,
        turn=turn,
        pods=12,
        bound=bound,
        seconds=seconds,
        first=first,
        findings=findings,
    )


def test_one_sample_is_shown_as_it_is() -> None:
    (line,) = samples.lines([sample()])
    assert (line.bound, line.unplaced, line.last_bind, line.rate, line.audit) == ("10", "2", "2.0 s", "5.0", "clean")


def test_several_samples_are_shown_as_median_with_their_extremes() -> None:
    (line,) = samples.lines([sample(seconds=4.0), sample(seconds=1.0), sample(seconds=2.0)])
    assert line.last_bind == "2.0 (1.0–4.0) s"


def test_values_that_do_not_differ_are_shown_once() -> None:
    (line,) = samples.lines([sample(), sample()])
    assert line.bound == "10"


def test_findings_of_all_turns_are_counted() -> None:
    (line,) = samples.lines([sample(findings=("a",)), sample(findings=("b", "c")), sample()])
    assert line.audit == "3 wrong"


def test_a_run_that_bound_nothing_has_no_rate() -> None:
    assert sample(bound=0, seconds=0.0).rate == 0.0


def test_the_rate_counts_from_the_first_binding_to_the_last() -> None:
    assert sample(bound=11, seconds=3.0, first=1.0).rate == 5.0


def test_a_rate_is_compared_with_dovetails_rate_of_the_same_turn() -> None:
    own = [sample(turn=0, seconds=1.0), sample(turn=1, seconds=2.0)]
    others = [sample(scheduler="writer", turn=turn, seconds=2.0) for turn in (0, 1, 2)]
    dovetail, writer = samples.lines([*own, *others])
    assert (dovetail.dovetail, writer.dovetail) == ("", "× 1.50 (1.00–2.00)")


def test_lines_come_by_scenario_whatever_the_order_of_the_turns() -> None:
    measured = [sample(scenario=scenario, scheduler=name) for scenario, name in ("ax", "ay", "by", "bx")]
    assert [(line.scenario, line.scheduler) for line in samples.lines(measured)] == [*itertools.product("ab", "xy")]


def test_recorded_samples_are_read_back(tmp_path: Path) -> None:
    measured = (sample(), sample(scheduler="kube-scheduler", bound=3))
    samples.write(tmp_path / "samples.json", measured)
    assert samples.read(tmp_path / "samples.json") == measured


def test_a_recorded_comparison_is_shown_without_running_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples.write(tmp_path / "samples.json", (sample(scenario="one-gpu"),))
    assert main([f"--show={tmp_path / 'samples.json'}"]) == 0
    assert "one-gpu" in capsys.readouterr().out


def test_findings_make_the_command_fail(tmp_path: Path) -> None:
    samples.write(tmp_path / "samples.json", (sample(findings=("a",)),))
    assert main([f"--show={tmp_path / 'samples.json'}"]) == 1


def test_the_table_has_a_line_for_each_scheduler() -> None:
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(samples.render([sample(), sample(scheduler="kube-scheduler, 50 QPS")]))
    assert [line.split()[:2] for line in capture.get().splitlines() if "clean" in line] == [
        ["s", "dovetail"],
        ["kube-scheduler,", "50"],
    ]


@pytest.mark.parametrize("scenario", [[], ["--scenario", "one-gpu-500", "--scenario", "mixed-sizes"]])
def test_the_writer_is_refused_for_scenarios_that_it_cannot_run(
    scenario: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("e2e.compare.__main__._measure", lambda _: ())
    with pytest.raises(SystemExit):
        main(["--scheduler", "dovetail", "--scheduler", "writer", *scenario])
    refused = capsys.readouterr().err.partition("--scheduler writer cannot run")[2].partition(";")[0]
    assert ("mixed-sizes" in refused, "one-gpu" in refused) == (True, False)


def test_a_writer_that_ends_before_it_is_ready_says_so(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    with pytest.raises(ComponentError, match=r"(?s)writer ended with status 1.*kubeconfig"):
        WRITER.launch(cast("ControlPlane", SimpleNamespace(folder=tmp_path)), missing, {})


def test_the_order_of_the_schedulers_alternates() -> None:
    ((_, runs),) = turns([SCENARIOS["one-gpu"]], [DOVETAIL, PEER_DEFAULT], 3)
    assert [(turn, each.name) for turn, each in runs] == [
        (0, "dovetail"),
        (0, "kube-scheduler, 50 QPS"),
        (1, "kube-scheduler, 50 QPS"),
        (1, "dovetail"),
        (2, "dovetail"),
        (2, "kube-scheduler, 50 QPS"),
    ]


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_has_the_pods_that_it_says(scenario: Scenario) -> None:
    later = scenario.later("n", "s", 0) if scenario.later else []
    manifests = scenario.manifests("n", "s", 0) + later
    pods = sum(each["kind"] == "Pod" for each in manifests)
    replicas = sum(each["spec"]["replicas"] for each in manifests if each["kind"] == "Deployment")
    assert pods + replicas == scenario.pods


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_both_schedulers_get_the_same_pods(scenario: Scenario) -> None:
    assert renamed(scenario.manifests("n", "a", 7), "a") == renamed(scenario.manifests("n", "b", 7), "b")


def test_the_seed_decides_the_order_of_sizes() -> None:
    orders = {tuple(names(SCENARIOS["mixed-sizes"], seed)) for seed in range(4)}
    assert len(orders) == 4


def test_pods_of_all_turns_are_the_same_but_for_their_order() -> None:
    kinds = [Counter(name.partition("-")[2] for name in names(SCENARIOS["memory-shares"], seed)) for seed in range(3)]
    assert kinds == [{"24gi": 40, "12gi": 40, "8gi": 40}] * 3


def names(scenario: Scenario, seed: int) -> list[str]:
    return [each["metadata"]["name"] for each in scenario.manifests("n", "s", seed) if each["kind"] == "Pod"]


def renamed(value: Any, scheduler: str) -> Any:
    match value:
        case dict():
            return {key: "" if each == scheduler else renamed(each, scheduler) for key, each in value.items()}
        case list():
            return [renamed(each, scheduler) for each in value]
    return value


@pytest.mark.controlplane
async def test_a_small_comparison_binds_every_pod(control_plane: ControlPlane) -> None:
    kubeconfig = dovetail.install(control_plane)
    scenario, fleet = workload.one_gpu(nodes=3, pods=20), workload.one_gpu(nodes=3, pods=20).fleet()
    async with wire.session(control_plane.kubeconfig, 32) as session:
        race = Race(control_plane, session, kubeconfig)
        await publish.publish(session, fleet)
        try:
            measured = [await race.run(scenario, each, 0) for each in (PEER_UNLIMITED, DOVETAIL, WRITER)]
        finally:
            await publish.withdraw(session, fleet)
    assert [(each.bound, each.unplaced, each.findings) for each in measured] == [(20, 0, ())] * 3
    assert all(0 < each.seconds < 30 for each in measured)
