"""
Shapes of nodes from a cluster: one of each group of live nodes, and what Karpenter's NodePools would make.

Nodes are of one group where they have the same instance type, zone, architecture, node pool and labels of
`devices.groupLabels`. The node with most devices stands for its group. A new node has the labels that all nodes of the
group share, the taints that do not tell of a passing state, and of allocatable what DaemonSets leave.

A NodePool (karpenter.sh/v1) makes nodes of every instance type that a node of the cluster shows and that its
requirements allow, in every zone that they name. What no node shows is not known: slices are published by nodes only.
Its limits are about all of its nodes together. They count what a node has (`status.capacity`), as NodeClaims tell it.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.simulation.adding import pool_limits
from scheduler.simulation.adding.karpenter_objects import KarpenterObjects
from scheduler.simulation.adding.pool_limits import INSTANCE_TYPE, POOL_LABEL
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text, texts
from solver import matches_node_selector
from solver.domain import (
    HOSTNAME,
    Node,
    NodeLimit,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeShape,
    ResourceSlice,
    Snapshot,
    Taint,
    is_passing,
)

ZONE: Final = "topology.kubernetes.io/zone"
_GROUP_LABELS: Final = (
    INSTANCE_TYPE,
    ZONE,
    "kubernetes.io/arch",
    "kubernetes.io/os",
    POOL_LABEL,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
_MOST_CHARACTERS: Final = 50


def live_shapes(
    snapshot: Snapshot, group_labels: Sequence[str], unfinished: Collection[str] = ()
) -> tuple[NodeShape, ...]:
    """
    Return a shape for each group of nodes, named by its instance type and by what tells it from others.

    Nodes that are `unfinished` show nothing.
    """
    cluster = _Published(snapshot)
    keys = (*_GROUP_LABELS, *group_labels)
    groups: defaultdict[tuple[str, ...], list[Node]] = defaultdict(list)
    for node in snapshot.nodes:
        labels = dict(node.labels)
        if "node-role.kubernetes.io/control-plane" not in labels and node.name not in unfinished:
            groups[tuple(labels.get(key, "") for key in keys)].append(node)
    names = _names(groups)
    return tuple(replace(cluster.shape(nodes), name=names[key]) for key, nodes in groups.items())


def _names(groups: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], str]:
    """Name groups by their first value, with further values as far as groups share the first one."""
    found = dict[tuple[str, ...], str]()
    keys = list(groups)
    taken = Counter(key[0] for key in keys)
    for number, key in enumerate(keys):
        parts = [key[0] or "node"]
        if taken[key[0]] > 1:
            same = [other for other in keys if other[0] == key[0]]
            parts += [value for at, value in enumerate(key[1:], 1) if value and len({each[at] for each in same}) > 1]
        name = _plain("-".join(parts))
        found[key] = name if name not in found.values() else f"{name}-{number}"
    return found


def _plain(name: str) -> str:
    """Return a name of which that of a node can be made."""
    kept = "".join(each if each.isalnum() or each in "-." else "-" for each in name.lower() if each.isascii())
    return kept[:_MOST_CHARACTERS].strip("-.") or "node"


class _Published:
    """What nodes of a cluster publish, and what of them belongs to every node."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._slices: Final = defaultdict[str, list[ResourceSlice]](list)
        for one in snapshot.slices:
            if one.scope.node_name:
                self._slices[one.scope.node_name].append(one)
        self._storage: Final = {each.node: each for each in snapshot.node_drivers}
        self._daemons: Final = defaultdict[str, Counter[str]](Counter)
        for pod in snapshot.pods:
            if pod.belongs_to_node:
                self._daemons[pod.node_name].update({**dict(pod.requests), "pods": 1})

    def shape(self, nodes: Sequence[Node]) -> NodeShape:
        """Return the shape of a group of nodes."""
        node = max(nodes, key=lambda each: (sum(len(one.devices) for one in self._slices[each.name]), each.name))
        shared = set(node.labels).intersection(*(each.labels for each in nodes))
        taken = self._daemons[node.name]
        described = replace(
            node,
            labels=tuple(sorted(pair for pair in shared if pair[0] != HOSTNAME)),
            taints=tuple(taint for taint in node.taints if not is_passing(taint)),
            is_unschedulable=False,
            allocatable=tuple((name, max(0, amount - taken[name])) for name, amount in node.allocatable),
        )
        storage = self._storage.get(node.name)
        return NodeShape(name=node.name, node=described, slices=tuple(self._slices[node.name]), storage=storage)


