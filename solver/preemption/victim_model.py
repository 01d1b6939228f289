"""The least harm, decided exactly: who has to go so that all pods of a problem are placed.

Levels, in order: pods evicted by priority, the highest first; parties (a gang counts one, so whole gangs go rather than
more of them); the seconds for which they have run. That no PodDisruptionBudget is broken, and no more go than may, are
rows: the eviction subresource would refuse it. For several units together how many pods are placed comes before it all.

Units of one priority decided in one model: as many of their pods as can be helped, and for those the least harm.

One after the other they may evict more than they have to: a victim that makes room for two counts once here, and the
first one goes elsewhere where the second one cannot. What comes out is only taken where it is better.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from solver import greedy
from solver.domain import Batch, Budget, ClaimAllocation, ClaimId, GangId, Placement, Pod, PodId, Snapshot
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.extract import Extracted
from solver.model import assignment, build, cells
from solver.model.assignment import UnknownChoiceError
from solver.model.form import Expression, IntegerForm, LevelExpression, OutOfTimeError
from solver.model.objective import best
from solver.model.variables import Variables
from solver.model.victims import PotentialVictims
from solver.preemption.candidates import Offers, Outlook, PreemptionCandidate
from solver.preemption.victims import Bond, Party, bonds
from solver.problem.problem import PodClass, Problem
from solver.search.bound import require_at_least
from solver.solution import Solution

_DETERMINISTIC_SECONDS: Final = 2.0
"""How hard each level is tried; a few hundred pods on sixty nodes take a hundredth of it."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """
    Positions of the parties that go, and whether no others do less harm (among the nodes that were looked at).

    `pods` are the positions of the batch's pods that are placed then.
    """

    parties: tuple[int, ...]
    is_proven: bool
    pods: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class VictimProblem:
    """
    A problem without the parties, and what they hold; `nodes` are those where its pods may be placed.

    `most` is how many pods may go. `start` is a solution with all of them gone.
    """

    problem: Problem
    before: Snapshot
    parties: Sequence[Party]
    held: PotentialVictims
    nodes: Sequence[int]
    most: int
    start: Solution


def least(case: VictimProblem, budget: Budget) -> Evicted | None:
    """Find the parties to evict for all pods; None where no set of them helps, or none was found in the time."""
    variables = _model(case, budget)
    if variables is None or not _require_placed(variables):
        return None
    return _evicted(variables, case, [], budget)


def most_helped(case: VictimProblem, budget: Budget) -> Evicted | None:
    """
    Find the parties to evict so that as many pods as possible are placed, and for those the least harm.

    Of a gang all pods of the problem are placed or none. None where that was not proven.
    """
    variables = _model(case, budget)
    if variables is None:
        return None
    totals = _totals(variables)
    _keep_whole(variables, totals)
    placed = Expression({variable: 1 for total in totals.values() for variable in total.terms})
    found = _evicted(variables, case, [LevelExpression("placed", placed)], budget)
    return found if found is not None and found.is_proven else None


def _model(case: VictimProblem, budget: Budget) -> Variables | None:
    """Write the model; None where the time is up before it stands."""
    single = cells.single(case.problem, case.nodes)
    try:
        return build.build(case.problem, single, case.held, stop=budget.should_stop)
    except OutOfTimeError:
        return None


def _evicted(variables: Variables, case: VictimProblem, first: list[LevelExpression], budget: Budget) -> Evicted | None:
    """Decide level by level; where there are levels before those of harm, all are proven or nothing is found."""
    form, kept = variables.form, range(case.held.count)  # the first variables are those of the parties
    _protect(form, case)
    whole = {bond: _bind(variables, bond, numbers) for bond, numbers in bonds(case.parties).items()}
    form.levels = [*first, *_levels(case.parties, whole)]
    best, proven = _hint(variables, case), True
    found: list[int] | None = None
    for position, level in enumerate(form.levels):
        effort = Effort(
            seconds=budget.remaining_seconds(),
            deterministic_seconds=min(_DETERMINISTIC_SECONDS, budget.deterministic_seconds),
            seed=budget.seed,
            workers=budget.workers,
            presolve=True,
        )
        result = cpsat.maximize(form, level.expression, effort, hint=best)
        if result.values is not None:
            found = best = result.values
        proven = proven and result.status is EngineStatus.OPTIMAL
        if found is None or (first and not proven):
            return None
        require_at_least(form, position, level.expression.value(found))
    if found is None:
        return None
    return Evicted(tuple(number for number in kept if not found[number]), proven, _placed(variables, found))


def _placed(variables: Variables, values: list[int]) -> tuple[int, ...]:
    """Name the pods that are placed, the first ones of those that are alike."""
    totals = _totals(variables)
    families = variables.problem.families
    return tuple(
        sorted(each for family in families for each in family[0].members[: totals[family[0].index].value(values)])
    )


def _totals(variables: Variables) -> defaultdict[int, Expression]:
    """Count the pods that are placed of each family."""
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    for (pod_class, _), variable in variables.pods.items():
        totals[variables.problem.classes[pod_class].family].add(variable)
    return totals


def _require_placed(variables: Variables) -> bool:
    """Demand that every pod is placed; whether that can be at all."""
    totals = _totals(variables)
    for family in variables.problem.families:
        if family[0].index not in totals:
            return False
        variables.form.require(totals[family[0].index], "placed", low=family[0].size)
    return True


def _keep_whole(variables: Variables, totals: Mapping[int, Expression]) -> None:
    """Place all pods of a gang or none; classes never mix gangs."""
    gangs: defaultdict[GangId, list[PodClass]] = defaultdict(list)
    for family in variables.problem.families:
        gang = variables.problem.pod(family[0].members[0]).gang
        if gang is not None:
            gangs[gang].append(family[0])
    for classes in gangs.values():
        whole = variables.form.variable(0, 1)
        for each in classes:
            total = totals.get(each.index, Expression())
            variables.form.require(Expression({**total.terms, whole: -each.size}), "gang whole", low=0, high=0)
        variables.completions.append(partial(_complete_whole, whole, totals.get(classes[0].index, Expression())))


def _complete_whole(whole: int, total: Expression, values: list[int]) -> None:
    values[whole] = int(total.value(values) > 0)


def _protect(form: IntegerForm, case: VictimProblem) -> None:
    """Break no PodDisruptionBudget, and evict no more than may be: evicted is what is not kept."""
    of_budget: defaultdict[int, Counter[int]] = defaultdict(Counter)
    everybody = Expression()
    for number, party in enumerate(case.parties):
        if not party.is_moved:
            everybody.add(number, -len(party.pods))
        for each in party.budgets:
            of_budget[each][number] += 1
    total = -sum(everybody.terms.values())
    if total > case.most:
        form.require(everybody, "evictions", high=case.most - total)
    for each, counts in of_budget.items():
        allowed = case.before.budgets[each].allowed
        if counts.total() > allowed:
            spent = Expression({number: -count for number, count in counts.items()})
            form.require(spent, "PodDisruptionBudget", high=allowed - counts.total())


def _bind(variables: Variables, bond: Bond, numbers: Sequence[int]) -> tuple[int, int]:
    """Keep as many of a gang as it needs, or none; give the variable that is 1 while it is kept, and its size."""
    form = variables.form
    whole = form.variable(int(bond.must_stay), 1)
    kept = Expression(dict.fromkeys(numbers, 1))
    kept.add(whole, -bond.need)
    form.require(kept, "gang", low=0)
    for number in numbers:
        form.require(Expression({number: 1, whole: -1}), "gang", high=0)

    def complete(values: list[int]) -> None:
        values[whole] = int(sum(values[number] for number in numbers) >= bond.need)

    variables.completions.append(complete)
    return whole, len(numbers)


def _levels(parties: Sequence[Party], gangs: Mapping[Bond, tuple[int, int]]) -> list[LevelExpression]:
    """
    Name what to maximise: spared pods kept, pods kept of each priority, parties kept (a whole gang is one), work kept.

    Pods that are not evicted but moved come last: as few as can be.
    """
    tiers: defaultdict[int, Expression] = defaultdict(Expression)
    moved = [number for number, party in enumerate(parties) if party.is_moved]
    for number, party in enumerate(parties):
        for pod in () if party.is_moved else party.pods:
            tiers[pod.priority].add(number)
    levels = [LevelExpression(f"kept:{priority}", tiers[priority]) for priority in sorted(tiers, reverse=True)]
    spared = {number: party.spared for number, party in enumerate(parties) if party.spared}
    if spared:
        levels.insert(0, LevelExpression("spared", Expression(spared)))
    stays = Expression({number: 1 for number, party in enumerate(parties) if not party.is_moved})
    for whole, size in gangs.values():
        stays.add(whole, 1 - size)
    levels.append(LevelExpression("parties", stays))
    levels.append(LevelExpression("work", Expression({number: each.seconds for number, each in enumerate(parties)})))
    if moved:
        levels.append(LevelExpression("moved", Expression(dict.fromkeys(moved, 1))))
    return levels


def _hint(variables: Variables, case: VictimProblem) -> list[int] | None:
    """Start from the solution: everybody stays who is not on its nodes and holds nothing cluster-wide."""
    try:
        values = assignment.values_of(variables, case.start)
    except UnknownChoiceError:
        return None
    names = [node.name for node in case.problem.inventory.nodes]
    used = {names[choice.node] for choice in case.start.choices}
    used |= {names[shared.node] for shared in case.start.shared.values()}
    wide = {party for draw in case.held.draws for party in draw.parties if any(node < 0 for node, *_ in draw.budgets)}
    for number, party in enumerate(case.parties):
        values[number] = int(not (party.nodes & used) and number not in wide)
    for bond, numbers in bonds(case.parties).items():
        if sum(values[number] for number in numbers) < bond.need:
            for number in numbers:
                values[number] = 0
    for complete in variables.completions:
        complete(values)
    return values


MOST_UNITS: Final = 32
"""Units that are decided together."""
MOST_NODES: Final = 128
"""Nodes that one model of several units looks at."""
_MOST_CELLS: Final = 1 << 14
"""How many parties, and pairs of a class of pods and a node, one model may hold; what is larger stays as it is."""

Unit = tuple[Pod, ...]


class Share(NamedTuple):
    """Units that make way for each other's sake: where they go, and who goes for them all."""

    units: list[Unit]
    placements: tuple[Placement, ...]
    allocations: tuple[ClaimAllocation, ...]
    evicted: tuple[Party, ...]


