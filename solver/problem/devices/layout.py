"""
Nodes whose devices look the same to a batch, described once.

A type is a set of devices of one node that no demand and no constraint of the batch distinguishes. Values of
constrained attributes that are only compared within a node (PCIe roots, parent uuids) are labels: they are
numbered by what the devices behind them look like, so that equal nodes get equal descriptions.

Everything that can run out is a budget of whole units: free devices of a type, a shared device's capacities
(scaled by their greatest common divisor), shared counters. The greedy and the model
know of a device only what it takes of budgets.
"""

from collections.abc import Hashable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from solver.domain import CounterId
from solver.feasibility.capacity import Consumption
from solver.feasibility.device_attributes import AttributeName, Items
from solver.problem.requests.component import Component, Option, Ways
from solver.problem.requests.demand import Verdict

GLOBAL: Final = 1 << 24
"""Budget indices from here on belong to the whole cluster, not to a node."""

MOST_UNITS: Final = 1 << 45
"""A budget of something that runs out never has more units than this: sums stay exact in every cache."""
OPEN: Final = 1 << 60
"""The gate of a shareable device that may be used: it does not run out."""

State = tuple[int, ...]
"""Units left of every budget of a node (or of the cluster-wide ones), in the order of its group."""
Takes = tuple[tuple[int, int], ...]
"""Pairs of budget index and units."""


