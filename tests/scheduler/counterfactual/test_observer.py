"""The observer: gaps begin another observation, and a defect on one pod leaves the others decided."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from scheduler.change import Kind
from scheduler.counterfactual import observer
from scheduler.counterfactual.observation_record import ObservationRecord, RecordError
from scheduler.counterfactual.observer import ObserverOptions, WatchGapError
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, Unreachable
from scheduler.settings import default
from solver import solve
from solver.domain import Batch, Plan, Pod, Snapshot
from tests.support import builders as b
from tests.support.cluster_builders import seen

NO_CLIENT = cast("Client", None)
Run = Callable[[int, asyncio.Event], None]
"""What an observation does, by its number."""


def options(said: list[str], clock: Callable[[], float] = lambda: 100.0) -> ObserverOptions:
    return ObserverOptions(
        scheduler_names=("dovetail",),
        interval=1.0,
        settings=default(),
        say=said.append,
        show=print,
        clock=clock,
    )


def observe(run: Run, record: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Observe with observations that do what `run` does; return what was said."""
    said: list[str] = []
    numbers = iter(range(100))

    async def replaced(_: Any, stop: asyncio.Event) -> None:
        run(next(numbers), stop)

    async def begin() -> None:
        with ObservationRecord(record) as opened:
            await observer.observe(NO_CLIENT, options(said), opened, asyncio.Event())

    monkeypatch.setattr(observer.Observation, "run", replaced)
    monkeypatch.setattr(observer, "_RETRY_SECONDS", 0.0)
    asyncio.run(begin())
    return said


def test_a_gap_begins_another_observation_and_a_server_that_is_away_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(number: int, stop: asyncio.Event) -> None:
        if number == 0:
            raise WatchGapError("the watch of pods was silent for 200 s")
        if number == 1:
            raise Unreachable("no route")
        stop.set()

    assert observe(run, tmp_path / "record", monkeypatch) == [
        "the watch of pods was silent for 200 s; a new observation begins",
        "no route; trying again",
    ]


@pytest.mark.parametrize("error", [Unreachable("no route"), ConfigurationError("no kubeconfig")])
def test_what_cannot_begin_ends(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: int, __: asyncio.Event) -> None:
        raise error

    with pytest.raises(type(error)):
        observe(run, tmp_path / "record", monkeypatch)


def failing(bad: str, snapshot: Snapshot, batch: Batch, *rest: Any, **more: Any) -> Plan:
    """Solve, unless a pod of this name is in the batch."""
    if any(pod.id.name == bad for pod in batch.pods):
        raise ArithmeticError("a defect")
    return solve(snapshot, batch, *rest, **more)


@pytest.mark.parametrize("bad", ["p1", "g0"])
def test_pods_are_decided_without_the_one_on_which_the_solver_fails(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(observer, "solve", partial(failing, bad))
    pods = [b.pod("p0", cpu=1), b.pod("p1", cpu=1), b.pod("p2", cpu=1)]
    gang = [b.member(b.pod(f"g{index}", cpu=1), "g") for index in range(2)]

    async def decide() -> dict[str, str]:
        with ObservationRecord(tmp_path / "record") as record:
            made = observer.Observation(NO_CLIENT, options(said), record)
            made.compared.apply(seen(b.node("n0")), 100.0)
            for pod in (*pods, *gang):
                made.compared.apply(seen(pod), 100.0)
            made.compared.begin(100.0)
            await made.decide_all()
            assert made.failed_decisions == 1
            return {life.pod.id.name: life.node for life in made.compared.counterfactual.lives}

    found = asyncio.run(decide())
    assert {name for name, node in found.items() if not node} >= {bad}
    assert {found[name] for name in ("p0", "p2")} == {"n0"}
    assert said != []


def solving_slowly(clock: list[float], snapshot: Snapshot, batch: Batch, *rest: Any, **more: Any) -> Plan:
    """Solve, which takes half a minute."""
    clock[0] += 30.0
    return solve(snapshot, batch, *rest, **more)


def test_a_pod_counts_as_placed_at_the_moment_of_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(observer, "solve", partial(solving_slowly, clock))

    async def decide() -> list[float | None]:
        with ObservationRecord(tmp_path / "record") as record:
            made = observer.Observation(NO_CLIENT, options([], lambda: clock[0]), record)
            made.compared.apply(seen(b.node("n0")), 100.0)
            made.compared.apply(seen(b.pod("p0", cpu=1)), 100.0)
            made.compared.begin(100.0)
            await made.decide_all()
            return [life.placed_at for life in made.compared.counterfactual.lives]

    assert (asyncio.run(decide()), clock) == ([100.0], [130.0])


def bound(pod: Pod) -> Pod:
    return replace(pod, node_name="n0")


@pytest.mark.parametrize(("rounds", "same"), [([0.1], 0), ([0.1, 10.0], 1), ([10.0, *[0.1] * 12], 0)])
def test_while_rounds_are_slow_larger_differences_say_nothing(rounds: list[float], same: int, tmp_path: Path) -> None:
    async def later() -> int:
        with ObservationRecord(tmp_path / "record") as record:
            made = observer.Observation(NO_CLIENT, options([]), record)
            made.compared.apply(seen(b.node("n0")), 80.0)
            made.compared.begin(80.0)
            for seconds in rounds:
                made.round_took(seconds)
            made.compared.apply(seen(bound(b.pod("p0", cpu=1))), 82.0)  # came during a round
            await made.decide_all()
            return made.compared.totals(100.0).pods.same

    assert asyncio.run(later()) == same


def test_an_outcome_of_a_watch_that_cannot_be_written_ends_the_observation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer.Observation, "_sample", lambda _: asyncio.sleep(0))

    async def follow() -> None:
        with ObservationRecord(tmp_path / "record") as record:
            made = observer.Observation(NO_CLIENT, options([]), record)
            made._failed(Kind.PODS, RecordError("no space left"))  # noqa: SLF001 - what the reflector calls
            await asyncio.wait_for(made._follow(asyncio.Event()), 60)  # noqa: SLF001 - the loop of an observation

    with pytest.raises(RecordError, match="no space left"):
        asyncio.run(follow())
