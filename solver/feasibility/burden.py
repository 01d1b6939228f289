"""What allocated devices take of their node's own resources, on top of what the pod requests (KEP-5517)."""

from collections.abc import Iterable, Mapping

from solver.domain import Device
from solver.domain.quantity import NANO, unit_of


def of_device(device: Device, consumed: Mapping[str, int]) -> dict[str, int]:
    """
    Give nano-units by resource for one result; `consumed` are nano-units of the capacities that it takes.

    A mapping by capacity counts what is consumed of it times the multiplier, another one the multiplier itself, by
    default 1. A device that is not shared is taken with all of its capacity; a mapping whose capacity the result does
    not consume counts nothing, and neither does a capacity below nothing.
    """
    if not consumed and not device.allow_multiple_allocations:
        consumed = {name: capacity.value.nano for name, capacity in device.capacities}
    found: dict[str, int] = {}
    for mapping in device.node_allocatable:
        multiplier = mapping.allocation_multiplier.nano if mapping.allocation_multiplier is not None else NANO
        if not mapping.capacity_key:
            found[mapping.resource] = multiplier
        elif mapping.capacity_key in consumed:
            found[mapping.resource] = max(0, consumed[mapping.capacity_key]) * multiplier // NANO
    return found


def summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add amounts up by resource."""
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def units(resource: str, nano: int) -> int:
    """Give an amount as pods' requests have it: cpu in millicores, everything else in whole units, rounded up."""
    return -(-nano // unit_of(resource))
