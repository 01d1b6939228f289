"""
The level `domain-allocation`: of the topology domains that a gang could take, the fullest is the best.

A domain costs the free share of its cpu, memory and devices, the mean over these, with the gang counted as placed.
kube-scheduler scores the placements of a PodGroup in the same way, by cpu and memory (`MostAllocated`). So domains that
are empty stay whole for larger gangs, and of two empty domains the smaller one is taken. Loads are those before the
batch.

The best domain that may have room costs nothing, so a solution that costs nothing is proven.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from solver.arrays import Amounts
from solver.problem.costs.cost_model import SHARE, CostModel
from solver.problem.devices.fragmentation import all_devices, free_devices
from solver.problem.node_arrays import allocatable, pods_that_fit
from solver.problem.problem import PodClass, Problem
from solver.problem.solver_cache import SolverCache
from solver.rules.forms.domains import NO_DOMAIN, Domains
from solver.rules.forms.gang_rules import GangRule, TopologyLevel

_RESOURCES: Final = ("cpu", "memory")
_DEVICES: Final = ""
"""Stands for all devices that the batch could get, beside the names of resources."""

_Totals = dict[str, tuple[Amounts, Amounts]]
"""By resource, what is in use of it and what there is, per node."""


def domain_costs(problem: Problem, cache: SolverCache) -> CostModel:
    """Return what a pod of a gang costs on each node; classes for which all nodes cost the same are left out."""
    model, totals = CostModel(), _Totals()
    for rule in problem.rules.gangs:
        for level in rule.levels:
            totals = totals or _totals(problem, cache)
            for index, costs in _of_level(problem, rule, level, totals):
                model.of_class[index] = model.of_class.get(index, np.int64(0)) + costs
    return model


def _totals(problem: Problem, cache: SolverCache) -> _Totals:
    nodes, available = problem.inventory.nodes, problem.available
    found = _Totals()
    for name in _RESOURCES:
        key, compute = ("allocatable", name), partial(allocatable, nodes, name)
        total = cache.per_node(problem.inventory, key, compute)
        found[name] = total - available.room.of(name), total
    groups = problem.layout.groups
    free = np.array([free_devices(groups[group], state) for group, state in available.kinds], dtype=np.int64)
    total = np.array([all_devices(groups[group]) for group, _ in available.kinds], dtype=np.int64)
    found[_DEVICES] = (total - free)[available.kind_of], total[available.kind_of]
    return found


def _of_level(problem: Problem, rule: GangRule, level: TopologyLevel, totals: _Totals) -> Iterator[tuple[int, Amounts]]:
    """Return what a pod of a class costs on each node, for the classes that the level binds."""
    asked, room = _asked(problem, rule), _room(problem, level)
    has_room = room[1:] >= max(1, rule.need)
    if np.count_nonzero(has_room) < 2:  # noqa: PLR2004 - there is no choice
        return
    known = dict[int, Amounts]()
    for index, domains in level.domain_of.items():
        if id(domains) not in known:
            costs = _free_share(domains, len(room), totals, asked)
            costs = np.maximum(costs - costs[1:][has_room].min(), 0)
            costs[0] = 0
            known[id(domains)] = costs[domains + 1]
        if known[id(domains)].any():
            yield index, known[id(domains)]


def _free_share(domains: Domains, count: int, totals: _Totals, asked: Mapping[str, int]) -> Amounts:
    """Return the free share of each domain, of `SHARE`, behind that of the nodes without a domain."""
    shares, resources = np.zeros(count), np.zeros(count)
    for name, (used, total) in totals.items():
        in_use, there_is = (np.bincount(domains + 1, weights=each, minlength=count) for each in (used, total))
        exists = there_is > 0
        shares[exists] += np.minimum((in_use[exists] + asked[name]) / there_is[exists], 1.0)
        resources += exists
    return np.rint(SHARE * (1.0 - shares / np.maximum(resources, 1))).astype(np.int64)


def _asked(problem: Problem, rule: GangRule) -> Counter[str]:
    """Add up what the pods of a gang ask for; of alternatives the first counts."""
    found = Counter[str]()
    for each in map(problem.classes.__getitem__, rule.classes):
        if each.index == each.family:
            found.update({name: each.size * amount for name, amount in each.requests if name in _RESOURCES})
            found[_DEVICES] += each.size * _devices(problem, each)
    return found


def _devices(problem: Problem, pod_class: PodClass) -> int:
    """Count the devices that a pod asks for; a request for all devices counts none."""
    components = problem.requests.components
    return sum(
        part.copies * sum(asks[0].needed for asks in components[part.component].requests) for part in pod_class.parts
    )


def _room(problem: Problem, level: TopologyLevel) -> Amounts:
    """Count the pods that each domain may have room for, devices aside, behind those outside of all domains."""
    highest = max((int(each.max(initial=NO_DOMAIN)) for each in level.domain_of.values()), default=NO_DOMAIN)
    count = highest + 2
    found = np.zeros(count, dtype=np.int64)
    for index, domains in level.domain_of.items():
        each = problem.classes[index]
        fit = pods_that_fit(problem.available.room.of, each.requests, each.size)
        inside = np.bincount(domains + 1, weights=np.where(each.verdicts.allowed, fit, 0), minlength=count)
        found += np.minimum(inside, each.size).astype(np.int64)
    return found
