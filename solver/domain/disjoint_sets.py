"""Connected components, by union-find with path halving (Tarjan and van Leeuwen, 1984)."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True, eq=False)
class DisjointSets(Generic[K]):
    """Sets of things that were joined; a thing that was not is alone in its set."""

    _parents: dict[K, K] = field(default_factory=dict)

    def find(self, each: K) -> K:
        """Return the root of the set of a thing: the same one for all of its set."""
        parents = self._parents
        while (parent := parents.setdefault(each, each)) != each:
            parents[each] = each = parents[parent]
        return each

    def join(self, members: Iterable[K]) -> None:
        """Make one set of the sets of some things; the root of the first one's set is its root."""
        root: K | None = None
        for each in members:
            if root is None:
                root = self.find(each)
            else:
                self._parents[self.find(each)] = root
