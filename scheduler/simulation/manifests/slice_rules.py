"""Invalid request policies of shareable devices, as the API server of Kubernetes 1.37 validates them (KEP-5075)."""

from collections.abc import Iterator
from typing import Any, Final

from scheduler.simulation.manifests.fields import Body, FieldError, entries, mapping, texts
from solver.domain.quantity import NANO, QuantityError, parse

_MOST_VALUES: Final = 10
_MILLI: Final = NANO // 1000

_Amounts = dict[str, int]
"""Nano-units by field."""


def of_slice_spec(slice_spec: Body) -> Iterator[FieldError]:
    """Return the errors in the capacities of a ResourceSlice's devices."""
    for index, device in entries(slice_spec.get("devices")):
        for name, capacity in mapping(device.get("capacity")).items():
            policy, at = mapping(capacity).get("requestPolicy"), f"spec.devices[{index}].capacity[{name}].requestPolicy"
            if not isinstance(policy, dict):
                continue
            if device.get("allowMultipleAllocations") is not True:
                yield FieldError(at, "is for shareable devices: write allowMultipleAllocations: true on the device")
                continue
            try:
                yield from _of_policy(policy, _nano(mapping(capacity).get("value")), at)
            except QuantityError:
                continue  # decoding says so, with the field


def _of_policy(policy: Body, capacity: int | None, at: str) -> Iterator[FieldError]:
    values, limits, default = texts(policy.get("validValues")), policy.get("validRange"), _nano(policy.get("default"))
    if values and limits is not None:
        yield FieldError(at, "validValues and validRange exclude each other: keep one of them")
    elif default is None and (values or limits is not None):
        yield FieldError(f"{at}.default", "missing: write what a request without an amount consumes")
    elif capacity is None or default is None:
        return
    elif values:
        yield from _of_values([_nano(each) or 0 for each in values], default, capacity, f"{at}.validValues")
    elif isinstance(limits, dict):
        yield from _of_range({"default": default, **_read(limits)}, capacity, f"{at}.validRange")


def _of_values(values: list[int], default: int, capacity: int, at: str) -> Iterator[FieldError]:
    if len(values) > _MOST_VALUES:
        yield FieldError(at, f"are {len(values)}: at most {_MOST_VALUES} are allowed")
    if values != sorted(set(values)):
        yield FieldError(at, "are not sorted, or one stands twice: write each once, the smallest first")
    if max(values) > capacity:
        yield FieldError(at, "has one that is larger than the capacity: leave it out")
    if default not in values:
        yield FieldError(at, "lacks the default: write it too")


def _of_range(found: _Amounts, capacity: int, at: str) -> Iterator[FieldError]:
    low = found.get("min")
    if low is None:
        yield FieldError(f"{at}.min", "missing: write the least that a request can consume")
        return
    high, step = found.get("max", capacity), found.get("step")
    if low > min(high, capacity):
        yield FieldError(f"{at}.min", "is larger than max or the capacity: write less")
    if high > capacity:
        yield FieldError(f"{at}.max", "is larger than the capacity: write less")
    if not low <= found["default"] <= high:
        yield FieldError(f"{at}.default", "lies outside of min and max: write one between them")
    fine = (
        sorted(name for name, nano in found.items() if nano % _MILLI) if any(map(_is_fraction, found.values())) else ()
    )
    if fine:
        yield from (
            FieldError(f"{at}.{name}", "is finer than one thousandth: write whole thousandths") for name in fine
        )
    elif step is not None:
        yield from _of_step(found, step, low, capacity, at)


def _of_step(found: _Amounts, step: int, low: int, capacity: int, at: str) -> Iterator[FieldError]:
    if step <= 0:
        yield FieldError(f"{at}.step", "is not above zero: write a larger one, or leave it out")
        return
    if low + step > capacity:
        yield FieldError(f"{at}.step", "leads from min beyond the capacity at once: write a smaller one")
    for name in ("default", "max"):
        if name in found and (found[name] - low) % step:
            yield FieldError(
                f"{at}.step", f"does not lead from min to {name}: write a number of which it is a multiple"
            )


def _read(limits: Body) -> _Amounts:
    found = {name: _nano(limits.get(name)) for name in ("min", "max", "step")}
    return {name: nano for name, nano in found.items() if nano is not None}


def _nano(value: Any) -> int | None:
    return None if value is None else parse(str(value)).nano


def _is_fraction(nano: int) -> bool:
    return nano % NANO != 0
