"""
Jobs as public traces have them, and the machines that they are for.

A job of Philly (stanford-futuredata/gavel, MIT) has steps, not seconds. Its length is its steps by the steps a second
of its model on one GPU. These speeds follow from the traces: every seed has the same jobs with other models, and
lengths are whole seconds.
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from e2e.traces.workload import TraceError

_PHILLY, _SHOCKWAVE, _TIRESIAS = "gavel-philly", "shockwave", "tiresias"
_GPUS_OF_A_MACHINE: Final = 8
"""Of Philly and Shockwave, whose traces do not say it."""
_PHILLY_LOAD: Final = 0.9
_PAPERS_GPUS: Final = {120: 32, 220: 64, 460: 128, 900: 256}
"""GPUs by number of jobs, as the authors ran them (uw-mad-dash/shockwave, scheduler/reproduce); the nearest counts."""
_PHILLY_FIELDS: Final = (
    "job_type",
    "command",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "arrival_time",
    "scale_factor",
)
_SHOCKWAVE_FIELDS: Final = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "mode",
    "priority_weight",
    "SLO",
    "duration",
    "arrival_time",
)
_TIRESIAS_FIELDS: Final = ("job_id", "num_gpu", "submit_time", "duration")
_CLUSTER_FIELDS: Final = ("num_switch", "num_node_p_switch", "num_gpu_p_node")
_SPEEDS: Final = {
    "A3C": 8.23303,
    "CycleGAN": 4.91849,
    "LM (batch size 5)": 167.123,
    "LM (batch size 10)": 143.361,
    "LM (batch size 20)": 107.951,
    "LM (batch size 40)": 71.7230,
    "LM (batch size 80)": 43.9036,
    "Recommendation (batch size 512)": 0.331482,
    "Recommendation (batch size 1024)": 0.479980,
    "Recommendation (batch size 2048)": 0.567532,
    "Recommendation (batch size 4096)": 0.624408,
    "Recommendation (batch size 8192)": 0.602355,
    "ResNet-18 (batch size 16)": 77.3174,
    "ResNet-18 (batch size 32)": 65.8054,
    "ResNet-18 (batch size 64)": 48.8842,
    "ResNet-18 (batch size 128)": 30.2875,
    "ResNet-18 (batch size 256)": 16.9874,
    "ResNet-50 (batch size 16)": 17.3744,
    "ResNet-50 (batch size 32)": 9.92058,
    "ResNet-50 (batch size 64)": 5.45760,
    "ResNet-50 (batch size 128)": 2.84598,
    "Transformer (batch size 16)": 12.8457,
    "Transformer (batch size 32)": 12.4753,
    "Transformer (batch size 64)": 9.56802,
    "Transformer (batch size 128)": 5.77121,
    "Transformer (batch size 256)": 1.70703,
}
"""Steps a second by model."""
Row = Mapping[str, str]
_AGAIN: Final = "docs/traces.md says where the file is from: copy it again"


@dataclass(frozen=True, slots=True)
class Job:
    """A job: it arrives, gets `gpus` at once, and has them for `seconds`. Times are seconds of the trace."""

    number: int
    arrival: float
    gpus: int
    seconds: float


@dataclass(frozen=True, slots=True)
class JobTrace:
    """Jobs in the order in which they arrive, and a cluster of `machines` that have `gpus` each."""

    name: str
    jobs: tuple[Job, ...]
    machines: int
    gpus: int

    @property
    def window(self) -> float:
        """Seconds from the first arrival to the last."""
        return self.jobs[-1].arrival - self.jobs[0].arrival

    @property
    def work(self) -> float:
        """GPU-seconds that all jobs ask for."""
        return sum(job.gpus * job.seconds for job in self.jobs)

    @property
    def load(self) -> float | None:
        """What arrives, as a part of what the GPUs could do meanwhile; None where all arrives at once."""
        return self.work / (self.machines * self.gpus * self.window) if self.window else None

    def at(self, load: float) -> "JobTrace":
        """Return the trace on as few machines as have at most this load, and room for each job."""
        of_load = self.work / (load * self.gpus * self.window) if self.window else 0.0
        largest = max(math.ceil(job.gpus / self.gpus) for job in self.jobs)
        return replace(self, machines=max(math.ceil(of_load), largest))


def read_all(traces: Path) -> tuple[JobTrace, ...]:
    """Read the traces that a folder has. Raises TraceError where it has none, or a file says something else."""
    found = (*_philly(traces / _PHILLY), *_shockwave(traces / _SHOCKWAVE), *_tiresias(traces / _TIRESIAS))
    if not found:
        names = f"{_PHILLY}/seed=*/*.trace, {_SHOCKWAVE}/*.trace or {_TIRESIAS}/*_job.csv"
        raise TraceError(f"{traces} has no {names}; docs/traces.md says where they are")
    return found


def _philly(folder: Path) -> Iterator[JobTrace]:
    """Read each virtual cluster once: the seeds differ in models only."""
    first = {path.stem: path for path in sorted(folder.glob("seed=*/*.trace"), reverse=True)}
    for name, path in sorted(first.items()):
        jobs = _jobs(path, _separated(path, _PHILLY_FIELDS), _steps_by_speed, "arrival_time", "scale_factor")
        yield JobTrace(f"philly-{name}", jobs, 1, _GPUS_OF_A_MACHINE).at(_PHILLY_LOAD)


def _shockwave(folder: Path) -> Iterator[JobTrace]:
    for path in sorted(folder.glob("*.trace")):
        jobs = _jobs(path, _separated(path, _SHOCKWAVE_FIELDS), _duration, "arrival_time", "scale_factor")
        name = f"shockwave-{'_'.join(path.stem.split('_')[:6])}"
        nearest = min(_PAPERS_GPUS, key=lambda count: abs(count - len(jobs)))
        yield JobTrace(name, jobs, _PAPERS_GPUS[nearest] // _GPUS_OF_A_MACHINE, _GPUS_OF_A_MACHINE)


def _tiresias(folder: Path) -> Iterator[JobTrace]:
    """Read each trace for each cluster of the folder."""
    traces = sorted(folder.glob("*_job.csv"))
    clusters = [path for path in sorted(folder.glob("*.csv")) if path not in traces]
    if traces and not clusters:
        raise TraceError(f"{folder} has no cluster, such as n32g4.csv; docs/traces.md says where they are")
    for path in traces:
        rows = _once(path, _table(path, _TIRESIAS_FIELDS))
        jobs = _jobs(path, rows, _duration, "submit_time", "num_gpu")
        for cluster in clusters:
            yield JobTrace(f"tiresias-{path.stem}-{cluster.stem}", jobs, *_cluster(cluster))


def _once(path: Path, rows: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """Leave out jobs that a file lists again, as `tf_job.csv` does; two jobs of one id are an error."""
    known: dict[str, Row] = {}
    for line, row in rows:
        job = row["job_id"]
        if known.setdefault(job, row) != row:
            raise TraceError(f"{path}, line {line}: job_id is {job!r}, as of another job before it. {_AGAIN}")
        if known[job] is row:
            yield line, row


def _cluster(path: Path) -> tuple[int, int]:
    """Return machines, and GPUs of each."""
    for line, row in _table(path, _CLUSTER_FIELDS):
        where = f"{path}, line {line}"
        switches, nodes, gpus = (_number(where, row, field, least=1, is_whole=True) for field in _CLUSTER_FIELDS)
        return int(switches * nodes), int(gpus)
    raise TraceError(f"{path} describes no cluster. {_AGAIN}")


def _jobs(
    path: Path,
    rows: Iterator[tuple[int, Row]],
    seconds: Callable[[str, Row], float],
    arrival: str,
    gpus: str,
) -> tuple[Job, ...]:
    """Read the jobs of a file; `arrival` and `gpus` are the names of its fields."""
    found = []
    for line, row in rows:
        where = f"{path}, line {line}"
        at = _number(where, row, arrival, least=0)
        found.append((at, int(_number(where, row, gpus, least=1, is_whole=True)), seconds(where, row)))
    if not found:
        raise TraceError(f"{path} has no job. {_AGAIN}")
    found.sort(key=lambda each: each[0])
    return tuple(Job(number, at, count, length) for number, (at, count, length) in enumerate(found))


def _duration(where: str, row: Row) -> float:
    return _positive(where, row, "duration")


def _steps_by_speed(where: str, row: Row) -> float:
    speed = _SPEEDS.get(row["job_type"])
    if speed is None:
        raise TraceError(f"{where}: job_type is {row['job_type']!r}, a model of which no speed is known. {_AGAIN}")
    return _positive(where, row, "total_steps") / speed


def _positive(where: str, row: Row, field: str) -> float:
    number = _number(where, row, field, least=0)
    if not number:
        raise TraceError(f"{where}: {field} is 0, and the job would end at once. {_AGAIN}")
    return number


def _number(where: str, row: Row, field: str, *, least: float, is_whole: bool = False) -> float:
    text = row[field]
    try:
        number = int(text) if is_whole else float(text)
    except ValueError:
        number = math.nan
    if not least <= number < math.inf:
        kind = "whole number" if is_whole else "number"
        raise TraceError(f"{where}: {field} is {text!r}, not a {kind} of {least:g} or more. {_AGAIN}")
    return number


def _separated(path: Path, fields: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Give the lines of a file without a header, whose fields are separated by tabs."""
    for line, text in enumerate(_lines(path), start=1):
        values = text.split("\t")
        if len(values) != len(fields):
            raise TraceError(f"{path}, line {line} has {len(values)} fields, not {len(fields)}. {_AGAIN}")
        yield line, dict(zip(fields, values, strict=True))


def _table(path: Path, fields: Sequence[str]) -> Iterator[tuple[int, Row]]:
    """Give the lines of a table whose first line names its fields, with these among them."""
    reader = csv.DictReader(_lines(path))
    if missing := [name for name in fields if name not in (reader.fieldnames or ())]:
        raise TraceError(f"{path}, line 1: there is no field {missing[0]}. {_AGAIN}")
    for line, row in enumerate(reader, start=2):
        if None in row or None in row.values():
            raise TraceError(f"{path}, line {line} has more or fewer fields than line 1. {_AGAIN}")
        yield line, row


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}. {_AGAIN}") from None
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: {error.reason} at byte {error.start}. {_AGAIN}") from None
