"""
The exact model of victims: the cheapest set of running pods without which the preemptors fit.

The cost of evictions is minimised level by level: protected pods; pods by priority, the highest first; victim units (a
whole gang counts one, so one whole gang goes rather than pods of two); their run times; pods of this plan that move.
PodDisruptionBudgets and the bound on evictions are rows, because the eviction subresource refuses what breaks them.

Several preemptors of one priority share a model whose first level is the number of pods placed. One after the other
they may evict more than necessary: a victim that makes room for two counts once here, and the first preemptor goes
elsewhere where the second one cannot.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import structs

from solver import greedy
from solver.domain import Batch, Budget, GangId
from solver.engines import cpsat
from solver.engines.cpsat import Effort, EngineStatus
from solver.model import assignment, build, cells
from solver.model.assignment import UnknownChoiceError
from solver.model.form import Expression, IntegerForm, LevelExpression, OutOfTimeError
from solver.model.objective import best_of
from solver.model.variables import Variables
from solver.model.victims import PotentialVictims
from solver.preemption.dry_run import DryRun, PreemptionCandidate
from solver.preemption.victims import GangQuorum, VictimUnit, quorums
from solver.problem.problem import PodClass
from solver.search.bound import require_at_least
from solver.solution import Solution

_DETERMINISTIC_SECONDS: Final = 2.0
"""The effort for each level; a few hundred pods on sixty nodes take a hundredth of it."""
MOST_PREEMPTORS: Final = 32
"""Preemptors in one model."""
MOST_NODES: Final = 128
"""Nodes in one model of several preemptors."""
_FEW_CELLS: Final = 1 << 13
"""A model of several preemptors has more nodes than `MOST_NODES`, or all, as long as it has not more cells."""
_MOST_CELLS: Final = 1 << 14
"""Victim units, and pairs of a class of pods and a node, in one model of several preemptors; there is no larger one."""


@dataclass(frozen=True, slots=True)
class CheapestVictims:
    """
    Numbers of the victim units to evict, and whether no others cost less among the nodes of the dry run.

    `pods` are the batch positions of the pods that are placed then.
    """

    victims: tuple[int, ...]
    is_proven: bool
    pods: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """A dry run with what its victims hold, at most `most` of whose pods go; `start` is a solution without victims."""

    dry_run: DryRun
    held: PotentialVictims
    most: int
    start: Solution

    @property
    def victims(self) -> Sequence[VictimUnit]:
        return self.dry_run.victims


def cheapest(dry_run: DryRun, most: int, start: Solution) -> CheapestVictims | None:
    """Find the victims for all pods of a dry run; None where no set of them helps, or none was found in the time."""
    case = _Case(dry_run, dry_run.usage, most, start)
    variables = _model(case)
    if variables is None or not _require_placed(variables):
        return None
    return _solved(variables, case, [], dry_run.budget)


def most_nodes(kinds: int, units: int, nodes: int) -> int:
    """Return the nodes of a model of so many kinds of preemptors, where there are victim units on so many nodes."""
    return max(MOST_NODES, _FEW_CELLS * max(1, nodes) // (kinds * max(1, nodes) + units))


def most_placed(dry_run: DryRun, most: int, start: Solution, counts: Mapping[GangId, int]) -> CheapestVictims | None:
    """
    Find the victims with which as many pods as possible are placed, and of these sets the cheapest.

    Of a gang that lacks its minimum all pods are placed or none; one that stands for several is placed as often as
    `counts` says at most. None where that was not proven.
    """
    case = _Case(dry_run, dry_run.usage, most, start)
    variables = _model(case)
    if variables is None:
        return None
    totals = _totals(variables)
    _keep_whole(variables, totals, counts)
    placed = Expression({variable: 1 for total in totals.values() for variable in total.terms})
    found = _solved(variables, case, [LevelExpression("placed", placed)], dry_run.budget)
    return found if found is not None and found.is_proven else None


def _model(case: _Case) -> Variables | None:
    """Write the model; None where the time is up before it is complete."""
    problem = case.dry_run.problem
    try:
        single = cells.single(problem, case.dry_run.nodes)
        return build.build(problem, single, case.held, stop=case.dry_run.budget.should_stop)
    except OutOfTimeError:
        return None


def _solved(variables: Variables, case: _Case, first: list[LevelExpression], budget: Budget) -> CheapestVictims | None:
    """Solve level by level; with levels before those of the cost, all are proven or nothing is found."""
    form, keep = variables.form, range(case.held.count)  # the first variables are those of the victims
    _protect(form, case)
    whole = {quorum: _bind(variables, quorum, numbers) for quorum, numbers in quorums(case.victims).items()}
    form.levels = [*first, *_levels(case.victims, whole)]
    best, proven = _hint(variables, case), True
    found: list[int] | None = None
    for position, level in enumerate(form.levels):
        seconds = min(_DETERMINISTIC_SECONDS, budget.deterministic_seconds)
        effort = Effort.within(budget, seconds, presolve=True)
        result = cpsat.maximize(form, level.expression, effort, hint=best)
        if result.values is not None:
            found = best = result.values
        proven = proven and result.status is EngineStatus.OPTIMAL
        if found is None or (first and not proven):
            return None
        require_at_least(form, position, level.expression.value(found))
    if found is None:
        return None
    return CheapestVictims(tuple(number for number in keep if not found[number]), proven, _placed(variables, found))


def _placed(variables: Variables, values: list[int]) -> tuple[int, ...]:
    """Return the pods that are placed: of interchangeable pods the first ones."""
    totals = _totals(variables)
    families = variables.problem.families
    return tuple(
        sorted(each for family in families for each in family[0].members[: totals[family[0].index].value(values)])
    )


def _totals(variables: Variables) -> defaultdict[int, Expression]:
    """Count the placed pods of each family of classes."""
    totals: defaultdict[int, Expression] = defaultdict(Expression)
    for (pod_class, _), variable in variables.pods.items():
        totals[variables.problem.classes[pod_class].family].add(variable)
    return totals


def _require_placed(variables: Variables) -> bool:
    """Require that every pod is placed; False where a pod has no place at all."""
    totals = _totals(variables)
    for family in variables.problem.families:
        if family[0].index not in totals:
            return False
        variables.form.require(totals[family[0].index], "placed", low=family[0].size)
    return True


def _keep_whole(variables: Variables, totals: Mapping[int, Expression], counts: Mapping[GangId, int]) -> None:
    """Place all pods of a gang that lacks its minimum or none, once for each that it stands for; classes mix none."""
    short = {rule.gang.id for rule in variables.problem.rules.gangs if rule.need} | counts.keys()
    gangs: defaultdict[GangId, list[PodClass]] = defaultdict(list)
    for family in variables.problem.families:
        gang = variables.problem.pod(family[0].members[0]).gang
        if gang in short:
            gangs[gang].append(family[0])
    for gang, classes in gangs.items():
        count = counts.get(gang, 1)
        whole = variables.form.variable(0, count)
        for each in classes:
            total = totals.get(each.index, Expression())
            members = each.size // count
            variables.form.require(Expression({**total.terms, whole: -members}), "gang whole", low=0, high=0)
        first, members = totals.get(classes[0].index, Expression()), classes[0].size // count

        def complete(values: list[int], whole: int = whole, first: Expression = first, members: int = members) -> None:
            values[whole] = first.value(values) // members

        variables.hint_completions.append(complete)


def _protect(form: IntegerForm, case: _Case) -> None:
    """Bound the evictions, all of them and those of each PodDisruptionBudget: what is not kept is evicted."""
    of_budget: defaultdict[int, Counter[int]] = defaultdict(Counter)
    all_pods = Expression()
    for number, victim in enumerate(case.victims):
        if not victim.is_moved:
            all_pods.add(number, -len(victim.pods))
        for each in victim.budgets:
            of_budget[each][number] += 1
    total = -sum(all_pods.terms.values())
    if total > case.most:
        form.require(all_pods, "evictions", high=case.most - total)
    for each, counts in of_budget.items():
        allowed = case.dry_run.snapshot.budgets[each].allowed
        if counts.total() > allowed:
            spent = Expression({number: -count for number, count in counts.items()})
            form.require(spent, "PodDisruptionBudget", high=allowed - counts.total())


def _bind(variables: Variables, quorum: GangQuorum, numbers: Sequence[int]) -> tuple[int, int]:
    """Keep the quorum of a gang, or none of it; return the variable that is 1 while it is kept, and the gang's size."""
    form = variables.form
    whole = form.variable(int(quorum.must_stay), 1)
    keep = Expression(dict.fromkeys(numbers, 1))
    keep.add(whole, -quorum.need)
    form.require(keep, "gang", low=0)
    for number in numbers:
        form.require(Expression({number: 1, whole: -1}), "gang", high=0)
    variables.indicate(whole, numbers, quorum.need)
    return whole, len(numbers)


