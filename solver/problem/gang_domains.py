"""
Topology domains by device attribute: the value that each node gives to the members of a gang.

A request is about an attribute if some device that it matches has the attribute, available or not. A node has a value
if all devices with the attribute that the pods could get there agree on it, and some request needs such a device.

A node whose devices have several values is in no domain as a whole (`DomainSplits`). A member may use it in as many
ways as it has values, each with devices of one value only: its class becomes a family. Requests for all devices and
claims that pods share are not narrowed; where these could get several values, the node stays in no domain.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from solver.arrays import Mask
from solver.domain import Gang, GangId
from solver.feasibility.device_attributes import AttributeName, Items, lookup
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.requests.component import Ask, Component
from solver.problem.requests.demand import Answers, DemandKey, Verdict

_UNMATCHED = frozenset({Verdict.NO, Verdict.FAILED})


def text_of(items: Items) -> str:
    """Write the value of an attribute with its kind; empty where a device lacks it. Lists are compared as a whole."""
    return ", ".join(sorted(f"{value}" if kind == "string" else f"{kind} {value}" for kind, value in items))


def value_of(record: DeviceRecord, attribute: AttributeName) -> str:
    """Return the value of an attribute that a device has; empty where it has none."""
    return text_of(lookup(record.id.driver, record.device, attribute))


def split_by_value(
    inventory: Inventory, answers: Answers, attributes: Sequence[AttributeName]
) -> dict[tuple[str, ...], Answers]:
    """Divide answers by the values of attributes; devices that lack one are left out."""
    found: dict[tuple[str, ...], Answers] = {}
    for index in answers.verdicts:
        values = tuple(value_of(inventory.records[index], name) for name in attributes)
        if not all(values):
            continue
        found.setdefault(values, Answers(failure=answers.failure)).put(index, answers.of(index))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """
    The values of an attribute that some components could get per node.

    `is_covered` marks nodes where some request can only get devices with the attribute. `is_published` says whether any
    device that a request matches has the attribute.
    """

    per_node: tuple[frozenset[str], ...]
    is_covered: Mask
    is_published: bool

    def at(self, node: int) -> str:
        """Return the one value of a node; empty where it has none or several."""
        values = self.per_node[node]
        return next(iter(values)) if self.is_covered[node] and len(values) == 1 else ""


class _OfDemand(NamedTuple):
    """Values of an attribute per node over the devices of a demand, and nodes where such a device lacks it."""

    values: dict[int, set[str]]
    lacking: Mask
    is_published: bool


@dataclass(frozen=True, slots=True, eq=False)
class DeviceDomains:
    """Finds values of attributes on the devices of an inventory; `demands` and `answers` are by number."""

    inventory: Inventory
    demands: Sequence[DemandKey]
    answers: Callable[[int], Answers]
    _known: dict[tuple[AttributeName, int], _OfDemand] = field(default_factory=dict)
    """Many components of a gang have few different demands."""

    def values(self, attribute: AttributeName, components: Iterable[Component]) -> Values:
        """Find the values of an attribute that components could get."""
        count = len(self.inventory.nodes)
        found: list[set[str]] = [set() for _ in range(count)]
        covered, is_published = np.zeros(count, dtype=np.bool_), False
        requests = {self._wanted(asks) for component in components for asks in component.requests}
        for wanted in requests:
            each = [self._of(attribute, demand) for demand in wanted]
            if any(one.is_published for one in each):
                is_published = True
                covered |= self._covered(each)
        for demand in set[int]().union(*requests):
            for node, values in self._of(attribute, demand).values.items():
                found[node] |= values
        return Values(tuple(map(frozenset, found)), covered, is_published)

    def is_about(self, attribute: AttributeName, asks: Sequence[Ask]) -> bool:
        """Whether some device that a request matches has an attribute."""
        return any(self._of(attribute, demand).is_published for demand in self._wanted(asks))

    def _wanted(self, asks: Sequence[Ask]) -> tuple[int, ...]:
        return tuple(sorted({ask.demand for ask in asks if not self.demands[ask.demand].is_admin}))

    def _covered(self, found: Sequence[_OfDemand]) -> Mask:
        """Return the nodes where all devices of a request have a value, and there are some."""
        having, lacking = np.zeros((2, len(self.inventory.nodes)), dtype=np.bool_)
        for each in found:
            having[list(each.values)] = True
            lacking |= each.lacking
        return having & ~lacking

    def _of(self, attribute: AttributeName, demand: int) -> _OfDemand:
        if (attribute, demand) not in self._known:
            self._known[attribute, demand] = self._found_values(attribute, demand)
        return self._known[attribute, demand]

    def _found_values(self, attribute: AttributeName, demand: int) -> _OfDemand:
        count, answers, is_published = len(self.inventory.nodes), self.answers(demand), False
        values: dict[int, set[str]] = {}
        lacking = np.zeros(count, dtype=np.bool_)
        for index, verdict in answers.verdicts.items():
            if verdict in _UNMATCHED:
                continue
            record = self.inventory.records[index]
            value = value_of(record, attribute)
            is_published = is_published or bool(value)
            nodes = answers.reach(record, count) if verdict is Verdict.YES else ()
            if not value:
                lacking[list(nodes)] = True
            for node in nodes if value else ():
                values.setdefault(node, set()).add(value)
        return _OfDemand(values, lacking, is_published)


Choice = tuple[tuple[AttributeName, str], ...]
"""A value per attribute."""
_MOST_WAYS: Final = 256
"""The most ways of one class; those that most nodes have come first."""
_MOST_ON_A_NODE: Final = 64


class DomainSplit(NamedTuple):
    """One way: a value per attribute, and the nodes that have these values among others."""

    choice: Choice
    nodes: Mask

    def __str__(self) -> str:
        """Name the attributes for messages."""
        return " and ".join(f"device attribute {name.domain}/{name.id}" for name, _ in self.choice)


@dataclass(slots=True, eq=False)
class DomainSplits:
    """Finds the ways of classes and narrows their demands; cached by components."""

    inventory: Inventory
    answers: Callable[[DemandKey], Answers]
    demands: dict[DemandKey, int]
    attributes: dict[GangId, tuple[AttributeName, ...]] = field(default_factory=dict)
    known: dict[tuple[object, ...], tuple[DomainSplit, ...]] = field(default_factory=dict)

    def demand(self, gangs: Mapping[GangId, Gang]) -> None:
        """Read the gangs with a required level by device attribute."""
        for gang in gangs.values():
            named = (each.device_attribute for each in gang.levels if each.is_required and each.device_attribute)
            found = tuple(AttributeName.parse(text) for text in dict.fromkeys(named))
            if found:
                self.attributes[gang.id] = found

    def of(self, gang: GangId | None, own: Sequence[Component], shared: Sequence[Component]) -> tuple[DomainSplit, ...]:
        """Return the ways of a member of a gang, from its own components and those of claims that it shares."""
        attributes = self.attributes.get(gang, ()) if gang is not None else ()
        if not attributes or not own:
            return ()
        key = (attributes, tuple(own), tuple(shared))
        if key not in self.known:
            self.known[key] = tuple(self._found(attributes, own, shared))
        return self.known[key]

    def narrowed(self, each: Component, choice: Choice) -> Component:
        """Narrow the requests of a component that are about these attributes to devices with these values."""
        domains = self._domains()
        requests = []
        for asks in each.requests:
            within = tuple(pair for pair in choice if domains.is_about(pair[0], asks))
            requests.append(tuple(self._narrowed(ask, within, domains.demands) for ask in asks) if within else asks)
        return each._replace(requests=tuple(requests))

    def _domains(self) -> DeviceDomains:
        keys = tuple(self.demands)
        return DeviceDomains(self.inventory, keys, lambda number: self.answers(keys[number]))

    def _narrowed(self, ask: Ask, within: Choice, keys: Sequence[DemandKey]) -> Ask:
        if keys[ask.demand].is_admin:
            return ask
        key = keys[ask.demand]._replace(within=within)
        return ask._replace(demand=self.demands.setdefault(key, len(self.demands)))

    def _found(
        self, attributes: tuple[AttributeName, ...], own: Sequence[Component], shared: Sequence[Component]
    ) -> Iterator[DomainSplit]:
        domains = self._domains()
        values = {name: domains.values(name, own) for name in attributes}
        values = {name: each for name, each in values.items() if each.is_published}
        takes_all = any(
            ask.needed == 0 and any(domains.is_about(name, asks) for name in values)
            for component in own
            for asks in component.requests
            for ask in asks
        )
        if not values or takes_all:
            return
        beside = {name: domains.values(name, shared) for name in values}
        nodes_of: defaultdict[Choice, list[int]] = defaultdict(list)
        for node in range(len(self.inventory.nodes)):
            for choice in _choices(node, values, beside):
                nodes_of[choice].append(node)
        sizes = Counter({choice: len(nodes) for choice, nodes in nodes_of.items()})
        for choice in sorted(nodes_of, key=lambda each: (-sizes[each], each))[:_MOST_WAYS]:
            mask = np.zeros(len(self.inventory.nodes), dtype=np.bool_)
            mask[nodes_of[choice]] = True
            yield DomainSplit(choice, mask)


def _choices(node: int, values: Mapping[AttributeName, Values], beside: Mapping[AttributeName, Values]) -> list[Choice]:
    """Return the combinations of values of a node; none where the node has a single value, or too many."""
    if all(each.at(node) for each in values.values()):
        return []
    per_name: list[list[tuple[AttributeName, str]]] = []
    for name, each in values.items():
        shared = beside[name]
        open_to = each.per_node[node] & {shared.at(node)} if shared.is_published else each.per_node[node]
        per_name.append([(name, value) for value in sorted(open_to)])
    choices = list(product(*per_name))
    return choices if len(choices) <= _MOST_ON_A_NODE else []
