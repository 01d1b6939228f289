"""
Selectors put to devices, paid from a budget's allowance: what one costs is known only once it has run.

All are put to the devices together first, each with a small share: that is enough where they are plain, and what a
device publishes is read once. Those that need more take turns after that, by namespace, by claim, and then the one that
looks cheapest: a claim with dozens of expensive selectors does not use up what another one's needs. Whatever was
worked out is recalled by the next decision.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from solver.domain import Budget, ResourceSlice
from solver.feasibility import selectors
from solver.feasibility.selectors import EvaluationBudget, EvaluationStopped, Selector
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.slice_cache import Matched, Selectors, SliceCache
from solver.problem.requests.demand import DeviceEvaluation
from solver.problem.skipped_pods import error_text

_LOOK: Final = 2
"""Units of putting selectors to a device whose result is known from another device."""
_COMPILE: Final = 10
"""Units of compiling a character."""
_TURN: Final = 10_000
"""Units of a turn at least."""


_MUCH: Final = 50_000
"""Units after which it is selectors that take long, and not the machine that is slow."""


class Ending(NamedTuple):
    """Why selectors did not come to an end: the time alone, or an error that nothing expects; else what they cost."""

    is_late: bool = False
    error: str = ""


Unfinished = dict[Selectors, Ending]


class Asker(NamedTuple):
    """What wants to know: a claim, known by a number, in a namespace."""

    namespace: str
    claim: int


@dataclass(slots=True, eq=False)
class _Task:
    """Selectors, the slices whose devices they were not put to yet, and what the next turn may cost."""

    names: Selectors
    askers: Collection[Asker]
    slices: list[ResourceSlice]
    compiled: list[Selector] | None = None
    turn: int = _TURN
    used: int = 0
    error: str = ""

    @property
    def size(self) -> int:
        """Characters of the selectors."""
        return sum(map(len, (*self.names[0], *self.names[1])))

    @property
    def expected(self) -> int:
        """Units that are to be expected, from what is seen without running it."""
        return sum(len(each.devices) for each in self.slices) * self.size


def evaluate(
    inventory: Inventory, recall: SliceCache, wanted: Mapping[Selectors, Collection[Asker]], budget: Budget
) -> Unfinished:
    """
    Put selectors to all devices that they were not put to yet, as far as time and allowance reach.

    Selectors that do not compile are no matter here.
    """
    slices = [each for each, _ in inventory.spans if each.devices]
    unfinished = {names: rest for names in wanted if (rest := recall.unknown(names, slices))}
    if not unfinished:
        return {}
    run = _Run(inventory, recall, budget)
    tasks = sorted(
        (_Task(names, wanted[names], rest) for names, rest in unfinished.items()), key=lambda task: task.size
    )
    run.together(tasks)
    run.in_turns([task for task in tasks if task.slices])
    is_late = budget.units_left > 0
    return {
        task.names: Ending(is_late and task.used < _MUCH, task.error) for task in tasks if task.slices or task.error
    }


@dataclass(slots=True, eq=False)
class _Run:
    """One evaluation of many selectors."""

    inventory: Inventory
    recall: SliceCache
    budget: Budget

    def is_over(self) -> bool:
        """Whether time or allowance is used up."""
        return not self.budget.units_left or self.budget.remaining_seconds() <= 0.0

    def compile(self, task: _Task) -> int:
        """Compile the selectors of a task, which has nothing to do where one is wrong; give what that cost."""
        cost = 0 if self.recall.is_compiled(task.names) else _COMPILE * task.size
        self.budget.spend(cost)
        try:
            task.compiled = [selectors.compile_selector(text) for text in (*task.names[0], *task.names[1])]
        except selectors.SelectorError:
            task.slices = []  # its pod is told so elsewhere
        self.recall.compiled(task.names)
        task.used += cost
        return cost

    def together(self, everything: list[_Task]) -> None:
        """Put all selectors to one slice after the other, each until its share is used up, those with least to read."""
        least, tasks = 3 * self.budget.units_left // 4, list[_Task]()
        for task in everything:
            if self.is_over() or self.budget.units_left < least:
                break
            self.compile(task)
            tasks += [task] if task.slices else []
        meters = {id(task): self._meter(share) for task, share in _shares(tasks, self.budget.units_left // 2)}
        waiting = {id(task): {id(each) for each in task.slices} for task in tasks}
        before = {key: meter.units for key, meter in meters.items()}
        active = list(tasks)
        for each, _ in self.inventory.spans:
            here = [task for task in active if id(each) in waiting[id(task)]]
            if not here:
                continue
            stopped = self._on(each, here, meters)
            active = [task for task in active if id(task) not in stopped]
            if not active or self.budget.remaining_seconds() <= 0.0:
                break
        for task in tasks:
            task.used += before[id(task)] - meters[id(task)].units
            self.budget.spend(before[id(task)] - meters[id(task)].units)
            task.slices = [] if task.error else self.recall.unknown(task.names, task.slices)

    def _on(self, each: ResourceSlice, tasks: list[_Task], meters: Mapping[int, EvaluationBudget]) -> set[int]:
        """
        Put selectors to every device of a slice; give those whose share ended.

        What these came to on the first devices is known to the selectors themselves, and costs nothing the next time.
        """
        active: list[tuple[_Task, EvaluationBudget, Matched]] = [(task, meters[id(task)], {}) for task in tasks]
        for _, meter, _ in active:
            meter.units -= _LOOK * len(each.devices)
        stopped = set[int]()
        for position, device in enumerate(each.devices):
            asking = DeviceEvaluation(each.driver, device, dict(device.attributes))
            is_late = self.budget.remaining_seconds() <= 0.0
            for task, meter, matched in active:
                outcome = None if is_late else self._outcome(asking, task, meter)
                if outcome is None:
                    stopped.add(id(task))
                elif outcome is not False:
                    matched[position] = outcome
            if stopped:
                active = [row for row in active if id(row[0]) not in stopped]
        for task, _, matched in active:
            self.recall.note(task.names, each, matched)
        return stopped

    @staticmethod
    def _outcome(
        asking: DeviceEvaluation, task: _Task, meter: EvaluationBudget
    ) -> bool | selectors.SelectorFailure | None:
        """Put selectors to a device; None where the budget does not allow that."""
        try:
            return asking.all(task.compiled or [], meter) if meter.units > 0 else None
        except EvaluationStopped:
            return None
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - it is the problem of the pods with these selectors, and of no other
            task.error = error_text(error)
            return None

    def in_turns(self, tasks: list[_Task]) -> None:
        """Let those take turns that need more: by what was used so far for each namespace and claim."""
        turns = _Turns(tasks)
        while (task := turns.next()) is not None and not self.is_over():
            cost = self.compile(task) if task.compiled is None else 0
            meter = self._meter(min(task.turn, self.budget.units_left))
            before, count = meter.units, len(task.slices)
            stopped = self._forward(task, meter)
            self.budget.spend(before - meter.units)
            task.used += before - meter.units
            turns.took(cost + before - meter.units)
            if stopped and len(task.slices) == count:
                task.turn *= 4  # or an evaluation that is longer than a turn would never come to its end

    def _forward(self, task: _Task, meter: EvaluationBudget) -> bool:
        """Go on with one task; give whether its turn ended before it did."""
        while task.slices:
            if task.error:
                task.slices = []
            elif self._on(task.slices[0], [task], {id(task): meter}):
                return True
            del task.slices[0]
        return False

    def _meter(self, units: int) -> EvaluationBudget:
        return EvaluationBudget(units=units, should_stop=lambda: self.budget.remaining_seconds() <= 0.0)


def _shares(tasks: list[_Task], units: int) -> list[tuple[_Task, int]]:
    """Divide units by namespace, by the claims of each, and by the selectors of those."""
    claims: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for asker in (asker for task in tasks for asker in task.askers):
        claims[asker.namespace][asker.claim] += 1
    of_namespace = units // max(1, len(claims))
    return [
        (
            task,
            max(
                of_namespace // (len(claims[each.namespace]) * claims[each.namespace][each.claim])
                for each in task.askers
            ),
        )
        for task in tasks
    ]


@dataclass(slots=True, eq=False)
class _Turns:
    """
    Whose turn it is: of the namespace that used least, the claim that is expected to come to its end for least.

    A claim that used more than was expected comes later and later; one that comes up to what was expected goes on.
    """

    tasks: list[_Task]
    _namespaces: list[tuple[int, str]] = field(init=False)
    _claims: dict[str, list[tuple[int, int, int]]] = field(init=False)
    """By namespace: units used and to be expected, units used, the claim."""
    _rest: dict[Asker, list[_Task]] = field(init=False)
    _current: Asker | None = None
    _used: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._rest, self._claims = defaultdict(list), defaultdict(list)
        for task in sorted(self.tasks, key=lambda task: -task.expected):
            for asker in task.askers:
                self._rest[asker].append(task)
        for asker in sorted(self._rest):
            self._put(asker, 0)
        self._namespaces = [(0, namespace) for namespace in sorted(self._claims)]
        heapify(self._namespaces)

    def _put(self, asker: Asker, used: int) -> None:
        """Put a claim where its cheapest selectors belong."""
        rest = self._rest[asker]
        while rest and not rest[-1].slices:
            rest.pop()
        if rest:
            heappush(self._claims[asker.namespace], (used + rest[-1].expected, used, asker.claim))

    def next(self) -> _Task | None:
        """Give the next task that is not done."""
        while self._namespaces:
            of_namespace, namespace = heappop(self._namespaces)
            while self._claims[namespace]:
                _, of_claim, number = heappop(self._claims[namespace])
                asker = Asker(namespace, number)
                if self._rest[asker] and self._rest[asker][-1].slices:
                    self._current, self._used = asker, (of_namespace, of_claim)
                    return self._rest[asker][-1]
                self._put(asker, of_claim)  # another claim's turn has brought it to its end
        return None

    def took(self, units: int) -> None:
        """Note what the turn of the last task given cost."""
        if self._current is None:
            return
        self._put(self._current, self._used[1] + units)
        heappush(self._namespaces, (self._used[0] + units, self._current.namespace))
