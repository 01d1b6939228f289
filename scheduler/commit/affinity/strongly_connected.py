"""Strongly connected components, in linear time and without recursion (Tarjan, 1972)."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

N = TypeVar("N", bound=Hashable)


class StronglyConnected(Generic[N]):
    """
    The components of the nodes that are reached from `roots`; each comes after all that it leads to.

    `successors` is asked once for each node, when the search reaches it.
    """

    def __init__(self, roots: Iterable[N], successors: Callable[[N], Iterable[N]]) -> None:
        self._roots: Final = roots
        self._successors: Final = successors
        self._number: Final[dict[N, int]] = {}
        self._lowest: Final[dict[N, int]] = {}
        """The lowest number of a node in an unfinished component that a node leads to."""
        self._open: Final[dict[N, None]] = {}
        """Reached nodes whose component is not finished, in the order in which they were reached."""

    def __iter__(self) -> Iterator[list[N]]:
        """Give the components, each in the order in which its nodes were reached."""
        for root in self._roots:
            if root not in self._number:
                yield from self._reached_from(root)

    def _reached_from(self, root: N) -> Iterator[list[N]]:
        path = [(root, self._reach(root))]
        while path:
            node, successors = path[-1]
            after = self._follow(node, successors)
            if after is not None:
                path.append((after, self._reach(after)))
                continue
            path.pop()
            if path:
                before = path[-1][0]
                self._lowest[before] = min(self._lowest[before], self._lowest[node])
            if self._lowest[node] == self._number[node]:
                yield self._finish(node)

    def _reach(self, node: N) -> Iterator[N]:
        self._number[node] = self._lowest[node] = len(self._number)
        self._open[node] = None
        return iter(self._successors(node))

    def _follow(self, node: N, successors: Iterator[N]) -> N | None:
        """Return the next successor that was not reached before."""
        for each in successors:
            if each not in self._number:
                return each
            if each in self._open:
                self._lowest[node] = min(self._lowest[node], self._number[each])
        return None

    def _finish(self, node: N) -> list[N]:
        found = list[N]()
        while not found or found[-1] != node:
            found.append(self._open.popitem()[0])
        return found[::-1]
