"""Nodes that could be added: shapes, and the cheapest nodes with which some pods start (`dovetail fit --add-nodes`)."""

import msgspec

from solver.domain.device import ResourceSlice
from solver.domain.ids import PodId
from solver.domain.node import HOSTNAME, Node
from solver.domain.plan import ClaimAllocation, Placement, Unplaced
from solver.domain.snapshot import Snapshot
from solver.domain.volumes import CSINode

NODE_PRICES = "node-prices"
"""The level of what the added nodes cost together; less is better."""
ADDED_NODES = "added-nodes"
"""The level of how many nodes are added; fewer are better."""


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """
    A kind of node that can be added, as often as `most` says (None: as often as it takes).

    `node`, `slices` and `storage` (its CSINode) are those of one such node, all its devices free. A new node has the
    same ones under a name of its own: as name, as the label kubernetes.io/hostname, and in the names of its pools.
    `price` is in any unit that all shapes share.
    """

    name: str
    node: Node
    slices: tuple[ResourceSlice, ...] = ()
    storage: CSINode | None = None
    price: int = 1
    most: int | None = None


class AddedNode(msgspec.Struct, frozen=True, kw_only=True):
    """One added node: its name in the answer, and its shape."""

    name: str
    shape: str


class AddedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """
    The cheapest nodes with which as many pods start as nodes can help, strictly by priority.

    `placements` and `allocations` are those of the pods that start, some of them on nodes that are there. `waiting` are
    the others; the reasons of those that `helpless` names count shapes (`Reason.node_count`) and not nodes. `price` is
    the price of all added nodes, `least_price` a proven lower bound of it, and `least_count` one of their number at
    this price. `is_proven` says that price and number are the least there are, and `is_complete` that no nodes let more
    pods start.
    """

    nodes: tuple[AddedNode, ...] = ()
    placements: tuple[Placement, ...] = ()
    allocations: tuple[ClaimAllocation, ...] = ()
    waiting: tuple[Unplaced, ...] = ()
    helpless: frozenset[PodId] = frozenset()
    price: int = 0
    least_price: int = 0
    least_count: int = 0
    is_proven: bool = True
    is_complete: bool = True


def with_nodes(snapshot: Snapshot, shapes: dict[str, NodeShape], added: tuple[AddedNode, ...]) -> Snapshot:
    """Return the cluster with some nodes more."""
    nodes, slices, storage = list(snapshot.nodes), list(snapshot.slices), list(snapshot.node_drivers)
    for each in added:
        shape = shapes[each.shape]
        nodes.append(_node(shape.node, each.name))
        slices += (_slice(one, shape.node.name, each.name, index) for index, one in enumerate(shape.slices))
        if shape.storage is not None:
            storage.append(msgspec.structs.replace(shape.storage, name=each.name))
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        slices=tuple(sorted(slices, key=lambda one: one.name)),
        node_drivers=tuple(sorted(storage, key=lambda one: one.name)),
    )


def _node(node: Node, name: str) -> Node:
    labels = dict(node.labels) | {HOSTNAME: name}
    return msgspec.structs.replace(node, name=name, uid=f"uid-of-{name}", labels=tuple(sorted(labels.items())))


def _slice(one: ResourceSlice, of_shape: str, name: str, index: int) -> ResourceSlice:
    """Copy a slice of the shape's node to a new node; devices that name their node by themselves follow."""
    pool = name if one.pool in {of_shape, ""} else f"{name}/{one.pool}"
    scope = one.scope if one.scope.per_device else msgspec.structs.replace(one.scope, node_name=name)
    devices = tuple(
        each
        if each.scope is None
        else msgspec.structs.replace(each, scope=msgspec.structs.replace(each.scope, node_name=name))
        for each in one.devices
    )
    return msgspec.structs.replace(one, name=f"{name}-{index}", pool=pool, scope=scope, devices=devices)
