"""The story: a stream of good pods, idle first, and then beside each case."""

import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from e2e import dovetail
from e2e.controlplane import wire
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import Component
from e2e.hostile import probes
from e2e.hostile.cases import Case
from e2e.hostile.disturbance import Relists, proxied
from e2e.hostile.keeper import Keeper
from e2e.hostile.mallory import read_told
from e2e.hostile.objects.kinds import BARE_WRITER, DRIVER, NAMESPACE
from e2e.hostile.stage import Stage
from e2e.hostile.stream import Stream
from e2e.hostile.verdict import MOST_P99_SECONDS, MOST_RATIO, Outcome, Wait, duration, median

CONNECTIONS: Final = 48
_WARM_SECONDS: Final = 8.0
_BARE_PER_SECOND: Final = 1.0
_TAIL_SECONDS: Final = 30.0
"""How long the last good pods of a case may still wait, while the case goes on; what waits longer is left behind."""
_MADE_SECONDS: Final = 8.0
"""How long a case makes its objects before Dovetail starts again or lists again."""
_SETTLE_SECONDS: Final = 30.0
_SETTLED_PODS: Final = 10
_SETTLED: Final = 2.0
"""Settled is what waits no longer than so many times the idle median, or a quarter of a second."""
_LEAST_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How large, how long."""

    nodes: int = 200
    per_second: float = 5.0
    idle_seconds: float = 30.0
    seconds: float = 40.0


def tell(what: str) -> None:
    """Print a line about how it goes."""
    print(what, file=sys.stderr, flush=True)


@dataclass(slots=True)
class World:
    """What runs: the stage, Dovetail, and the stream beside it."""

    plane: ControlPlane
    stage: Stage
    keeper: Keeper
    stream: Stream
    bare: Stream
    """Pods that are bound without a decision, by `writer`."""
    writer: Component
    kubeconfig: Path
    start_seconds: float
    """How long a start of Dovetail takes beside nothing."""
    bare_start_seconds: float = 0.0
    """The same of the bare writer."""


@contextlib.asynccontextmanager
async def world(plane: ControlPlane, setting: Setting) -> AsyncIterator[World]:
    """Build the stage, start Dovetail and the stream; end both. Raises ComponentError and RequestError."""
    async with wire.session(plane.kubeconfig, CONNECTIONS) as session:
        stage = Stage(plane, session, setting.nodes)
        kubeconfig = await asyncio.to_thread(dovetail.install, plane)
        await stage.build()
        keeper = Keeper(kubeconfig, plane.folder)
        try:
            began = time.monotonic()
            await asyncio.to_thread(keeper.wait_until_ready)
            start_seconds = time.monotonic() - began
            stream, bare = Stream(session, setting.per_second), Stream(session, _BARE_PER_SECOND, BARE_WRITER)
            began, writer = time.monotonic(), _bare_writer(plane, kubeconfig)
            there = World(plane, stage, keeper, stream, bare, writer, kubeconfig, start_seconds)
            tasks = [asyncio.create_task(each) for each in (keeper.run(), stream.run(), bare.run())]
            try:
                await _begun(writer)
                there.bare_start_seconds = time.monotonic() - began
                yield there
            finally:
                await asyncio.to_thread(there.writer.stop)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await asyncio.to_thread(keeper.stop)
            await stage.tear_down()


async def measure(
    plane: ControlPlane, cases: Sequence[Case], setting: Setting, note: Callable[[Sequence[Outcome]], None]
) -> list[Outcome]:
    """Measure idle, then each case; `note` gets what there is after each. Raises ComponentError and RequestError."""
    outcomes: list[Outcome] = []
    async with world(plane, setting) as there:
        direct = await _idle(there, setting)
        for each in cases:
            async with contextlib.AsyncExitStack() as around:
                idle, relists = direct, None
                if each.disturbance == "relist":
                    relists = await around.enter_async_context(_behind_proxy(there))
                    idle = await _idle(there, setting)
                outcome = await _measure(there, each, idle, setting, relists)
            tell(f"{each.name}: median {duration(outcome.median_during)}, {'; '.join(outcome.failures) or 'holds'}")
            outcomes.append(outcome)
            note(outcomes)
            await _settle(there, direct)
    return outcomes


@contextlib.asynccontextmanager
async def _behind_proxy(there: World) -> AsyncIterator[Relists]:
    """Start Dovetail and the bare writer anew behind a proxy, and without it afterwards."""
    async with proxied(there.plane, there.keeper, there.kubeconfig) as relists:
        await _write_through(there, relists.kubeconfig)
        try:
            yield relists
        finally:
            await _write_through(there, there.kubeconfig)


async def _write_through(there: World, kubeconfig: Path) -> float:
    """Start the bare writer anew; return the seconds until it watches."""
    await asyncio.to_thread(there.writer.stop)
    began = time.monotonic()
    there.writer = _bare_writer(there.plane, kubeconfig)
    await _begun(there.writer)
    return time.monotonic() - began


async def _idle(there: World, setting: Setting) -> tuple[Wait, ...]:
    """Measure good pods beside nothing."""
    await asyncio.sleep(_WARM_SECONDS)
    since = time.monotonic()
    await asyncio.sleep(setting.idle_seconds)
    idle = there.stream.times.waits(since, time.monotonic() - 1, time.monotonic())
    tell(f"idle: {len(idle)} good pods, median {duration(median(idle))}")
    return idle


async def _restart(there: World) -> list[str]:
    """Start Dovetail anew amid the objects of a case; say so where that takes long."""
    bare = await _write_through(there, there.kubeconfig)
    took = await there.keeper.start_over()
    found = await _caught_up(there)
    slower = max(1.0, bare / there.bare_start_seconds)  # by a machine that the API server keeps busy
    most = MOST_RATIO * there.start_seconds * slower + MOST_P99_SECONDS
    if took > most:
        beside = f"the bare writer's {bare:.1f} s, and {there.bare_start_seconds:.1f} s beside nothing"
        found.append(f"a start took {took:.1f} s, above {most:.1f} s; {beside}")
    return found


async def _caught_up(there: World) -> list[str]:
    """Wait until Dovetail has bound the pods from before its start: later pods wait behind them."""
    waits = await there.stream.waited(0.0, time.monotonic(), _TAIL_SECONDS)
    if all(each.is_bound for each in waits):
        return []
    return [f"pods from before a start still wait {_TAIL_SECONDS:.0f} s after it"]


async def _measure(
    there: World, case: Case, idle: tuple[Wait, ...], setting: Setting, relists: Relists | None = None
) -> Outcome:
    keeper = there.keeper
    log, restarts, solver_restarts = keeper.start_of_case(), keeper.restarts, keeper.solver_restarts
    path = there.plane.folder / f"mallory-{case.name}.log"
    path.unlink(missing_ok=True)
    mallory = await asyncio.to_thread(_start, there, case, setting, path)
    relisting: asyncio.Task[None] | None = None
    try:
        await _begun(mallory)
        slow: list[str] = []
        if case.disturbance:
            await asyncio.sleep(_MADE_SECONDS)
        if case.disturbance == "restart":
            slow = await _restart(there)
        if relists is not None:
            relisting = asyncio.create_task(relists.run())
        since = time.monotonic()
        asked = asyncio.create_task(_ask(there.stage.session, case))
        await asyncio.sleep(setting.seconds)
        until = time.monotonic()
        during, bare = await asyncio.gather(
            *(each.waited(since, until, _TAIL_SECONDS) for each in (there.stream, there.bare))
        )
        findings = [*slow, *await asked]
        if not there.writer.is_running():
            findings.append(f"the bare writer has ended: {there.writer.tail(3)}")
        if not mallory.is_running():
            findings.append(f"what does the case has ended: {mallory.tail(3)}")
    finally:
        if relisting is not None:
            relisting.cancel()
        await asyncio.to_thread(mallory.stop)
    told = read_told(path)
    return Outcome(
        case=case.name,
        about=case.about,
        before=idle,
        during=during,
        bare=bare,
        restarts=keeper.restarts - restarts,
        solver_restarts=keeper.solver_restarts - solver_restarts,
        created=told.created,
        changed=told.changed,
        refused=told.refused,
        refusal=told.refusal,
        needs_objects=case.name != "control",
        findings=tuple(dict.fromkeys((*findings, *await _others_names(there)))),
        peak_mib=keeper.peak_mib,
        log=keeper.events(log),
    )


def _bare_writer(plane: ControlPlane, kubeconfig: Path) -> Component:
    command = [sys.executable, "-m", "e2e.hostile.bare_writer", str(kubeconfig)]
    log = plane.folder / "bare-writer.log"
    log.unlink(missing_ok=True)
    return Component("bare-writer", command, log, cwd=Path(__file__).parents[2])


def _start(there: World, case: Case, setting: Setting, log: Path) -> Component:
    kubeconfig = there.stage.kubeconfig(case.rights)
    command = [sys.executable, "-m", "e2e.hostile.mallory", f"--kubeconfig={kubeconfig}"]
    command += [f"--case={case.name}", f"--nodes={setting.nodes}"]
    return Component("mallory", command, log, cwd=Path(__file__).parents[2])


async def _begun(process: Component) -> None:
    """Wait until a process has told something for the first time. Raises ComponentError where it ends instead."""
    while not (process.log.exists() and process.log.stat().st_size):
        process.check()
        await asyncio.sleep(0.05)


async def _ask(session: aiohttp.ClientSession, case: Case) -> list[str]:
    return await probes.PROBES[case.probe](session) if case.probe else []


async def _others_names(there: World) -> list[str]:
    """Find what names objects of the other namespace, in texts about pods and in series."""
    found = await probes.crossing(there.stage.session)
    series = await asyncio.to_thread(there.keeper.metrics)
    lines = (line for line in series.splitlines() if NAMESPACE in line.replace(f'driver="{DRIVER}"', ""))
    found += [f"a series names a tenant: {line}" for line in itertools.islice(lines, 1)]
    return found


async def _settle(there: World, idle: tuple[Wait, ...]) -> None:
    """Take away what the case made, and wait until good pods wait no longer than before; else start Dovetail anew."""
    if not await there.stage.clean():
        tell("  something that the case made is left")
    end = time.monotonic() + _SETTLE_SECONDS
    enough = max(_SETTLED * median(idle), _LEAST_SECONDS)
    since = time.monotonic()
    while time.monotonic() < end:
        await asyncio.sleep(1)
        now = time.monotonic()
        last = there.stream.times.waits(since, now - 1, now)[-_SETTLED_PODS:]
        if len(last) == _SETTLED_PODS and all(each.is_bound and each.seconds <= enough for each in last):
            return
    tell("  good pods still wait longer than before: Dovetail is started anew")
    await there.keeper.start_over()
    await asyncio.sleep(_WARM_SECONDS)
