"""Every published device, the nodes that can use it, its counters and taints; independent of batch and usage."""

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from solver.arrays import Mask
from solver.bounded_cache import MIB, BoundedCache
from solver.domain import (
    OPTIONAL_NODE_OPERATIONS,
    SUSPECT_TAINT,
    CounterId,
    Device,
    DeviceId,
    Node,
    NodeScope,
    NodeSelector,
    PoolId,
    ResourceSlice,
    Taint,
)
from solver.feasibility import pools
from solver.feasibility.pools import Pool
from solver.problem.devices.device_properties import (
    DevicePairs,
    NodeSizes,
    Ownership,
    SizeClasses,
    TaintRules,
)
from solver.problem.devices.slice_cache import Drawn
from solver.rules.node_fit.label_index import LabelIndex, positions_of

DemandHint = tuple[tuple[str, ...], tuple[str, ...]]
"""The selectors of a class and of a request."""
SearchKey = tuple[bool, PoolId]
"""The place of a pool in the order of search: without binding conditions first (upstream since 1.36), then by id."""
_HINTS_BYTES = 4 * MIB
_COUNTED_BYTES = 64 * MIB


@dataclass(slots=True, eq=False)
class DeviceRecord:
    """
    One usable device.

    `index` ascends in the order of search, with unused indices between slices, so that others keep theirs when a slice
    comes or goes. `nodes` are the indices of the nodes that can use it, None for every node; `home` is the only node
    where there is exactly one, else -1. `counters` are nano-units drawn while the device is used. `position` is its
    place in its slice. `value` is what a placement loses with it: that of its `size_class` (`SizeClasses`), plus
    1 for binding conditions and for each place where it is a scarce partner (`DevicePairs`).
    """

    index: int
    id: DeviceId
    device: Device
    scope: NodeScope
    home: int
    nodes: frozenset[int] | None
    taints: tuple[Taint, ...]
    counters: tuple[tuple[CounterId, int], ...]
    is_owned: bool
    position: int
    value: int = 1
    size_class: int = 0

    @property
    def is_suspect(self) -> bool:
        """Whether a pod failed on it lately, or it is reported unhealthy."""
        return bool(self.taints) and any(taint.key == SUSPECT_TAINT for taint in self.taints)


@dataclass(slots=True, eq=False)
class SelectedNodes:
    """Nodes by node selector; every selector is evaluated once, however many devices have it."""

    index: LabelIndex
    _known: dict[NodeSelector, frozenset[int]] = field(default_factory=dict)

    def of(self, selector: NodeSelector) -> frozenset[int]:
        """Return the nodes that a selector matches."""
        found = self._known.get(selector)
        if found is None:
            nodes = positions_of(self.index.matching(selector), len(self.index.labels))
            found = self._known[selector] = frozenset(nodes)
        return found


class Span(NamedTuple):
    """A slice of a usable pool, the index of its first device, and where its pool stands in the order of search."""

    slice: ResourceSlice
    first: int
    key: SearchKey

    @property
    def indices(self) -> range:
        """The indices of its devices; those that no existing node can use have no record."""
        return range(self.first, self.first + len(self.slice.devices))


