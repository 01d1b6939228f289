"""Rules among the pods of a problem: what they take from each other, whom they want near, and who comes together."""

from collections.abc import Iterable

from solver.problem import holds
from solver.problem.gangs import gangs, sharing
from solver.problem.limits import Limit
from solver.problem.neighbours import refusals
from solver.problem.neighbours.circle import Circle, Neighbours
from solver.problem.problem import Problem
from solver.problem.volumes import limits as volume_limits
from solver.problem.volumes.limits import Asking


def tie(problem: Problem, circle: Circle, limits: Iterable[Limit]) -> None:
    """Add the rules among pods, `limits` of the claims that they join first, and what is held against some."""
    problem.limits += tuple(limits)
    _tie_volumes(problem)
    _tie_neighbours(problem, circle)
    _tie_gangs(problem)
    _tie_sharers(problem)
    holds.apply(problem)


def _tie_neighbours(problem: Problem, circle: Circle) -> None:
    """Work out the rules between pods of the batch."""
    pods = {each.index: problem.pod(each.members[0]) for each in problem.classes}
    stances = {index: circle.stance(pod) for index, pod in pods.items()}
    agreed = circle.agree(stances, pods, {each.index: each.size for each in problem.classes})
    problem.limits += agreed.limits
    problem.neighbours = agreed.neighbours
    for index, refusal in agreed.refused:
        each = problem.classes[index]
        each.verdicts = refusals.narrowed(each.verdicts, (refusal,))


def _tie_volumes(problem: Problem) -> None:
    """Work out what volumes make pods take from each other."""
    if problem.store is not None:
        asking = [
            Asking(each.index, problem.pod(each.members[0]).id.namespace, each.size, each.volumes)
            for each in problem.classes
            if each.volumes is not None and each.verdicts.allowed.any()
        ]
        problem.limits += tuple(volume_limits.limits(problem.store, asking))


def _tie_gangs(problem: Problem) -> None:
    """Work out the rules of gangs, and take the nodes away that these leave no member."""
    if not problem.batch.gangs:
        return
    views = [
        gangs.ClassView(
            index=each.index,
            pod=problem.pod(each.members[0]),
            size=each.size,
            components=tuple(dict.fromkeys(problem.components[part.component] for part in problem.parts_of(each))),
            is_first=each.index == each.family,
        )
        for each in problem.classes
    ]
    known = gangs.Gangs(problem.inventory, problem.snapshot, problem.claims, problem.demands, problem.answers)
    problem.gangs = known.rules(problem.batch.gangs, views)
    for rule in problem.gangs:
        for level in rule.levels:
            level.is_told = problem.policy.tells_inventory
        verdicts = {index: problem.classes[index].verdicts for index in rule.classes}
        families = {index: problem.classes[index].family for index in rule.classes}
        for index, narrowed in gangs.narrowed(rule, verdicts, families).items():
            problem.classes[index].verdicts = narrowed


def _tie_sharers(problem: Problem) -> None:
    """Keep pods together that share a volume which is still to be chosen."""
    sharers = [
        sharing.Sharer(each.index, each.family, each.size, problem.pod(each.members[0]).gang, each.volumes.shared)
        for each in problem.classes
        if each.volumes is not None and each.volumes.shared
    ]
    if problem.store is None or not sharers:
        return
    problem.gangs = sharing.tied(problem.gangs, sharers, problem.store)
    if pairs := sharing.apart(problem.gangs, sharers, problem.node_count):
        known = problem.neighbours
        problem.neighbours = Neighbours.of((*known.apart, *pairs), known.together, known.spreads)
