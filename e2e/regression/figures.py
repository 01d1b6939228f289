"""What a tool recorded as figures that two commits can be compared by. Pure but for reading the file."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.bench import measure
from e2e.compare import samples
from e2e.latency import latencies


@dataclass(frozen=True, slots=True)
class Figure:
    """One value; one of several parts, such as the levels of a plan, is compared part by part in their order."""

    subject: str
    name: str
    value: tuple[float, ...]
    larger_is_better: bool = False


def of_bench(path: Path) -> Iterator[Figure]:
    """Yield what plans are worth, how many levels are proven, and seconds."""
    for each in measure.read(path):
        subject = f"{each.workload}, seed {each.seed}"
        proven = sum(level.proven for level in each.levels)
        yield Figure(subject, "plan", tuple(level.final for level in each.levels), larger_is_better=True)
        yield Figure(subject, "levels proven", (proven,), larger_is_better=True)
        yield Figure(subject, "warm, ms", (each.median * 1000,))
        yield Figure(subject, "cold, ms", (each.cold * 1000,))


def of_compare(path: Path) -> Iterator[Figure]:
    """Yield how many pods each scheduler bound and the seconds until the last."""
    for each in samples.read(path):
        subject = f"{each.scenario}, {each.scheduler}"
        yield Figure(subject, "pods bound", (each.bound,), larger_is_better=True)
        yield Figure(subject, "last binding, ms", (each.seconds * 1000,))


def of_latency(path: Path) -> Iterator[Figure]:
    """Yield the median and the 99th percentile of the time to a pod's binding."""
    for each in latencies.read(path):
        subject = f"{each.workload}, {each.scheduler}"
        yield Figure(subject, "pods bound", (len(each.seconds),), larger_is_better=True)
        for share in (50, 99):
            yield Figure(subject, f"p{share}, ms", (each.quantile(share / 100) * 1000,))


@dataclass(frozen=True, slots=True)
class Tool:
    """A command that records what it measured with `--json`; `usual` are its arguments unless others are given."""

    module: str
    figures: Callable[[Path], Iterator[Figure]]
    usual: tuple[str, ...] = ()


TOOLS: Final[Mapping[str, Tool]] = {
    "bench": Tool("e2e.bench", of_bench),
    "compare": Tool("e2e.compare", of_compare, ("--scheduler=dovetail",)),
    "latency": Tool("e2e.latency", of_latency, ("--scheduler=dovetail",)),
}
