"""
A minimal set of facts that exclude a pod from a node: a minimal unsatisfiable subset (MUS) by deletion.

CP-SAT gives a first core (`unsatisfiable_core`) from a model of one pod on one node, device by device, with a literal
per fact. The model leaves out counters and shares, so the core is only a guide: the feasibility probe confirms it, and
deletes facts one after the other while the rest still excludes the pod.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from solver.diagnosis.facts import Fact, FactKind
from solver.diagnosis.feasibility_probe import FeasibilityProbe, ProbeCase
from solver.domain import Claim, Constraint, ConstraintKind, SubRequest, Taint
from solver.engines import cpsat
from solver.engines.cpsat import Effort
from solver.feasibility.device_attributes import AttributeName, lookup
from solver.model.form import Expression, IntegerForm
from solver.problem.problem import Problem
from solver.problem.requests import demand
from solver.problem.requests.demand import Verdict

_EFFORT: Final = Effort(seconds=10.0, deterministic_seconds=1.0, seed=0, workers=1, presolve=True)
_USABLE: Final = frozenset({Verdict.YES, Verdict.TAINTED})
_FEW: Final = 4
"""Deleting from this number of facts takes less time than the model and its confirmation."""


def unsatisfiable_core(case: ProbeCase, problem: Problem, found: Sequence[Fact]) -> tuple[Fact, ...] | None:
    """Return facts that cannot hold together on the only node of a case; None if the model is feasible."""
    model = _Model(case, problem, {id(fact): fact for fact in found})
    model.build()
    core = cpsat.core(model.form, model.guards, _EFFORT)
    if core is None:
        return None
    return tuple(fact for fact in found if model.literals.get(id(fact)) in core)


@dataclass(slots=True, eq=False)
class _Model:
    """The model; `taken` are the 0-1 variables by (claim, request, alternative, device)."""

    case: ProbeCase
    problem: Problem
    facts: dict[int, Fact]
    form: IntegerForm = field(default_factory=IntegerForm)
    guards: dict[int, int] = field(default_factory=dict)
    literals: dict[int, int] = field(default_factory=dict)
    taken: dict[tuple[str, str, str, int], int] = field(default_factory=dict)

    def build(self) -> None:
        """Write every row."""
        for claim in self.case.claims().values():
            if claim.id in self.case.pod.claim_ids and claim.allocation is None:
                self._requests(claim)
                for constraint in claim.constraints:
                    self._constraint(claim, constraint)
        self._exclusive()
        for fact in self.facts.values():
            match fact.kind:
                case FactKind.RESOURCE:
                    self._require(Expression(), fact, low=1)
                case FactKind.IN_USE:
                    held = [index for index in self._devices() if self.problem.available.ledger.is_held(index)]
                    self._forbid(held, fact)
                case FactKind.TAINT:
                    self._forbid([index for index in self._devices() if self._has(index, fact.subject)], fact)

    def _requests(self, claim: Claim) -> None:
        for request in claim.requests:
            chosen = Expression()
            for each in request.alternatives:
                picked = self.form.variable(0, 1)
                chosen.add(picked)
                count = Expression()
                for index in self._matching(each):
                    one = self.form.variable(0, 1)
                    self.taken[str(claim.id), request.name, each.name, index] = one
                    count.add(one)
                needed = each.count if each.allocation_mode == "ExactCount" else max(len(count.terms), 1)
                count.add(picked, -needed)
                self.form.require(count, "count", low=0, high=0)
            self._require(chosen, self._fact(FactKind.REQUEST, claim, request.name), low=1)

    def _matching(self, alternative: SubRequest) -> Iterator[int]:
        key = demand.key_of(alternative, self.problem.requests.device_classes, self.problem.policy)
        answers = self.problem.requests.answers[self.problem.requests.demands.index(key)]
        return (index for index in answers.verdicts if answers.at(self.problem.inventory.records[index], 0) in _USABLE)

    def _constraint(self, claim: Claim, constraint: Constraint) -> None:
        fact = self._fact(FactKind.CONSTRAINT, claim, constraint)
        derived = {
            (request.name, each.name): each.derived(constraint.attribute)
            for request in claim.requests
            for each in request.alternatives
        }
        by_value: dict[object, list[int]] = {}
        for (owner, request, alternative, index), one in self.taken.items():
            covers = {request, f"{request}/{alternative}"} & set(constraint.requests) or not constraint.requests
            if owner != str(claim.id) or not covers:
                continue
            record = self.problem.inventory.records[index]
            name = AttributeName.parse(constraint.attribute, derived[request, alternative])
            items = lookup(record.id.driver, record.device, name)
            for item in items:
                by_value.setdefault(item, []).append(one)
            if not items:
                self._require(_sum([one]), fact, high=0)
        if constraint.kind is ConstraintKind.DISTINCT:
            for ones in by_value.values():
                self._require(_sum(ones), fact, high=1)
            return
        values = Expression()
        reaching: dict[int, Expression] = {}
        for ones in by_value.values():
            value = self.form.variable(0, 1)
            values.add(value)
            for one in ones:
                reaching.setdefault(one, Expression()).add(value)
        for one, reach in reaching.items():
            reach.add(one, -1)
            self._require(reach, fact, low=0)
        self.form.require(values, "one value", high=1)

    def _exclusive(self) -> None:
        users: dict[int, list[int]] = {}
        for (*_, index), one in self.taken.items():
            if not self.problem.inventory.records[index].device.allow_multiple_allocations:
                users.setdefault(index, []).append(one)
        for ones in users.values():
            self.form.require(_sum(ones), "exclusive", high=1)

    def _devices(self) -> set[int]:
        return {index for *_, index in self.taken}

    def _has(self, index: int, taint: object) -> bool:
        taints = self.problem.inventory.records[index].taints
        return isinstance(taint, Taint) and any((each.key, each.effect) == (taint.key, taint.effect) for each in taints)

    def _forbid(self, devices: Sequence[int], fact: Fact) -> None:
        gone = set(devices)
        for (*_, index), one in self.taken.items():
            is_exclusive = not self.problem.inventory.records[index].device.allow_multiple_allocations
            if index in gone and (is_exclusive or fact.kind is FactKind.TAINT):
                self._require(_sum([one]), fact, high=0)

    def _fact(self, kind: FactKind, claim: Claim, subject: object) -> Fact | None:
        found = (each for each in self.facts.values() if (each.kind, each.claim) == (kind, claim.id))
        return next((each for each in found if each.subject == subject), None)

    def _require(self, expression: Expression, fact: Fact | None, *, low: int = 0, high: int | None = None) -> None:
        """Add a row that is enforced by the literal of a fact; always enforced without a fact."""
        upper = high if high is not None else len(self.form.lower) + 1
        self.form.require(expression, "fact", low=low, high=upper)
        if fact is not None:
            if id(fact) not in self.literals:
                self.literals[id(fact)] = self.form.variable(0, 1)
            self.guards[len(self.form.rows) - 1] = self.literals[id(fact)]


def _sum(variables: Sequence[int]) -> Expression:
    found = Expression()
    for each in variables:
        found.add(each)
    return found


def minimal_conflict(probe: FeasibilityProbe, case: ProbeCase, node: str, found: Sequence[Fact]) -> tuple[Fact, ...]:
    """
    Delete facts one after the other while the rest still excludes the pod; the remaining facts are the conflict.

    It is minimal: without any one of its facts, and without the deleted ones, the pod fits. Empty if the pod fits, if
    it does not fit even without all facts, or if the budget did not suffice.
    """
    if probe.fits(case, node) is not False:
        return ()
    if probe.fits(_without(case, found), node) is not True:
        return ()
    conflict = _assumed(probe, case, node, found)
    for fact in tuple(conflict):
        rest = [each for each in conflict if each is not fact]
        gone = [each for each in found if not any(each is one for one in rest)]
        if probe.fits(_without(case, gone), node) is False:
            conflict = rest
    return tuple(conflict)


def _assumed(probe: FeasibilityProbe, case: ProbeCase, node: str, found: Sequence[Fact]) -> list[Fact]:
    """Return the core of the model if the probe confirms it, else all facts; few facts need no model."""
    if len(found) <= _FEW:
        return list(found)
    problem = probe.prepare(case)
    core = unsatisfiable_core(case, problem, found) if problem.classes else None
    if core:
        gone = [each for each in found if not any(each is one for one in core)]
        if probe.fits(_without(case, gone), node) is False:
            return list(core)
    return list(found)


def _without(case: ProbeCase, gone: Sequence[Fact]) -> ProbeCase:
    for fact in gone:
        case = fact.without(case)
    return case
