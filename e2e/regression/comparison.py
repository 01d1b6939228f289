"""Figures of two commits beside each other. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.table import Table

from e2e.regression.figures import Figure
from e2e.spread import spread

Verdict = Literal["better", "worse", ""]
STYLES: Mapping[Verdict, str] = {"better": "green", "worse": "red", "": ""}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of both commits, one value for each turn."""

    before: tuple[Figure, ...]
    after: tuple[Figure, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether every value of one commit is better than every value of the other."""
        before, after = ([each.value for each in side] for side in (self.before, self.after))
        if max(before) >= min(after) and max(after) >= min(before):
            return ""
        return "better" if (min(after) > max(before)) is self.before[0].larger_is_better else "worse"


def comparisons(turns: Sequence[tuple[Iterable[Figure], Iterable[Figure]]]) -> tuple[Comparison, ...]:
    """Pair the figures that every turn has for both commits; the order is that of the first turn."""
    sides = [tuple({(each.subject, each.name): each for each in side} for side in turn) for turn in turns]
    first, *others = (side for turn in sides for side in turn)
    shared = [key for key in first if all(key in other for other in others)]
    return tuple(
        Comparison(tuple(before[key] for before, _ in sides), tuple(after[key] for _, after in sides)) for key in shared
    )


def render(found: Sequence[Comparison], commit: str) -> Table:
    """Lay out the table: medians (least–most), and the ratio of the two runs of a turn."""
    table = Table("MEASURED", "FIGURE", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in (commit, "THIS", "RATIO"):
        table.add_column(name, justify="right")
    table.add_column()
    shown = ""
    for each in found:
        first = each.before[0]
        values = [_text(side) for side in (each.before, each.after)]
        subject = "" if first.subject == shown else first.subject
        shown = first.subject
        table.add_row(subject, first.name, *values, _ratio(each), each.verdict, style=STYLES[each.verdict])
    return table


def _text(figures: Sequence[Figure]) -> str:
    if len(figures[0].value) == 1:
        return spread([each.value[0] for each in figures])
    return "; ".join(dict.fromkeys(" ".join(f"{part:.0f}" for part in each.value) for each in figures))


def _ratio(comparison: Comparison) -> str:
    pairs = [(one.value[0], other.value[0]) for one, other in zip(comparison.before, comparison.after, strict=True)]
    if len(comparison.before[0].value) > 1 or not all(before for before, _ in pairs):
        return ""
    return spread([after / before for before, after in pairs], "{:.2f}")
