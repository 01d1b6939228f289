"""
Rules between pods over places: anti-affinity, affinity, spread.

They hold for the end of a plan. Cells of several nodes know no domains, so a relaxation over kinds of nodes goes
without these rules.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from solver.model.form import Expression
from solver.model.variables import Variables
from solver.rules.forms.domains import NO_DOMAIN, Topology
from solver.rules.forms.inter_pod import AffinityRule, AntiAffinityRule, SpreadRule

_ANTI_AFFINITY: Final = "pod anti-affinity"
_AFFINITY: Final = "pod affinity"
_SPREAD: Final = "topology spread"


@dataclass(slots=True, eq=False)
class _Places:
    """The variables that count pods of each class, by node; `at_node` those of each node."""

    variables: Variables
    of_class: defaultdict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, variables: Variables) -> "_Places":
        found = cls(variables)
        for (pod_class, cell), variable in variables.pods.items():
            found.of_class[pod_class].append((variables.cell(cell).nodes[0], variable))
        return found

    def at(self, classes: Iterable[int]) -> list[tuple[int, int]]:
        """(node, variable) of some classes."""
        return [pair for pod_class in sorted(classes) for pair in self.of_class.get(pod_class, ())]

    def by_domain(self, classes: Iterable[int], topology: Topology) -> dict[int, list[int]]:
        """Variables of some classes by domain; nodes without one are left out."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for node, variable in self.at(classes):
            domain = int(topology.domain_of[node])
            if domain != NO_DOMAIN:
                found[domain].append(variable)
        return found

    def presence(self, counted: list[int], rule: str) -> int:
        """Return a variable that is 1 where any of some variables is above none."""
        form = self.variables.form
        present = form.variable(0, 1)
        total = Expression(dict.fromkeys(counted, 1))
        total.add(present, -sum(form.upper[each] for each in counted))
        form.require(total, rule, high=0)
        self.variables.indicate(present, counted)
        return present


def add_inter_pod_rules(variables: Variables) -> None:
    """Write the rules that a problem has; only over single nodes."""
    rules = variables.problem.rules.inter_pod
    if not rules.concerned or any(len(cell.nodes) > 1 for cell in variables.cells.places):
        return
    places = _Places.of(variables)
    for pair in rules.anti_affinity:
        _add_anti_affinity(places, pair)
    for group in rules.affinity:
        _add_affinity(places, group)
    for spread in rules.spread:
        if spread.eligible.any():
            _add_spread(places, spread)


def _add_anti_affinity(places: _Places, rule: AntiAffinityRule) -> None:
    """In a domain: one pod that both holds the term and is meant by it, or some that hold it, or some that it means."""
    both = places.by_domain(rule.holders & rule.selected, rule.topology)
    holding = places.by_domain(rule.holders - rule.selected, rule.topology)
    selected = places.by_domain(rule.selected - rule.holders, rule.topology)
    for domain in sorted({*both, *holding, *selected}):
        if domain not in both and not (domain in holding and domain in selected):
            continue
        total = Expression(dict.fromkeys(both.get(domain, ()), 1))
        for each in (holding, selected):
            if each.get(domain):
                total.add(places.presence(each[domain], _ANTI_AFFINITY))
        places.variables.form.require(total, _ANTI_AFFINITY, high=1)


def _add_affinity(places: _Places, rule: AffinityRule) -> None:
    """Where a member is, there is a running pod that supports it, or one of the batch, or the seed."""
    form = places.variables.form
    seeds: dict[int, int] = {}
    if rule.may_seed:
        seeds = _seeds(places, rule)
    for topology, supported in zip(rule.topologies, rule.supported, strict=True):
        supporters = places.by_domain(rule.supporters, topology)
        for domain, members in places.by_domain(rule.members, topology).items():
            if supported[domain]:
                continue
            total = Expression({places.presence(members, _AFFINITY): 1})
            first = (variable for node, variable in seeds.items() if topology.domain_of[node] == domain)
            for variable in (*supporters.get(domain, ()), *first):
                total.add(variable, -1)
            form.require(total, _AFFINITY, high=0)


def _seeds(places: _Places, rule: AffinityRule) -> dict[int, int]:
    """Return a variable per node that says that the first of the members is placed there; at most one is."""
    form, at_node = places.variables.form, defaultdict[int, list[int]](list)
    for node, variable in places.at(rule.seeds):
        at_node[node].append(variable)
    seeds = {node: form.variable(0, 1) for node in at_node}
    form.require(Expression(dict.fromkeys(seeds.values(), 1)), _AFFINITY, high=1)
    for node, seed in seeds.items():
        total = Expression(dict.fromkeys(at_node[node], -1))
        total.add(seed)
        form.require(total, _AFFINITY, high=0)
    members, supporters = places.at(rule.members), places.at(rule.supporters)

    def complete(values: list[int]) -> None:
        lacking = [
            _domains(topology, members, values) - _domains(topology, supporters, values) for topology in rule.topologies
        ]
        for node, seed in seeds.items():
            if any(lacking) and any(values[each] for each in at_node[node]):
                pairs = zip(rule.topologies, lacking, strict=True)
                values[seed] = int(all(domains <= {int(topology.domain_of[node])} for topology, domains in pairs))
                if values[seed]:
                    return

    places.variables.hint_completions.append(complete)
    return seeds


def _domains(topology: Topology, pairs: list[tuple[int, int]], values: list[int]) -> set[int]:
    return {int(topology.domain_of[node]) for node, variable in pairs if values[variable]}


def _add_spread(places: _Places, rule: SpreadRule) -> None:
    """A domain with a pod that the constraint binds has at most `max_skew` more than the least of all domains."""
    form = places.variables.form
    counted: defaultdict[int, list[int]] = defaultdict(list)
    for node, variable in places.at(rule.selected):
        domain = int(rule.topology.domain_of[node])
        if domain != NO_DOMAIN and rule.counted[node]:
            counted[domain].append(variable)
    constrained = places.by_domain(rule.constrained, rule.topology)
    least = _least(places, rule, counted)
    for domain, held in constrained.items():
        existing, arriving = int(rule.existing[domain]), counted.get(domain, [])
        slack = existing + sum(form.upper[each] for each in arriving) - rule.max_skew
        if slack <= 0:
            continue
        total = Expression(dict.fromkeys(arriving, 1), offset=existing)
        if least is not None:
            total.add(least, -1)
        total.add(places.presence(held, _SPREAD), slack)
        form.require(total, _SPREAD, high=rule.max_skew + slack)


def _least(places: _Places, rule: SpreadRule, counted: dict[int, list[int]]) -> int | None:
    """Return a variable that is no more than the count of any eligible domain; None where that counts as none."""
    if rule.is_floor_zero:
        return None
    form = places.variables.form
    eligible = [domain for domain, is_eligible in enumerate(rule.eligible.tolist()) if is_eligible]
    most = {
        domain: int(rule.existing[domain]) + sum(form.upper[each] for each in counted.get(domain, ()))
        for domain in eligible
    }
    ceiling = min(most.values())
    if ceiling == 0:
        return None
    least = form.variable(0, ceiling)
    for domain in eligible:
        if int(rule.existing[domain]) < ceiling:
            total = Expression({least: 1})
            for variable in counted.get(domain, ()):
                total.add(variable, -1)
            form.require(total, _SPREAD, high=int(rule.existing[domain]))
    existing = rule.existing.tolist()

    def complete(values: list[int]) -> None:
        sums = (existing[each] + sum(values[var] for var in counted.get(each, ())) for each in eligible)
        values[least] = min(ceiling, *sums)

    places.variables.hint_completions.append(complete)
    return least
