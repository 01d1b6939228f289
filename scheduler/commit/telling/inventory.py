"""
What is told where messages do not name nodes and devices (`messages.inventory: false`).

The solver leaves them out of its reasons by itself (`Policy.tells_inventory`). What the shell finds between decision
and write is about nodes and devices as a whole, and is told by its code alone.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from solver.domain import Reason, ReasonCode

WITHOUT: Final = {
    ReasonCode.CONFLICT: "the cluster changed between decision and write; it is tried again",
    ReasonCode.API_ERROR: "a write was refused or could not be sent; it is tried again",
    ReasonCode.BINDING_FAILED: "a binding condition of a device failed, or was not True in time",
    ReasonCode.VOLUME_BINDING_FAILED: "a volume was not made or not bound in time, or was refused on the node",
}
"""Codes of the shell's own reasons, in words that name nothing of the cluster."""


def public(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Give reasons as they are told without nodes and devices; equal ones once."""
    told = (replace(each, message=WITHOUT.get(each.code, each.message)) for each in reasons)
    return tuple(dict.fromkeys(told))
