"""
The CPU time of each step of one object on the loop: `make hostile ARGS="--steps"`.

Every extreme object (`extremes`) comes as an event after a small version of itself, and in a page of a list among small
objects. Then its change is applied to the cluster cache, wakes waiting pods, is encoded for the worker, and a waiting
pod is explained. Times are CPU milliseconds of this process, medians of three runs; of a run that takes longer than
`_REPEATED_MS` there is only one. A step ends after `LONGEST_SECONDS`.
"""

import contextlib
import gc
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import msgspec
from rich import box
from rich.table import Table

from e2e.hostile.extremes.bases import base
from e2e.hostile.extremes.catalogue import Extreme, ServedObject, as_served, extremes
from e2e.hostile.extremes.entries import Manifest
from e2e.hostile.extremes.refused import Refusal, refusals
from e2e.hostile.extremes.served import event, served
from e2e.hostile.objects.kinds import NAMESPACE, SCHEDULER
from scheduler.change import Change, Kind, Transition
from scheduler.cluster import Cluster
from scheduler.cluster.intake import Intake
from scheduler.kube.decode.pieces import PIECE_BYTES, Pieces
from scheduler.kube.watching.list_watch import ListWatch, Received
from scheduler.queue import EquivalenceKeys, QueuedGangs, SchedulingQueue
from scheduler.queue.memory_budget import MemoryBudget
from scheduler.settings import default
from scheduler.status.conditions import condition_message, condition_reason
from scheduler.worker import frames
from scheduler.worker.decision_limits import of_costly
from solver.diagnosis import explain_pod
from solver.domain import Batch, Budget, Pod

LONGEST_SECONDS: Final = 30.0
TARGET_MS: Final = 50.0
STEPS: Final = ("decode", "page", "apply", "wake", "feed", "explain")
_RUNS: Final = 3
_REPEATED_MS: Final = 300.0
_PAGED_MS: Final = 1_000.0
"""An object whose event takes longer is alone in its page: several of them would take no less."""
_WAITING: Final = 200
_ROOM: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_NODE: Final[Manifest] = {
    "metadata": {"name": "node-0", "labels": {"kubernetes.io/hostname": "node-0"}},
    "status": {"capacity": _ROOM, "allocatable": _ROOM},
}


RAISED: Final = -1.0
NOTHING: Final = -2.0
"""Instead of milliseconds: a step raised an exception, or had nothing to do."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU milliseconds of each step, or `RAISED` or `NOTHING`."""

    kind: Kind
    shape: str
    refusal: Refusal
    kib: int
    decode: float
    page: float
    apply: float
    wake: float
    feed: float
    explain: float
    problems: tuple[str, ...] = ()

    @property
    def worst(self) -> float:
        """The longest step that the loop itself does; explaining is not one of them."""
        return max(self.decode, self.page, self.apply, self.wake, self.feed)


class _TooLongError(Exception):
    """A step has not ended in time."""


# the one place that knows how watches are called


def take_event(watch: ListWatch, line: bytes) -> tuple[list[Change], float]:
    """Hand a line to a watch; return its changes, and the milliseconds of the longest uninterrupted stretch."""
    received = Received()
    stretch = longest_stretch(watch.receive_lines([line], received))
    return list(received.changes), stretch


def take_page(watch: ListWatch, body: bytes) -> float:
    """Hand a page to a watch; return the milliseconds of the longest uninterrupted stretch."""
    return longest_stretch(watch.receive_page(body, Received()))


def longest_stretch(pieces: Pieces[None]) -> float:
    """Do some work as the reflector does, and return the longest stretch between two turns of the event loop."""
    longest, work, began = 0.0, 0, time.process_time()
    for size in pieces:
        work += size
        if work >= PIECE_BYTES:
            longest, work = max(longest, _milliseconds(began)), 0
            began = time.process_time()
    return max(longest, _milliseconds(began))


def _milliseconds(began: float) -> float:
    return (time.process_time() - began) * 1000


