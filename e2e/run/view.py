"""Shows the pods until everything is as expected: a live table on a terminal. Afterwards a line for each change."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from e2e import table
from e2e.run.stage import Stage
from e2e.table import Row

POLL_SECONDS = 0.4
_OTHER_COLUMNS = 62  # characters that pod, state and node take of a table's line
_OTHER_LINES = 6  # of head and status
_LEAST_LINES = 4

Show = Callable[[Sequence[Row], str], None]


def follow(stage: Stage, console: Console, *, seconds: float, keeps_table: bool = True) -> tuple[Row, ...]:
    """
    Show the pods on a terminal until all are as expected, `seconds` at most, and return how they are then.

    Without `keeps_table` the table vanishes at the end.
    """
    began = time.monotonic()
    with _display(console, keeps_table=keeps_table) as show:
        while True:
            rows, elapsed = stage.rows(), time.monotonic() - began
            show(rows, f"{elapsed:.1f} s: {_count(rows)}")
            if is_settled(rows, stage.expected_pods) or elapsed > seconds:
                return rows
            time.sleep(POLL_SECONDS)


def stay(stage: Stage, console: Console, shown: Sequence[Row]) -> None:
    """Print a line for each change of a pod, from those that were shown on, until interrupted."""
    while True:
        rows = stage.rows()
        for line in changes(shown, rows):
            console.print(line, soft_wrap=True, highlight=False, markup=False)
        shown = rows
        time.sleep(POLL_SECONDS)


def is_settled(rows: Sequence[Row], expected_pods: int) -> bool:
    """Say whether every pod that is expected is there and as it should be."""
    watched = [row for row in rows if row.expected]
    return len(watched) >= expected_pods and all(row.is_as_expected for row in watched)


def changes(before: Sequence[Row], after: Sequence[Row]) -> Iterator[str]:
    """Say in one line for each pod what is new about it."""
    known = {row.pod: row for row in before}
    for row in after:
        old = known.pop(row.pod, None)
        if old is None or (old.state, old.waits_because) != (row.state, row.waits_because):
            yield _sentence(row)
    for pod in known:
        yield f"{pod}: gone"


def _sentence(row: Row) -> str:
    where = f" on {row.node}" if row.node else ""
    what = f" with {'; '.join(row.seen)}" if row.seen else ""
    why = f": {row.reason}" if row.reason else ""
    return f"{row.pod}: {row.state}{where}{what}{why}"


def _count(rows: Sequence[Row]) -> str:
    states = [row.state for row in rows]
    return ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "no pods yet"


def longest_reason(rows: Sequence[Row], width: int, height: int) -> int:
    """Return how many characters of each reason fit a terminal; `kubectl describe pod` shows the whole."""
    waiting = sum(bool(row.reason) for row in rows)
    spare = height - _OTHER_LINES - sum(max(1, len(row.seen)) for row in rows)
    return max(_LEAST_LINES, 1 + spare // max(1, waiting)) * max(20, width - _OTHER_COLUMNS)


@contextmanager
def _display(console: Console, *, keeps_table: bool) -> Iterator[Show]:
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=not keeps_table) as live:

            def update(rows: Sequence[Row], status: str) -> None:
                longest = longest_reason(rows, console.width, console.height)
                live.update(Group(table.render(rows, longest_reason=longest), Text(status, "dim")), refresh=True)

            yield update
        return
    yield lambda *_: None
