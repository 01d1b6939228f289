"""
An order in which every unit of a plan finds the pods begun that its required affinity needs, as far as there is one.

A topological sort in which any one of several pods satisfies an edge. Where the rest of the units forms cycles (a with
b, b with a) there is no such order. Then one unit begins without a dependency, as the first pod of a group does by the
API's rule for required self-affinity. It is taken from a strongly connected component that depends on no other one, so
that few units begin this way.

The work is linear in the pods and their terms. A term is woken by a few of the classes that satisfy it, which is
enough while one of these can begin; a unit that waits for none of them finds the others when it is its turn. The units
of a component are taken in order until half of it has begun, and only then are its components found again.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeVar

from scheduler.commit.affinity.selected_pods import Bits, bits_of, numbers
from scheduler.commit.affinity.strongly_connected import StronglyConnected
from solver.domain import PodId

_MOST_WATCHED: Final = 8
"""The first classes that satisfy a term: these wake it."""
_SMALL: Final = 16
"""The components of a component of this size are found again after each unit that begins without a dependency."""

U = TypeVar("U")


@dataclass(slots=True, eq=False)
class BeginCandidate(Generic[U]):
    """
    A unit that has not begun, the keys of its pods, and the classes of these.

    A term stands for pods with equal required affinity: the classes of which one pod of another unit satisfies it. A
    pod that a running pod satisfies, or only a pod of its own unit, has no term. `is_self_sufficient` says whether its
    own pods satisfy each term.
    """

    unit: U
    own: frozenset[PodId]
    classes: tuple[int, ...]
    terms: tuple[Bits, ...]
    is_self_sufficient: bool
    left: set[int] = field(default_factory=set)
    """The terms that no pod that has begun was found to satisfy, by position."""
    has_begun: bool = False


class BeginOrder(Generic[U]):
    """
    Begins candidates. Classes of pods are numbers: `class_of` gives that of a pod, and `begun` are pods under way.

    `begin` is told of each unit in turn, with a pod for each of its terms that has begun before; None for none.
    """

    def __init__(
        self,
        candidates: Sequence[BeginCandidate[U]],
        class_of: Mapping[PodId, int],
        begun: Iterable[PodId],
        begin: Callable[[U, Sequence[PodId | None]], None],
    ) -> None:
        self._candidates: Final = candidates
        self._class_of: Final = class_of
        self._tell: Final = begin
        self._begun: Bits = 0
        self._members: Final[defaultdict[int, list[PodId]]] = defaultdict(list)
        self._watchers: Final[defaultdict[int, list[tuple[BeginCandidate[U], int]]]] = defaultdict(list)
        self._ready: Final[deque[BeginCandidate[U]]] = deque()
        self._add(begun)

    def steps(self) -> Iterator[None]:
        """Begin all candidates; the caller may pause after each step."""
        for each in self._candidates:
            each.left = {number for number, term in enumerate(each.terms) if self._partner(term, each.own) is None}
            if not each.left:
                self._begin(each)
            for number in sorted(each.left):
                for watched in islice(numbers(each.terms[number]), _MOST_WATCHED):
                    self._watchers[watched].append((each, number))
            yield
        yield from self._begin_ready()
        yield from self._begin_group([each for each in self._candidates if not each.has_begun])

    def _begin_group(self, group: Sequence[BeginCandidate[U]]) -> Iterator[None]:
        """Begin candidates of which each waits for others, component by component."""
        for component in self._components(group):
            waiting = [each for each in component if not each.has_begun]
            waiting.sort(key=lambda each: not each.is_self_sufficient)
            most = 1 if len(waiting) <= _SMALL else len(waiting) // 2
            for each in islice((each for each in waiting if not each.has_begun), most):
                self._begin(each)
                yield
                yield from self._begin_ready()
            if left := [each for each in waiting if not each.has_begun]:
                yield from self._begin_group(left)

    def _components(self, group: Sequence[BeginCandidate[U]]) -> Iterator[list[BeginCandidate[U]]]:
        """
        Give the strongly connected components of a group, each after those that it depends on; members in order.

        Candidates lead to the classes that wake their terms, and classes to the candidates that have pods of them.
        """
        order = {id(each): number for number, each in enumerate(group)}
        providers: defaultdict[int, list[BeginCandidate[U]]] = defaultdict(list)
        for each in group:
            for own in each.classes:
                providers[own].append(each)

        def successors(node: BeginCandidate[U] | int) -> Iterable[BeginCandidate[U] | int]:
            if isinstance(node, int):
                return (each for each in providers[node] if not each.has_begun)
            terms = (node.terms[number] for number in sorted(node.left))
            watched = (number for term in terms for number in islice(numbers(term), _MOST_WATCHED))
            return (number for number in watched if number in providers)

        for component in StronglyConnected[BeginCandidate[U] | int](group, successors):
            found = [each for each in component if isinstance(each, BeginCandidate)]
            yield sorted(found, key=lambda each: order[id(each)])

    def _begin_ready(self) -> Iterator[None]:
        while self._ready:
            each = self._ready.popleft()
            if not each.has_begun:
                self._begin(each)
            yield

    def _begin(self, candidate: BeginCandidate[U]) -> None:
        candidate.has_begun = True
        self._tell(candidate.unit, [self._partner(term, candidate.own) for term in candidate.terms])
        self._add(candidate.own)

    def _add(self, pods: Iterable[PodId]) -> None:
        """Note that pods have begun, and wake the terms that wait for their classes."""
        classes = dict.fromkeys(self._class_of[key] for key in pods if key in self._class_of)
        for key in pods:
            if key in self._class_of:
                self._members[self._class_of[key]].append(key)
        self._begun |= bits_of(classes)
        for each in classes:
            self._wake(self._watchers.pop(each, ()), each)

    def _wake(self, watchers: Iterable[tuple[BeginCandidate[U], int]], pod_class: int) -> None:
        for candidate, number in watchers:
            if number not in candidate.left:
                continue
            if self._partner(candidate.terms[number], candidate.own) is None:
                self._watchers[pod_class].append((candidate, number))
                continue
            candidate.left.discard(number)
            if not candidate.left:
                self._ready.append(candidate)

    def _partner(self, term: Bits, own: frozenset[PodId]) -> PodId | None:
        """Return a pod that has begun and satisfies a term, of another unit; the first in the order of classes."""
        every = (key for number in numbers(term & self._begun) for key in self._members[number])
        return next((key for key in every if key not in own), None)
