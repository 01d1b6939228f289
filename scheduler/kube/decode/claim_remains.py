"""
ResourceClaims that cannot be read as a whole: which devices they hold, result by result.

A device that a claim holds is given to no other claim, whatever else is wrong with the claim. Of a result without a
readable device at least its pool or driver gives nothing out (`cluster.mirror` withholds it).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.kube.decode.json_parts import BrokenJsonError, elements, members, walk
from scheduler.kube.decode.shared import quantity
from solver.domain import Allocation, DeviceId, DeviceResult, Quantity

_EVERYTHING: Final = Quantity(2**62 * 10**9, "4Ei")
"""What a share takes of a capacity where the amount cannot be read: more than any device has."""
_text: Final = msgspec.json.Decoder(str)
_truth: Final = msgspec.json.Decoder(bool)


def held(status: bytes) -> tuple[Allocation | None, bool]:
    """
    Give the devices that a claim's status holds, and whether all of them could be read.

    None for a claim that is not allocated. Never raises.
    """
    try:
        allocation = walk(status, "allocation")
        if allocation is None:
            return None, True
        results = walk(allocation, "devices", "results")
        found = [_result(each) for each in elements(results)] if results is not None else []
    except BrokenJsonError:
        return None, False
    return Allocation(results=tuple(found)), all(each.device.device for each in found)


def _result(raw: bytes) -> DeviceResult:
    """Read one result; its device has an empty name where that cannot be read."""
    try:
        parts = members(raw)
    except BrokenJsonError:
        parts = {}
    driver, pool, device = (_string(parts, name) for name in ("driver", "pool", "device"))
    return DeviceResult(
        request=_string(parts, "request"),
        device=DeviceId(driver, pool if driver else "", device if driver and pool else ""),
        admin_access=_is_admin(parts),
        share_id=_share_id(parts),
        consumed_capacity=tuple(sorted(_consumed(parts))),
    )


def _string(parts: dict[str, bytes], name: str) -> str:
    try:
        return _text.decode(parts[name])
    except (KeyError, ValueError):
        return ""


def _is_admin(parts: dict[str, bytes]) -> bool:
    try:
        return _truth.decode(parts["adminAccess"])
    except (KeyError, ValueError):
        return False


def _share_id(parts: dict[str, bytes]) -> str:
    """Give its share; one of which is not known what it takes holds its device alone."""
    try:
        members(parts.get("consumedCapacity", b"{}"))
    except BrokenJsonError:
        return ""
    return _string(parts, "shareID")


def _consumed(parts: dict[str, bytes]) -> Iterator[tuple[str, Quantity]]:
    amounts = members(parts.get("consumedCapacity", b"{}")) if _share_id(parts) else {}
    for name in amounts:
        try:
            amount = quantity(_string(amounts, name))
        except ValueError:
            amount = _EVERYTHING
        yield name, amount if amount.nano >= 0 else _EVERYTHING
