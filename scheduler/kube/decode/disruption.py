"""PodDisruptionBudgets (policy/v1), and the fields of pods that concern preemption."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import LabelSelectorWire, Metadata, Wire, label_selector
from solver.domain import PREEMPTIBLE, RESTARTS_ALONE, RESTARTS_WHOLE, PodDisruptionBudget, RepairNote

PREEMPTED: Final = "PreemptionByScheduler"
"""The reason of the condition DisruptionTarget of a pod that a scheduler has evicted for another one."""


class _Spec(Wire, frozen=True):
    selector: LabelSelectorWire | None = None


class _Status(Wire, frozen=True):
    disruptions_allowed: int = 0
    observed_generation: int = 0


class _Budget(Wire, frozen=True):
    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


_budget = msgspec.json.Decoder(_Budget)


def decode_budget(raw: bytes | msgspec.Raw) -> PodDisruptionBudget:
    """Decode a PodDisruptionBudget; a status older than the spec allows no disruption."""
    wire = _budget.decode(raw)
    status = wire.status
    return PodDisruptionBudget(
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        selector=label_selector(wire.spec.selector),
        allowed=max(0, status.disruptions_allowed),
        is_stale=status.observed_generation < wire.metadata.generation,
    )


RESERVED: Final = "dovetail.dev/node-reserved"
"""
Condition of a waiting pod: room is reserved for it on the node in its message (`dovetail defrag --apply`).

It is part of the status, which the author of a pod cannot write. Schedulers remove status.nominatedNodeName from an
unschedulable pod, but not this condition.
"""


def is_preemptible(annotations: Mapping[str, str] | None) -> bool:
    """Whether the annotations allow preemption of a pod."""
    return (annotations or {}).get(PREEMPTIBLE, "").strip().lower() not in {"false", "never", "no"}


def seconds(timestamp: str | None) -> int:
    """Return a metav1.Time as seconds since the epoch; 0 where it is missing or unreadable."""
    try:
        return int(dt.datetime.fromisoformat(timestamp).timestamp()) if timestamp else 0
    except (ValueError, OverflowError):
        return 0


DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CHECKPOINTED_AT: Final = "dovetail.dev/checkpointed-at"
RESTARTS: Final = "dovetail.dev/restarts"


def repair_note(annotations: Mapping[str, str] | None) -> RepairNote | None:
    """
    Return what the annotations say about moving a pod, None for the most pods, which say nothing.

    Karpenter's annotation may also have a duration; until it is over Karpenter would wait, so any value but `false`
    counts. Unknown values of `dovetail.dev/restarts` count as not set, times that cannot be read as no checkpoint.
    """
    if not annotations:
        return None
    kept_by = ""
    if annotations.get(DO_NOT_DISRUPT, "false").strip().lower() != "false":
        kept_by = DO_NOT_DISRUPT
    elif annotations.get(SAFE_TO_EVICT, "").strip().lower() == "false":
        kept_by = SAFE_TO_EVICT
    restarts = annotations.get(RESTARTS, "").strip()
    restarts = restarts if restarts in {RESTARTS_ALONE, RESTARTS_WHOLE} else ""
    note = RepairNote(
        kept_by=kept_by, checkpointed=max(0, seconds(annotations.get(CHECKPOINTED_AT))), restarts=restarts
    )
    return None if note == RepairNote() else note