def _levels(victims: Sequence[VictimUnit], gangs: Mapping[GangQuorum, tuple[int, int]]) -> list[LevelExpression]:
    """
    Return what to maximise, the most important first.

    Kept pods with a protection, kept pods of each priority from the highest, kept units (a whole gang counts one), kept
    work, and pods of this plan that stay.
    """
    tiers: defaultdict[int, Expression] = defaultdict(Expression)
    moved = [number for number, victim in enumerate(victims) if victim.is_moved]
    for number, victim in enumerate(victims):
        for pod in () if victim.is_moved else victim.pods:
            tiers[pod.priority].add(number)
    levels = [LevelExpression(f"kept:{priority}", tiers[priority]) for priority in sorted(tiers, reverse=True)]
    protected = {number: victim.protected for number, victim in enumerate(victims) if victim.protected}
    if protected:
        levels.insert(0, LevelExpression("protected", Expression(protected)))
    stays = Expression({number: 1 for number, victim in enumerate(victims) if not victim.is_moved})
    for whole, size in gangs.values():
        stays.add(whole, 1 - size)
    if not any(level.expression.terms == stays.terms for level in levels):  # single pods of one priority are units
        levels.append(LevelExpression("victims", stays))
    levels.append(LevelExpression("work", Expression({number: each.seconds for number, each in enumerate(victims)})))
    if moved:
        levels.append(LevelExpression("moved", Expression(dict.fromkeys(moved, 1))))
    return levels


