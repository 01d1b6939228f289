"""
Evaluate selectors on devices, paid from an allowance: the cost of a selector is known once it has run.

First all selectors run together, each with a small share: enough for plain ones, and each device is read once. Those
that need more take turns, by namespace, by claim, and then the one with the least expected cost: a claim with dozens of
expensive selectors does not use up the share of other claims. Results stay in the slice cache for the next decision.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from solver.domain import Allowance, AllowanceSpentError, ResourceSlice
from solver.feasibility import selectors
from solver.feasibility.selectors import Selector
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.slice_cache import Matched, Selectors, SliceCache
from solver.problem.requests.demand import DeviceEvaluation
from solver.problem.skipped_pods import error_text

_LOOK: Final = 2
"""Units of a device whose result is known from an equal device."""
_COMPILE: Final = 10
"""Units of compiling one character."""
_TURN: Final = 10_000
"""Units of a turn at least."""


class Ending(NamedTuple):
    """Why selectors did not finish: an unexpected error, or else the end of their allowance."""

    cost: Allowance
    error: str = ""


Unfinished = dict[Selectors, Ending]


class Requester(NamedTuple):
    """A claim, by number, of a namespace that needs the result."""

    namespace: str
    claim: int


@dataclass(slots=True, eq=False)
class _Task:
    """Selectors, the slices that are left, their allowance, and the units of the next turn."""

    names: Selectors
    askers: Collection[Requester]
    slices: list[ResourceSlice]
    cost: Allowance
    compiled: list[Selector] | None = None
    turn: int = _TURN
    error: str = ""

    @property
    def size(self) -> int:
        """Characters of the selectors."""
        return sum(map(len, (*self.names[0], *self.names[1])))

    @property
    def expected(self) -> int:
        """Estimate the units without running the selectors."""
        return sum(len(each.devices) for each in self.slices) * self.size


def evaluate(
    inventory: Inventory,
    slice_cache: SliceCache,
    wanted: Mapping[Selectors, Collection[Requester]],
    allowance: Allowance,
) -> Unfinished:
    """
    Evaluate selectors on all devices without a result, as far as the allowance reaches.

    Selectors that do not compile are skipped; their pods are rejected elsewhere.
    """
    unfinished = {names: rest for names in wanted if (rest := slice_cache.unknown(names, inventory.slices))}
    if not unfinished:
        return {}
    run = _Run(inventory, slice_cache, allowance)
    tasks = [_Task(names, wanted[names], rest, allowance.part(0)) for names, rest in unfinished.items()]
    tasks.sort(key=lambda task: task.size)
    run.together(tasks)
    run.in_turns([task for task in tasks if task.slices])
    return {task.names: Ending(task.cost, task.error) for task in tasks if task.slices or task.error}


@dataclass(slots=True, eq=False)
class _Run:
    """One evaluation of many selectors."""

    inventory: Inventory
    slice_cache: SliceCache
    allowance: Allowance

    def is_over(self) -> bool:
        """Whether units or time are used up."""
        return self.allowance.left <= 0 or not self.allowance.has_time()

    def compile(self, task: _Task) -> None:
        """Compile the selectors of a task, which ends where one is wrong."""
        if not self.slice_cache.is_compiled(task.names):
            task.cost.charge(_COMPILE * task.size)
        try:
            task.compiled = [selectors.compile_selector(text) for text in (*task.names[0], *task.names[1])]
        except selectors.SelectorError:
            task.slices = []  # its pod is rejected elsewhere
        self.slice_cache.compiled(task.names)

    def together(self, everything: list[_Task]) -> None:
        """Evaluate all selectors slice by slice, each until its share is used up, short selectors first."""
        least, tasks = 3 * self.allowance.left // 4, list[_Task]()
        for task in everything:
            if self.is_over() or self.allowance.left < least:
                break
            self.compile(task)
            tasks += [task] if task.slices else []
        for task, share in _shares(tasks, self.allowance.left // 2):
            task.cost.allow(share)
        waiting = {id(task): {id(each) for each in task.slices} for task in tasks}
        active = list(tasks)
        for each in (span.slice for span in self.inventory.spans):
            here = [task for task in active if id(each) in waiting[id(task)]]
            if not here:
                continue
            stopped = self._on(each, here)
            active = [task for task in active if id(task) not in stopped]
            if not active or not self.allowance.has_time():
                break
        for task in tasks:
            task.slices = [] if task.error else self.slice_cache.unknown(task.names, task.slices)

    def _on(self, each: ResourceSlice, tasks: list[_Task]) -> set[int]:
        """
        Evaluate selectors on every device of a slice; return the tasks whose allowance ended.

        Selectors cache their results on equal devices, so the devices before the stop cost nothing the next time.
        """
        active: list[tuple[_Task, Matched]] = [(task, {}) for task in tasks]
        for task in tasks:
            task.cost.charge(_LOOK * len(each.devices))
        stopped = set[int]()
        has_time = self.allowance.has_time()
        is_alike = not any(selector.reads_device for task in tasks for selector in task.compiled or ())
        for position, device in enumerate(each.devices[:1] if is_alike else each.devices):
            asking = DeviceEvaluation(each.driver, device, dict(device.attributes))
            for task, matched in active:
                outcome = self._outcome(asking, task) if has_time else None
                if outcome is None:
                    stopped.add(id(task))
                elif outcome is not False:
                    matched[position] = outcome
            if stopped:
                active = [row for row in active if id(row[0]) not in stopped]
        for task, matched in active:
            found = dict.fromkeys(range(len(each.devices)), matched[0]) if is_alike and matched else matched
            self.slice_cache.note(task.names, each, found)
        return stopped

    @staticmethod
    def _outcome(asking: DeviceEvaluation, task: _Task) -> bool | selectors.SelectorFailure | None:
        """Evaluate selectors on a device; None where the allowance does not suffice."""
        try:
            return asking.all(task.compiled or [], task.cost) if task.cost.left > 0 else None
        except AllowanceSpentError:
            return None
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - it is the problem of the pods with these selectors, and of no other
            task.error = error_text(error)
            return None

    def in_turns(self, tasks: list[_Task]) -> None:
        """Let the tasks that need more take turns, by the units used for each namespace and claim."""
        turns = _FairOrder(tasks)
        while (task := turns.next()) is not None and not self.is_over():
            before, count = task.cost.spent, len(task.slices)
            if task.compiled is None:
                self.compile(task)
            task.cost.allow(min(task.turn, self.allowance.left))
            stopped = self._forward(task)
            turns.took(task.cost.spent - before)
            if stopped and len(task.slices) == count:
                task.turn *= 4  # else an evaluation that is longer than a turn would never finish

    def _forward(self, task: _Task) -> bool:
        """Continue one task; true where its turn ended before the task did."""
        while task.slices:
            if task.error:
                task.slices = []
            elif self._on(task.slices[0], [task]):
                return True
            del task.slices[0]
        return False


def _shares(tasks: list[_Task], units: int) -> list[tuple[_Task, int]]:
    """Divide units by namespace, by the claims of each, and by the selectors of each claim."""
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
class _FairOrder:
    """
    The order of turns: the namespace that used least, and of it the claim with the least used plus expected units.

    A claim that uses more than expected comes later and later.
    """

    tasks: list[_Task]
    _namespaces: list[tuple[int, str]] = field(init=False)
    _claims: dict[str, list[tuple[int, int, int]]] = field(init=False)
    """By namespace: units used and to be expected, units used, the claim."""
    _rest: dict[Requester, list[_Task]] = field(init=False)
    _current: Requester | None = None
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

    def _put(self, asker: Requester, used: int) -> None:
        """Queue a claim by its cheapest selectors."""
        rest = self._rest[asker]
        while rest and not rest[-1].slices:
            rest.pop()
        if rest:
            heappush(self._claims[asker.namespace], (used + rest[-1].expected, used, asker.claim))

    def next(self) -> _Task | None:
        """Return the next task that is not done."""
        while self._namespaces:
            of_namespace, namespace = heappop(self._namespaces)
            while self._claims[namespace]:
                _, of_claim, number = heappop(self._claims[namespace])
                asker = Requester(namespace, number)
                if self._rest[asker] and self._rest[asker][-1].slices:
                    self._current, self._used = asker, (of_namespace, of_claim)
                    return self._rest[asker][-1]
                self._put(asker, of_claim)  # the turn of another claim finished these selectors
        return None

    def took(self, units: int) -> None:
        """Account for the units of the last turn."""
        if self._current is None:
            return
        self._put(self._current, self._used[1] + units)
        heappush(self._namespaces, (self._used[0] + units, self._current.namespace))