class _Loop:
    """The parts of the shell that see a change, with a node and pods that wait for more than it has."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.intake = Intake(self.cluster)
        self.queue = SchedulingQueue(
            (SCHEDULER,),
            key_of=EquivalenceKeys(self.cluster.claim, lambda _: False, lambda _: False).of,
            gangs=QueuedGangs(lambda gang: self.cluster.gang_progress(gang, (SCHEDULER,))),
        )
        self._budget = MemoryBudget((SCHEDULER,), 2**30, self.cluster.interner)
        self._applied: list[tuple[Change, tuple[Transition, ...]]] = []
        self.apply(_changes(Kind.NODES, _NODE))
        self.apply([change for index in range(_WAITING) for change in _changes(Kind.PODS, _waiting(index))])
        self.wake()

    def apply(self, changes: Sequence[Change]) -> None:
        """Apply changes to the cluster cache, after the memory budget."""
        for change in self._budget.admit(changes):
            found = self.intake.take(change)
            self._applied.append((found.change, found.transitions))

    def wake(self) -> None:
        """Offer pods that were applied to the queue, and move those that a change may help."""
        for change, transitions in self._applied:
            if isinstance(change.value, Pod):
                self.queue.offer(change.value, 0.0)
            for transition in transitions:
                self.queue.wake(transition)
        self._applied.clear()

    def explain(self, changes: Sequence[Change]) -> None:
        """Explain the pod of the change, or one that waits beside the object, and compose its condition."""
        pods = [each.value for each in changes if isinstance(each.value, Pod)]
        pod = pods[-1] if pods else next(iter(self.queue.take_batch(1e9, 1).pods))
        batch = self.cluster.with_gangs(Batch(pods=(pod,)))
        diagnosis = explain_pod(self.cluster.snapshot(), batch, pod, default().policy(SCHEDULER), _solving())
        condition_reason(diagnosis.reasons)
        condition_message(diagnosis.reasons, 1)


def _changes(kind: Kind, manifest: Manifest) -> list[Change]:
    return take_event(ListWatch(kind), event(served(manifest)))[0]


def _waiting(index: int) -> Manifest:
    made = base(Kind.PODS, f"waiting-{index}")
    made["metadata"]["namespace"] = NAMESPACE
    made["spec"]["resourceClaims"] = []
    made["spec"]["volumes"] = []
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{9 + index}"}}
    return made


def _solving() -> Budget:
    units = of_costly(default().solver).cost_units
    return Budget(seconds=60, deterministic_seconds=0.2, cost_units=units, may_defer=False, is_forgiving=True)


def measure(kinds: Iterable[Kind], refused: int, note: Callable[[Row], None], words: Sequence[str] = ()) -> list[Row]:
    """Measure every shape of the kinds readable, and the `refused` largest of each kind refused, too (0: all)."""
    rows: list[Row] = []
    for kind in kinds:
        sizes: list[tuple[int, Extreme]] = []
        for each in (shape for shape in extremes((kind,)) if all(word in shape.shape for word in words)):
            given = as_served(each, each.make())
            sizes.append((len(given.text), each))
            rows.append(Measurement(given).row())
            note(rows[-1])
        largest = sorted(sizes, key=lambda item: -item[0])[: refused or None]
        for _, each in largest:
            manifest = each.make()
            for refusal in refusals(kind)[1:]:
                rows.append(Measurement(as_served(each, manifest, refusal)).row())
                note(rows[-1])
    return rows


class Measurement:
    """One object, through all steps."""

    def __init__(self, given: ServedObject) -> None:
        self._given: Final = given
        self._line: Final = given.event()
        self._problems: Final[list[str]] = []
        self._changes: list[Change] = []

    def row(self) -> Row:
        """Measure."""
        given = self._given
        took = self._median(self._decode for _ in range(_RUNS))
        copies = 4 if 0 <= took < _PAGED_MS else 1
        body = given.page(copies, 500 - copies)
        paged = self._median(partial(take_page, ListWatch(given.kind), body) for _ in range(_RUNS))
        loops = [self._loop() for _ in range(_RUNS)] if self._changes else []
        is_explained = given.refusal is Refusal.READABLE
        return Row(
            kind=given.kind,
            shape=given.shape,
            refusal=given.refusal,
            kib=len(given.text) // 1024,
            decode=took,
            page=paged,
            apply=self._median(partial(_timed, loop.apply, self._changes) for loop in loops),
            wake=self._median(partial(_timed, loop.wake) for loop in loops),
            feed=self._median(partial(_timed, _feed, self._changes) for _ in loops),
            explain=self._median(partial(_timed, loop.explain, self._changes) for loop in loops[:is_explained]),
            problems=tuple(self._problems),
        )

    def _decode(self) -> float:
        watch = ListWatch(self._given.kind)
        take_event(watch, event(served(base(self._given.kind), 0), "ADDED"))
        self._changes, stretch = take_event(watch, self._line)
        return stretch

    def _loop(self) -> _Loop:
        loop = _Loop()
        loop.apply(_changes(self._given.kind, base(self._given.kind)))
        loop.wake()
        return loop

    def _median(self, runs: Iterable[Callable[[], float]]) -> float:
        """Run some times, or until it takes long; a run gives its milliseconds."""
        times: list[float] = []
        for run in runs:
            gc.collect()
            try:
                with _limited():
                    times.append(run())
            except _TooLongError:
                return LONGEST_SECONDS * 1000
            except Exception as error:  # noqa: BLE001 - what raises is a row of the table, too
                self._problems.append(f"{type(error).__name__}: {error}"[:200])
                return RAISED
            if times[-1] > _REPEATED_MS:
                break
        return round(statistics.median(times), 1) if times else NOTHING


def _timed(run: Callable[..., object], *given: object) -> float:
    began = time.process_time()
    run(*given)
    return _milliseconds(began)


def _feed(changes: Iterable[Change]) -> None:
    """Encode changes for the worker's replica."""
    for change in changes:
        frames.encode_change(change)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """End what takes too long. Raises _TooLongError."""
    before = signal.signal(signal.SIGALRM, _too_long)
    # A timer of CPU time would make the clock of CPU time coarse. Four times as much passes on a busy machine.
    signal.setitimer(signal.ITIMER_REAL, 4 * LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _too_long(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _TooLongError


def worst(rows: Iterable[Row], count: int) -> list[Row]:
    """Return the rows with the longest steps."""
    return sorted(rows, key=lambda row: -row.worst)[:count]


def render(rows: Iterable[Row]) -> Table:
    """Lay out the table."""
    caption = (
        "CPU milliseconds. PAGE: the longest uninterrupted stretch of a page of 500, up to four of them large. "
        f"FEED: encoded for the worker. {LONGEST_SECONDS * 1000:.0f}: ended there. EXPLAIN is not done on the loop."
    )
    columns = ("KIND", "SHAPE", "REFUSED", "KIB", *(step.upper() for step in STEPS))
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    for column in table.columns[3:]:
        column.justify = "right"
    for row in rows:
        refusal = "" if row.refusal is Refusal.READABLE else row.refusal.value
        steps = (_shown(getattr(row, step)) for step in STEPS)
        table.add_row(row.kind.value, row.shape, refusal, str(row.kib), *steps)
    return table


def _shown(milliseconds: float) -> str:
    if milliseconds < 0:
        return "raises" if milliseconds == RAISED else ""
    text = f"{milliseconds:.0f}" if milliseconds >= 10 else f"{milliseconds:.1f}"
    return f"[red]{text}[/red]" if milliseconds > TARGET_MS else text


def write(path: Path, rows: Sequence[Row]) -> None:
    """Record rows as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows)))


def read(path: Path) -> tuple[Row, ...]:
    """Read recorded rows. Raises msgspec.ValidationError where the file holds something else."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Row, ...])