class _Group(NamedTuple):
    """Units with the nodes and the newly allocated claims that they have in common."""

    units: list[Unit]
    nodes: set[str]
    claims: set[ClaimId]

    def meets(self, other: "_Group") -> bool:
        """Whether they share a node or a claim."""
        return bool(self.nodes & other.nodes or self.claims & other.claims)


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """What was decided for units together; `is_best` says that nothing else can help more of them or do less harm."""

    units: list[Unit]
    found: PreemptionCandidate
    offers: Offers
    is_best: bool

    def is_better(self, helped: int, evicted: Sequence[Party]) -> bool:
        """Whether it helps more pods than another way does, which helps so many, or as many with less harm."""
        parties = (*self.found.evicted, *evicted)
        tiers = sorted({pod.priority for party in parties if not party.is_moved for pod in party.pods}, reverse=True)
        own = (-len(self.found.placed.placements), *_harm(self.offers, self.found.evicted, tiers))
        return own < (-helped, *_harm(self.offers, evicted, tiers))


def decided(outlook: Outlook, units: list[Unit], offers: Offers, most: int) -> Joint | None:
    """Decide for several units; None where the model is too large, not proven, or refused by a rule."""
    problem = outlook.problem
    size = len(outlook.parties) + len(problem.classes) * len(outlook.names)
    if problem.rejected or not outlook.parties or size > _MOST_CELLS:
        return None
    start = best(problem, greedy.candidates(problem))
    case = VictimProblem(problem, outlook.view.snapshot, outlook.parties, outlook.held, outlook.nodes, most, start)
    answer = most_helped(case, outlook.budget)
    if answer is None or not answer.pods or outlook.budget.should_stop():
        return None
    evicted = tuple(outlook.parties[number] for number in answer.parties)
    pods = tuple(problem.pod(position) for position in answer.pods)
    placed = outlook.placed(evicted, Batch(pods=pods, gangs=outlook.batch.gangs_of(pods)))
    if placed is None:
        return None
    found = PreemptionCandidate(evicted, placed, outlook.view, outlook.cleared(evicted), is_proven=outlook.are_all)
    is_best = outlook.are_all and len(pods) == len(outlook.batch.pods) and not outlook.is_overfull
    return Joint(units, found, offers, is_best)


