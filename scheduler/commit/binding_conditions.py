"""
What the drivers say about devices that have to be got ready before a pod is bound to them (KEP-5007). Pure.

An allocation result names `bindingConditions`, all of which must become True in its entry of `status.devices`, and
`bindingFailureConditions`, of which none may. Entries belong together by driver, pool, device and share id.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from solver.domain import Claim, ClaimId, DeviceId, DeviceResult

_SHOWN: Final = 8
"""Conditions named in a message; an allocation can hold 32 devices with 4 conditions each."""


class DeviceCondition(NamedTuple):
    """A condition of one device in one claim: awaited, or failed."""

    claim: ClaimId
    device: DeviceId
    condition: str

    def __str__(self) -> str:
        return f"{self.condition} of device {self.device} in claim {self.claim.name}"


class Readiness(NamedTuple):
    """What is not True yet, and what says that the device will not get ready."""

    awaited: tuple[DeviceCondition, ...]
    failed: tuple[DeviceCondition, ...]


def has_conditions(claim: Claim) -> bool:
    """Whether a device of the claim's allocation has to be got ready."""
    return claim.allocation is not None and any(each.binding_conditions for each in claim.allocation.results)


def conditioned(claim: Claim) -> Iterator[DeviceId]:
    """Give the devices of the claim's allocation that have to be got ready."""
    for each in claim.allocation.results if claim.allocation is not None else ():
        if each.binding_conditions:
            yield each.device


def readiness(claim: Claim) -> Readiness:
    """Judge every device of a claim's allocation; one without an entry in `status.devices` has no condition True."""
    true = {
        (status.device, status.share_id): {name for name, value in status.conditions if value == "True"}
        for status in claim.device_status
    }
    awaited: list[DeviceCondition] = []
    failed: list[DeviceCondition] = []
    for result in claim.allocation.results if claim.allocation is not None else ():
        is_true = true.get((result.device, result.share_id), set())
        awaited += _named(claim, result, (each for each in result.binding_conditions if each not in is_true))
        if result.binding_conditions:
            failed += _named(claim, result, (each for each in result.binding_failure_conditions if each in is_true))
    return Readiness(tuple(awaited), tuple(failed))


def allocated_at(claim: Claim) -> dt.datetime | None:
    """When the claim was allocated, None where that is not said or cannot be read."""
    text = claim.allocation.allocation_timestamp if claim.allocation is not None else ""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def listed(conditions: Iterable[object]) -> str:
    """Name some conditions, or whatever else is awaited, the rest as a number."""
    names = [str(each) for each in conditions]
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _named(claim: Claim, result: DeviceResult, names: Iterable[str]) -> list[DeviceCondition]:
    return [DeviceCondition(claim.id, result.device, name) for name in names]
