"""From a solution to values of variables, the hint (warm start) of a search; and from values back to a solution."""

from collections import Counter, defaultdict

from solver.model.build import pool_of
from solver.model.cells import Cell
from solver.model.form import Expression
from solver.model.variables import DemandPool, Owner, PartAt, Variables
from solver.problem.devices.layout import type_at
from solver.problem.requests.component import Line, Option
from solver.solution import Choice, Pick, SharedChoice, Solution


class UnknownChoiceError(Exception):
    """A solution holds something that the model has no variable for (it does not belong to the same problem)."""


def values_of(variables: Variables, solution: Solution) -> list[int]:
    """Return the value of every variable for a solution; cells must be single nodes."""
    counts = _Counts(variables)
    cell_of = {node: cell.index for cell in variables.cells.places for node in cell.nodes}
    for choice in solution.choices:
        if choice.node in cell_of:
            counts.add(Owner(is_shared=False, number=choice.pod_class), cell_of[choice.node], choice.picks)
    known = {number for number, _ in variables.allocated}
    for shared in (each for each in solution.shared.values() if each.shared in known):
        cell, picks = _placed_shared(variables, solution, shared, cell_of)
        counts.add(Owner(is_shared=True, number=shared.shared), cell, picks)
    counts.open()
    for complete in variables.hint_completions:
        complete(counts.values)
    return counts.values


def _placed_shared(
    variables: Variables, solution: Solution, shared: SharedChoice, cell_of: dict[int, int]
) -> tuple[int, tuple[tuple[Pick, ...], ...]]:
    """Find the cell of a shared claim: its node's while all users are there, else a site that reaches them all."""
    if shared.site is not None:
        sites = [site.index for site in variables.cells.sites if site.group.index == shared.site.index]
        return sites[0], shared.picks
    classes = variables.problem.classes
    users = {choice.node for choice in solution.choices if shared.shared in classes[choice.pod_class].shared}
    if users <= {shared.node} and shared.node in cell_of:
        return cell_of[shared.node], shared.picks
    for site in variables.cells.sites:
        picks = _translated(variables, shared, site) if users <= set(site.nodes) else None
        if picks is not None:
            return site.index, picks
    raise UnknownChoiceError(f"no site serves shared claim {shared.shared}")


def _translated(variables: Variables, shared: SharedChoice, site: Cell) -> tuple[tuple[Pick, ...], ...] | None:
    """Express picks by the options of a site, or None where it lacks one of them."""
    owner, problem = Owner(is_shared=True, number=shared.shared), variables.problem
    translated = []
    for index, (part, copies) in enumerate(zip(variables.parts(owner), shared.picks, strict=True)):
        possible = variables.options.get(PartAt(owner, index, site.index), [])
        known = problem.options(part.component, shared.described(problem))
        row = [_same_pick(pick, known[pick.option], possible) for pick in copies]
        if any(each is None for each in row):
            return None
        translated.append(tuple(each for each in row if each is not None))
    return tuple(translated)


def _same_pick(pick: Pick, option: Option, possible: list[tuple[int, Option]]) -> Pick | None:
    for index, each in possible:
        pairs = zip(each.lines, pick.lines, strict=True)
        if each.alternatives == option.alternatives and all(
            _is_served(line, {reference for reference, _ in counts}) for line, counts in pairs
        ):
            return Pick(index, pick.lines)
    return None


def _is_served(line: Line, types: set[int]) -> bool:
    """Whether a line can be served by devices of some types; a request for all devices takes every one of them."""
    return types == set(line.types) if line.takes_each else types <= set(line.types)


class _Counts:
    """Values under construction."""

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.values = [0] * len(variables.form.lower)
        self.taken_on: set[int] = set()

    def add(self, owner: Owner, cell: int, picks: tuple[tuple[Pick, ...], ...]) -> None:
        container = self.variables.allocated if owner.is_shared else self.variables.pods
        if (owner.number, cell) not in container:
            raise UnknownChoiceError(f"{owner} in cell {cell}")
        self.values[container[owner.number, cell]] += 1
        for part, copies in enumerate(picks):
            for pick in copies:
                self._add_pick(PartAt(owner, part, cell), pick)

    def _add_pick(self, at: PartAt, pick: Pick) -> None:
        options = dict(self.variables.options[at])
        if pick.option not in options:
            raise UnknownChoiceError(f"option {pick.option} of {at}")
        if len(options) > 1:
            self._increase(self.variables.copies[at][pick.option], 1)
        for line, counts in zip(options[pick.option].lines, pick.lines, strict=True):
            self._add_line(at, line, counts)

    def _add_line(self, at: PartAt, line: Line, counts: tuple[tuple[int, int], ...]) -> None:
        pool = None if line.takes_each else pool_of(self.variables, at, line)
        layout, group = self.variables.problem.layout, self.variables.cell(at.cell).group
        for each, count in counts:
            if pool is not None and len(pool.types) > 1:
                self._increase(self.variables.devices[pool][each], count)
            if not count or not type_at(layout, group, each).takes[line.demand]:
                continue
            key = self.variables.device_key(at.cell, each)
            if key in self.variables.opened_devices:
                self.values[self.variables.opened_devices[key]] = 1
            if each >= 0:
                self.taken_on.add(at.cell)

    def _increase(self, expression: Expression, amount: int) -> None:
        (variable,) = expression.terms
        self.values[variable] += amount

    def open(self) -> None:
        for cell, variable in self.variables.opened_nodes.items():
            self.values[variable] = int(cell in self.taken_on)


