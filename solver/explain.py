"""Why a pod was not placed: node by node where nodes fail it, request by request where devices do."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.domain import ConstraintKind, Reason, ReasonCode
from solver.feasibility import node_fit
from solver.feasibility.claims import MOST_RESULTS
from solver.placing import Condition, Kept
from solver.problem.component import Ask, Component
from solver.problem.demand import Verdict
from solver.problem.fit import PODS, Mask, tallied
from solver.problem.problem import Part, PodClass, Problem, Source


class _Asked(NamedTuple):
    """One alternative of a request, with the name that messages give it."""

    name: str
    ask: Ask


class _Supply(NamedTuple):
    """Devices for a demand on some nodes: by verdict, free, the most free on one node, the most matching on one."""

    verdicts: Counter[Verdict]
    free: int
    most: int
    largest: int


@dataclass(slots=True, eq=False)
class Explanation:
    """Explains pods of one problem; answers are kept per class."""

    problem: Problem
    is_proven: bool
    kept: Kept = field(init=False)
    found: dict[int, tuple[Reason, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kept = Kept(self.problem)

    def reasons(self, pod_class: PodClass) -> tuple[Reason, ...]:
        """Give the reasons of a class's unplaced pods, the most telling first."""
        if pod_class.index not in self.found:
            self.found[pod_class.index] = tuple(self._reasons(pod_class))
        return self.found[pod_class.index]

    def _reasons(self, pod_class: PodClass) -> Iterator[Reason]:
        problem = self.problem
        if problem.node_count == 0:
            yield Reason(code=ReasonCode.NO_NODES, message="no nodes available to schedule pods")
            return
        roomy, lacking = self._rooms(pod_class)
        parts = self._parts(pod_class)
        fitting = [node for node in np.flatnonzero(roomy).tolist() if self._serves(parts, node)]
        if fitting:
            yield self._outranked(len(fitting))
        elif roomy.any() or not problem.node_count:
            yield from self._device_reasons(pod_class, roomy)
        yield from pod_class.verdicts.reasons
        yield from lacking

    def _rooms(self, pod_class: PodClass) -> tuple[Mask, tuple[Reason, ...]]:
        """Allowed nodes that have room for one pod, and what the others lack."""
        problem, allowed = self.problem, pod_class.verdicts.allowed
        counts: dict[Reason, int] = {}
        for resource, amount in ((PODS, 1), *pod_class.requests):
            short = int(np.count_nonzero(allowed & (problem.room.of(resource) < amount))) if amount > 0 else 0
            if short:
                counts[node_fit.insufficient(resource)] = short
        return allowed & problem.room.fits(pod_class.requests), tallied(counts)

    def _parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        return pod_class.parts + tuple(part for each in pod_class.shared for part in self.problem.shared[each].parts)

    def _serves(self, parts: tuple[Part, ...], node: int) -> bool:
        problem = self.problem
        where = problem.layout.group_of[node]
        condition = Condition(where, problem.states[node], problem.wide_state, bool(problem.is_whole[node]))
        return self.kept.serve(parts, condition) is not None

    def _outranked(self, nodes: int) -> Reason:
        place = f"the pod alone would fit {nodes} node{'s' if nodes > 1 else ''}"
        if self.is_proven:
            message = f"{place}; pods of higher priority, or more pods of the same one, take that room"
            return Reason(code=ReasonCode.OUTRANKED, message=message)
        message = f"{place}; no plan that places it was found in time, and none was ruled out"
        return Reason(code=ReasonCode.BUDGET, message=message)

    def _device_reasons(self, pod_class: PodClass, roomy: Mask) -> Iterator[Reason]:
        nodes = np.flatnonzero(roomy).tolist()
        found = False
        for asked in self._asked(pod_class):
            supply = self._supply(asked.ask, nodes)
            if not asked.ask.needed and supply.largest > MOST_RESULTS:
                found = True
                yield _too_many(asked, supply)
                continue
            if asked.ask.needed and supply.most >= asked.ask.needed:
                continue
            found = True
            yield self._short(asked, supply, len(nodes))
            if not supply.verdicts:
                yield from self._pool_reasons()
        if not found:
            yield self._constrained(pod_class, len(nodes))

    def _asked(self, pod_class: PodClass) -> Iterator[_Asked]:
        problem = self.problem
        owners = [(pod_class.parts, pod_class.sources[0])]
        owners += [(problem.shared[each].parts, problem.shared[each].sources) for each in pod_class.shared]
        for parts, sources in owners:
            for part, copies in zip(parts, sources, strict=True):
                yield from self._asked_of(problem.components[part.component], copies[0])

    def _asked_of(self, component: Component, source: Source) -> Iterator[_Asked]:
        claim = self.problem.claims[source.claim]
        for position, alternatives in zip(source.positions, component.requests, strict=True):
            for index, ask in enumerate(alternatives):
                name = claim.requests[position].result_name(index)
                yield _Asked(f"claim {claim.id.name}, request {name}", ask)

    def _supply(self, ask: Ask, nodes: list[int]) -> _Supply:
        """Count devices over nodes; those that several nodes can use count once."""
        problem, answers = self.problem, self.problem.answers[ask.demand]
        inventory, wanted = problem.inventory, set(nodes)
        verdicts: Counter[Verdict] = Counter()
        free: Counter[int] = Counter()
        matching: Counter[int] = Counter()
        for index, verdict in answers.verdicts.items():
            record = inventory.records[index]
            if record.home >= 0 and record.home not in wanted:
                continue
            verdicts[verdict] += 1
            matching[record.home] += 1
            if verdict is Verdict.YES and self._is_left(index, ask.demand):
                free[record.home] += 1
        wide = free.pop(-1, 0)
        most, largest = max(free.values(), default=0) + wide, max(matching.values(), default=0)
        return _Supply(verdicts, free.total() + wide, most, largest)

    def _is_left(self, index: int, demand: int) -> bool:
        """Whether one more allocation fits a device as it is used today."""
        problem, layout = self.problem, self.problem.layout
        node, position = layout.place_of[index]
        if node < 0:
            device = layout.wide_types[position]
            return all(problem.wide_left(budget) >= amount for budget, amount in device.takes[demand])
        device = problem.group(node).types[position]
        if not device.is_shareable and self._is_held(index):
            return not device.takes[demand]
        state = problem.states[node]
        return all(
            (state[budget] if budget < len(state) else problem.wide_left(budget)) >= amount
            for budget, amount in device.takes[demand]
        )

    def _is_held(self, index: int) -> bool:
        device, usage = self.problem.inventory.records[index].id, self.problem.usage
        return device in usage.exclusive or device in usage.shared

    def _short(self, asked: _Asked, supply: _Supply, nodes: int) -> Reason:
        """Say what a request lacks."""
        verdicts = supply.verdicts
        failed = verdicts.get(Verdict.FAILED, 0)
        matching = verdicts.total() - failed
        needed = asked.ask.needed or "all"
        text = [f"{asked.name}: needs {needed}, {_devices(matching)} match", f"{supply.free} free"]
        text += [f"{verdicts[each]} {word}" for each, word in _WORDS.items() if verdicts.get(each)]
        if supply.free and asked.ask.needed:
            text.append(f"at most {supply.most} on one node")
        if failed:
            text.append(f"{failed} could not be checked ({self.problem.answers[asked.ask.demand].failure})")
        return Reason(code=_code(verdicts), message=", ".join(text), node_count=nodes)

    def _pool_reasons(self) -> Iterator[Reason]:
        for pool in self.problem.inventory.pools.values():
            if pool.invalid:
                message = f"pool {pool.id} is not used: {pool.invalid}"
                yield Reason(code=ReasonCode.POOL_INVALID, message=message)
            elif not pool.is_complete:
                message = (
                    f"pool {pool.id} is being published: {len(pool.slices)} of {pool.slices[0].slice_count} slices "
                    f"of generation {pool.generation}"
                )
                yield Reason(code=ReasonCode.POOL_INCOMPLETE, message=message)

    def _constrained(self, pod_class: PodClass, nodes: int) -> Reason:
        attributes = []
        for part in self._parts(pod_class):
            for link in self.problem.components[part.component].links:
                relation = "equal" if link.kind is ConstraintKind.MATCH else "different"
                attributes.append(f"{relation} {link.attribute.domain}/{link.attribute.id}")
        names = ", ".join(dict.fromkeys(asked.name for asked in self._asked(pod_class)))
        if attributes:
            wanted = " and ".join(dict.fromkeys(attributes))
            message = f"{names}: enough devices are free, but no combination of them on one node has {wanted}"
        else:
            message = f"{names}: enough devices are free for each request, but not for all of them on one node"
        return Reason(code=ReasonCode.DEVICES_CONSTRAINT, message=message, node_count=nodes)


