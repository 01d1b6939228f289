"""The workloads of scheduler_perf, of upstream and of `workloads.toml`, and the file that a test binary reads."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from e2e.upstream.source import PERF

FILE = Path(__file__).with_name("workloads.toml")
CONFIGURATION = "performance-config.yaml"
SUITES = ("dra", "affinity", "topology_spreading", "starvation", "podgroup")
INTERNAL = {"labels", "metricsCollectorConfig", "defaultThresholdMetricSelector"}
"""What a test case says about metrics of the built-in scheduler and about upstream's own runs."""


class WorkloadError(ValueError):
    """There is no such workload or parameter."""


@dataclass(frozen=True, slots=True)
class PerfWorkload:
    """One size of one test case of a package such as `scheduler_perf/dra`."""

    package: str
    case: Mapping[str, Any]
    size: str
    params: Mapping[str, Any]
    gates: Mapping[str, bool]

    @property
    def name(self) -> str:
        """The name of the test case and of the size."""
        return f"{self.case['name']}/{self.size}"

    @property
    def sizes(self) -> str:
        """The numbers among the parameters."""
        return ", ".join(f"{name}={value}" for name, value in self.params.items() if type(value) is int)

    def configuration(self) -> str:
        """Return the file for the test binary: this workload alone, without thresholds and metrics."""
        kept = {name: value for name, value in self.case.items() if name not in INTERNAL}
        only = {"name": self.size, "params": dict(self.params), "featureGates": dict(self.gates)}
        return yaml.safe_dump([{**kept, "workloads": [only]}], sort_keys=False)


def read(module: Path, suites: Sequence[str]) -> list[PerfWorkload]:
    """Return the workloads of suites that can be run, in the order of their files."""
    return [
        workload
        for suite in suites
        for path in sorted((module / PERF / suite).rglob(CONFIGURATION))
        for case in yaml.safe_load(path.read_text())
        if case["name"] not in without()
        for workload in workloads(path.parent.relative_to(module).as_posix(), case)
    ]


def workloads(package: str, case: Mapping[str, Any]) -> Iterator[PerfWorkload]:
    """Yield the sizes of a test case, those of ours last."""
    own = (size for size in _ours().get("size", ()) if size["case"] == case["name"])
    for size in (*case["workloads"], *own):
        yield PerfWorkload(package, case, size["name"], size["params"], size.get("featureGates", {}))


def chosen(known: Sequence[PerfWorkload], pattern: str | None) -> list[PerfWorkload]:
    """Return the workloads whose names match a regular expression, the default ones for None. Raises WorkloadError."""
    names = _ours()["default"]
    found = [each for each in known if (each.name in names if pattern is None else re.search(pattern, each.name))]
    if not found:
        raise WorkloadError(f"no workload of these suites matches {pattern or 'the default'}: --list shows all names")
    return found


def resized(workload: PerfWorkload, values: Mapping[str, int]) -> PerfWorkload:
    """Return a workload with other parameters. Raises WorkloadError where it has no such parameter."""
    if unknown := [name for name in values if name not in workload.params]:
        raise WorkloadError(f"{workload.name} has no {', '.join(unknown)}; it has {workload.sizes}")
    if not values:
        return workload
    size = f"{workload.size}:{','.join(f'{name}={value}' for name, value in values.items())}"
    return replace(workload, size=size, params={**workload.params, **values})


def without() -> dict[str, str]:
    """Return the reasons of the test cases that are left out."""
    return {each["case"]: each["reason"] for each in _ours().get("without", ())}


@cache
def _ours() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text())
