"""
Groups of devices that are worth more whole: nodes of one NVLink clique, devices of one PCIe root.

A group of nodes goes by a node label (`Policy.group_labels`) and is whole while no device of its nodes is in use. A
group within a node goes by a device attribute (`Policy.group_attributes`), has at least two devices, and is whole while
none of them is in use. A placement that takes the first device of a whole group breaks it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from solver.feasibility.device_attributes import AttributeName
from solver.problem.devices.layout import Group
from solver.problem.problem import Problem, State


class Bundle(NamedTuple):
    """A whole group within a node: its types (positions) and how many devices it has."""

    types: tuple[int, ...]
    total: int


def node_groups(problem: Problem) -> dict[int, tuple[str, str]]:
    """Give the group of every node that is in a whole one, by label and value."""
    inventory = problem.inventory
    found: dict[int, tuple[str, str]] = {}
    for label in problem.policy.group_labels:
        members: defaultdict[str, list[int]] = defaultdict(list)
        for node, labels in enumerate(inventory.labels):
            if label in labels and inventory.has_devices[node]:
                members[labels[label]].append(node)
        for value, nodes in members.items():
            if len(nodes) > 1 and all(problem.is_whole[node] for node in nodes):
                found.update((node, (label, value)) for node in nodes if node not in found)
    return found


def bundles(problem: Problem, group: Group, state: State) -> Iterator[Bundle]:
    """Give the whole groups within a node of some description and state."""
    attributes = problem.layout.attributes
    for text in problem.policy.group_attributes:
        name = AttributeName.parse(text)
        if name not in attributes:
            continue
        column = attributes.index(name)
        members: defaultdict[object, list[int]] = defaultdict(list)
        for position, device in enumerate(group.types):
            if not device.is_shareable and device.attributes[column]:
                members[device.attributes[column]].append(position)
        for types in members.values():
            total = sum(group.types[each].total for each in types)
            if total > 1 and all(state[group.types[each].gate] == group.types[each].total for each in types):
                yield Bundle(tuple(types), total)


def free_devices(group: Group, state: State) -> int:
    """Count the devices of a node that nobody uses."""
    return sum(state[each.fresh if each.is_shareable else each.gate] for each in group.types)


def most_free(problem: Problem) -> int:
    """Give the largest number of free devices of any node."""
    kinds = Counter(zip(problem.layout.group_of, problem.states, strict=True))
    return max((free_devices(problem.layout.groups[group], state) for group, state in kinds), default=0)
