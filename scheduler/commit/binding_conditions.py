"""
Binding conditions of devices (KEP-5007): what a driver reports before a pod may be bound. Pure.

An allocation result names `bindingConditions`, all of which must become True in its entry of `status.devices`, and
`bindingFailureConditions`, none of which may. Result and entry are matched by driver, pool, device and share id.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from solver.domain import Claim, ClaimId, DeviceId, DeviceResult

_SHOWN: Final = 8
"""Conditions named in a message; an allocation has up to 32 devices with 4 conditions each."""


class DeviceCondition(NamedTuple):
    """A condition of one device in one claim: awaited, or failed."""

    claim: ClaimId
    device: DeviceId
    condition: str

    def __str__(self) -> str:
        return f"{self.condition} of device {self.device} in claim {self.claim.name}"


class Readiness(NamedTuple):
    """Binding conditions that are not True yet, and failure conditions that are True."""

    awaited: tuple[DeviceCondition, ...]
    failed: tuple[DeviceCondition, ...]


def has_conditions(claim: Claim) -> bool:
    """Whether a device of the claim's allocation has binding conditions."""
    return claim.allocation is not None and any(each.binding_conditions for each in claim.allocation.results)


def conditioned(claim: Claim) -> Iterator[DeviceId]:
    """Return the devices of the claim's allocation that have binding conditions."""
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
    """Return the allocationTimestamp, None where it is missing or cannot be read."""
    text = claim.allocation.allocation_timestamp if claim.allocation is not None else ""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def listed(conditions: Iterable[object]) -> str:
    """Name the first conditions or volumes, and count the rest."""
    names = [str(each) for each in conditions]
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest


def _named(claim: Claim, result: DeviceResult, names: Iterable[str]) -> list[DeviceCondition]:
    return [DeviceCondition(claim.id, result.device, name) for name in names]