class PoolShapes(NamedTuple):
    """Shapes of NodePools with the limits that the pools set, and the pools of which nothing is known."""

    shapes: tuple[NodeShape, ...] = ()
    unknown: tuple[str, ...] = ()
    limits: tuple[NodeLimit, ...] = ()

    def limits_of(self, shapes: Sequence[NodeShape]) -> tuple[NodeLimit, ...]:
        """Return the limits of shapes from a file, as far as they are shapes of pools and no others of their names."""
        own = {shape.name: shape.node for shape in self.shapes}
        same = {shape.name for shape in shapes if shape.node == own.get(shape.name)}
        kept = ((each, tuple(pair for pair in each.sizes if pair[0] in same)) for each in self.limits)
        return tuple(replace(limit, sizes=sizes) for limit, sizes in kept if sizes)


def pool_shapes(snapshot: Snapshot, shapes: Sequence[NodeShape], karpenter: KarpenterObjects) -> PoolShapes:
    """
    Return the shapes that NodePools make, and live shapes of nodes that belong to none of them.

    `shapes` are those of live nodes: each shows an instance type.
    """
    pools, allocatable = karpenter.pools, {node.name: dict(node.allocatable) for node in snapshot.nodes}
    names = {text(metadata(pool).get("name")) for pool in pools}
    found = [shape for shape in shapes if dict(shape.node.labels).get(POOL_LABEL, "") not in names]
    unknown, limits = [], list[NodeLimit]()
    for pool in sorted(pools, key=lambda each: text(metadata(each).get("name"))):
        made = _of_pool(pool, shapes)
        found += made
        limits += pool_limits.of_pool(pool, made, karpenter.claims, allocatable)
        if not made:
            unknown.append(text(metadata(pool).get("name")))
    return PoolShapes(tuple(found), tuple(unknown), tuple(limits))


def _of_pool(pool: Body, shapes: Sequence[NodeShape]) -> list[NodeShape]:
    name, template = text(metadata(pool).get("name")), mapping(spec(pool).get("template"))
    requirements = [
        NodeSelectorRequirement(
            key=text(each.get("key")), operator=text(each.get("operator")), values=tuple(texts(each.get("values")))
        )
        for _, each in entries(spec(template).get("requirements"))
    ]
    labels = {key: str(value) for key, value in mapping(metadata(template).get("labels")).items()} | {POOL_LABEL: name}
    taints = tuple(
        Taint(key=text(each.get("key")), value=text(each.get("value")), effect=text(each.get("effect")))
        for _, each in entries(spec(template).get("taints"))
    )
    found: dict[tuple[str, str], NodeShape] = {}
    for shape in shapes:
        own = {key: value for key, value in shape.node.labels if key != POOL_LABEL}
        kind = own.get(INSTANCE_TYPE, "")
        for zone in _zones(requirements, own.get(ZONE, "")) if kind else ():
            known = {**own, **labels, **({ZONE: zone} if zone else {})}
            if (kind, zone) in found or not _allows(requirements, known):
                continue
            node = replace(shape.node, labels=tuple(sorted(known.items())), taints=taints)
            named = _plain("-".join(part for part in (name, kind, zone) if part))
            found[kind, zone] = replace(shape, name=named, node=node)
    return list(found.values())


def _zones(requirements: Sequence[NodeSelectorRequirement], own: str) -> tuple[str, ...]:
    """Return the zones that a pool names; that of the live node where it names none."""
    named = [each.values for each in requirements if each.key == ZONE and each.operator == "In"]
    return tuple(sorted(set(named[0]).intersection(*named))) if named else (own,)


def _allows(requirements: Sequence[NodeSelectorRequirement], labels: Mapping[str, str]) -> bool:
    """Whether the requirements about labels that are known hold; of others the pool chooses the value."""
    known = tuple(each for each in requirements if each.key in labels)
    selector = NodeSelector(terms=(NodeSelectorTerm(match_expressions=known),))
    return not known or matches_node_selector(selector, "", labels)
