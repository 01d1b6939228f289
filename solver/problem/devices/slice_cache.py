"""
Results per ResourceSlice, so that a changed slice costs no work on the others.

Slices are frozen and replaced when they change: a result is valid as long as the slice is the same object. Nothing here
is needed for correctness.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from solver.bounded_cache import MIB, bytes_of
from solver.domain import CounterId, ResourceSlice
from solver.feasibility.selectors import SelectorFailure, Source

Drawn = tuple[tuple[CounterId, int], ...]
Matched = dict[int, bool | SelectorFailure]
"""By position in the slice; devices that do not match are left out."""
Selectors = tuple[tuple[str, ...], tuple[Source, ...]]
"""Those of a class and those of a request."""

_MOST_BYTES: Final = 64 * MIB
_ENTRY: Final = 200
"""Estimated bytes of the results of selectors on a slice, and of each device that they match."""
_MATCH: Final = 100


class SelectorResults(msgspec.Struct, frozen=True, kw_only=True):
    """
    Results of selectors on slices, for another process that has the same slices.

    `results` are, by position of the slice in the snapshot, the devices that match by position in the slice; the text
    is the failure where the selectors failed on the device, None for a match.
    """

    class_selectors: tuple[str, ...]
    selectors: tuple[Source, ...]
    results: tuple[tuple[int, tuple[tuple[int, str | None], ...]], ...]


@dataclass(slots=True, eq=False)
class _Kept:
    """Results of some selectors, whose texts have `size` bytes, by the identity of the slice."""

    size: int
    slices: dict[int, tuple[ResourceSlice, Matched]] = field(default_factory=dict)
    bytes: int = 0
    is_compiled: bool = False
    complete: Sequence[ResourceSlice] = ()
    """Slices all of which have results."""
    fresh: set[int] = field(default_factory=set)
    """Slices with results that are newer than the last call of `learned`."""


@dataclass(slots=True, eq=False)
class SliceCache:
    """
    Per slice: what its devices draw from counters, and which of them selectors match.

    It exceeds `most_bytes` only until `trim`, so that a decision keeps what it uses.
    """

    most_bytes: int = _MOST_BYTES
    _drawn: dict[int, tuple[ResourceSlice, tuple[Drawn, ...]]] = field(default_factory=dict)
    _matched: dict[Selectors, _Kept] = field(default_factory=dict)
    """Least recently used selectors first."""

    def drawn(self, each: ResourceSlice, compute: Callable[[ResourceSlice], tuple[Drawn, ...]]) -> tuple[Drawn, ...]:
        """Return what the devices of a slice draw, in their order."""
        found = self._drawn.get(id(each))
        if found is None or found[0] is not each:
            found = self._drawn[id(each)] = (each, compute(each))
        return found[1]

    def knows(self, key: Selectors, each: ResourceSlice) -> bool:
        """Whether the matches of selectors on a slice are known."""
        kept = self._matched.get(key)
        return kept is not None and id(each) in kept.slices

    def unknown(self, key: Selectors, slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
        """Return the slices without results of selectors; these selectors count as used."""
        kept = self._used(key)
        if kept.complete is slices:
            return []
        found = [each for each in slices if id(each) not in kept.slices] if len(kept.slices) else list(slices)
        kept.complete = kept.complete if found else slices
        return found

    def matched(self, key: Selectors, each: ResourceSlice, compute: Callable[[ResourceSlice], Matched]) -> Matched:
        """Return the devices of a slice that selectors match, or fail on."""
        kept = self._matched.get(key)
        found = kept.slices.get(id(each)) if kept is not None else None
        return self.note(key, each, compute(each)) if found is None else found[1]

    def note(self, key: Selectors, each: ResourceSlice, matched: Matched) -> Matched:
        """Store the devices of a slice that selectors match."""
        kept = self._used(key)
        if id(each) not in kept.slices:
            kept.bytes += _ENTRY + _MATCH * len(matched)
        kept.slices[id(each)] = (each, matched)
        kept.fresh.add(id(each))
        return matched

    def match_count(self, key: Selectors) -> int:
        """Count the devices that selectors are known to match."""
        kept = self._matched.get(key)
        return (kept.bytes - _ENTRY * len(kept.slices)) // _MATCH if kept is not None else 0

    def is_compiled(self, key: Selectors) -> bool:
        """Whether selectors were compiled before, so that they cost nothing again."""
        kept = self._matched.get(key)
        return kept is not None and kept.is_compiled

    def compiled(self, key: Selectors) -> None:
        """Note that selectors were compiled."""
        self._used(key).is_compiled = True

    def keep(self, slices: Iterable[ResourceSlice]) -> None:
        """Forget all slices but these."""
        present = {id(each) for each in slices}
        self._drawn = {key: found for key, found in self._drawn.items() if key in present}
        for kept in self._matched.values():
            kept.complete = ()
            if kept.slices.keys() <= present:
                continue
            kept.slices = {key: found for key, found in kept.slices.items() if key in present}
            kept.bytes = sum(_ENTRY + _MATCH * len(matched) for _, matched in kept.slices.values())

    @property
    def bytes(self) -> int:
        """Estimate the bytes of selectors and results."""
        return sum([kept.size + kept.bytes for kept in self._matched.values()])

    def trim(self) -> None:
        """Forget least recently used selectors until the rest fits `most_bytes`."""
        total = self.bytes
        while total > self.most_bytes:
            kept = self._matched.pop(next(iter(self._matched)))
            total -= kept.size + kept.bytes

    def learned(self, slices: Sequence[ResourceSlice]) -> tuple[SelectorResults, ...]:
        """Return the results since the last call."""
        position = {id(each): number for number, each in enumerate(slices)}
        found = []
        for key, kept in self._matched.items():
            fresh = (number for number in kept.slices if number in kept.fresh and number in position)
            results = tuple((position[number], _written(kept.slices[number][1])) for number in fresh)
            kept.fresh.clear()
            if results:
                found.append(SelectorResults(class_selectors=key[0], selectors=key[1], results=results))
        return tuple(found)

    def learn(self, learned: Iterable[SelectorResults], slices: Sequence[ResourceSlice]) -> None:
        """Store the results of another process on the same slices."""
        for each in learned:
            key = (each.class_selectors, each.selectors)
            for number, matched in each.results:
                self.note(key, slices[number], _read(matched))
            self._used(key).fresh.clear()

    def _used(self, key: Selectors) -> _Kept:
        kept = self._matched.pop(key, None) or _Kept(bytes_of(key))
        self._matched[key] = kept
        return kept


def _written(matched: Matched) -> tuple[tuple[int, str | None], ...]:
    return tuple(
        (position, outcome.message if isinstance(outcome, SelectorFailure) else None)
        for position, outcome in matched.items()
    )


def _read(matched: tuple[tuple[int, str | None], ...]) -> Matched:
    return {position: True if text is None else SelectorFailure(text) for position, text in matched}
