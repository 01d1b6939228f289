"""Which devices a request selects: the selectors of its class and its own, and the capacities it asks for."""

from solver.domain import DeviceClass, SubRequest
from solver.feasibility.selectors import SelectorError, compile_selector
from solver.verify.amounts import consumption
from solver.verify.pools import Published


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
