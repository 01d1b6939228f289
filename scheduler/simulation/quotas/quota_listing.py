"""Prints quotas: the tree with what is guaranteed, held, borrowed and waited for, and who would lose what next."""

from collections.abc import Iterator, Sequence
from typing import Final, TextIO

from scheduler.simulation import list_table
from scheduler.simulation.list_table import Coloured, ListColumn
from scheduler.simulation.printing import counted
from scheduler.simulation.quotas.next_reclaims import NextReclaim, NextReclaims
from solver.domain import QuotaState

COLUMNS: Final = (
    ListColumn("QUOTA", is_copied=True),
    ListColumn("CLASS", is_copied=True),
    ListColumn("COUNTS", is_fixed=True),
    ListColumn("GUARANTEE", is_number=True),
    ListColumn("LIMIT", is_number=True),
    ListColumn("WEIGHT", is_number=True, is_wide=True),
    ListColumn("HELD", is_number=True),
    ListColumn("BORROWED", is_number=True),
    ListColumn("WAITING", is_number=True),
    ListColumn("FLEET", is_number=True, is_wide=True),
    ListColumn("NAMESPACES", is_sentence=True, is_wide=True),
)
NO_QUOTA: Final = "There is no DeviceQuota (docs/quotas.md has a guide).\n"
_MOST_VICTIMS: Final = 8


def show(states: Sequence[QuotaState], found: NextReclaims, to: TextIO, *, is_wide: bool, without_reclaim: str) -> None:
    """
    Print the tree, what contradicts in it, and what would be reclaimed next.

    `without_reclaim` says where a guarantee waits until pods end, empty where a reclaim serves it.
    """
    if not states:
        to.write(NO_QUOTA)
        return
    rows = [row for state in states for row in _rows(state)]
    list_table.show(COLUMNS, rows, to, is_wide=is_wide)
    list_table.write(_notes(states, found, without_reclaim), to)


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


def _notes(states: Sequence[QuotaState], found: NextReclaims, without_reclaim: str) -> Iterator[str]:
    findings = [each for state in states for each in state.findings]
    if findings:
        yield ""
        yield from (f"{each.quota}: {each.message}" for each in findings)
    if found.reclaims:
        yield ""
        yield "Who would lose what next:"
        yield from (f"  {_sentence(each)}" for each in found.reclaims)
    if found.not_asked:
        yield f"  {counted(found.not_asked, 'further device')} not asked for: name a quota to ask for it first"
    if any(state.has_guarantee for state in states) and without_reclaim:
        yield ""
        yield without_reclaim


def _sentence(each: NextReclaim) -> str:
    if each.key is None:
        gang = f"gang {each.gang}{f' ({each.workload})' if each.workload else ''}"
        who = f"for {gang if each.gang is not None else f'pod {each.pod}'} of {each.quota}"
    else:
        who = f"for {each.quota}, if it asked for one more device of class {each.key.device_class}"
    if each.placed:
        return f"{who}: nobody, it is free"
    if not each.victims and each.pod is not None:
        return f"{who}, which waits: {_kept_back(each)}"
    if not each.victims:
        return f"{who}: nobody, it would wait"
    return f"{who}: {_several(_lost(each))}"


def _kept_back(each: NextReclaim) -> str:
    """Say why no pod is evicted for one that waits."""
    if not each.too_young:
        subject = f"pod/{each.pod}" if each.gang is None else f"gang/{each.gang.namespace}/{each.gang.name}"
        return f"nobody (`dovetail explain {subject}` says why)"
    young = [
        f"{one.pod}{f' of {one.quota}' if one.quota else ''} has run for {one.ran_seconds} s" for one in each.too_young
    ]
    return f"nobody yet: {_several(young)}; minimumRunSeconds of preemption.reclaim is {each.minimum_run_seconds}"


def _lost(each: NextReclaim) -> list[str]:
    return [
        f"{one.pod}{f' of {one.quota}' if one.quota else ''}{'' if one.is_reclaimed else ' (its priority is lower)'}"
        for one in each.victims
    ]


def _several(named: Sequence[str]) -> str:
    more = f" and {len(named) - _MOST_VICTIMS} more" if len(named) > _MOST_VICTIMS else ""
    return f"{', '.join(named[:_MOST_VICTIMS])}{more}"
