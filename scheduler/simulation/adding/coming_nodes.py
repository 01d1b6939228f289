"""
Nodes that are under way: NodeClaims of Karpenter that are not initialized yet. They count as there.

Such a node has the labels and taints of its NodeClaim, and the devices of a known node of its instance type. Where the
Node is there already and a driver has not published yet, the devices of this driver are added. A NodeClaim that is
being deleted brings nothing. One whose instance type is not chosen yet, or that no node shows, is not counted.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

import solver
from scheduler.simulation.adding.live_shapes import ZONE
from scheduler.simulation.adding.pool_limits import INSTANCE_TYPE, POOL_LABEL
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text, texts
from solver.domain import AddedNode, Node, NodeShape, Snapshot, Taint, is_passing

_INITIALIZED: Final = "Initialized"


class ComingNode(NamedTuple):
    """A NodeClaim, the name of its node (that of the claim where there is none yet), and its instance type."""

    claim: str
    node: str
    instance_type: str


class ComingNodes(NamedTuple):
    """The cluster as if the nodes were there, these nodes, and the NodeClaims of which nothing is known."""

    snapshot: Snapshot
    nodes: tuple[ComingNode, ...] = ()
    unknown: tuple[str, ...] = ()


def with_coming(snapshot: Snapshot, claims: Sequence[Body], shapes: Sequence[NodeShape]) -> ComingNodes:
    """Add the nodes that are under way; `shapes` are all that are known."""
    nodes, unknown = list[ComingNode](), list[str]()
    for claim in sorted(claims, key=lambda each: text(metadata(each).get("name"))):
        if not _is_under_way(claim):
            continue
        name = text(metadata(claim).get("name"))
        shape = _shape_of(claim, shapes)
        if shape is None:
            unknown.append(name)
            continue
        node = text(mapping(claim.get("status")).get("nodeName")) or name
        snapshot = _with_node(snapshot, claim, node, shape)
        nodes.append(ComingNode(name, node, dict(shape.node.labels)[INSTANCE_TYPE]))
    return ComingNodes(snapshot, tuple(nodes), tuple(unknown))


def names(claims: Sequence[Body]) -> frozenset[str]:
    """Return the names of Nodes that are there and not ready for use: they do not show yet what such a node has."""
    return frozenset(text(mapping(each.get("status")).get("nodeName")) for each in claims if _is_under_way(each))


def _is_under_way(claim: Body) -> bool:
    conditions = (each for _, each in entries(mapping(claim.get("status")).get("conditions")))
    is_initialized = any(each.get("type") == _INITIALIZED and each.get("status") == "True" for each in conditions)
    return not is_initialized and "deletionTimestamp" not in metadata(claim)


def _shape_of(claim: Body, shapes: Sequence[NodeShape]) -> NodeShape | None:
    """Return a shape of the claim's instance type, rather of its pool and zone; None where the type is not known."""
    labels = _labels(claim)
    kind = labels.get(INSTANCE_TYPE)
    found = [shape for shape in shapes if kind and dict(shape.node.labels).get(INSTANCE_TYPE) == kind]

    def likeness(shape: NodeShape) -> int:
        own = dict(shape.node.labels)
        return sum(own.get(key) == labels.get(key) for key in (POOL_LABEL, ZONE))

    return max(found, key=likeness, default=None)


def _labels(claim: Body) -> dict[str, str]:
    """Return what is known of the node's labels: requirements that leave one value, and the claim's own labels."""
    required = (
        (text(each.get("key")), texts(each.get("values")))
        for _, each in entries(spec(claim).get("requirements"))
        if each.get("operator") == "In"
    )
    chosen = {key: values[0] for key, values in required if len(values) == 1}
    return chosen | {key: str(value) for key, value in mapping(metadata(claim).get("labels")).items()}


def _taints(claim: Body) -> Iterator[Taint]:
    """Return the taints that stay; those of the start are taken away before the node is initialized."""
    for _, each in entries(spec(claim).get("taints")):
        taint = Taint(key=text(each.get("key")), value=text(each.get("value")), effect=text(each.get("effect")))
        if not is_passing(taint):
            yield taint


def _with_node(snapshot: Snapshot, claim: Body, name: str, shape: NodeShape) -> Snapshot:
    """Add a node, or what is missing of one that is there."""
    there = next((node for node in snapshot.nodes if node.name == name), None)
    labels = dict((shape.node if there is None else there).labels) | _labels(claim)
    base: Node = shape.node if there is None or not there.allocatable else there
    node = replace(
        base,
        name=shape.node.name,
        labels=tuple(sorted(labels.items())),
        taints=tuple(_taints(claim)),
        is_unschedulable=False,
    )
    published = {one.driver for one in snapshot.slices if one.scope.node_name == name}
    missing = tuple(one for one in shape.slices if one.driver not in published)
    has_storage = any(each.node == name for each in snapshot.node_drivers)
    coming = replace(shape, node=node, slices=missing, storage=None if has_storage else shape.storage)
    rest = replace(snapshot, nodes=tuple(each for each in snapshot.nodes if each.name != name))
    return solver.with_nodes(rest, {shape.name: coming}, (AddedNode(name=name, shape=shape.name),))