class Partition(NamedTuple):
    """Free partitions of a node with equal draws on its budgets: draws, value of one, and the most there can be."""

    draws: Takes
    value: int
    most: int

    def left(self, state: tuple[int, ...], used: Mapping[int, int]) -> int:
        """Return how many are left when `used` of the node's budgets is taken."""
        left = ((state[budget] - used.get(budget, 0)) // amount for budget, amount in self.draws)
        return max(0, min(self.most, *left))


class PartitionTable(NamedTuple):
    """Partitions of a node beside the devices in use; equal tables have one number, and are one object."""

    number: int
    partitions: tuple[Partition, ...]


@dataclass(slots=True, eq=False)
class PartitionTables:
    """
    Tables by node, filled by `fragmentation`, with the records that are partitions.

    `of_node` are those of nodes with nothing in use, `in_use` the last ones beside devices in use, with these. `left`
    are the partitions that a state leaves of a table, `lost` the value of those that units taken from the state spoil.
    """

    of_node: dict[int, tuple[frozenset[int], PartitionTable]] = field(default_factory=dict)
    in_use: dict[int, tuple[frozenset[int], PartitionTable]] = field(default_factory=dict)
    known: dict[tuple[Partition, ...], PartitionTable] = field(default_factory=dict)
    left: dict[tuple[int, State], tuple[Partition, ...]] = field(default_factory=dict)
    lost: dict[tuple[int, State, frozenset[tuple[int, int]]], int] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget everything."""
        for each in (self.of_node, self.in_use, self.known, self.left, self.lost):
            each.clear()


class Sharing(NamedTuple):
    """Of a shareable device: its capacities in nano-units, and what each demand's allocation consumes of them."""

    capacities: tuple[tuple[str, int], ...]
    consumption: tuple[tuple[int, Consumption | None], ...]


class ChargedKey(NamedTuple):
    """What a quota counts, in a layout: the demand of its class, and the capacity; or the node of a device."""

    demand: int
    capacity: str = ""
    counts_nodes: bool = False


class TypeKey(NamedTuple):
    """
    The key of interchangeable devices; labels stand for attribute values that are only compared within a node.

    `charged` are, by `ChargedKey`, the nano-units of the capacity; of a shareable device the capacity's name.
    """

    verdicts: tuple[tuple[int, int], ...]
    attributes: tuple[Items, ...]
    sharing: Sharing | None
    counters: tuple[tuple[int, int], ...]
    value: int
    has_conditions: bool
    binds_to_node: bool
    is_suspect: bool
    charged: tuple[int | str, ...] = ()


Draws = tuple[tuple[int, int], ...]
"""Pairs of counter reference and nano-units."""


class GroupKey(NamedTuple):
    """
    The key of nodes whose devices look the same to a batch while none is in use; `problem.NodeDeviceKey` adds usage.

    `types` are the types of devices with the number of each, `totals` the totals of counters. `beside` is what devices
    that the batch does not see draw on those counters. `wide` are the cluster-wide types that the node sees.
    """

    types: tuple[tuple[TypeKey, int], ...]
    totals: tuple[int, ...]
    beside: Draws
    wide: tuple[int, ...]
    is_unsettled: bool


@dataclass(frozen=True, slots=True, eq=False)
class DeviceType:
    """
    One type: `verdict` and `takes` by demand, `opens` what its first use takes beside (counters of a shared one).

    `gate` is the budget of free devices; a shareable type is a single device whose gate is `OPEN`, or 0 while
    it is held exclusively. `fresh` is the budget that is 1 while a shareable device is unused, -1 for exclusive
    types. `capacities` finds the budgets of a shareable device's capacities. `charges` are by demand what one counts
    for quotas, as pairs of the position of a `ChargedKey` and units. `distance` is 0 for a ready device of the
    node itself; one that several nodes can use is farther, and farther still one that has to be attached first
    (bindingConditions).
    """

    verdict: dict[int, Verdict]
    attributes: tuple[Items, ...]
    takes: dict[int, Takes]
    opens: Takes
    gate: int
    fresh: int
    capacities: dict[str, int]
    total: int
    value: int
    is_shareable: bool
    is_suspect: bool
    distance: int
    charges: dict[int, Takes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class NodeGroup:
    """
    Nodes of one description: types (by position) and the budgets of a node with nothing in use.

    `wide` are the ids of cluster-wide types that the nodes see. `is_unsettled` marks nodes that see an incomplete or
    invalid pool, on which a request for all devices has to wait. A budget's units are its `totals` (nano-units, or
    devices) divided by its `scales`.
    """

    index: int
    types: tuple[DeviceType, ...]
    totals: tuple[int, ...]
    scales: tuple[int, ...]
    wide: tuple[int, ...]
    is_unsettled: bool


@dataclass(slots=True, eq=False)
class DeviceLayout:
    """
    The whole cluster for one set of demands and attributes.

    `group_of` and `members` (record indices by type position) are per node; `place_of` finds a record's node
    (-1: cluster-wide) and type. `wide_*` describe cluster-wide types; their budgets and those of counters that
    several nodes draw on are `wide_budgets` (totals, scales), numbered from `GLOBAL` on.
    """

    attributes: tuple[AttributeName, ...]
    charged: tuple[ChargedKey, ...] = ()
    labelled: tuple[bool, ...] = ()
    """Which of the attributes are renumbered on every node."""
    groups: list[NodeGroup] = field(default_factory=list)
    keys: list[GroupKey] = field(default_factory=list)
    """The key of each group."""
    group_of: list[int] = field(default_factory=list)
    members: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)
    place_of: dict[int, tuple[int, int]] = field(default_factory=dict)
    wide_types: list[DeviceType] = field(default_factory=list)
    wide_members: list[tuple[int, ...]] = field(default_factory=list)
    wide_nodes: list[frozenset[int] | None] = field(default_factory=list)
    sites: tuple[frozenset[int], ...] = ()
    """Nodes on which a claim that pods share can be used at once, by the cluster-wide types that it takes."""
    wide_budgets: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))
    options: dict[tuple[Component, int], tuple[Option, ...]] = field(default_factory=dict)
    """Kept results of `options.options`, by component and group."""
    ways: MutableMapping[Hashable, Ways] = field(default_factory=dict)
    """What those results were made of, by all that they depend on: equal nodes of several layouts have equal ways."""
    partitions: PartitionTables = field(default_factory=PartitionTables)
    served: dict[Hashable, Any] = field(default_factory=dict)
    """Kept ways to serve a pod on one node (`search.node_ways`), by its components."""
    serving: dict[Hashable, Any] = field(default_factory=dict)
    """Whether nodes can serve a pod at all (`search.impossible_pods`), by its components, group and what is left."""
    fits: dict[Hashable, dict[Any, Any]] = field(default_factory=dict)
    """Kept answers of the greedy (`greedy.device_fit`), by components and the node's condition."""
    expected: list[Any] = field(default_factory=list)
    """For the expected kinds of some policies, how many pods nodes have room for (`problem.expected_room`)."""
    device_keys: tuple[Sequence[Any], dict[int, Any]] = field(default_factory=lambda: ((), {}))
    """Kept keys of node equivalence, and the kinds of nodes that number them (`Problem.device_keys`)."""
    counter_place: dict[CounterId, tuple[int, int]] = field(default_factory=dict)
    """Counter → node (-1: cluster-wide) and budget index."""

    def type_of(self, place: tuple[int, int]) -> DeviceType:
        """Return the type at a place of `place_of`."""
        node, position = place
        return self.wide_types[position] if node < 0 else self.groups[self.group_of[node]].types[position]


def type_at(layout: DeviceLayout, group: NodeGroup, reference: int) -> DeviceType:
    """Resolve a type reference: a position in the group, or -(id + 1) of a cluster-wide type."""
    return group.types[reference] if reference >= 0 else layout.wide_types[-reference - 1]


def whole(layout: DeviceLayout, reference: int) -> int:
    """Return the first cluster-wide type with the same devices; small nodes see a variant of it (KEP-5517)."""
    return -layout.place_of[layout.wide_members[-reference - 1][0]][1] - 1
