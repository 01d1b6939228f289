"""What preemption says: to the pods that wait, about whom they wait for, and to those that go."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from solver.domain import Pod, Reason, ReasonCode, Unplaced, Victim, wording
from solver.preemption.parties import Party

_SHOWN: Final = 3
LATER: Final = Reason(code=ReasonCode.BUDGET, message="preemption: it is tried again soon")


def told(unplaced: Unplaced, reason: Reason | None) -> Unplaced:
    """Add a reason to those of a pod; that it waits for others comes first."""
    if reason is None:
        return unplaced
    is_first = reason.code is ReasonCode.PREEMPTING
    reasons = (reason, *unplaced.reasons) if is_first else (*unplaced.reasons, reason)
    return structs.replace(unplaced, reasons=reasons)


def victims(units: Sequence[Sequence[Pod]], evicted: Sequence[Party]) -> Iterator[Victim]:
    """Name everybody who goes, and for whom, as far as its own namespace goes."""
    others = sum(map(len, units[1:]))
    more = f" and {others} more of its priority" if others else ""
    for party in evicted:
        alone = "" if len(party.pods) == 1 else f", with the {len(party.pods)} pods of its gang"
        for pod in party.pods:
            message = f"makes room for {_name(units[0], pod.id.namespace)}{more}{alone}"
            yield Victim(
                pod=pod.id,
                pod_uid=pod.uid,
                node=pod.node_name,
                message=message,
                breaks_budgets=party.breaks_budgets,
            )


def _name(unit: Sequence[Pod], reader: str) -> str:
    first = unit[0]
    if len(unit) > 1:
        return wording.seen(first.gang or first.id, reader)
    return f"{wording.seen(first.id, reader)} of priority {first.priority}"


def preempting(nodes: Sequence[str], going: Sequence[Victim], reader: str) -> Reason:
    """Say to the readers of a namespace where a unit of it waits (no nodes: not said), and for whom."""
    where = f" on {', '.join(dict.fromkeys(nodes))}" if nodes else ""
    if not going:
        return Reason(code=ReasonCode.PREEMPTING, message=f"preemption: waits{where} for pods that are leaving")
    names = wording.several([each.pod for each in going], reader, _SHOWN)
    message = f"preemption: waits{where} until pods of lower priority are gone: {names}"
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
