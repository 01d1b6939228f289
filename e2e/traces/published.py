"""The curves that FGD's authors published (hkust-adsl/kubernetes-scheduler-simulator, expected results; Apache-2.0)."""

import csv
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Final

from e2e.traces.workload import TraceError

FOLDER: Final = "fgd-atc23"
_ALLOCATED: Final = "analysis_allo_discrete.csv"
_POLICIES: Final = {
    "01-Random": "random",
    "02-DotProd": "dot-product",
    "03-GpuClustering": "clustering",
    "04-GpuPacking": "packing",
    "05-BestFit": "best-fit",
    "06-FGD": "fgd",
}
Means = Mapping[tuple[str, str], tuple[float, ...]]


def allocated(traces: Path) -> Means:
    """
    Return mean allocation by list of tasks and policy, in per cent, for each per cent of load from 0 to 130.

    Raises TraceError.
    """
    path = traces / FOLDER / _ALLOCATED
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; docs/traces.md says where it is") from None
    runs: defaultdict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
    try:
        for row in rows:
            curve = tuple(float(value) for load, value in row.items() if load.isdigit())
            runs[row["workload"].removeprefix("openb_pod_list_"), _POLICIES[row["sc_policy"]]].append(curve)
    except (KeyError, ValueError) as error:
        raise TraceError(f"{path}: {error}") from None
    return {key: tuple(map(fmean, zip(*curves, strict=True))) for key, curves in runs.items()}
