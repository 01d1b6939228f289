"""What preemption says: to the pods that wait, about whom they wait for, and to those that go."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from solver.domain import Pod, Reason, ReasonCode, Unplaced, Victim
from solver.preemption.parties import Party

_SHOWN: Final = 3
LATER: Final = Reason(code=ReasonCode.BUDGET, message="preemption: it is tried again soon")


def told(unplaced: Unplaced, reason: Reason | None) -> Unplaced:
    """Add a reason to those of a pod; that it waits for others comes first."""
    if reason is None:
        return unplaced
    is_first = reason.code is ReasonCode.PREEMPTING
    reasons = (reason, *unplaced.reasons) if is_first else (*unplaced.reasons, reason)
    return replace(unplaced, reasons=reasons)


def victims(units: Sequence[Sequence[Pod]], evicted: Sequence[Party]) -> Iterator[Victim]:
    """Name everybody who goes, and for whom."""
    whom, others = _name(units[0]), sum(map(len, units[1:]))
    more = f" and {others} more of its priority" if others else ""
    for party in evicted:
        alone = "" if len(party.pods) == 1 else f", with the {len(party.pods)} pods of its gang"
        for pod in party.pods:
            message = f"makes room for {whom}{more}{alone}"
            yield Victim(
                pod=pod.id,
                pod_uid=pod.uid,
                node=pod.node_name,
                message=message,
                breaks_budgets=party.breaks_budgets,
            )


def _name(unit: Sequence[Pod]) -> str:
    first = unit[0]
    return f"{first.id} of priority {first.priority}" if len(unit) == 1 else f"gang {first.gang or first.id}"


def preempting(nodes: Sequence[str], going: Sequence[Victim]) -> Reason:
    """Say where a unit waits, and for whom."""
    where = ", ".join(dict.fromkeys(nodes))
    if not going:
        return Reason(code=ReasonCode.PREEMPTING, message=f"preemption: waits on {where} for pods that are leaving")
    names = ", ".join(str(each.pod) for each in going[:_SHOWN])
    rest = f" and {len(going) - _SHOWN} more" if len(going) > _SHOWN else ""
    message = f"preemption: waits on {where} until pods of lower priority are gone: {names}{rest}"
    return Reason(code=ReasonCode.PREEMPTING, message=message)


def no_victims(node_count: int) -> Reason:
    """Say that nobody's leaving helps, in kube-scheduler's words."""
    message = (
        f"preemption: 0/{node_count} nodes are available: {node_count} No preemption victims found for incoming pod"
    )
    return Reason(code=ReasonCode.NO_VICTIMS, message=message)


def held_back(needed: int, left: int) -> Reason:
    """Say that the bound on evictions stands in the way."""
    message = (
        f"preemption: {needed} pods would have to be evicted, and the bound on evictions leaves {max(0, left)} now"
    )
    return Reason(code=ReasonCode.BUDGET, message=message)
