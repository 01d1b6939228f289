"""
Workloads that Kueue lets in, with and without Dovetail's admission check, in one table.

`python -m e2e.neighbours.admissions` fills a fleet with Jobs and pod groups of six shapes, whose devices Kueue counts:
there is quota for all devices of each class, and shapes leave gaps that counting does not see. Each way of letting in
has a control plane of its own, one after the other, `--turns` times:

    kueue      by quota alone
    null       a check that this program answers with Ready at once: what any check costs
    dovetail   the check `dovetail.dev/placement`
"""

import argparse
import asyncio
import contextlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from e2e.arguments import at_least_one
from e2e.controlplane import wire
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import ControlPlane, KubectlError
from e2e.controlplane.processes import ComponentError
from e2e.dovetail import Dovetail, install
from e2e.fleet.publish import publish_to
from e2e.neighbours.admission_load import CLASSES, Load, fleet_of, load_of, queues
from e2e.neighbours.admission_record import Recorder, Run
from e2e.neighbours.kueue import Kueue

WIDTH: Final = 130
ARMS: Final = ("kueue", "null", "dovetail")
GRACE_SECONDS: Final = 10.0
"""A pod of a Workload that was let in has to be bound so soon after its creation."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print the table; 1 where something cannot be started."""
    parser = argparse.ArgumentParser(prog="python -m e2e.neighbours.admissions", description=__doc__)
    parser.add_argument(
        "--nodes", type=at_least_one, default=500, help="nodes with eight GPUs, or what they are cut into"
    )
    parser.add_argument("--workloads", type=at_least_one, default=1000)
    parser.add_argument("--run-seconds", type=at_least_one, default=20, help="how long each pod runs")
    parser.add_argument("--rate", type=float, default=0.0, help="Workloads a second; 0: as fast as they are created")
    parser.add_argument("--seconds", type=at_least_one, default=600, help="when a run ends, whatever is left")
    parser.add_argument("--turns", type=at_least_one, default=1)
    parser.add_argument("--arms", default=",".join(ARMS), help="which of %(default)s")
    parser.add_argument(
        "--unplaceable", type=int, default=0, help="so many Workloads more that fit nowhere, but in quota"
    )
    parser.add_argument("--logs", type=Path, help="keep the scheduler's logs here, one for each run")
    options = parser.parse_args(arguments)
    if unknown := [arm for arm in options.arms.split(",") if arm not in ARMS]:
        parser.error(f"--arms: unknown {', '.join(unknown)}; choose of {', '.join(ARMS)}")
    if options.logs is not None:
        options.logs.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    try:
        for turn in range(options.turns):
            for arm in options.arms.split(","):
                print(f"turn {turn + 1}: {arm}", file=sys.stderr, flush=True)
                runs.append(_run(arm, options, seed=turn))
                Console(width=WIDTH, stderr=True).print(_table(runs[-1:]))  # a later run may be ended by hand
    except (BuildError, ComponentError, KubectlError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    Console(width=WIDTH).print(_table(runs))
    return 0


def _run(arm: str, options: argparse.Namespace, seed: int) -> Run:
    load = load_of(options.workloads, random.Random(seed), options.run_seconds, options.unplaceable)  # noqa: S311 - repeats a load, keeps no secret
    with ControlPlane.start(feature_gates="on") as plane:
        plane.start_kubelet()
        publish_to(plane.kubeconfig, fleet_of(options.nodes))
        with (
            Kueue.start(plane, classes=CLASSES),
            tempfile.TemporaryDirectory() as folder,
            _dovetail(plane, Path(folder), options.logs or Path(folder), arm),
        ):
            plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(queues(plane, load, arm)))
            return asyncio.run(_measured(plane, arm, load, options))


def _dovetail(plane: ControlPlane, folder: Path, logs: Path, arm: str) -> Dovetail:
    has_check = arm == "dovetail"
    config = folder / "config.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "admissionCheck": {"enabled": has_check},
    }
    config.write_text(yaml.safe_dump(document))
    account = install(plane, *(["holds", "kueue"] if has_check else []))
    return Dovetail.start(account, logs / f"{arm}.log", f"--config={config}", leader_elect=False)


async def _measured(plane: ControlPlane, arm: str, load: Load, options: argparse.Namespace) -> Run:
    async with wire.session(plane.kubeconfig, 64) as session:
        recorder = Recorder(session, arm, answers=arm == "null")
        async with asyncio.TaskGroup() as group:
            watching = [group.create_task(each) for each in recorder.watches()]
            await recorder.synced()
            began = time.monotonic()
            await load.create(session, options.rate)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, began + options.seconds - time.monotonic())):
                    await recorder.until_over(load)
            for each in watching:
                each.cancel()
        return recorder.run(load, GRACE_SECONDS)


def _table(runs: Sequence[Run]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("let in by")
    for name in (
        "Workloads",
        "let in",
        f"not all bound in {GRACE_SECONDS:.0f} s",
        "let in a second",
        "quota to Ready: median",
        "p99",
        "created to bound: median",
        "p99",
        "seconds",
    ):
        table.add_column(name, justify="right")
    for run in runs:
        table.add_row(
            run.arm,
            str(run.workloads),
            str(run.admitted),
            str(run.late),
            f"{run.rate:.1f}",
            *_times(run.answers),
            *_times(run.bound),
            f"{run.seconds:.0f}",
        )
    return table


def _times(seconds: Sequence[float]) -> tuple[str, str]:
    if len(seconds) < 2:
        return "", ""
    return f"{statistics.median(seconds):.2f} s", f"{statistics.quantiles(seconds, n=100)[98]:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
