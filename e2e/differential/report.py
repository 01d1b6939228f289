"""What came of a run, as a table and, for each defect, as manifests to try it with."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import yaml
from rich import box
from rich.console import Console
from rich.table import Table

from e2e.differential.comparison import Outcome
from e2e.differential.extender import REFUSAL
from e2e.differential.groups import Group
from e2e.differential.peer import Verdict

WIDTH = 100
_NAMES = re.compile(r"\"[^\"]*\"|\{[^}]*\}")


@dataclass(slots=True)
class Tally:
    """Counts of a run; `defects` and what is `explained` with the seeds of their groups."""

    features: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    defects: list[tuple[int, Outcome]] = field(default_factory=list)
    explained: list[tuple[int, Outcome]] = field(default_factory=list)
    said_otherwise: list[tuple[int, Outcome]] = field(default_factory=list)
    cases: int = 0
    late: int = 0

    def add(self, group: Group, outcomes: Sequence[Outcome], refused: Mapping[str, str]) -> None:
        """Count a group."""
        self.cases += len(outcomes)
        self.features.update(dict.fromkeys(group.features, len(outcomes)))
        self.refused.update(refused.values())
        for each in outcomes:
            self.late += each.was_late
            self.reasons.update(_reasons(each.theirs))
            self.sizes[_size(each.theirs, group)] += 1
            self.differences.update(difference.name for difference in each.because)
            if each.says_otherwise:
                self.said_otherwise.append((group.seed, each))
            if not each.agrees:
                (self.defects if each.is_defect else self.explained).append((group.seed, each))


def show(tally: Tally, seconds: float, *, with_explained: bool = False) -> None:
    """Print the table and every defect, or every disagreement."""
    console = Console(width=WIDTH, highlight=False)
    console.print(_table("FEATURE", tally.features))
    console.print(_table("WHY KUBE-SCHEDULER REFUSES NODES", tally.reasons))
    sizes = ", ".join(f"{count} on {size}" for size, count in tally.sizes.most_common())
    console.print(f"{tally.cases} cases in {seconds:.0f} s: {sizes} of the nodes; {tally.late} differed for a moment")
    for name, count in tally.differences.most_common():
        console.print(f"  {count} × {name} (docs/differences.md)")
    console.print(f"{len(tally.said_otherwise)} messages do not begin with kube-scheduler's")
    for seed, outcome in tally.said_otherwise:
        console.print(counted(seed, outcome), markup=False, soft_wrap=True)
    for message, count in tally.refused.most_common(5):
        console.print(f"  {count} × refused by the API server: {message}")
    for seed, outcome in (*(tally.explained if with_explained else ()), *tally.defects):
        console.print(describe(seed, outcome), markup=False, soft_wrap=True)
    console.print(f"{len(tally.defects)} disagreements that nothing on the list explains")


def describe(seed: int, outcome: Outcome) -> str:
    """Give a defect with all that it takes to see it again."""
    only_ours, only_theirs = outcome.ours.nodes - outcome.theirs.nodes, outcome.theirs.nodes - outcome.ours.nodes
    lines = [
        f"--- {outcome.case.name} (ARGS='--seed {seed} --cases 40 --pod {outcome.case.name}')",
        f"only Dovetail: {_list(only_ours)}",
        f"only kube-scheduler: {_list(only_theirs)}",
        f"both: {_list(outcome.ours.nodes & outcome.theirs.nodes)}",
        f"kube-scheduler says: {outcome.theirs.message}",
        f"Dovetail says: {outcome.ours.message}",
        f"because: {_list(each.name for each in outcome.because)}",
        yaml.safe_dump_all((outcome.case.pod, *outcome.case.objects), sort_keys=False),
    ]
    return "\n".join(lines)


def counted(seed: int, outcome: Outcome) -> str:
    """Give what both sides say of a pod that neither can place."""
    return f"group {seed}, {outcome.case.name}\n  {outcome.theirs.message}\n  {outcome.ours.message}"


def _table(heading: str, counts: Counter[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(heading)
    table.add_column("CASES", justify="right")
    for name, count in counts.most_common():
        table.add_row(name, str(count))
    return table


def _reasons(verdict: Verdict) -> set[str]:
    """Take kube-scheduler's histogram apart: `0/12 nodes are available: 3 Insufficient cpu, 9 …`."""
    if verdict.is_error:
        return {"(an error)"}
    _, _, histogram = verdict.message.partition("nodes are available: ")
    found = re.findall(r"(?:^|[,.] )(?:\d+ )?([A-Za-z][^,.]*)", histogram)
    return {_NAMES.sub("…", each) for each in found} - {REFUSAL}


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _size(verdict: Verdict, group: Group) -> str:
    count = sum(each["kind"] == "Node" for phase in group.cluster for each in phase)
    return "none" if not verdict.nodes else "all" if len(verdict.nodes) == count else "some"
