"""
The record of `dovetail observe` as a trace: objects at the start and changes, and how long pods really ran.

A record may have several observations: a gap in the watches begins another one. The longest is the trace.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.traces.workload import TraceError
from scheduler.change import Change, Kind
from scheduler.counterfactual.observation_record import (
    ObservationSample,
    ObservationStart,
    OutcomeLine,
    RecordError,
    RecordReader,
)
from scheduler.counterfactual.pod_life import PodLife
from scheduler.counterfactual.recorded_objects import ObjectLine
from solver.domain import Claim, ClaimId, Pod, ResourceSlice

_AGAIN: Final = "observe again with this version of `dovetail observe`, and replay that record"
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(slots=True)
class ObservedTrace:
    """
    One observation, in seconds since the epoch.

    `initial` are the objects when it began, `changes` what the watches showed then, with their times. `lives` are the
    pods by uid as they really were, `claims` the last that is known of each claim.
    """

    name: str
    schedulers: tuple[str, ...]
    started: float
    ended: float
    initial: list[Change] = field(default_factory=list)
    changes: list[tuple[float, Change]] = field(default_factory=list)
    lives: dict[str, PodLife] = field(default_factory=dict)
    claims: dict[ClaimId, Claim] = field(default_factory=dict)

    @property
    def lengths(self) -> Mapping[str, float]:
        """How long pods ran, by uid; of those that ran on when the record ended it is not known."""
        found = {uid: life.run_seconds for uid, life in self.lives.items()}
        return {uid: seconds for uid, seconds in found.items() if seconds is not None}

    @property
    def devices(self) -> int:
        """How many devices the nodes have, counted by their slices at the start."""
        slices = (each.value for each in self.initial if isinstance(each.value, ResourceSlice))
        return sum(len(each.devices) for each in slices)

    def size_of(self, pod: Pod) -> int:
        """Return how many devices a pod asks for."""
        claims = (self.claims[each] for each in pod.claim_ids if each in self.claims)
        return sum(request.alternatives[0].count for claim in claims for request in claim.requests)


def read(path: Path) -> ObservedTrace:
    """Read the longest observation of a record. Raises TraceError that names the file and what is wrong with it."""
    reader, observations = RecordReader(path), dict[float, _Observation]()
    current: _Observation | None = None
    try:
        for line in reader.lines():
            match line:
                case ObservationStart():
                    current = observations.setdefault(line.started, _Observation(line))
                    current.is_over = not line.has_objects
                case ObjectLine() if current is not None:
                    current.objects.append(line)
                    current.ended = max(current.ended, line.at)
                case ObservationSample() if current is not None and not current.is_over:
                    current.ended = max(current.ended, line.at)
                case OutcomeLine():
                    pass
    except RecordError as error:
        raise TraceError(str(error)) from None
    longest = max(observations.values(), key=lambda each: each.ended - each.start.started)
    if not longest.objects:
        version = longest.start.version or "an unknown version"
        raise TraceError(
            f"{path}: no line has an object of the cluster: {version} of `dovetail observe` wrote none, or the cluster "
            f"was too large; {_AGAIN}"
        )
    return _trace(path, longest)


@dataclass(slots=True)
class _Observation:
    """The lines of one observation; a file that was begun anew repeats its start and all objects."""

    start: ObservationStart
    objects: list[ObjectLine] = field(default_factory=list)
    ended: float = 0.0
    is_over: bool = False
    """Whether objects are not recorded any more: they had become too many."""


def _trace(path: Path, observed: _Observation) -> ObservedTrace:
    """Tell the objects of the beginning from later changes: they come first, and each key once."""
    began = observed.objects[0].at
    found = ObservedTrace(
        _NO_NAME.sub("-", path.name), observed.start.schedulers, began, max(observed.ended, observed.start.started)
    )
    names, current = set[tuple[Kind, str]](), dict[str, PodLife]()
    is_start = True
    for line in observed.objects:
        try:
            change = line.change()
        except ValueError as error:
            raise TraceError(f"{path}, object line: {error}; {_AGAIN}") from None
        is_new = change.value is not None and (change.kind, change.key) not in names
        is_start = is_start and is_new and line.at == began
        names.add((change.kind, change.key))
        if is_start:
            found.initial.append(change)
        else:
            found.changes.append((line.at, change))
        if isinstance(change.value, Claim):
            found.claims[change.value.id] = change.value
        if change.kind is Kind.PODS:
            _see(found.lives, current, change, line.at)
    return found


def _see(lives: dict[str, PodLife], current: dict[str, PodLife], change: Change, at: float) -> None:
    """Follow the life of a pod; one of the same name ends the one before it."""
    last, pod = current.get(change.key), change.value
    if last is not None and (not isinstance(pod, Pod) or pod.uid != last.pod.uid):
        del current[change.key]
        last.ended_at = at if last.ended_at is None else last.ended_at
    if not isinstance(pod, Pod):
        return
    life = lives.get(pod.uid)
    if life is None:
        life = lives[pod.uid] = PodLife.of(pod, at)
    else:
        life.see(pod, at)
    current[change.key] = life
    if life.ended_at is None and (pod.is_terminal or (pod.is_deleting and life.bound_at is None)):
        life.ended_at = at


def moments(trace: ObservedTrace) -> Iterable[tuple[float, Sequence[Change]]]:
    """Return the changes by the moment at which they were seen."""
    batch: list[Change] = []
    for number, (at, change) in enumerate(trace.changes):
        batch.append(change)
        if number + 1 == len(trace.changes) or trace.changes[number + 1][0] != at:
            yield at, batch
            batch = []
