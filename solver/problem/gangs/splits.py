"""
Ways to serve a member of a gang on nodes whose devices have several values of what the gang has to share.

Such a node is in no domain as a whole. A member may use it in as many ways as it has values, in each of them with
devices of one value only: a class of pods becomes a family. Requests for all devices cannot be narrowed, and claims
that pods share are not: where these could get several values, the node stays in none.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from solver.domain import Gang, GangId
from solver.feasibility.device_attributes import AttributeName
from solver.problem.devices.inventory import Inventory, Mask
from solver.problem.gangs.device_domains import DeviceDomains, Values
from solver.problem.requests.component import Ask, Component
from solver.problem.requests.demand import Answers, DemandKey

Choice = tuple[tuple[AttributeName, str], ...]
"""A value per attribute."""
_MOST_WAYS: Final = 256
"""Ways of one class; those that most nodes have go first."""
_MOST_ON_A_NODE: Final = 64


class Split(NamedTuple):
    """One way: a value per attribute, and the nodes that have these values beside others."""

    choice: Choice
    nodes: Mask

    def __str__(self) -> str:
        """As messages name what has to be shared."""
        return " and ".join(f"device attribute {name.domain}/{name.id}" for name, _ in self.choice)


@dataclass(slots=True, eq=False)
class Splits:
    """Finds the ways of classes, and narrows what they demand; kept by what is demanded."""

    inventory: Inventory
    answers: Callable[[DemandKey], Answers]
    demands: dict[DemandKey, int]
    attributes: dict[GangId, tuple[AttributeName, ...]] = field(default_factory=dict)
    known: dict[tuple[object, ...], tuple[Split, ...]] = field(default_factory=dict)

    def demand(self, gangs: Mapping[GangId, Gang]) -> None:
        """Take the gangs that have to share attributes of devices."""
        for gang in gangs.values():
            named = (each.device_attribute for each in gang.levels if each.is_required and each.device_attribute)
            found = tuple(AttributeName.parse(text) for text in dict.fromkeys(named))
            if found:
                self.attributes[gang.id] = found

    def of(self, gang: GangId | None, own: Sequence[Component], shared: Sequence[Component]) -> tuple[Split, ...]:
        """Give the ways of a member of a gang with components of its own, and of claims that it shares."""
        attributes = self.attributes.get(gang, ()) if gang is not None else ()
        if not attributes or not own:
            return ()
        key = (attributes, tuple(own), tuple(shared))
        if key not in self.known:
            self.known[key] = tuple(self._found(attributes, own, shared))
        return self.known[key]

    def narrowed(self, each: Component, choice: Choice) -> Component:
        """Let a component's requests that are about these attributes have devices of these values only."""
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
    ) -> Iterator[Split]:
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
            yield Split(choice, mask)


def _choices(node: int, values: Mapping[AttributeName, Values], beside: Mapping[AttributeName, Values]) -> list[Choice]:
    """Give the values that a node offers beside each other; none where it is in one domain as a whole, or in none."""
    if all(each.at(node) for each in values.values()):
        return []
    per_name: list[list[tuple[AttributeName, str]]] = []
    for name, each in values.items():
        shared = beside[name]
        open_to = each.per_node[node] & {shared.at(node)} if shared.is_published else each.per_node[node]
        per_name.append([(name, value) for value in sorted(open_to)])
    choices = list(product(*per_name))
    return choices if len(choices) <= _MOST_ON_A_NODE else []
