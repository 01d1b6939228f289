"""
The machines and tasks of Alibaba's trace of 2023 (alibaba/clusterdata, cluster-trace-gpu-v2023/csv).

FGD's setting uses the machines that have GPUs. A task takes thousandths of one GPU, or whole GPUs.
"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from e2e.traces.workload import Machine, Shape, TraceError

FOLDER: Final = "alibaba-gpu-v2023"
LISTS: Final = ("default", "gpushare100", "multigpu50", "gpuspec33")
"""The lists of tasks that commands take where none is chosen."""
_MACHINES: Final = "openb_node_list_gpu_node.csv"
_TASKS: Final = "openb_pod_list_"
T = TypeVar("T")


def lists(traces: Path) -> tuple[str, ...]:
    """Return the names of the lists of tasks that a folder has, such as `default`. Raises TraceError for none."""
    found = sorted((traces / FOLDER).glob(f"{_TASKS}*.csv"))
    if not found:
        raise TraceError(f"{traces / FOLDER} has no file {_TASKS}*.csv; docs/traces.md says where they are")
    return tuple(path.stem.removeprefix(_TASKS) for path in found)


def machines(traces: Path) -> tuple[Machine, ...]:
    """Read the machines with GPUs. Raises TraceError."""
    return tuple(_rows(traces / FOLDER / _MACHINES, _machine))


def tasks(traces: Path, name: str) -> tuple[Shape, ...]:
    """Read one list of tasks, in its order. Raises TraceError."""
    return tuple(_rows(traces / FOLDER / f"{_TASKS}{name}.csv", _shape))


def _rows(path: Path, read: Callable[[dict[str, str]], T]) -> Iterator[T]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; docs/traces.md says where it is") from None
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        try:
            yield read(row)
        except KeyError as error:
            raise TraceError(f"{path}: there is no column {error}") from None
        except (TypeError, ValueError) as error:
            raise TraceError(f"{path}, line {number}: {error}") from None


def _machine(row: dict[str, str]) -> Machine:
    return Machine(
        name=row["sn"],
        cpu=int(row["cpu_milli"]),
        memory=int(row["memory_mib"]),
        gpus=int(row["gpu"]),
        model=row["model"],
    )


def _shape(row: dict[str, str]) -> Shape:
    gpus = int(row["num_gpu"])
    models = row.get("gpu_spec") or ""  # lists without such tasks lack the column
    return Shape(
        cpu=int(row["cpu_milli"]),
        memory=int(row["memory_mib"]),
        gpus=gpus,
        milli=int(row["gpu_milli"]) if gpus else 0,
        models=tuple(sorted(models.split("|"))) if models else (),
    )
