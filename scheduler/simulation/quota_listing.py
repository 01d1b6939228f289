"""Prints quotas: the tree with what is guaranteed, held, lent and waited for, and who would lose what next."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO

from scheduler.simulation import list_table
from scheduler.simulation.list_table import Coloured, ListColumn
from scheduler.simulation.next_reclaims import NextReclaim
from solver.domain import PodId, QuotaState, ResourceState

Json = dict[str, Any]

COLUMNS: Final = (
    ListColumn("QUOTA", is_copied=True),
    ListColumn("CLASS", is_copied=True),
    ListColumn("COUNTS", is_fixed=True),
    ListColumn("GUARANTEE", is_number=True),
    ListColumn("LIMIT", is_number=True),
    ListColumn("WEIGHT", is_number=True, is_wide=True),
    ListColumn("HELD", is_number=True),
    ListColumn("LENT", is_number=True),
    ListColumn("WAITING", is_number=True),
    ListColumn("FLEET", is_number=True, is_wide=True),
    ListColumn("NAMESPACES", is_sentence=True, is_wide=True),
)
NO_QUOTA: Final = "There is no DeviceQuota (docs/quotas.md has a guide).\n"
_MOST_VICTIMS: Final = 8


def show(
    states: Sequence[QuotaState], reclaims: Sequence[NextReclaim], to: TextIO, *, is_wide: bool, may_reclaim: bool
) -> None:
    """Print the tree, what contradicts in it, and what would be reclaimed next."""
    if not states:
        to.write(NO_QUOTA)
        return
    rows = [row for state in states for row in _rows(state)]
    list_table.show(COLUMNS, rows, to, is_wide=is_wide)
    list_table.write(_notes(states, reclaims, may_reclaim=may_reclaim), to)


def _rows(state: QuotaState) -> Iterator[list_table.Row]:
    """Yield a row for each resource; the name of a quota stands in its first."""
    name = "  " * state.depth + state.quota
    if not state.resources:
        yield (name, *("-" for _ in COLUMNS[1:-1]), ", ".join(state.namespaces) or "-")
    for number, each in enumerate(state.resources):
        amount = each.key.amount
        yield (
            name if not number else "",
            each.key.device_class,
            each.key.capacity or each.key.shape,
            amount(each.guarantee) if each.guarantee else "-",
            "-" if each.resource.limit is None else amount(each.resource.limit),
            str(each.resource.weight),
            Coloured(amount(each.held), "red" if each.is_short else ""),
            Coloured(amount(each.lent), "yellow" if each.lent else ""),
            str(each.waiting),
            "-" if each.fleet is None else amount(each.fleet),
            (", ".join(state.namespaces) or "-") if not number else "",
        )


def _notes(states: Sequence[QuotaState], reclaims: Sequence[NextReclaim], *, may_reclaim: bool) -> Iterator[str]:
    findings = [each for state in states for each in state.findings]
    if findings:
        yield ""
        yield from (f"{each.quota}: {each.message}" for each in findings)
    if reclaims:
        yield ""
        yield "Who would lose what next:"
        yield from (f"  {_sentence(each)}" for each in reclaims)
    if any(state.has_guarantee for state in states) and not may_reclaim:
        yield ""
        yield "preemption.reclaim is off: nobody is evicted for a guarantee, which waits until pods that borrow end."


def _sentence(each: NextReclaim) -> str:
    if each.key is None:
        who = f"for pod {each.pod} of {each.quota}"
    else:
        who = f"for {each.quota}, if it asked for one more device of class {each.key.device_class}"
    if each.placed:
        return f"{who}: nobody, it is free"
    if not each.victims:
        return f"{who}: nobody, it would wait"
    named = [f"{pod}{f' of {quota}' if quota else ''}" for pod, quota in each.victims]
    more = f" and {len(named) - _MOST_VICTIMS} more" if len(named) > _MOST_VICTIMS else ""
    return f"{who}: {', '.join(named[:_MOST_VICTIMS])}{more}"


def document(states: Sequence[QuotaState], reclaims: Sequence[NextReclaim], *, may_reclaim: bool) -> Json:
    """Convert the answer to plain values."""
    return {
        "items": [_state(each) for each in states],
        "reclaims": [
            {
                "quota": each.quota,
                "pod": None if each.pod is None else _pod(each.pod),
                "deviceClass": None if each.key is None else each.key.device_class,
                "isFree": each.placed,
                "victims": [{**_pod(pod), "quota": quota or None} for pod, quota in each.victims],
            }
            for each in reclaims
        ],
        "reclaimEnabled": may_reclaim,
    }


def _pod(pod: PodId) -> Json:
    return {"namespace": pod.namespace, "name": pod.name}


def without_namespaces(state: QuotaState) -> Json:
    """Convert a quota for readers who may not list namespaces, perhaps; `depth` counts the quotas above it."""
    fields = {name: value for name, value in _state(state).items() if name != "namespaces"}
    return {**fields, "depth": state.depth}


def _state(state: QuotaState) -> Json:
    return {
        "name": state.quota,
        "parent": state.parent or None,
        "namespaces": list(state.namespaces),
        "resources": [_resource(each) for each in state.resources],
        "findings": [{"reason": each.reason, "message": each.message} for each in state.findings],
    }


def _resource(each: ResourceState) -> Json:
    amount, limit = each.key.amount, each.resource.limit
    return {
        "deviceClass": each.key.device_class,
        "capacity": each.key.capacity or None,
        "shape": each.key.shape,
        "guarantee": amount(each.guarantee),
        "limit": None if limit is None else amount(limit),
        "weight": each.resource.weight,
        "held": amount(each.held),
        "lent": amount(each.lent),
        "waiting": each.waiting,
        "fleet": None if each.fleet is None else amount(each.fleet),
    }