def _too_many(asked: _Asked, supply: _Supply) -> Reason:
    message = (
        f"{asked.name}: allocation mode All matches {supply.largest} devices on a node, and an allocation holds at "
        f"most {MOST_RESULTS}: narrow its selectors, or use a count"
    )
    return Reason(code=ReasonCode.CLAIM_TOO_LARGE, message=message)


_WORDS = {
    Verdict.TAINTED: "tainted",
    Verdict.CAPACITY: "too small for the requested capacity",
    Verdict.NOT_OWNED: "left to another scheduler by the configuration",
}


def _devices(count: int) -> str:
    return "no device" if count == 0 else f"{count} device{'s' if count > 1 else ''}"


def _code(verdicts: Counter[Verdict]) -> ReasonCode:
    """Name the first hurdle that no device passed."""
    if verdicts.get(Verdict.YES):
        return ReasonCode.DEVICES_IN_USE
    for verdict, code in (
        (Verdict.TAINTED, ReasonCode.DEVICES_TAINTED),
        (Verdict.NOT_OWNED, ReasonCode.DEVICES_NOT_OWNED),
        (Verdict.CAPACITY, ReasonCode.DEVICES_CAPACITY),
        (Verdict.FAILED, ReasonCode.SELECTOR_FAILED),
    ):
        if verdicts.get(verdict):
            return code
    return ReasonCode.DEVICES_NONE
