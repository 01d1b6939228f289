"""
The file of an observation: JSON lines that are only appended, bounded in size.

    start     a new observation begins: the clusters are equal
    object    an object at the start, or when it has changed (`recorded_objects`): what a replay needs
    outcome   a pod or a gang whose outcome is final, unless both clusters did the same
    sample    the counts since the start, and how much of the fleet is in use in each cluster

When the file has half of its size it becomes `FILE.1`, in place of the one before it, and a new one begins, again with
all objects. Counts are those since the start, so that the totals survive. Two observations must not write into one
file. Only the owner of the files can read them: they name pods of all namespaces.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from scheduler import private_file
from scheduler.counterfactual.comparison import ComparisonTotals
from scheduler.counterfactual.fleet_measure import FleetMeasure
from scheduler.counterfactual.outcomes import ComparedPlacement, RecordedCount, RecordedSeconds, RecordedTime
from scheduler.counterfactual.recorded_objects import ObjectLine

API_VERSION: Final = "record.dovetail.dev/v1alpha1"
KIND: Final = "Observation"
MOST_BYTES: Final = 64 * 1024 * 1024
"""The most that both files have together."""
_LONGEST_LINE: Final = 1024 * 1024
"""Bytes; no line that is written is as long. An object that needs more is left out."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    pass


class ObservationStart(_Line, frozen=True, kw_only=True, tag="start"):
    """
    The first line of an observation and of each file. Times are seconds since the epoch.

    `schedulers` are the observed ones. Differences of at most `tolerance_seconds` do not count. `has_objects` says that
    all objects follow, and their changes.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    started: RecordedTime
    schedulers: tuple[str, ...]
    tolerance_seconds: RecordedSeconds
    version: str = ""
    has_objects: bool = False


class OutcomeLine(_Line, frozen=True, kw_only=True, tag="outcome"):
    """A final outcome."""

    of: ComparedPlacement


class ObservationSample(_Line, frozen=True, kw_only=True, tag="sample"):
    """
    The counts since the start of the observation, and both fleets at this moment.

    `still_open` are the pods and gangs whose outcome may still change. `failed_decisions` are those in which the solver
    failed: their pods went on waiting in the counterfactual cluster. `tolerance_seconds` is what does not count now: it
    is longer than at the start while rounds are slow.
    """

    at: RecordedTime
    totals: ComparisonTotals
    real: FleetMeasure
    counterfactual: FleetMeasure
    still_open: tuple[ComparedPlacement, ...] = ()
    failed_decisions: RecordedCount = 0
    tolerance_seconds: RecordedSeconds = 0.0


RecordLine = ObservationStart | ObjectLine | OutcomeLine | ObservationSample

_decoder: Final = msgspec.json.Decoder(RecordLine)
_encoder: Final = msgspec.json.Encoder()


class RecordError(ValueError):
    """A record cannot be written or used; the message names the file and the problem."""


class ObservationRecord:
    """Appends lines to a file. Raise `RecordError` where it cannot be written."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        """Open the file; a line that a crash has cut is ended."""
        self._path: Final = path
        self._most: Final = most_bytes // 2
        self._start: ObservationStart | None = None
        self._objects: Callable[[], Iterable[ObjectLine]] | None = None
        """Returns all objects as they are now; None where they are not recorded."""
        with _named(path):
            if older(path).exists():
                private_file.append(older(path)).close()  # earlier versions let every user read it
            self._file: IO[bytes] = self._opened()

    def __enter__(self) -> Self:
        """Return the record."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):  # every line was flushed; what failed then was raised then
            self._file.close()

    def begin(self, start: ObservationStart, objects: Callable[[], Iterable[ObjectLine]]) -> bool:
        """
        Begin an observation with all objects, which `objects` returns; a later file begins with them, too.

        Return false where they need more than half of a file: then none is recorded.
        """
        self._start, self._objects = start, objects
        with _named(self._path):
            self._write_start(start)
        return self._objects is not None

    def add(self, line: RecordLine) -> None:
        """Write a line, so that a reader sees it."""
        if isinstance(line, ObservationStart):
            self._start, self._objects = line, None
        encoded = _encoder.encode(line) + b"\n"
        with _named(self._path):
            if self._file.tell() + len(encoded) > self._most and self._file.tell():
                self._begin_file()
                if self._start is not None and line is not self._start:
                    self._write_start(self._start)
            if not isinstance(line, ObjectLine) or (self._objects is not None and len(encoded) < _LONGEST_LINE):
                self._file.write(encoded)
                self._file.flush()

    def _begin_file(self) -> None:
        self._file.close()
        self._path.replace(older(self._path))
        self._file = self._opened()

    def _write_start(self, start: ObservationStart) -> None:
        """Write the start and all objects; from where they have become too large on, none is recorded."""
        objects = [] if self._objects is None else [_encoder.encode(each) + b"\n" for each in self._objects()]
        if sum(map(len, objects)) > self._most // 2:
            self._objects, objects = None, []
        start = msgspec.structs.replace(start, has_objects=self._objects is not None)
        encoded = b"".join([_encoder.encode(start) + b"\n", *(each for each in objects if len(each) < _LONGEST_LINE)])
        if self._file.tell() and self._file.tell() + len(encoded) > self._most:
            self._begin_file()
        self._file.write(encoded)
        self._file.flush()

    def _opened(self) -> IO[bytes]:
        file = private_file.append(self._path)
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        return file


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror or error}") from error


def older(path: Path) -> Path:
    """Return the file of the older lines."""
    return path.parent / f"{path.name}.1"  # a path without a name is a folder, and opening it says so


def _exists(path: Path) -> bool:
    """Whether there is a file; none has a name that is too long."""
    try:
        return path.exists()
    except OSError:
        return False


class RecordReader:
    """Reads a record, the oldest line first. `unreadable` counts lines such as one that a crash has cut."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.unreadable = 0

    def lines(self) -> Iterator[RecordLine]:
        """Return the lines. Raise `RecordError` where there is no record, or one of another version."""
        begins = False
        for path in (older(self.path), self.path):
            if path != self.path and not _exists(path):
                continue
            for line in self._lines_of(path):
                begins = begins or isinstance(line, ObservationStart)
                yield line
        if not begins:
            raise RecordError(f"{self.path}: is no record of an observation: name the file of `dovetail observe`")

    def _lines_of(self, path: Path) -> Iterator[RecordLine]:
        try:
            with path.open("rb") as file:
                for raw in iter(lambda: file.readline(_LONGEST_LINE), b""):
                    yield from self._decoded(path, raw)
        except OSError as error:
            raise RecordError(f"{path}: cannot be read: {error.strerror}") from error

    def _decoded(self, path: Path, raw: bytes) -> Iterator[RecordLine]:
        try:
            line = _decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.unreadable += bool(raw.strip())
            return
        yield _checked(path, line)


def _checked(path: Path, line: RecordLine) -> RecordLine:
    if isinstance(line, ObservationStart) and (line.api_version, line.kind) != (API_VERSION, KIND):
        wanted = f"{API_VERSION} {KIND}"
        raise RecordError(f"{path}: is a {line.api_version} {line.kind}, and this version reads {wanted}")
    return line