def _hint(variables: Variables, case: _Case) -> list[int] | None:
    """Start from the solution: keep the units that are on none of its nodes and hold node-local devices only."""
    try:
        values = assignment.values_of(variables, case.start)
    except UnknownChoiceError:
        return None
    names = [node.name for node in case.dry_run.problem.inventory.nodes]
    used = {names[choice.node] for choice in case.start.choices}
    used |= {names[shared.node] for shared in case.start.shared.values()}
    wide = {
        victim for claim in case.held.claims if any(node < 0 for node, *_ in claim.budgets) for victim in claim.victims
    }
    for number, victim in enumerate(case.victims):
        values[number] = int(not (victim.nodes & used) and number not in wide)
    for quorum, numbers in quorums(case.victims).items():
        if sum(values[number] for number in numbers) < quorum.need:
            for number in numbers:
                values[number] = 0
    for complete in variables.hint_completions:
        complete(values)
    return values


class JointDecision(NamedTuple):
    """What was found for several preemptors; with `is_best` no other way serves more of them or costs less."""

    found: PreemptionCandidate
    is_best: bool


def decide_together(dry_run: DryRun, most: int, batch: Batch, counts: Mapping[GangId, int]) -> JointDecision | None:
    """
    Search victims for the preemptors of a batch; None where the model is too large, not proven, or not valid.

    The dry run is about the same pods, of which some gangs stand for several equal ones (`counts`).
    """
    problem = dry_run.problem
    size = len(dry_run.victims) + len(problem.classes) * len(dry_run.names)
    if problem.rejected or not dry_run.victims or size > _MOST_CELLS:
        return None
    answer = most_placed(dry_run, most, best_of(problem, greedy.candidates(problem)), counts)
    if answer is None or not answer.pods or dry_run.budget.should_stop():
        return None
    evicted = tuple(dry_run.victims[number] for number in answer.victims)
    by_id = {pod.id: pod for pod in batch.pods}
    pods = tuple(by_id[problem.pod(position).id] for position in answer.pods)
    placed = dry_run.place(evicted, structs.replace(batch, pods=pods, gangs=batch.gangs_of(pods)))
    if placed is None:
        return None
    is_best = dry_run.are_all and len(pods) == len(batch.pods)
    return JointDecision(dry_run.candidate(evicted, placed, is_proven=dry_run.are_all), is_best)
