"""`python -m e2e.compare`: run scenarios with several schedulers, in turns, and print one table."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import aiohttp
from rich.console import Console

from e2e import dovetail, plots
from e2e.arguments import at_least_one
from e2e.compare import samples
from e2e.compare.contestants import WRITER, Contestant, contestants, schedulers
from e2e.compare.race import Race
from e2e.compare.samples import Sample
from e2e.controlplane import wire
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.fleet import publish
from e2e.scenarios.joint import joint_scenarios
from e2e.scenarios.workload import Scenario, large_scenarios, scenarios

WIDTH = 120
CONNECTIONS = 64
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a run failed or the audit found something wrong."""
    parser = _parser()
    options = parser.parse_args(arguments)
    _refuse_misuse(parser, options)
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell's background job inherits it as ignored
        signal.signal(number, _interrupt)
    try:
        measured = samples.read(options.show) if options.show else _measure(options)
    except (BuildError, ComponentError, KubectlError, RequestError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    Console(width=WIDTH).print(samples.render(measured))
    return int(any(sample.findings for sample in measured))


def turns(
    chosen_scenarios: Sequence[Scenario], chosen: Sequence[Contestant], repeat: int
) -> Iterator[tuple[Scenario, list[tuple[int, Contestant]]]]:
    """Yield each scenario with its runs; every other turn has the schedulers in the opposite order."""
    for scenario in chosen_scenarios:
        yield scenario, [(turn, each) for turn in range(repeat) for each in chosen[:: -1 if turn % 2 else 1]]


def _measure(options: argparse.Namespace) -> tuple[Sample, ...]:
    with ControlPlane.start(kubelet=True, folder=options.folder) as plane:
        kubeconfig = dovetail.install(plane)
        measured = asyncio.run(_measure_on(plane, kubeconfig, options))
    record = options.json or plots.record_path("compare")
    samples.write(record, measured)
    plots.draw(record.with_suffix(".svg"), samples.panels(measured))
    return measured


async def _measure_on(plane: ControlPlane, kubeconfig: Path, options: argparse.Namespace) -> tuple[Sample, ...]:
    measured = []
    async with wire.session(plane.kubeconfig, CONNECTIONS) as session:
        race = Race(plane, session, kubeconfig)
        chosen_scenarios = [_known()[name] for name in options.scenario or _usual()]
        chosen = [contestants()[name] for name in options.scheduler or schedulers()]
        for scenario, runs in turns(chosen_scenarios, chosen, options.repeat):
            print(f"{scenario.name}: {scenario.about}", file=sys.stderr)
            measured += await _run_all(race, session, scenario, runs)
    return tuple(measured)


async def _run_all(
    race: Race, session: aiohttp.ClientSession, scenario: Scenario, runs: Sequence[tuple[int, Contestant]]
) -> list[Sample]:
    fleet = scenario.fleet()
    await publish.publish(session, fleet)
    measured = []
    for turn, contestant in runs:
        sample = await race.run(scenario, contestant, turn)
        print(_sentence(sample), file=sys.stderr)
        measured.append(sample)
    await publish.withdraw(session, fleet)
    return measured


def _sentence(sample: Sample) -> str:
    first = f"  {sample.scheduler}: {sample.bound} of {sample.pods} bound in {sample.seconds:.1f} s"
    return "\n    wrong: ".join((first, *sample.findings))


def _usual() -> dict[str, Scenario]:
    """Return the scenarios that are run unless others are named, by name."""
    return {**scenarios(), **joint_scenarios()}


def _known() -> dict[str, Scenario]:
    return {**_usual(), **large_scenarios()}


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure compare", description="Compare Dovetail with kube-scheduler.")
    parser.add_argument("--scenario", action="append", choices=[*_known()], help="only this one; repeatable")
    schedulers_help = f"only this one; repeatable; writer: decides nothing, for {' and '.join(WRITER.only)}"
    parser.add_argument("--scheduler", action="append", choices=[*contestants()], help=schedulers_help)
    parser.add_argument("--repeat", type=at_least_one, default=1, metavar="N", help="runs of each (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured (results/compare-TIME.json)")
    parser.add_argument("--show", type=Path, metavar="FILE", help="run nothing, show what --json wrote")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep state and logs here (else temporary)")
    return parser


def _refuse_misuse(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the command where a scheduler cannot run a scenario: later the other measurements would be lost."""
    for name in () if options.show else options.scheduler or schedulers():
        chosen = contestants()[name]
        unfit = [each for each in options.scenario or _usual() if not chosen.can_run(each)]
        if unfit:
            instead = " ".join(f"--scenario {each}" for each in chosen.only)
            parser.error(f"--scheduler {name} cannot run {', '.join(unfit)}; write for example {instead}")


if __name__ == "__main__":
    sys.exit(main())
