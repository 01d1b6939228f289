"""What a gang that waits needs: a topology that exists, a smaller size, or the end of running pods."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from solver.domain import SYSTEM_CRITICAL_PRIORITY, Claim, GangId, Pod, PodId, wording
from solver.explain import ended_pods
from solver.explain.unplaced_reasons import Explanation
from solver.greedy import Greedy, Order, units
from solver.greedy.device_fit import FitCache
from solver.greedy.units import GangFit, PlacementUnit
from solver.problem.problem import Problem
from solver.rules.forms.domains import NO_DOMAIN
from solver.rules.forms.gang_rules import GangRule, TopologyLevel

_MOST_GANGS: Final = 2
"""Gangs of one decision that are looked into: each costs some greedy runs."""
_MOST_TRIED: Final = 4


@dataclass(frozen=True, slots=True)
class Workload:
    """Running pods that end together, a gang or one pod, with the claims that they hold; `size` is what they use."""

    pods: tuple[Pod, ...]
    claims: tuple[Claim, ...]
    size: int


@dataclass(slots=True, eq=False)
class GangOutlook:
    """
    Looks into the first gangs of a decision that wait.

    Greedy, beside what the plan places: what it names is enough, if not the least.
    """

    problem: Problem
    explanation: Explanation
    left: int = _MOST_GANGS
    known: dict[bool, list[Workload]] = field(default_factory=dict)

    def absent_level(self, rule: GangRule) -> str:
        """Return a hint on the first required level of which no node or matching device has a value."""
        for level in rule.required:
            if not any((domains != NO_DOMAIN).any() for domains in level.domain_of.values()):
                return self._absent(rule, level)
        return ""

    def _absent(self, rule: GangRule, level: TopologyLevel) -> str:
        scope = next(each for each in rule.gang.levels if str(each) == str(level.level))
        if scope.node_label:
            requirements = self.explanation.unsatisfiable
            is_absent = scope.node_label not in requirements.labels()
            return requirements.instead(scope.node_label, ()) if is_absent else ""
        text = f"no matching device has the attribute {scope.device_attribute}"
        if not self.problem.policy.tells_inventory:
            return text
        names = self._attributes()
        close = wording.nearest(scope.device_attribute, names)
        if close == scope.device_attribute:
            return ""
        return f"{text}: {wording.suggestion(scope.device_attribute, names, what='attribute')}"

    def _attributes(self) -> set[str]:
        """Return the full names of the attributes of the devices that some request matches."""
        inventory = self.problem.inventory
        return {
            name if "/" in name else f"{device.driver}/{name}"
            for device in ended_pods.matching_devices(self.problem)
            for name, _ in inventory.records[inventory.record_of[device]].device.attributes
        }

    def needs(self, rule: GangRule, unit: PlacementUnit) -> Iterator[str]:
        """Say how large the largest domain is, if the gang is larger, or which running pods have to end."""
        if not self.left or self.explanation.should_stop():
            return
        self.left -= 1
        sizes = self.explanation.unsatisfiable.sizes_of
        room = {resource: sizes(resource) for resource in self.problem.available.room.free}
        most = self._most(ended_pods.emptied(self.problem, room), unit, rule)
        if 0 < most.pods < rule.need:
            where = f" in the largest {most.levels[-1].level}" if most.levels else ""
            named = f" ({most.levels[-1].names[most.row[-1]]})" if most.levels and _may_name(most) else ""
            fit = f"only {most.pods} would fit{where}{named}"
            yield f"even with nothing else running, {fit}"
        elif most.pods:
            ended = self._ended(rule, unit)
            if ended:
                reader = rule.gang.id.namespace
                told = ended_pods.sentence(self.problem, self.problem.snapshot, ended, reader)
                yield f"it can start when {told}"

    def _ended(self, rule: GangRule, unit: PlacementUnit) -> Sequence[Pod]:
        """Return running pods without which the gang starts: the smallest workload that suffices, or several."""
        largest = self._workloads(rule)
        for each in reversed(largest):
            if self._starts((each,), unit, rule):
                return each.pods
        for count in range(2, len(largest) + 1):
            chosen = largest[:count]
            if self._starts(chosen, unit, rule):
                for each in tuple(chosen):
                    rest = [one for one in chosen if one is not each]
                    chosen = rest if self._starts(rest, unit, rule) else chosen
                return [pod for each in chosen for pod in each.pods]
        return ()

    def _starts(self, ended: Sequence[Workload], unit: PlacementUnit, rule: GangRule) -> bool:
        if self.explanation.should_stop():
            return False
        pods = [pod for each in ended for pod in each.pods]
        claims = [claim for each in ended for claim in each.claims]
        leftover = self.explanation.leftover
        problem = ended_pods.problem_without(leftover().problem if leftover is not None else self.problem, pods, claims)
        return self._most(problem, unit, rule).pods >= rule.need

    def _most(self, problem: Problem, unit: PlacementUnit, rule: GangRule) -> GangFit:
        """Find where most pods of the gang fit in a problem that has the same classes."""
        placer = Greedy(problem, FitCache(problem), Order.QUEUE_BEST_FIT, stop=self.explanation.should_stop).start()
        families = tuple(tuple(problem.classes[each.index] for each in family) for family in unit.families)
        return units.most(placer, PlacementUnit(families, rule), rule)

    def _workloads(self, rule: GangRule) -> list[Workload]:
        """Return the largest running workloads: by devices that match, or by cpu for a gang without any."""
        uses_devices = any(self.problem.parts_of(self.problem.classes[index]) for index in rule.classes)
        if uses_devices not in self.known:
            self.known[uses_devices] = self._largest(by_devices=uses_devices)
        found = self.known[uses_devices]
        return [each for each in found if each.pods[0].gang != rule.gang.id][:_MOST_TRIED]

    def _largest(self, *, by_devices: bool) -> list[Workload]:
        """Return one more workload than are tried: one of them may be the gang itself."""
        snapshot = self.problem.snapshot
        matching = ended_pods.matching_devices(self.problem) if by_devices else frozenset()
        held: Counter[str] = Counter()
        for claim in snapshot.claims if by_devices else ():
            if claim.allocation is not None and claim.reserved_for:
                count = sum(each.device in matching for each in claim.allocation.results)
                held.update({each.uid: count for each in claim.reserved_for})
        sizes: Counter[GangId | PodId] = Counter()
        for pod in snapshot.pods:
            size = held[pod.uid] if by_devices else dict(pod.requests).get("cpu", 0)
            if size and pod.node_name and pod.priority < SYSTEM_CRITICAL_PRIORITY:
                sizes[pod.gang or pod.id] += size
        chosen = [unit for unit, _ in sizes.most_common(_MOST_TRIED + 1)]
        pods: dict[GangId | PodId, list[Pod]] = {unit: [] for unit in chosen}
        for pod in snapshot.pods:
            if (pod.gang or pod.id) in pods:
                pods[pod.gang or pod.id].append(pod)
        unit_of = {pod.uid: unit for unit, own in pods.items() for pod in own}
        claims: defaultdict[object, list[Claim]] = defaultdict(list)
        for claim in snapshot.claims:
            units = {unit_of.get(each.uid) for each in claim.reserved_for}
            if len(units) == 1 and claim.allocation is not None:
                claims[units.pop()].append(claim)
        return [Workload(tuple(pods[unit]), tuple(claims[unit]), sizes[unit]) for unit in chosen]


def _may_name(found: GangFit) -> bool:
    return found.levels[-1].may_name_domains and found.row[-1] >= 0
