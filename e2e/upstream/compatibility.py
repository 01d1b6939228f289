"""Both columns as one table: test, kube-scheduler, Dovetail, and what explains a difference (pure)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from e2e.upstream import known
from e2e.upstream.results import UpstreamResult

WORDS = {"pass": "passes", "fail": "fails", "skip": "skipped", "unfinished": "did not end", "": "–"}
MOST_ROWS = 50
"""A page shows no longer table whole."""
MOST_REASONS = 4
"""Of more reasons it counts the others together."""
COLOURS = {"pass": "green", "skip": "dim", "fail": "red", "unfinished": "red"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One test with both schedulers; an empty outcome: not run."""

    test: str
    kube_scheduler: str = ""
    dovetail: str = ""
    because: str = ""
    message: str = ""

    @property
    def is_unexplained(self) -> bool:
        """Say whether Dovetail fails what kube-scheduler passes and no entry says so, or passes what one lists."""
        if self.dovetail in {"fail", "unfinished"}:
            return not self.because and self.kube_scheduler in {"pass", ""}
        return self.dovetail == "pass" and bool(self.because)


def lines(peer: Mapping[str, UpstreamResult], ours: Mapping[str, UpstreamResult], kubernetes: str) -> list[Line]:
    """Join both runs on a version by test, in the order of their names."""
    return [_line(test, peer.get(test), ours.get(test), kubernetes) for test in sorted({*peer, *ours})]


def render(all_lines: Sequence[Line]) -> Table:
    """Lay the lines out for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("TEST", overflow="fold", ratio=3)
    table.add_column("KUBE-SCHEDULER", no_wrap=True)
    table.add_column("DOVETAIL", no_wrap=True)
    table.add_column("WHY", overflow="fold", ratio=2)
    for line in all_lines:
        why = Text(line.because) if not line.is_unexplained else Text(_unexplained(line), "red")
        table.add_row(Text(line.test), _word(line.kube_scheduler), _word(line.dovetail), why)
    return table


def summary(all_lines: Sequence[Line]) -> str:
    """Say in one sentence how many tests each scheduler passes."""
    total = len(all_lines)
    peer, ours = (sum(getattr(line, name) == "pass" for line in all_lines) for name in ("kube_scheduler", "dovetail"))
    skipped = sum(line.dovetail in {"", "skip"} for line in all_lines)
    unexplained = sum(line.is_unexplained for line in all_lines)
    listed = sum(line.dovetail == "fail" and not line.is_unexplained for line in all_lines)
    is_compared = any(line.kube_scheduler for line in all_lines)
    passes = f"kube-scheduler passes {peer} and Dovetail {ours}" if is_compared else f"Dovetail passes {ours}"
    return (
        f"Of {total} tests {passes}; {listed} differ on purpose, "
        f"{skipped} are not run with Dovetail, {unexplained} are unexplained."
    )


def markdown(all_lines: Sequence[Line]) -> str:
    """Write the lines as a table of a page; a long one has what is unexplained only, and counts the rest by reason."""
    if len(all_lines) > MOST_ROWS:
        failing = [line for line in all_lines if line.dovetail in {"fail", "unfinished"}]
        rest = _counted(failing, all_lines)
        rows = [_row(line) for line in failing if not line.because]
    else:
        rest, rows = "", [_row(line) for line in all_lines]
    table = ("", "| test | kube-scheduler | Dovetail | why |", "|---|---|---|---|", *rows) if rows else ()
    return "\n".join((summary(all_lines) + rest, *table))


def _row(line: Line) -> str:
    return f"| {line.test} | {WORDS[line.kube_scheduler]} | {WORDS[line.dovetail]} | {line.because} |"


def _counted(failing: Sequence[Line], all_lines: Sequence[Line]) -> str:
    on_purpose = Counter(line.because for line in failing if line.because)
    not_run = Counter(line.because or "without a reason" for line in all_lines if line.dovetail in {"", "skip"})
    parts = (("Different on purpose", on_purpose), ("Not run with Dovetail", not_run))
    counts = (f" {lead}: {_listed(each)}." for lead, each in parts if each)
    return "".join((*counts, " `make upstream` names all."))


def _listed(counts: Counter[str]) -> str:
    """List the most frequent reasons; the others are counted together."""
    named = counts.most_common(MOST_REASONS)
    others = counts.total() - sum(count for _, count in named)
    return ", ".join(f"{reason} ({count})" for reason, count in [*named, *([("others", others)] if others else [])])


def marks(suite: str, kubernetes: str) -> tuple[str, str]:
    """Return the lines of the page between which a table stands."""
    begin, end = (f"<!-- make upstream, {suite} of {kubernetes}: {mark} -->" for mark in ("begin", "end"))
    return begin, end


def _line(test: str, peer: UpstreamResult | None, ours: UpstreamResult | None, kubernetes: str) -> Line:
    return Line(
        test=test,
        kube_scheduler=peer.outcome if peer else "",
        dovetail=ours.outcome if ours else "",
        because=known.because(test, kubernetes) or (ours.reason if ours and ours.outcome == "skip" else ""),
        message=ours.message if ours and ours.outcome != "pass" else "",
    )


def _unexplained(line: Line) -> str:
    return "is listed in known.toml and passes" if line.dovetail == "pass" else "is not listed in known.toml"


def _word(outcome: str) -> Text:
    return Text(WORDS[outcome], COLOURS.get(outcome, ""))
