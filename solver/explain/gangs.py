"""Why a gang waits: how many members fit at once and where, and a member that fits on no node."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from solver.domain import FITS_ALONE, Reason, ReasonCode, wording
from solver.explain.device_reasons import hinted
from solver.explain.gang_outlook import GangOutlook
from solver.explain.unplaced_reasons import Explanation
from solver.greedy import Greedy, Order, units
from solver.greedy.device_fit import FitCache
from solver.greedy.units import GangFit, PlacementUnit
from solver.problem.problem import PodClass, Problem
from solver.rules.forms.gang_rules import GangRule
from solver.solution import Solution

_SHOWN: Final = 3


@dataclass(slots=True, eq=False)
class GangReasons:
    """Adds the gang's reason to the reasons of its pods; it is computed once per gang."""

    problem: Problem
    explanation: Explanation
    is_after: bool
    """Whether the problem is what a plan leaves, so that all is said of what is left beside its pods."""
    outlook: GangOutlook
    waiting: dict[int, GangRule] = field(default_factory=dict)
    known: dict[int, Reason | None] = field(default_factory=dict)
    why: dict[int, tuple[int, tuple[Reason, ...]]] = field(default_factory=dict)
    """By the first class of a gang: the class of a member that fits on no node, and its reasons."""

    @classmethod
    def of(
        cls, problem: Problem, solution: Solution, explanation: Explanation, *, is_after: bool = False
    ) -> "GangReasons":
        """Prepare for the gangs of which a solution places no pod."""
        placed = Counter(choice.pod_class for choice in solution.choices)
        waiting = {
            index: rule
            for rule in problem.rules.gangs
            if rule.need and not any(placed[each] for each in rule.classes)
            for index in rule.classes
        }
        return cls(problem, explanation, is_after, GangOutlook(problem, explanation), waiting)

    def added(self, family: tuple[PodClass, ...], found: tuple[Reason, ...]) -> tuple[Reason, ...]:
        """Put the gang's reason before the reasons of a family; nothing if the gang only lost against other pods."""
        rule = self.waiting.get(family[0].index)
        if rule is None:
            return found
        key = rule.classes[0]
        if key not in self.known:
            self.known[key] = self._reason(rule)
        reason = self.known[key]
        if reason is None:
            return found
        index, why = self.why.get(key, (family[0].index, ()))
        others = why if index != family[0].index else ()  # the named pod has these reasons already
        return (reason, *others, *(each for each in found if each.code not in FITS_ALONE))

    def _reason(self, rule: GangRule) -> Reason | None:
        if self.problem.node_count == 0:
            return None
        families = [family for family in self.problem.families if family[0].index in rule.classes]
        entries = tuple(family for family in families for _ in family[0].members)
        stop = self.explanation.should_stop
        placer = Greedy(self.problem, FitCache(self.problem), Order.QUEUE_BEST_FIT, stop=stop).start()
        unit = PlacementUnit(entries, rule)
        found = units.most(placer, unit, rule)
        if found.pods >= rule.need or placer.is_cut:
            return None  # the other domains were not tried
        parts = [_lead(rule, found, "beside the pods that are placed" if self.is_after else "now")]
        if rule.required and units.fits_anywhere(placer, unit, rule):
            scope = " and ".join(f"one {level.level}" for level in rule.required)
            parts.append(f"they fit, and not in {scope}: a new node helps there only, which autoscalers do not look at")
        parts += (*(self._fitting(families) if found.pods else ()), *self._stuck(rule, families))
        hint = self.outlook.absent_level(rule)
        parts += () if hint or self.is_after else self.outlook.needs(rule, unit)
        reason = Reason(code=ReasonCode.GANG_UNPLACED, message="; ".join(parts), status=_status(rule, found))
        return hinted(reason, hint)

    def _fitting(self, families: list[tuple[PodClass, ...]]) -> list[str]:
        """Name or count the nodes that can take a member; those that cannot have reasons of their own."""
        nodes = sorted({node for family in families for node in self.explanation.fitting(family).tolist()})
        of_all = f"{len(nodes)} of {wording.counted(self.problem.node_count, 'node')}"
        lead = "each of its pods fits on" if self.is_after else "alone, its pods fit on"
        if not nodes or not self.problem.policy.tells_inventory:
            return [f"{lead} {of_all}"] if nodes else []
        names = wording.shortened([self.problem.inventory.nodes[node].name for node in nodes], _SHOWN)
        return [f"{lead} {names} ({of_all})"]

    def _stuck(self, rule: GangRule, families: list[tuple[PodClass, ...]]) -> list[str]:
        """Name a member that fits on no node, even alone; with topology levels, on none where the gang may run."""
        for position, reasons in sorted(self.problem.rejected.items()):
            if self.problem.pod(position).gang == rule.gang.id:
                return [f"pod {self.problem.pod(position).id.name} cannot be placed: {reasons[0].message}"]
        for family in families:
            reasons = self.explanation.reasons(family, is_proven=True)
            if reasons[0].code not in FITS_ALONE:
                name = self.problem.pod(family[0].members[0]).id.name
                why = tuple(Reason(code=each.code, message=f"pod {name}: {each.message}") for each in reasons)
                self.why[rule.classes[0]] = (family[0].index, why)
                where = " where its gang may run" if rule.levels else ", even alone"
                return [f"pod {name} fits on no node{' then' if self.is_after else where}"]
        return []


def _status(rule: GangRule, found: GangFit) -> str:
    """
    Say in kube-scheduler's words that the minimum is out of reach.

    kube-scheduler stops at the pod after which placed and untried pods are one too few (`PlacementFeasible` of the
    plugin GangScheduling). So the two numbers add up to one below the minimum.
    """
    scheduled = rule.running + found.pods
    remaining = rule.gang.min_count - 1 - scheduled
    return (
        f"pod group is unschedulable, minCount ({rule.gang.min_count}) cannot be satisfied: "
        f"{scheduled} scheduled, {remaining} remaining"
    )


def _lead(rule: GangRule, found: GangFit, when: str) -> str:
    """Say how many of a gang's pods fit, `when`: now, or beside the pods of a plan."""
    gang = rule.gang
    fit = f"only {found.pods} fit{'s' if found.pods == 1 else ''}" if found.pods else "none fits"
    text = f"gang {gang.id.name}: {gang.min_count} pods must run together, but {fit} {when}"
    if rule.running:
        fit = fit.replace(" fit", f" of the other {rule.need} fit")
        text = f"gang {gang.id.name}: {gang.min_count} pods must run together; {rule.running} run, and {fit} {when}"
    if not found.levels:
        return text
    names = [
        f"{each.level} {each.names[domain]}"
        for each, domain in zip(found.levels, found.row, strict=True)
        if domain >= 0 and each.may_name_domains
    ]
    return text + (f" (in {', '.join(names)})" if names and found.pods else "")
