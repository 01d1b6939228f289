"""
What single slices came to, so that one that changed does not cost a look at all the others.

Slices are frozen and replaced when they change: what was worked out holds as long as a slice is the very object that
it was. Nothing here is needed for correctness.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from solver.domain import CounterId, ResourceSlice
from solver.feasibility.selectors import SelectorFailure

Drawn = tuple[tuple[CounterId, int], ...]
Matched = dict[int, bool | SelectorFailure]
"""By position in the slice; devices that do not match are left out."""
Selectors = tuple[tuple[str, ...], tuple[str, ...]]
"""Those of a class and those of a request."""

_MOST_SELECTORS: Final = 256


@dataclass(slots=True, eq=False)
class Recall:
    """Per slice: what its devices draw of counters, and which of them some selectors match."""

    _drawn: dict[int, tuple[ResourceSlice, tuple[Drawn, ...]]] = field(default_factory=dict)
    _matched: dict[Selectors, dict[int, tuple[ResourceSlice, Matched]]] = field(default_factory=dict)

    def drawn(self, each: ResourceSlice, work_out: Callable[[ResourceSlice], tuple[Drawn, ...]]) -> tuple[Drawn, ...]:
        """Give what the devices of a slice draw, in their order."""
        found = self._drawn.get(id(each))
        if found is None or found[0] is not each:
            found = self._drawn[id(each)] = (each, work_out(each))
        return found[1]

    def knows(self, key: Selectors, each: ResourceSlice) -> bool:
        """Whether it was worked out which devices of a slice selectors match."""
        found = self._matched.get(key, {}).get(id(each))
        return found is not None and found[0] is each

    def matched(self, key: Selectors, each: ResourceSlice, work_out: Callable[[ResourceSlice], Matched]) -> Matched:
        """Give the devices of a slice that selectors match, or fail on."""
        found = self._matched.get(key, {}).get(id(each))
        if found is None or found[0] is not each:
            return self.note(key, each, work_out(each))
        return found[1]

    def note(self, key: Selectors, each: ResourceSlice, matched: Matched) -> Matched:
        """Remember the devices of a slice that selectors match."""
        kept = self._matched.get(key)
        if kept is None:
            if len(self._matched) >= _MOST_SELECTORS:
                del self._matched[next(iter(self._matched))]
            kept = self._matched[key] = {}
        kept[id(each)] = (each, matched)
        return matched

    def keep(self, slices: Iterable[ResourceSlice]) -> None:
        """Forget slices that are not there any more."""
        present = {id(each) for each in slices}
        self._drawn = {key: found for key, found in self._drawn.items() if key in present}
        for names, kept in self._matched.items():
            self._matched[names] = {key: found for key, found in kept.items() if key in present}
