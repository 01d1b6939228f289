"""What pods say of preemption: since when they run, whether they may be evicted, where room is held for them."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

from solver.domain import PREEMPTIBLE

RESERVED: Final = "dovetail.dev/node-reserved"
"""
Condition of a waiting pod: room is held for it on the node that its message names (`dovetail defrag --apply`).

It stands in the status, which the author of a pod cannot write. A scheduler takes status.nominatedNodeName away from a
pod that it finds no place for, and leaves this condition alone.
"""


def is_preemptible(annotations: Mapping[str, str] | None) -> bool:
    """Whether the annotations leave a pod to preemption."""
    return (annotations or {}).get(PREEMPTIBLE, "").strip().lower() not in {"false", "never", "no"}


def seconds(timestamp: str | None) -> int:
    """Give a metav1.Time as seconds since the epoch; 0 where there is none, or none that can be read."""
    try:
        return int(dt.datetime.fromisoformat(timestamp).timestamp()) if timestamp else 0
    except (ValueError, OverflowError):
        return 0
