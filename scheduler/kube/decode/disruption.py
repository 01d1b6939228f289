"""PodDisruptionBudgets (policy/v1).

What pods say of preemption: since when they run, whether they may be evicted, where room is held for them.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import LabelSelectorWire, Metadata, Wire, label_selector
from solver.domain import PREEMPTIBLE, DisruptionBudget


class _BudgetMetadata(Metadata, frozen=True):
    generation: int = 0


class _Spec(Wire, frozen=True):
    selector: LabelSelectorWire | None = None


class _Status(Wire, frozen=True):
    disruptions_allowed: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, str] | None = None


class _Budget(Wire, frozen=True):
    metadata: _BudgetMetadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_budget = msgspec.json.Decoder(_Budget)


def decode_budget(raw: bytes | msgspec.Raw) -> DisruptionBudget:
    """Decode a PodDisruptionBudget; nothing is granted by a status that is older than the spec."""
    wire = _budget.decode(raw)
    status = wire.status
    return DisruptionBudget(
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        selector=label_selector(wire.spec.selector),
        allowed=max(0, status.disruptions_allowed),
        disrupted=tuple(sorted(status.disrupted_pods or {})),
        is_stale=status.observed_generation < wire.metadata.generation,
    )


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
