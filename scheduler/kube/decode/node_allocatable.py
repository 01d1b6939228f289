"""What devices take of their node (KEP-5517): in slices, and in the status of pods; as in 1.37, and as in 1.36."""

from scheduler.kube.decode.pod_requests import Amounts, amounts
from scheduler.kube.decode.shared_fields import MalformedError, Wire, quantity
from solver.domain import NodeAllocatableMapping, NodeAllocatableOverhead, Quantity, QuantityError


class LegacyMappingWire(Wire, frozen=True):
    """NodeAllocatableResourceMapping of a device, until Kubernetes 1.36."""

    capacity_key: str | None = None
    allocation_multiplier: str | None = None


class _Mapping(Wire, frozen=True):
    capacity_key: str | None = None
    capacity_multiplier: str | None = None
    device_multiplier: str | None = None


class _Overhead(Wire, frozen=True):
    per_pod: str | None = None
    per_container: str | None = None


class NodeAllocatableWire(Wire, frozen=True):
    """NodeAllocatableResource of a device."""

    mapping: _Mapping | None = None
    overhead: _Overhead | None = None


class _Mapped(Wire, frozen=True):
    name: str
    quantity: str | None = None


class _OverheadStatus(Wire, frozen=True):
    name: str
    per_pod: str | None = None
    per_container: str | None = None


class NodeAllocatableStatusWire(Wire, frozen=True):
    """NodeAllocatableResourceClaimStatus of a pod."""

    containers: list[str] | None = None
    resources: dict[str, str] | None = None  # until Kubernetes 1.36
    mapping: list[_Mapped] | None = None
    overhead: list[_OverheadStatus] | None = None


def mappings(
    resources: dict[str, NodeAllocatableWire] | None, legacy_mappings: dict[str, LegacyMappingWire] | None, field: str
) -> tuple[NodeAllocatableMapping, ...]:
    """Read nodeAllocatableResources; without it, what Kubernetes 1.36 has in its place."""
    found = []
    for resource, each in sorted((resources or {}).items()):
        of_one = each.mapping or _Mapping()
        text = of_one.capacity_multiplier if of_one.capacity_key else of_one.device_multiplier
        if text is not None:
            at = f"{field}.nodeAllocatableResources[{resource}].mapping"
            key, multiplier = of_one.capacity_key or "", _amount(text, at)
            found.append(NodeAllocatableMapping(resource=resource, capacity_key=key, allocation_multiplier=multiplier))
    for resource, legacy in sorted((legacy_mappings or {}).items()) if resources is None else ():
        at = f"{field}.nodeAllocatableResourceMappings[{resource}]"
        multiplier = _amount(legacy.allocation_multiplier, at)
        key = legacy.capacity_key or ""
        found.append(
            NodeAllocatableMapping(
                resource=resource, capacity_key=key, allocation_multiplier=multiplier, is_legacy=True
            )
        )
    return tuple(found)


def overheads(wire: dict[str, NodeAllocatableWire] | None, field: str) -> tuple[NodeAllocatableOverhead, ...]:
    """Read the overhead of nodeAllocatableResources."""
    found = []
    for resource, each in sorted((wire or {}).items()):
        if each.overhead is not None:
            at = f"{field}.nodeAllocatableResources[{resource}].overhead"
            per_pod, per_container = _amount(each.overhead.per_pod, at), _amount(each.overhead.per_container, at)
            if per_pod is not None or per_container is not None:
                made = NodeAllocatableOverhead(resource=resource, per_pod=per_pod, per_container=per_container)
                found.append(made)
    return tuple(found)


def _amount(text: str | None, field: str) -> Quantity | None:
    try:
        return None if text is None else quantity(text)
    except QuantityError as error:
        raise MalformedError(field, str(error)) from error


def taken(wire: NodeAllocatableStatusWire) -> Amounts:
    """Add up what a claim takes of the pod's node (KEP-5517)."""
    field = "status.nodeAllocatableResourceClaimStatuses"
    found = amounts(wire.resources, field)
    parts = [(each.name, each.quantity, 1) for each in wire.mapping or ()]
    parts += [(each.name, each.per_pod, 1) for each in wire.overhead or ()]
    parts += [(each.name, each.per_container, len(wire.containers or ())) for each in wire.overhead or ()]
    for name, text, times in parts:
        found[name] = found.get(name, 0) + amounts({name: text or "0"}, field)[name] * times
    return found