def solution_of(variables: Variables, values: list[int]) -> Solution:
    """Read a solution: counts are dealt to pods and claims, any way of dealing being right (see `Pool`)."""
    return _Reading(variables, values).read()


class _Reading:
    """A solution under construction: options per copy first, then devices per line."""

    def __init__(self, variables: Variables, values: list[int]) -> None:
        self.variables = variables
        self.values = values
        self.options: dict[PartAt, list[int]] = {}
        self.supply: dict[DemandPool, list[tuple[tuple[int, int], ...]]] = {}

    def read(self) -> Solution:
        variables, solution = self.variables, Solution()
        for at, expressions in variables.copies.items():
            self.options[at] = [
                option for option, count in expressions.items() for _ in range(count.value(self.values))
            ]
        asked: defaultdict[DemandPool, int] = defaultdict(int)
        for pool, lines in variables.pools.items():
            for at, option, line in lines:
                asked[pool] += variables.copies[at][option].value(self.values) * line.needed
            if asked[pool]:
                self.supply[pool] = self._dealt(pool)
        for (shared, cell), variable in variables.allocated.items():
            if self.values[variable]:
                picks = self._picks(Owner(is_shared=True, number=shared), cell)
                place = variables.cell(cell)
                site = place.group if place.is_site else None
                solution.shared[shared] = SharedChoice(shared, place.nodes[0], picks, site)
        for (pod_class, cell), variable in variables.pods.items():
            for _ in range(self.values[variable]):
                picks = self._picks(Owner(is_shared=False, number=pod_class), cell)
                solution.choices.append(Choice(pod_class, variables.cell(cell).nodes[0], picks))
        return solution

    def _picks(self, owner: Owner, cell: int) -> tuple[tuple[Pick, ...], ...]:
        return tuple(
            tuple(self._pick(PartAt(owner, index, cell)) for _ in range(part.copies))
            for index, part in enumerate(self.variables.parts(owner))
        )

    def _pick(self, at: PartAt) -> Pick:
        option = self.options[at].pop(0)
        lines = dict(self.variables.options[at])[option].lines
        return Pick(option, tuple(self._line(at, line) for line in lines))

    def _line(self, at: PartAt, line: Line) -> tuple[tuple[int, int], ...]:
        if line.takes_each:
            layout, group = self.variables.problem.layout, self.variables.cell(at.cell).group
            return tuple((each, type_at(layout, group, each).total) for each in line.types)
        if not line.needed:
            return ()
        return self._next(pool_of(self.variables, at, line), line.needed)

    def _next(self, pool: DemandPool, needed: int) -> tuple[tuple[int, int], ...]:
        dealt = self.supply[pool]
        if pool.distinct:
            return dealt.pop(0)
        taken: list[tuple[int, int]] = []
        while needed:
            each, count = dealt[0][0]
            used = min(count, needed)
            needed -= used
            taken.append((each, used))
            if used == count:
                dealt.pop(0)
            else:
                dealt[0] = ((each, count - used),)
        return tuple(taken)

    def _dealt(self, pool: DemandPool) -> list[tuple[tuple[int, int], ...]]:
        """Per request where devices must differ within one; else one entry per type, to be used up in order."""
        counts = [(each, count.value(self.values)) for each, count in self.variables.devices[pool].items()]
        counts = [(each, count) for each, count in counts if count]
        if not pool.distinct:
            return [((each, count),) for each, count in counts]
        sequence = [each for each, count in counts for _ in range(count)]
        requests = len(sequence) // pool.distinct
        # A device occurs at most once per request, so dealing its block round-robin never repeats it in one.
        return [tuple(Counter(sequence[position::requests]).items()) for position in range(requests)]