def chosen(helped: Sequence[Unit], others: Sequence[Unit], most: int) -> list[Unit]:
    """Choose at most so many units to be decided together: those that one after the other could be helped first."""
    return [*helped, *others][:most]


def _harm(offers: Offers, evicted: Sequence[Party], tiers: Sequence[int]) -> Iterator[int]:
    """Give what is compared, less being better: pods evicted by priority, parties, seconds of work, pods moved."""
    moved = sum(party.is_moved for party in evicted)
    evicted = [party for party in evicted if not party.is_moved]
    counts = Counter(pod.priority for party in evicted for pod in party.pods)
    yield from (counts[tier] for tier in tiers)
    going: Counter[Bond] = Counter(party.bond for party in evicted if party.bond is not None)
    yield len(evicted) - sum(count - 1 for bond, count in going.items() if count == offers.members(bond))
    yield sum(party.seconds for party in evicted)
    yield moved


def shares(units: Iterable[Unit], evicted: Sequence[Party], placed: Extracted, *, is_wide: bool = False) -> list[Share]:
    """
    Divide a decision so that each share can be carried out by itself: whoever needs the same victims is in one.

    They meet on nodes, and in claims that are allocated for them. Where a victim is on nobody's node, or holds what
    several nodes reach (`is_wide`), all are in one.
    """
    made = {each.claim for each in placed.allocations}
    at = {each.pod: _Group([], {each.node}, made.intersection(each.claims)) for each in placed.placements}
    there = [(unit, [at[pod.id] for pod in unit]) for unit in units if unit[0].id in at]
    used = set[str]().union(*(each.nodes for _, seats in there for each in seats))
    is_apart = not is_wide and all(party.nodes & used for party in evicted)
    groups: list[_Group] = []
    for unit, seats in there:
        nodes = set[str]().union(*(each.nodes for each in seats))
        reach = nodes.union(*(party.nodes & used for party in evicted if party.nodes & nodes))
        own = _Group([unit], reach, set[ClaimId]().union(*(each.claims for each in seats)))
        meeting = [group for group in groups if not is_apart or group.meets(own)]
        groups = [group for group in groups if is_apart and not group.meets(own)]
        groups.append(_merged([*meeting, own]))
    return list(_divided(groups, evicted, placed))


def _merged(groups: Sequence[_Group]) -> _Group:
    nodes = set[str]().union(*(each.nodes for each in groups))
    return _Group([unit for each in groups for unit in each.units], nodes, set().union(*(g.claims for g in groups)))


def _divided(groups: Sequence[_Group], evicted: Sequence[Party], placed: Extracted) -> Iterator[Share]:
    of_pod: dict[PodId, int] = {pod.id: n for n, group in enumerate(groups) for unit in group.units for pod in unit}
    parties: defaultdict[int, list[Party]] = defaultdict(list)
    for party in evicted:
        parties[next((n for n, group in enumerate(groups) if group.nodes & party.nodes), 0)].append(party)
    given = {each.claim: each for each in placed.allocations}
    for number, group in enumerate(groups):
        placements = tuple(each for each in placed.placements if of_pod[each.pod] == number)
        used = dict.fromkeys(claim for each in placements for claim in each.claims)
        allocations = tuple(given.pop(claim) for claim in used if claim in given)
        yield Share(group.units, placements, allocations, tuple(parties[number]))
