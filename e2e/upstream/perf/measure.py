"""One run of one workload with one scheduler: a process of the test binary, and the count of pods that it leaves."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from e2e.upstream import process, results
from e2e.upstream.perf.throughput import Throughput
from e2e.upstream.perf.workloads import PerfWorkload
from e2e.upstream.results import Run, SchedulerName
from e2e.upstream.source import PERF
from e2e.upstream.suites import Binary

PACKAGE = f"{PERF}/affinity"
"""The package whose benchmark runs the workloads of all of them: it restricts nothing, such as the DRA allocators."""
COUNT = "count.json"
FAILED = re.compile(r"\.go:\d+: (?:FATAL )?ERROR:\s+(\S.*)")


class PodCount(msgspec.Struct, frozen=True):
    """What `go/count.go` writes every second."""

    created: int = 0
    bound: int = 0
    seconds: float = 0.0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class PerfRun:
    """What one run needs to know; `limit` is in seconds and includes starting and filling the control plane."""

    workload: PerfWorkload
    scheduler: SchedulerName
    turn: int
    folder: Path
    etcd: Path
    limit: float


def run(binary: Binary, asked: PerfRun) -> Throughput:
    """Run a workload; one that fails or takes too long says so. The folder keeps its logs."""
    state = asked.folder / f"{asked.workload.name.replace('/', '-')}-{asked.turn + 1}-{asked.scheduler}"
    state.mkdir(parents=True, exist_ok=True)
    (state / COUNT).unlink(missing_ok=True)
    because = _execute(binary, asked, state)
    count = _read(state / COUNT)
    return Throughput(
        workload=asked.workload.name,
        scheduler=asked.scheduler,
        turn=asked.turn,
        created=count.created,
        bound=count.bound,
        seconds=count.seconds,
        because=because if not count.ended else "",
    )


def failure(log: str) -> str:
    """Return what the log of a run says about its failure."""
    found = FAILED.search(log)
    return found[1].strip() if found else "failed without saying why, see its log"


def _execute(binary: Binary, asked: PerfRun, state: Path) -> str:
    """Return why the run did not end, or an empty string."""
    workloads = state / "workloads.yaml"
    workloads.write_text(asked.workload.configuration())
    command = [str(binary.path), "-test.run=^$", "-test.bench=^BenchmarkPerfScheduling$", "-test.benchtime=1x"]
    command += ["-test.timeout=0", "-perf-scheduling-label-filter=", f"-data-items-dir={state}"]
    log = state / "log"
    with log.open("w") as output, tempfile.TemporaryDirectory(prefix="dovetail-perf-") as temporary:
        environment = {
            **results.environment(Run(asked.scheduler, asked.folder, asked.etcd), state),
            process.LEVEL: "info",
            "TMPDIR": temporary,
            "DOVETAIL_UPSTREAM_WORKLOADS": str(workloads),
            "DOVETAIL_UPSTREAM_COUNT": str(state / COUNT),
        }
        started = subprocess.Popen(
            command,
            cwd=binary.path.parents[1] / asked.workload.package,  # its templates are found from there
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
        try:
            status = started.wait(asked.limit)
        except subprocess.TimeoutExpired:
            return f"did not end within {asked.limit:.0f} s"
        finally:
            results.end(started)
    return failure(log.read_text(errors="replace")) if status else "no pods were counted, see its log"


def _read(path: Path) -> PodCount:
    return msgspec.json.decode(path.read_bytes(), type=PodCount) if path.exists() else PodCount()
