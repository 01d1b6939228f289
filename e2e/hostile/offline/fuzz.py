"""Very many rounds in several processes; one that hangs or dies is a finding, and the others go on."""

import contextlib
import multiprocessing
import multiprocessing.connection
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from e2e.hostile.objects.generator import generate
from e2e.hostile.offline.reduction import Report, report, save
from e2e.hostile.offline.rounds import Finding, Round, Tally

PER_ROUND: Final = 12
_MEMORY_BYTES: Final = 4 * 2**30
_PROGRESS_SECONDS: Final = 10.0
_REPORTED: Final = 3
"""Findings of one signature that each process reduces; the others are counted."""
Line = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many objects of which seed, in how many processes; a round that takes longer than the limit is ended."""

    seed: int
    objects: int
    processes: int = 2
    limit_seconds: float = 120.0

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return -(-self.objects // PER_ROUND)

    def numbers(self, number: int) -> range:
        """Give the objects of a round."""
        return range(number * PER_ROUND, min((number + 1) * PER_ROUND, self.objects))


@dataclass(slots=True, kw_only=True)
class Summary:
    """What all rounds came to."""

    tally: Tally = field(default_factory=Tally)
    found: Counter[str] = field(default_factory=Counter)
    files: list[Path] = field(default_factory=list)
    rounds: int = 0

    def lines(self) -> Iterator[str]:
        """Give the summary as text."""
        total = sum(self.tally.objects.values())
        yield f"{total} objects in {self.rounds} rounds: {self.tally.unreadable} could not be read"
        yield f"pods: {self.tally.placed} placed, {self.tally.waiting} told why they wait"
        yield "by kind: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.tally.objects.items()))
        for signature, count in self.found.most_common():
            yield f"WRONG {count:6} × {signature}"
        for path in self.files:
            yield f"saved {path}"
        if not self.found:
            yield "nothing was found"


class _Worker:
    """One process, and what it is at."""

    def __init__(self, plan: Plan, first: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, plan, first), daemon=True)
        self.process.start()
        theirs.close()
        self.round = first
        self.since = time.monotonic()

    def end(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def fuzz(plan: Plan, folder: Path, line: Line) -> Summary:
    """Do all rounds, tell how it goes, and save what is found."""
    summary = Summary()
    workers = [_Worker(plan, first) for first in range(min(plan.processes, plan.rounds))]
    told = time.monotonic()
    try:
        while workers:
            ready = multiprocessing.connection.wait([each.connection for each in workers], timeout=1.0)
            for each in list(workers):
                is_alive = each.connection not in ready or _hear(each, summary, folder)
                is_late = time.monotonic() - each.since > plan.limit_seconds
                if not is_alive or is_late:
                    workers.remove(each)
                    workers += _replaced(each, plan, summary, is_late=is_late)
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                line(f"{summary.rounds} of {plan.rounds} rounds, {sum(summary.found.values())} findings")
    finally:
        for each in workers:
            each.end()
    return summary


def _hear(worker: _Worker, summary: Summary, folder: Path) -> bool:
    """Take what a process has to tell; False when it has ended."""
    try:
        message = worker.connection.recv()
    except (EOFError, OSError):
        return False
    worker.since = time.monotonic()
    match message:
        case int():
            worker.round = message
        case Tally():
            _add(summary, message)
        case Finding():
            summary.found[message.signature] += 1
        case Report():
            summary.files.append(save(folder, message))
    return True


def _add(summary: Summary, tally: Tally) -> None:
    summary.rounds += 1
    summary.tally.objects += tally.objects
    summary.tally.unreadable += tally.unreadable
    summary.tally.placed += tally.placed
    summary.tally.waiting += tally.waiting


def _replaced(worker: _Worker, plan: Plan, summary: Summary, *, is_late: bool) -> list[_Worker]:
    """End a process that hangs or has ended; give the one that goes on after the round it was at."""
    worker.end()
    if worker.round >= plan.rounds:
        return []
    numbers = plan.numbers(worker.round)
    rule = f"a round ends within {plan.limit_seconds:.0f} s" if is_late else "the process survives"
    summary.found[f"{rule}: seed {plan.seed}, objects {numbers.start}…{numbers.stop - 1}"] += 1
    following = worker.round + plan.processes
    return [_Worker(plan, following)] if following < plan.rounds else []


def _work(connection: Connection, plan: Plan, first: int) -> None:
    """Do every so many rounds, beginning with one; tell before and after each."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))
    seen = Counter[str]()
    with contextlib.suppress(BrokenPipeError):
        for number in range(first, plan.rounds, plan.processes):
            connection.send(number)
            tally = Tally()
            for each in Round([generate(plan.seed, each) for each in plan.numbers(number)], tally).run():
                connection.send(each)
                seen[each.signature] += 1
                if seen[each.signature] <= _REPORTED:
                    connection.send(report(each))
            connection.send(tally)
        connection.send(plan.rounds)