class NodesByLabel(NamedTuple):
    """Nodes with devices by the value of a label: `values` by their first nodes, `value_of` per node (-1: none)."""

    values: tuple[str, ...]
    value_of: npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Inventory:
    """
    Every device of every usable pool, by index, in the order in which kube-scheduler would look at them.

    `by_home` lists record indices per node, `wide` those that several nodes can use. `has_devices` marks nodes with
    devices that only they can use. `budgets` are the published nano-units of every counter.
    """

    nodes: tuple[Node, ...]
    node_index: Mapping[str, int]
    labels: tuple[dict[str, str], ...]
    reaches: SelectedNodes
    sizes: NodeSizes
    ownership: Ownership
    pools: dict[PoolId, pools.Pool]
    records: dict[int, DeviceRecord] = field(default_factory=dict)
    record_of: dict[DeviceId, int] = field(default_factory=dict)
    """The same object in a later inventory as long as devices keep their records, and draw the same on counters."""
    by_home: list[list[int]] = field(default_factory=list)
    wide: list[int] = field(default_factory=list)
    has_devices: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    budgets: dict[CounterId, int] = field(default_factory=dict)
    counter_homes: dict[CounterId, int] = field(default_factory=dict)
    """Counters that devices of one node alone draw on, with that node."""
    spans: list[Span] = field(default_factory=list)
    """The slices of usable pools, in the order of the records."""
    size_classes: SizeClasses = field(default_factory=SizeClasses)
    taint_rules: TaintRules = field(default_factory=TaintRules)
    own_taints: dict[DeviceId, tuple[Taint, ...]] = field(default_factory=dict)
    """Published taints, those of unusable pools and of missing nodes included."""
    draws: dict[DeviceId, Drawn] = field(default_factory=dict)
    """What devices take of counters, devices that no existing node reaches included."""
    exclusions: dict[DeviceId, Drawn] = field(default_factory=dict)
    """The part of `draws` that keeps incompatible devices apart (`compatibility`)."""
    taking_node_resources: dict[DeviceId, Device] = field(default_factory=dict)
    """Devices that take of their node's own resources (KEP-5517), those of pools that cannot be used included."""
    undeclared: dict[int, frozenset[int]] = field(default_factory=dict)
    """By record of a slice with `skipNodeOperations`, the nodes that see it and do not declare the feature for it."""
    undeclaring: dict[frozenset[int] | None, frozenset[int]] = field(default_factory=dict)
    """The values of `undeclared` by the nodes that see a record (None: all), which devices share."""
    pairings: dict[int, DevicePairs] = field(default_factory=dict)
    """By node, the places where devices of several drivers stand together."""
    hints: BoundedCache[DemandHint, str] = field(default_factory=partial(BoundedCache, _HINTS_BYTES))
    """Texts of `solver.explain.hints` about selectors that match nothing; valid as long as the inventory."""
    counted: BoundedCache[Hashable, Any] = field(default_factory=partial(BoundedCache, _COUNTED_BYTES))
    """Counts of `solver.fleet.request_counts` by demand, and sizes of nodes; valid for the nodes of the inventory."""
    updates: int = 0
    """How many slices were replaced since all was built (`incremental`)."""

    _slices: tuple[ResourceSlice, ...] | None = field(default=None, init=False)
    _nodes_by_label: dict[str, NodesByLabel] = field(default_factory=dict, init=False)

    @property
    def slices(self) -> tuple[ResourceSlice, ...]:
        """The slices of usable pools that have devices, in the order of the records; the same tuple each time."""
        if self._slices is None:
            self._slices = tuple(span.slice for span in self.spans if span.slice.devices)
        return self._slices

    def nodes_by_label(self, label: str) -> NodesByLabel:
        """Return the nodes with devices by the value of a label."""
        if label not in self._nodes_by_label:
            numbers: dict[str, int] = {}
            value_of = np.full(len(self.nodes), -1, dtype=np.int64)
            for node in np.flatnonzero(self.has_devices).tolist():
                if label in self.labels[node]:
                    value_of[node] = numbers.setdefault(self.labels[node][label], len(numbers))
            self._nodes_by_label[label] = NodesByLabel(tuple(numbers), value_of)
        return self._nodes_by_label[label]

    @property
    def takes_node_resources(self) -> bool:
        """Whether some device takes of its node's own resources (KEP-5517)."""
        return bool(self.taking_node_resources)

    def drawn_by(self, device: DeviceId, remembered: Mapping[DeviceId, Drawn]) -> Drawn | None:
        """
        Return what a device in use takes of counters: as recorded at its allocation, else as published now.

        None where neither is known. Compatibility groups are always those published now, as in kube-scheduler.
        """
        recorded = remembered.get(device)
        return self.draws.get(device) if recorded is None else recorded + self.exclusions.get(device, ())

    @property
    def maps_as_legacy(self) -> bool:
        """Whether some device maps node resources as Kubernetes 1.36 does."""
        devices = self.taking_node_resources.values()
        return any(each.is_legacy for device in devices for each in device.node_allocatable)

    def slice_of(self, record: int) -> ResourceSlice:
        """Return the slice of a record."""
        return self.spans[bisect_right(self.spans, record, key=attrgetter("first")) - 1].slice

    def taints_of(self, device: DeviceId) -> tuple[Taint, ...]:
        """Return the current taints of a device, also where it cannot be allocated."""
        return self.own_taints.get(device, ()) + self.taint_rules.taints(device)

    def reach(self, scope: NodeScope) -> frozenset[int] | None:
        """Nodes that a scope reaches: None for all of them, empty for a scope that this version does not know."""
        if scope.all_nodes:
            return None
        if scope.node_name:
            index = self.node_index.get(scope.node_name)
            return frozenset() if index is None else frozenset((index,))
        return frozenset() if scope.node_selector is None else self.reaches.of(scope.node_selector)

    def note_undeclared(self, record: DeviceRecord) -> None:
        """Store which nodes that see a record do not declare the feature `OPTIONAL_NODE_OPERATIONS`."""
        if record.nodes not in self.undeclaring:
            seen = range(len(self.nodes)) if record.nodes is None else record.nodes
            found = frozenset(i for i in seen if OPTIONAL_NODE_OPERATIONS not in self.nodes[i].declared_features)
            self.undeclaring[record.nodes] = found
        self.undeclared[record.index] = self.undeclaring[record.nodes]

    def pool_reach(self, pool: Pool) -> frozenset[int] | None:
        """Nodes that see a pool (None: all of them), by the scopes of its newest slices."""
        nodes: set[int] = set()
        for each in pool.slices:
            scopes = [device.scope for device in each.devices] if each.scope.per_device else [each.scope]
            reaches = [self.reach(scope) for scope in scopes if scope is not None]
            if None in reaches:
                return None
            nodes.update(*(reach for reach in reaches if reach is not None))
        return frozenset(nodes)
