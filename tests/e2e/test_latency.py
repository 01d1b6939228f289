"""`make measure ARGS=latency`: the table from recorded runs (pure), and one small run for real."""

import math
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from e2e import dovetail
from e2e.compare.contestants import DOVETAIL
from e2e.controlplane import wire
from e2e.controlplane.plane import ControlPlane
from e2e.fleet import publish
from e2e.fleet.fleets import gpu_fleet
from e2e.latency import latencies
from e2e.latency.arrivals import Arrivals, ArrivalWorkload
from e2e.latency.latencies import LatencyRun


def made(scheduler: str, turn: int, *milliseconds: float) -> LatencyRun:
    seconds = tuple(each / 1000 for each in milliseconds)
    return LatencyRun(workload="w", scheduler=scheduler, turn=turn, pods=len(seconds), seconds=seconds)


def shown(*runs: LatencyRun) -> str:
    console = Console(width=120, file=StringIO())
    with console.capture() as captured:
        console.print(latencies.render(runs, "dovetail"))
    return captured.get()


def test_a_quantile_is_a_value_that_was_measured() -> None:
    run = made("dovetail", 0, *range(1, 101))
    assert (run.quantile(0.5), run.quantile(0.99)) == (0.051, 0.1)
    assert math.isnan(made("dovetail", 0).quantile(0.5))


def test_ratios_compare_the_runs_of_one_turn() -> None:
    lines = shown(made("dovetail", 0, 10), made("peer", 0, 20), made("peer", 1, 10), made("dovetail", 1, 30))
    assert "1.75 (0.50–3.00)" in lines  # and not 20 ms of 15 ms


def test_a_scheduler_alone_has_no_ratio() -> None:
    assert "2 of 2" in shown(made("dovetail", 0, 10, 30))


def test_recorded_runs_are_read_again(tmp_path: Path) -> None:
    runs = (made("dovetail", 0, 10, 30), made("peer", 0, 20))
    latencies.write(tmp_path / "runs.json", runs)
    assert latencies.read(tmp_path / "runs.json") == runs


@pytest.mark.controlplane
@pytest.mark.parametrize(
    "workload",
    [
        ArrivalWorkload(name="tiny", nodes=2, rate=20, filled=0.25, living_seconds=0.1),
        ArrivalWorkload(name="tiny-start", nodes=2, rate=0),
    ],
    ids=lambda workload: workload.name,
)
async def test_pods_come_are_bound_and_leave_nothing(workload: ArrivalWorkload, control_plane: ControlPlane) -> None:
    kubeconfig, fleet = dovetail.install(control_plane), gpu_fleet(workload.nodes)
    async with wire.session(control_plane.kubeconfig, 8) as session:
        await publish.publish(session, fleet)
        try:
            run = await Arrivals(control_plane, session, kubeconfig).run(workload, DOVETAIL, 0, 10)
        finally:
            await publish.withdraw(session, fleet)
    assert len(run.seconds) == 10
    left = control_plane.request("GET", "/apis/resource.k8s.io/v1/resourceclaims")["items"]
    assert [
        each for each in left if each["metadata"]["namespace"].startswith("tiny-")
    ] == []  # other tests leave theirs
