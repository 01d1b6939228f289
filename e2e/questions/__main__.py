"""`make questions`: the seconds that the answers of commands take, from the API server and from a running scheduler."""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from e2e import dovetail
from e2e.arguments import at_least_one
from e2e.controlplane import wire
from e2e.controlplane.access import RequestError
from e2e.controlplane.build import BuildError
from e2e.controlplane.plane import REPOSITORY, ControlPlane, KubectlError, free_port
from e2e.controlplane.processes import ComponentError
from e2e.dovetail import Dovetail
from e2e.questions import busy_cluster

_CONNECTIONS: Final = 64
_POD: Final = f"pod/{busy_cluster.WAITING[1]} -n {busy_cluster.WAITING[0]}"
_API_ROLE: Final = REPOSITORY / "deploy" / "api" / "clusterrolebinding.yaml"


class Question(NamedTuple):
    """A question and the command that answers it; `{file}` is a manifest of one pod."""

    text: str
    command: str
    by_api_server: bool = True
    by_scheduler: bool = True


QUESTIONS: Final = (
    Question("Who holds which device?", "devices"),
    Question("Who holds the devices of a node?", "devices node/gpu-0007"),
    Question("What is free, and how fragmented is it?", "free"),
    Question("Would this manifest start now?", "fit -f {file}", by_scheduler=False),
    Question("How many of it?", "fit -f {file} --count max", by_scheduler=False),
    Question("Who waits, in which order?", "queue -A"),
    Question("Why does a pod wait?", f"explain {_POD}", by_scheduler=False),
    Question("Why is a pod on its node?", "explain pod/run-0007-1 -n team-a", by_scheduler=False),
    Question("What did the scheduler do?", "history -A", by_api_server=False),
    Question("Which namespace used how many devices?", "usage", by_api_server=False),
    Question("Where would the pods of a file be placed?", "simulate --from-cluster -f {file}", by_scheduler=False),
)


class Timed(NamedTuple):
    """Wall and CPU seconds of the command's process, each the median of the runs; and its exit status."""

    wall: float
    cpu: float
    status: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a run failed."""
    options = _parser().parse_args(arguments)
    try:
        with ControlPlane.start(folder=options.folder) as plane:
            return _measure(plane, options)
    except (BuildError, ComponentError, KubectlError, RequestError) as error:
        print(error, file=sys.stderr)
        return 1


def _measure(plane: ControlPlane, options: argparse.Namespace) -> int:
    kubeconfig = dovetail.install(plane)
    plane.kubectl("apply", "--server-side", "-f", str(_API_ROLE))
    running = asyncio.run(_fill(plane.kubeconfig, options.nodes))
    print(f"{options.nodes} nodes × 8 devices, {running} pods run, {busy_cluster.WAITING_COUNT} wait", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder)
        file = own / "pod.yaml"
        file.write_text(yaml.safe_dump_all(busy_cluster.one_pod(2)))
        address = f"127.0.0.1:{free_port()}"
        config = own / "config.yaml"
        config.write_text(_config(address))
        flags = (f"--config={config}", f"--kubeconfig={plane.kubeconfig}")
        print(f"  {' '.join(flags)} --server=http://{address} {file}", file=sys.stderr)
        scheduler = Dovetail.start(kubeconfig, plane.folder / "dovetail.log", f"--config={config}", leader_elect=False)
        try:
            for line in _rows(options, str(file), (flags, (f"--server=http://{address}",))):
                print(line, flush=True)
            if options.stay:
                input("Enter ends it")
        finally:
            scheduler.stop()
    return 0


async def _fill(kubeconfig: Path, nodes: int) -> int:
    async with wire.session(kubeconfig, _CONNECTIONS) as session:
        return await busy_cluster.fill(session, nodes)


def _config(address: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "config.dovetail.dev/v1alpha1",
            "kind": "DovetailConfiguration",
            "api": {"bindAddress": address, "requestsPerSecond": 100},
        }
    )


def _rows(options: argparse.Namespace, file: str, flags: tuple[tuple[str, ...], tuple[str, ...]]) -> Iterator[str]:
    """Ask each question of each source that answers it; return the lines of the table."""
    local, remote = flags
    yield "| question | command | API server | running scheduler |"
    yield "|---|---|---|---|"
    for question in QUESTIONS:
        words = question.command.format(file=file).split()
        cells = []
        for is_asked, more in ((question.by_api_server, ()), (question.by_scheduler, remote)):
            timed = _timed((words[0], *words[1:], *local, *more), options.runs) if is_asked else None
            cells.append("" if timed is None else _cell(timed, is_wide=options.cpu))
        yield f"| {question.text} | `{question.command.format(file='pod.yaml')}` | {cells[0]} | {cells[1]} |"


def _cell(timed: Timed, *, is_wide: bool) -> str:
    return f"{timed.wall:.1f}" + (f" (CPU {timed.cpu:.2f}, exit {timed.status})" if is_wide else "")


def _timed(words: Sequence[str], runs: int) -> Timed:
    found = [_once(words) for _ in range(runs + 1)][1:]  # the first one fills the caches of files
    walls, cpus, statuses = zip(*found, strict=True)
    return Timed(statistics.median(walls), statistics.median(cpus), statuses[-1])


def _once(words: Sequence[str]) -> Timed:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "scheduler", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Timed(time.monotonic() - began, used.ru_utime + used.ru_stime, process.returncode)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make questions", description=__doc__)
    parser.add_argument("--nodes", type=at_least_one, default=5000, metavar="N", help="nodes of 8 devices (5000)")
    parser.add_argument("--runs", type=at_least_one, default=5, metavar="N", help="runs of each command (5)")
    parser.add_argument("--cpu", action="store_true", help="also print CPU seconds of the command, and its exit status")
    parser.add_argument("--stay", action="store_true", help="leave control plane and scheduler there until Enter")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep state and logs here (else temporary)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
