"""
Amounts in nano-units: consumable capacity of devices (KEP-5075), and node resources that devices take (KEP-5517).

An allocation of a device that is not shareable consumes no capacity; a capacity request is then a minimum size.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from solver.domain import Capacity, Device, Quantity, ValidRange
from solver.domain.quantity import NANO, format_nano, unit_of


def node_resources(device: Device, consumed: Mapping[str, int], containers: int) -> dict[str, int]:
    """
    Return what one result takes of its node for a pod of which `containers` containers use the claim (KEP-5517).

    That is what the device maps, as `mapped` says, and its overhead.
    """
    overhead = ({each.resource: each.taken(containers)} for each in device.node_overhead)
    return sum_amounts((mapped(device, consumed), *overhead))


def mapped(device: Device, consumed: Mapping[str, int]) -> dict[str, int]:
    """
    Return what one result maps of its node, by resource; `consumed` are the capacities that it consumes (KEP-5517).

    A mapping with a capacity counts the consumed capacity times the multiplier, a mapping without one the multiplier
    itself, by default 1. A device that is not shared counts with its full capacity. A mapping whose capacity the result
    does not consume counts nothing; negative capacities count as 0.
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


def sum_amounts(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add amounts up by resource."""
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def request_units(resource: str, nano: int) -> int:
    """Convert to the units of `Pod.requests`, rounded up: cpu in millicores, everything else in whole units."""
    return -(-nano // unit_of(resource))


Consumption = tuple[tuple[str, int], ...]
"""Sorted pairs of capacity name and nano-units."""


def consumption(driver: str, device: Device, requests: Mapping[str, Quantity]) -> Consumption | None:
    """
    Return what one allocation consumes of a device, or None if the request does not fit the unused device.

    An allocation of a shareable device consumes every capacity, requested or not. A requested name matches a published
    one also with the driver's domain added or removed (kube-scheduler compares only the text, k/k#140650).
    """
    capacities = dict(device.capacities)
    wanted: dict[str, Quantity] = {}
    for name, quantity in requests.items():
        published = published_name(driver, name, capacities)
        if published is None or published in wanted or quantity.nano > capacities[published].value.nano:
            return None
        wanted[published] = quantity
    if not device.allow_multiple_allocations:
        return ()
    amounts: list[tuple[str, int]] = []
    for name, capacity in device.capacities:
        amount = consumed(capacity, wanted.get(name))
        if amount is None or amount > capacity.value.nano:
            return None
        amounts.append((name, amount))
    return tuple(amounts)


def published_name(driver: str, name: str, capacities: Mapping[str, Capacity]) -> str | None:
    """Return the name under which a device publishes a requested capacity; None if it does not."""
    if name in capacities:
        return name
    domain, slash, bare = name.partition("/")
    other = bare if slash and domain == driver else "" if slash else f"{driver}/{name}"
    return other if other in capacities else None


def consumed(capacity: Capacity, requested: Quantity | None) -> int | None:
    """Apply default, rounding and limits of the request policy; None if it refuses the request."""
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy is not None else None
        return capacity.value.nano if default is None else default.nano
    if policy is None:
        return requested.nano
    if policy.valid_values:
        return min((value.nano for value in policy.valid_values if value.nano >= requested.nano), default=None)
    limits = policy.valid_range
    return requested.nano if limits is None else _in_range(limits, policy.default, requested.nano)


def refusal(capacity: Capacity, requested: Quantity) -> str:
    """Say why a share of a device that has as much cannot be given; empty where it can."""
    amount, policy = consumed(capacity, requested), capacity.request_policy
    if amount is not None:
        is_too_much = amount > capacity.value.nano
        return (
            f"its share would be {format_nano(amount, capacity.value.text)}, and the device has {capacity.value}"
            if is_too_much
            else ""
        )
    if policy is None:
        return ""
    limits, values = policy.valid_range, policy.valid_values
    most = max(values, key=lambda each: each.nano, default=None) or (limits.max if limits is not None else None)
    if most is not None and requested.nano > most.nano:
        return f"the largest share is {most}"
    step = limits.step if limits is not None else None
    if limits is not None and requested.nano % _MILLI and _step_unit(limits) == _MILLI:
        return "shares are counted in thousandths"
    above = f"the largest share, {most}" if most is not None else "64 bits"
    return f"rounded up in steps of {step} it is above {above}" if step is not None else f"it is above {above}"


def _in_range(limits: ValidRange, default: Quantity | None, amount: int) -> int | None:
    rounded: int | None = amount
    if amount < limits.min.nano:
        rounded = limits.min.nano
    elif limits.step is not None and limits.step.nano > 0:
        rounded = _stepped(amount, limits.min.nano, limits.step.nano, _step_unit(limits))
    if rounded is None or (default is not None and rounded == default.nano):
        return rounded
    return None if limits.max is not None and rounded > limits.max.nano else rounded


_MILLI: Final = NANO // 1000
_MOST_UNITS: Final = 2**63 - 1
"""The API counts in 64-bit integers."""


def _step_unit(limits: ValidRange) -> int:
    """Return what steps are counted in: thousandths if the whole range can be written in them, else whole units."""
    ends = [end.nano for end in (limits.min, limits.max, limits.step) if end is not None]
    if limits.counts_whole_units or any(end % _MILLI or end // _MILLI > _MOST_UNITS for end in ends):
        return NANO
    return _MILLI


def _stepped(amount: int, low: int, step: int, unit: int) -> int | None:
    """
    Round up to min + k × step, as kube-scheduler does: all of them are counted in the unit first, rounded up.

    No request with a part of a thousandth fits where thousandths count.
    """
    if unit == _MILLI and amount % _MILLI:
        return None
    amount, low, step = (-(-value // unit) for value in (amount, low, step))
    rounded = low + -(-(amount - low) // step) * step
    return rounded * unit if rounded <= _MOST_UNITS else None
