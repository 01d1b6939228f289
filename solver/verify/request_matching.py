"""Which devices a request selects: the selectors of its class and its own, and the capacities it asks for.

What a request consumes of a device's capacities (KEP-5075), in nano-units.
"""

from typing import Final

from solver.domain import Capacity, DeviceClass, Quantity, RequestPolicy, SubRequest
from solver.feasibility.selectors import SelectorError, compile_selector
from solver.verify.pools import Published

_ONE: Final = 10**9
"""Nano-units in a whole unit, which steps are counted in."""


def consumption(published: Published, asked: tuple[tuple[str, Quantity], ...]) -> dict[str, int] | None:
    """
    Give what one result consumes by published name, or None where the device cannot serve the request even unused.

    A device for one allocation at a time consumes nothing; what is asked for is its least size.
    """
    capacities = dict(published.device.capacities)
    wanted: dict[str, int] = {}
    for name, amount in asked:
        known = _published_name(name, published)
        if known is None or known in wanted:
            return None
        wanted[known] = amount.nano
    if not published.device.allow_multiple_allocations:
        fits = all(amount <= capacities[name].value.nano for name, amount in wanted.items())
        return {} if fits else None
    consumed = {name: _consumed(capacity, wanted.get(name)) for name, capacity in capacities.items()}
    found = {name: amount for name, amount in consumed.items() if amount is not None}
    if len(found) < len(consumed) or any(amount > capacities[name].value.nano for name, amount in found.items()):
        return None
    return found


def _published_name(name: str, published: Published) -> str | None:
    """Find the capacity as published: by the same name, or with the driver's domain added or left out."""
    names = dict(published.device.capacities)
    prefix = f"{published.id.driver}/"
    spellings = (name, name.removeprefix(prefix), prefix + name)
    return next((each for each in spellings if each in names), None)


def _consumed(capacity: Capacity, asked: int | None) -> int | None:
    """One capacity: default, round up, check; None where the policy refuses the amount."""
    policy = capacity.request_policy or RequestPolicy()
    if asked is None:
        return capacity.value.nano if policy.default is None else policy.default.nano
    if policy.valid_range is not None:
        return _in_range(policy, asked)
    if policy.valid_values:
        return min((each.nano for each in policy.valid_values if each.nano >= asked), default=None)
    return asked


def _in_range(policy: RequestPolicy, asked: int) -> int | None:
    limits = policy.valid_range
    if limits is None:
        return asked
    rounded = max(asked, limits.min.nano)
    if rounded > limits.min.nano and limits.step is not None:
        low, step, amount = (-(-each // _ONE) for each in (limits.min.nano, limits.step.nano, asked))
        rounded = (low + -(-(amount - low) // step) * step) * _ONE
    is_default = policy.default is not None and rounded == policy.default.nano
    if limits.max is not None and rounded > limits.max.nano and not is_default:
        return None
    return rounded


class SelectionError(Exception):
    """A selector does not compile or failed on a device; the message says which and why."""


def selects(device_class: DeviceClass, wanted: SubRequest, published: Published) -> bool:
    """
    Whether every selector says true, asked in order, class first, up to the first that does not.

    Raises `SelectionError` where one gives no answer.
    """
    return all(_says_yes(each, published) for each in (*device_class.selectors, *wanted.selectors))


def _says_yes(expression: str, published: Published) -> bool:
    try:
        selector = compile_selector(expression)
    except SelectorError as error:
        raise SelectionError(f"selector {expression!r} does not compile: {error}") from error
    outcome = selector.evaluate(published.id.driver, published.device)
    if isinstance(outcome, bool):
        return outcome
    raise SelectionError(f"selector {expression!r} failed: {outcome.message}")


def is_large_enough(wanted: SubRequest, published: Published) -> bool:
    """Whether the device, were it unused, has the capacities that are asked for."""
    return consumption(published, wanted.capacity_requests) is not None
