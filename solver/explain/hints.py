"""Hints what to write instead, from `feasibility.lint` applied to the devices and requests of a problem."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from solver.arrays import Mask
from solver.domain import Allowance, AllowanceSpentError, Budget, Claim, ConstraintKind, wording
from solver.feasibility import lint
from solver.feasibility.device_attributes import AttributeName, lookup
from solver.feasibility.lint import Candidate
from solver.problem.devices.inventory import DeviceRecord
from solver.problem.devices.slice_cache import Selectors
from solver.problem.problem import Problem
from solver.problem.requests.component import Component, ComponentConstraint
from solver.problem.requests.demand import Verdict

_LONGEST: Final = 240
_SAMPLES: Final = 4096
_MOST_UNITS: Final = 200_000
"""Cost units for all hints of one decision (0.2 s). Pods without a hint get it in a later decision."""
_UNITS_PER_HINT: Final = 10_000
"""Cost units to compare a selector with published attributes, besides its evaluation."""
_ALIKE: Final = "node.kubernetes.io/instance-type"
_MATCHING: Final = frozenset(set(Verdict) - {Verdict.NO, Verdict.FAILED})


@dataclass(slots=True, eq=False)
class Hints:
    """
    Hints for one problem; hints on selectors are cached in the inventory for later decisions.

    A hint is a sentence fragment, empty if nothing useful is known.
    """

    problem: Problem
    allowance: Allowance | None = None
    """For all hints of one decision. A hint beyond it is left out and not cached."""
    kinds: list[Candidate] = field(default_factory=list)
    sizes: dict[Selectors, list[Candidate]] = field(default_factory=dict)
    links: dict[tuple[ComponentConstraint, Component, tuple[str, ...]], str] = field(default_factory=dict)
    """Hints on constraints, by all that they depend on: many claims ask for the same."""

    @classmethod
    def within(cls, problem: Problem, budget: Budget | None) -> "Hints":
        """Return hints within an allowance and a decision's time; None for no limit."""
        if budget is None:
            return cls(problem)
        return cls(problem, Allowance(_MOST_UNITS, lambda: budget.remaining_seconds() <= 0.0))

    def on_nothing(self, demand: int, roomy: Mask) -> str:
        """Say why a demand matches no device of the remaining nodes."""
        return self._within_allowance(lambda: self._elsewhere(demand, roomy) or self._on_demand(demand))

    def on_capacity(self, demand: int) -> str:
        """Say by how much matching devices are too small for a capacity request."""
        wanted = dict(self.problem.requests.demands[demand].capacity)
        return self._within_allowance(lambda: lint.of_requests(wanted, self._sizes(demand)))

    def on_links(self, claim: Claim, positions: Sequence[int], component: Component) -> str:
        """Say for which request no device publishes the attribute of a constraint; positions are those in the claim."""
        names = tuple(claim.requests[position].name for position in positions)
        hints = (self._within_allowance(partial(self._of_link, each, names, component)) for each in component.links)
        return next(filter(None, hints), "")

    def _within_allowance(self, work_out: Callable[[], str]) -> str:
        """Return a hint of limited length; empty if the allowance does not suffice."""
        try:
            return _cut(work_out())
        except AllowanceSpentError:
            return ""

    def _pay(self, units: int) -> None:
        if self.allowance is not None:
            self.allowance.spend(units)

    def _of_link(self, link: ComponentConstraint, names: tuple[str, ...], component: Component) -> str:
        key = (link, component, names)
        if key not in self.links:
            self.links[key] = self._on_link(link, names, component)
        return self.links[key]

    def _on_link(self, link: ComponentConstraint, names: Sequence[str], component: Component) -> str:
        if any(member.attribute.expression for member in link.members):
            return ""  # derived attributes have a value on each device that matches
        selected: dict[str, list[Candidate]] = {}
        needed = 0
        for member in link.members:
            asks = component.requests[member.request]
            needed += min(ask.needed for ask in asks)
            chosen = asks if member.alternative < 0 else asks[member.alternative : member.alternative + 1]
            found = [each for demand in {ask.demand for ask in chosen} for each in self._matching(demand)]
            selected.setdefault(names[member.request], []).extend(found)
        mine = {candidate.id: candidate for candidates in selected.values() for candidate in candidates}
        others = [each for each in self._candidates(self.problem.inventory.records.values()) if each.id not in mine]

        def most_for(attribute: AttributeName) -> int:
            values = Counter(
                value for each in mine.values() for value in lookup(each.id.driver, each.device, attribute)
            )
            return max(values.values(), default=0) if link.kind is ConstraintKind.MATCH else len(values)

        hint = lint.of_constraint(
            link.attribute, selected, others, lambda name: most_for(AttributeName.parse(name)) >= needed
        )
        most, name = most_for(link.attribute), f"{link.attribute.domain}/{link.attribute.id}"
        if hint or most >= needed:
            return hint
        if link.kind is ConstraintKind.MATCH:
            return f"{needed} devices are to have the same {name}, and no more than {most} have"
        values = wording.counted(most, "value")
        return f"{needed} devices are to have different {name}, and it has {values} on all that are selected"

    def _on_demand(self, demand: int) -> str:
        """Say what is wrong with the selectors of a demand; cached in the inventory."""
        key, known = self.problem.requests.demands[demand], self.problem.inventory.hints
        asked = (key.class_selectors, tuple(each for each in key.selectors if isinstance(each, str)))
        hint = known.get(asked)
        if hint is None:
            hint = known[asked] = self._on_selectors(*asked)
        return hint

    def _on_selectors(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> str:
        everything = self._samples()
        if not everything:
            return "no driver publishes a device that a node of the cluster can use"
        self._pay(_UNITS_PER_HINT)
        selectable = [each for each in everything if lint.is_selected(of_class, each, self.allowance)]
        if selectable:
            return lint.of_selectors(of_request, selectable, self.allowance)
        found = lint.of_selectors(of_class, everything, self.allowance)
        return f"the selectors of the device class match no device; {found}" if found else ""

    def _samples(self) -> list[Candidate]:
        """Sample devices of every kind (driver, attribute names, capacities)."""
        if not self.kinds:
            self._pay(len(self.problem.inventory.records))
            kinds: defaultdict[tuple[object, ...], list[DeviceRecord]] = defaultdict(list)
            for record in self.problem.inventory.records.values():
                device = record.device
                names = tuple(name for name, _ in device.attributes)
                kinds[record.id.driver, names, device.capacities].append(record)
            for records in kinds.values():
                self.kinds += [Candidate(each.id, each.device) for each in records[:: 1 + len(records) // _SAMPLES]]
        return self.kinds

    def _sizes(self, demand: int) -> list[Candidate]:
        """Return one matching device of each size; cached by selectors, which many demands share."""
        key = self.problem.requests.demands[demand]
        asked = (key.class_selectors, key.selectors)
        if asked not in self.sizes:
            records, verdicts = self.problem.inventory.records, self.problem.requests.answers[demand].verdicts
            self._pay(len(verdicts))
            matching = (records[index] for index, verdict in verdicts.items() if verdict in _MATCHING)
            of_size = {record.size_class: record for record in matching}
            self.sizes[asked] = self._candidates(of_size.values())
        return self.sizes[asked]

    def _matching(self, demand: int) -> list[Candidate]:
        records, verdicts = self.problem.inventory.records, self.problem.requests.answers[demand].verdicts
        return self._candidates([records[index] for index, verdict in verdicts.items() if verdict in _MATCHING])

    def _candidates(self, records: Collection[DeviceRecord]) -> list[Candidate]:
        self._pay(len(records))
        return [Candidate(record.id, record.device) for record in records]

    def _elsewhere(self, demand: int, roomy: Mask) -> str:
        """Name the nodes with matching devices, if only nodes have them where the pod does not fit."""
        inventory, verdicts = self.problem.inventory, self.problem.requests.answers[demand].verdicts
        self._pay(len(verdicts))
        matching = [inventory.records[index] for index, verdict in verdicts.items() if verdict in _MATCHING]
        homes = {record.home for record in matching if record.home >= 0}
        if not homes or any(record.home < 0 or roomy[record.home] for record in matching):
            return ""
        drivers = {record.id.driver for record in matching}
        left = [index for index, is_roomy in enumerate(roomy) if is_roomy]
        silent = self._silent(left, drivers)
        if silent:
            return silent
        names = sorted(inventory.nodes[home].name for home in homes)
        shown = f"nodes {wording.listed(names)}" if len(names) > 1 else f"node {names[0]}"
        return f"matching devices are on {shown}, where the pod does not fit or must not run"

    def _silent(self, left: Sequence[int], drivers: Collection[str]) -> str:
        """Name a node without slices of a driver that most nodes of its instance type have."""
        inventory = self.problem.inventory
        self._pay(len(inventory.records))
        publishing: defaultdict[str, set[int]] = defaultdict(set)
        for record in inventory.records.values():
            if record.home >= 0 and record.id.driver in drivers:
                publishing[record.id.driver].add(record.home)
        types = [labels.get(_ALIKE, "") for labels in inventory.labels]
        counts = Counter(types)
        for driver, nodes in sorted(publishing.items()):
            having = Counter(types[each] for each in nodes)
            for node in left:
                alike = having[types[node]]
                if node not in nodes and types[node] and 2 * alike > counts[types[node]] - 1 > 0:
                    others = counts[types[node]] - 1
                    do = (
                        f"{alike} of {others} other nodes of its type do"
                        if others > 1
                        else "the other of its type does"
                    )
                    return (
                        f"node {inventory.nodes[node].name} publishes no slice of driver {driver}, but {do}: "
                        "check the driver's plugin there"
                    )
        return ""


def _cut(hint: str) -> str:
    return hint if len(hint) <= _LONGEST else f"{hint[: _LONGEST - 1]}…"
