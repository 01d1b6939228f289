"""
The limits of a Karpenter NodePool (`spec.limits`), each about all nodes of the pool together.

They count what nodes have as a whole (`status.capacity`), which a NodeClaim of the instance type tells. Without one, a
live node's allocatable stands for it. In use is what the pool's status says, or its NodeClaims come to where that is
more: the status lags. As for Karpenter, NodeClaims that are being deleted do not count.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scheduler.simulation.manifests.fields import Body, mapping, metadata, spec, text
from solver.domain import NodeLimit, NodeShape, QuantityError
from solver.domain.quantity import parse, unit_of

POOL_LABEL: Final = "karpenter.sh/nodepool"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
_NODES: Final = "nodes"


def of_pool(
    pool: Body, shapes: Sequence[NodeShape], claims: Sequence[Body], allocatable: Mapping[str, Mapping[str, int]]
) -> Iterator[NodeLimit]:
    """Return the limits of a pool that makes nodes of some shapes; `allocatable` is that of each live node."""
    name = text(metadata(pool).get("name"))
    own = [
        claim
        for claim in claims
        if mapping(metadata(claim).get("labels")).get(POOL_LABEL) == name and "deletionTimestamp" not in metadata(claim)
    ]
    in_claims = Counter[str]({_NODES: len(own)})
    for claim in own:
        in_claims.update(_amounts(mapping(claim.get("status")).get("capacity")))
    told = _amounts(mapping(pool.get("status")).get("resources"))
    capacity_of = _capacities(claims)
    for resource, amount in _amounts(spec(pool).get("limits")).items():
        sizes = []
        for shape in shapes:
            known = capacity_of.get(dict(shape.node.labels).get(INSTANCE_TYPE, ""), {})
            size = known.get(resource) or allocatable.get(shape.node.name, {}).get(resource, 0)
            sizes.append((shape.name, 1 if resource == _NODES else size))
        if any(size for _, size in sizes):
            used = max(told.get(resource, 0), in_claims[resource])
            yield NodeLimit(
                owner=f"NodePool {name}",
                resource=resource,
                limit=str(mapping(spec(pool).get("limits"))[resource]),
                left=max(0, amount - used),
                sizes=tuple(sizes),
            )


def _capacities(claims: Sequence[Body]) -> dict[str, dict[str, int]]:
    """Return the most that a NodeClaim of each instance type has of each resource."""
    found: dict[str, dict[str, int]] = {}
    for claim in claims:
        kind = str(mapping(metadata(claim).get("labels")).get(INSTANCE_TYPE, ""))
        known = found.setdefault(kind, {})
        for resource, amount in _amounts(mapping(claim.get("status")).get("capacity")).items():
            known[resource] = max(known.get(resource, 0), amount)
    return found


def _amounts(given: object) -> dict[str, int]:
    """Read quantities in the units of `Node.allocatable`; what is none is left out."""
    found = {}
    for resource, amount in mapping(given).items():
        try:
            found[resource] = parse(str(amount)).nano // unit_of(resource)
        except QuantityError:
            continue
    return found
