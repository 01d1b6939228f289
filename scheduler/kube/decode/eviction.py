"""What a pod says of its own eviction: since when it runs, and whether others may have it evicted."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

from solver.domain import PREEMPTIBLE

RESERVE: Final = "dovetail.dev/reserve-node"
"""Annotation of a waiting pod: room is held for it on this node, as for a nominated one (`dovetail defrag --apply`)."""


def is_preemptible(annotations: Mapping[str, str] | None) -> bool:
    """Whether the annotations leave a pod to preemption."""
    return (annotations or {}).get(PREEMPTIBLE, "").strip().lower() not in {"false", "never", "no"}


def seconds(timestamp: str | None) -> int:
    """Give a metav1.Time as seconds since the epoch; 0 where there is none, or none that can be read."""
    try:
        return int(dt.datetime.fromisoformat(timestamp).timestamp()) if timestamp else 0
    except (ValueError, OverflowError):
        return 0
