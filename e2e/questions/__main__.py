"""The seconds that commands take, from the API server, from a running scheduler and from files."""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
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
_ASKED_GPUS: Final = 2
_CONFIG: Final = {"apiVersion": "config.dovetail.dev/v1alpha1", "kind": "DovetailConfiguration"}
_API_ROLE: Final = REPOSITORY / "deploy" / "api" / "clusterrolebinding.yaml"


class Question(NamedTuple):
    """A question and the command that answers it; `{file}` is a manifest of one pod."""

    text: str
    command: str
    by_api_server: bool = True
    by_scheduler: bool = True


QUESTIONS: Final = (
    Question("Which pod holds each device?", "devices"),
    Question("Which pods hold the devices of a node?", "devices node/gpu-0007"),
    Question("What is free, and how fragmented is it?", "free"),
    Question("Would this manifest start now?", "fit -f {file}", by_scheduler=False),
    Question("How many of it?", "fit -f {file} --count max", by_scheduler=False),
    Question("Which pods wait, in which order?", "queue -A"),
    Question("Why does a pod wait?", f"explain {_POD}", by_scheduler=False),
    Question("Why is a pod on its node?", "explain pod/run-0007-1 -n team-a", by_scheduler=False),
    Question("What did the scheduler do?", "history -A", by_api_server=False),
    Question("Which namespace used how many devices?", "usage", by_api_server=False),
    Question("Where would the pods of a file be placed?", "simulate --from-cluster -f {file}", by_scheduler=False),
)


class LocalQuestion(NamedTuple):
    """A command that reads no cluster, and the seconds that it may take. `is_completed`: Tab is pressed behind it."""

    text: str
    command: str
    limit: float
    is_completed: bool = False


LOCAL_QUESTIONS: Final = (
    LocalQuestion("Which commands are there?", "--help", 0.25),
    LocalQuestion("Which version is this?", "version --client", 0.25),
    LocalQuestion("What does a shell read for completion?", "completion bash", 0.25),
    LocalQuestion("What completes this word (the Tab key)?", "explain --name", 0.25, is_completed=True),
    LocalQuestion("Where would the pods of the examples be placed?", "simulate -f examples", 0.8),
)


class Timed(NamedTuple):
    """Wall and CPU seconds of the command's process, each the median of the runs; and its last exit status."""

    wall: float
    cpu: float
    status: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a run failed."""
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            stopwatch = _Stopwatch(folder, options.runs, is_wide=options.cpu)
            for line in _local_table(stopwatch):
                print(line, flush=True)
            if options.local:
                return 0
            with ControlPlane.start(folder=options.folder) as plane:
                for line in _table(plane, folder, options.nodes, stopwatch):
                    print(line, flush=True)
    except (BuildError, ComponentError, KubectlError, RequestError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _local_table(stopwatch: "_Stopwatch") -> Iterator[str]:
    """Run each command that reads no cluster."""
    yield "| question | command | seconds | limit |"
    yield "|---|---|---|---|"
    for question in LOCAL_QUESTIONS:
        words = question.command.split()
        seconds = stopwatch.completion_cell(words) if question.is_completed else stopwatch.cell(words, digits=2)
        yield f"| {question.text} | `{question.command}` | {seconds} | {question.limit:g} |"
    yield ""


def _table(plane: ControlPlane, folder: Path, nodes: int, stopwatch: "_Stopwatch") -> Iterator[str]:
    """Fill the cluster, start the scheduler, and ask each question of each source that answers it."""
    kubeconfig = dovetail.install(plane)
    plane.kubectl("apply", "--server-side", "-f", str(_API_ROLE))
    asyncio.run(_fill(plane.kubeconfig, nodes))
    file, config, address = folder / "pod.yaml", folder / "config.yaml", f"127.0.0.1:{free_port()}"
    file.write_text(yaml.safe_dump_all(busy_cluster.one_pod(_ASKED_GPUS)))
    config.write_text(yaml.safe_dump(_CONFIG | {"api": {"bindAddress": address, "requestsPerSecond": 100}}))
    scheduler = Dovetail.start(kubeconfig, plane.folder / "dovetail.log", f"--config={config}", leader_elect=False)
    try:
        yield "| question | command | API server | running scheduler |"
        yield "|---|---|---|---|"
        for question in QUESTIONS:
            words = [*question.command.format(file=file).split(), f"--kubeconfig={plane.kubeconfig}"]
            by_api_server = stopwatch.cell(words) if question.by_api_server else ""
            by_scheduler = stopwatch.cell([*words, f"--server=http://{address}"]) if question.by_scheduler else ""
            command = question.command.format(file=file.name)
            yield f"| {question.text} | `{command}` | {by_api_server} | {by_scheduler} |"
    finally:
        scheduler.stop()


async def _fill(kubeconfig: Path, nodes: int) -> None:
    async with wire.session(kubeconfig, _CONNECTIONS) as session:
        if await busy_cluster.is_filled(session, nodes):  # --folder has it from an earlier run
            return
        running = await busy_cluster.fill(session, nodes)
    print(f"{nodes} nodes × 8 devices, {running} pods run, {busy_cluster.WAITING_COUNT} wait", file=sys.stderr)


class _Stopwatch:
    """Runs a command several times, as one that is installed: its modules are compiled once."""

    def __init__(self, folder: Path, runs: int, *, is_wide: bool) -> None:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = kept | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        self._runs = runs
        self._is_wide = is_wide

    def cell(self, words: Sequence[str], *, digits: int = 1) -> str:
        """Return the seconds of a command, as the table has them."""
        return self._cell(words, self._environment, digits)

    def completion_cell(self, words: Sequence[str]) -> str:
        """Return the seconds until the Tab key behind some words is answered."""
        line = " ".join(["dovetail", *words])
        typed = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"}
        shell = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_STDOUT_FILENAME": os.devnull}
        return self._cell((), self._environment | typed | shell, 2)

    def _cell(self, words: Sequence[str], environment: Mapping[str, str], digits: int) -> str:
        found = [self._once(words, environment) for _ in range(self._runs + 1)][1:]  # the first fills caches
        walls, cpus, statuses = zip(*found, strict=True)
        timed = Timed(statistics.median(walls), statistics.median(cpus), statuses[-1])
        more = f" (CPU {timed.cpu:.2f}, exit {timed.status})" if self._is_wide else ""
        return f"{timed.wall:.{digits}f}{more}"

    def _once(self, words: Sequence[str], environment: Mapping[str, str]) -> Timed:
        began = time.monotonic()
        command, nowhere = [sys.executable, "-m", "scheduler", *words], subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, cwd=REPOSITORY, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return Timed(time.monotonic() - began, used.ru_utime + used.ru_stime, process.returncode)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="measure questions", description=__doc__)
    parser.add_argument("--nodes", type=at_least_one, default=5000, metavar="N", help="nodes of 8 devices (5000)")
    parser.add_argument("--runs", type=at_least_one, default=5, metavar="N", help="runs of each command (5)")
    parser.add_argument("--cpu", action="store_true", help="also print CPU seconds of the command, and its exit status")
    parser.add_argument("--local", action="store_true", help="only the commands that read no cluster")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep the cluster and logs here, for further runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
