"""Prints the explanation of a pod: as text of at most 100 columns, or as JSON or YAML (fields are only added)."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TextIO

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scheduler.kube import encode
from scheduler.kube.pod_warnings import PodWarning
from scheduler.kube.pod_writes import PodScheduled
from scheduler.settings import scheduler_names
from scheduler.simulation import explained_hints, printing
from scheduler.simulation.plan_output import requests_of
from scheduler.simulation.printing import counted, runs
from solver.domain import (
    FITS_ALONE,
    Allocation,
    ClaimId,
    NodeDiagnosis,
    Pod,
    PodDiagnosis,
    PodId,
    Reason,
    ReasonCode,
    RequestCount,
    wording,
)

WIDTH: Final = 100
"""Columns if the output is not a terminal, and the most columns on one."""
_MOST_NAMES: Final = 6
HANG: Final = 2
"""Columns that what belongs to a line stands further in."""
_NUMBERS_WIDTH: Final = 64
"""Columns that the numbers of a request take, with the blanks before and between them."""
_HEADS: Final = ("REQUEST", "NEEDS", "MATCH", "IN USE", "TAINTED", "FREE", "ALIGNED", "FIT TOGETHER")

_BEYOND_NODES: Final = frozenset(
    {
        ReasonCode.GANG_INCOMPLETE,
        ReasonCode.GANG_INVALID,
        ReasonCode.GANG_UNPLACED,
        ReasonCode.GANG_BLOCKED,
        ReasonCode.NO_SHAPE,
        ReasonCode.PREEMPTING,
        ReasonCode.RESERVATION_PENDING,
        ReasonCode.NODE_RESERVED,
        ReasonCode.POOL_INCOMPLETE,
        ReasonCode.POOL_INVALID,
    }
)
"""Reasons that the lists of nodes do not show; they are printed as sentences."""

Json = dict[str, Any]


class ReservedNodes(NamedTuple):
    """Nodes that a pod would fit on and that are reserved for a starving pod, which has waited for `waited`."""

    nodes: tuple[str, ...]
    pod: PodId
    gang_size: int
    waited: str


class Explained(NamedTuple):
    """
    What is known of a pod.

    `diagnosis` is None for one that is not decided: it has scheduling gates, ends, or the caller may not read what a
    decision needs. `condition` is its PodScheduled in the cluster; `is_live` says whether the pod was read there.
    `claims` are the names and allocations of its claims, `warnings` what the kubelet says where a bound pod does not
    start. `reserved` are the nodes that only a reservation keeps from it,
    `unserved` says that nobody serves its schedulerName: it is then decided as if it had the one to write instead.
    `idle` says that no scheduler decides, as `scheduler_names.NO_SCHEDULER`. `next_step` is what completes its gang.
    """

    pod: Pod
    diagnosis: PodDiagnosis | None = None
    condition: PodScheduled | None = None
    is_live: bool = False
    claims: tuple[tuple[ClaimId, Allocation | None], ...] = ()
    warnings: tuple[PodWarning, ...] = ()
    reserved: tuple[ReservedNodes, ...] = ()
    unserved: str = ""
    next_step: str = ""
    idle: str = ""

    @property
    def is_said_to_wait(self) -> bool:
        """Whether a decision of now would place it, while its condition says that it waits."""
        return (
            self.is_live
            and not self.pod.node_name
            and not self.waits
            and self.condition is not None
            and self.condition.status == "False"
        )

    @property
    def waits(self) -> bool:
        """Whether it has no node, and would get none now."""
        if self.unserved and not self.pod.node_name:
            return True
        return not (self.diagnosis.node if self.diagnosis is not None else self.pod.node_name)


def show(explained: Explained, to: TextIO, *, is_wide: bool = False) -> None:
    """Print the explanation: the state, what to write instead, the nearest changes, and the nodes (`is_wide`: all)."""
    console = printing.console(to, width=WIDTH, most=WIDTH)
    explained = printing.visible(explained)
    diagnosis, condition = explained.diagnosis, explained.condition
    printing.sentence(console, _head(explained, diagnosis) if diagnosis is not None else _undecided(explained))
    for line in _devices(explained):
        _item(console, line)
    for warning in explained.warnings:
        _item(console, _said_by_kubelet(warning))
    hints = explained_hints.beside_changes(explained)
    for hint in hints:
        printing.arrow(console, hint)
    if diagnosis is not None:
        _show_diagnosis(explained, diagnosis, console, None if is_wide else _MOST_NAMES, has_hints=bool(hints))
    if explained.is_live and (explained.waits or explained.is_said_to_wait):
        console.print()
        printing.sentence(console, _condition(condition, explained_hints.condition_message(explained)), hang=HANG)


def _show_diagnosis(
    explained: Explained, diagnosis: PodDiagnosis, console: Console, most_names: int | None, *, has_hints: bool
) -> None:
    is_lost = any(each.code in FITS_ALONE for each in diagnosis.reasons)
    no_node_says_why = not diagnosis.nodes or (not is_lost and any(group.fits for group in diagnosis.nodes))
    no_node_says_why = no_node_says_why and not explained.reserved
    for reason in diagnosis.reasons if not diagnosis.is_bound else ():
        is_said = reason.code is ReasonCode.NODE_RESERVED and explained.reserved
        if not is_said and (no_node_says_why or reason.code in _BEYOND_NODES):
            _item(console, _sentence(reason))
    _show_changes(diagnosis, console, has_hints=has_hints)
    if moves := explained_hints.moves(explained):
        printing.arrow(console, moves)
    for group in diagnosis.nodes:
        console.print()
        _show_group(group, console, most_names, explained.reserved)


def _item(console: Console, text: Text | str, colour: str = "") -> None:
    """Print a sentence below what it is about; a line that goes on stands further in than the next item."""
    printing.sentence(console, Text(text, colour) if isinstance(text, str) else text, indent=HANG, hang=HANG)


def _undecided(explained: Explained) -> Text:
    """Say what a pod does that is not decided."""
    pod, unserved = explained.pod, f" {explained.unserved}." if explained.unserved else ""
    if pod.is_terminal:
        return Text(f"Pod {pod.id} has ended.")
    if pod.is_deleting:
        return Text(f"Pod {pod.id} is being deleted.")
    if pod.node_name:
        return Text.assemble(f"Pod {pod.id} is bound to node ", (pod.node_name, "green"), ".")
    if pod.scheduling_gates:
        gates = ", ".join(pod.scheduling_gates)
        return Text(
            f"Pod {pod.id} has scheduling gates: {gates}. It is not scheduled until they are removed.{unserved}"
        )
    return Text.assemble(f"Pod {pod.id} ", ("waits", "yellow"), f".{unserved}")


def _devices(explained: Explained) -> Iterator[Text]:
    """Name the devices of a bound pod, and what they have in common."""
    if not explained.pod.node_name:
        return
    for claim, allocation in explained.claims:
        lead = f"{claim.name}: " if len(explained.claims) > 1 else ""
        for line in requests_of(allocation, {}, explained.pod.node_name):
            yield Text(f"{lead}{line}")
    diagnosis = explained.diagnosis
    for each in diagnosis.agreed if diagnosis is not None else ():
        yield Text(f"as its claim demands, {each} for all")


def _said_by_kubelet(warning: PodWarning) -> Text:
    times = f", {warning.count} times" if warning.count > 1 else ""
    last = f", last {warning.last:%Y-%m-%dT%H:%M:%SZ}" if warning.last is not None else ""
    return Text(f"the kubelet does not start it: {warning.message} ({warning.reason}{times}{last})", "yellow")


def _condition(condition: PodScheduled | None, message: str) -> Text:
    if condition is None:
        text = "It has no condition PodScheduled: no scheduler has picked it up, or it has not reported yet."
        return Text(text, "yellow")
    since = f" since {condition.since:%Y-%m-%dT%H:%M:%SZ}" if condition.since is not None else ""
    return Text(f"PodScheduled={condition.status} ({condition.reason}){since}: {message}")


def document(explained: Explained) -> Json:
    """Convert the explanation to plain values."""
    found, condition = explained.diagnosis or PodDiagnosis(pod=explained.pod.id), explained.condition
    return {
        "pod": str(explained.pod.id),
        "waits": explained.waits,
        "unserved": explained.unserved or None,
        "bound": bool(explained.pod.node_name),
        "node": found.node or explained.pod.node_name or None,
        "reasons": [{"code": each.code.value, "message": each.message} for each in found.reasons],
        "hints": [*explained_hints.of_explained(explained), *filter(None, (explained_hints.moves(explained),))],
        "condition": None if condition is None else msgspec.to_builtins(condition),
        "schedulingGates": list(explained.pod.scheduling_gates),
        "claims": [
            {"claim": str(claim), "allocation": None if each is None else encode.allocation_result(each)}
            for claim, each in explained.claims
        ],
        "agreed": list(found.agreed),
        "kubeletWarnings": [msgspec.to_builtins(each) for each in explained.warnings],
        "preferred": found.preferred or None,
        "nodes": [_group(each) for each in found.nodes],
        "lostTo": [str(each) for each in found.lost_to],
        "proven": found.is_proven,
        "reserved": [
            {"nodes": list(each.nodes), "pod": str(each.pod), "gangSize": each.gang_size} for each in explained.reserved
        ],
        "changes": [{"message": each.message, "node": each.node} for each in found.changes],
    }


def _head(explained: Explained, diagnosis: PodDiagnosis) -> Text:
    if diagnosis.is_bound:
        return _bound_head(diagnosis)
    if explained.unserved or (explained.idle and diagnosis.node):
        why = scheduler_names.condition(explained.unserved, explained.idle)
        text = Text.assemble(f"Pod {diagnosis.pod} ", ("waits", "yellow"), f": {why} it ")
        if diagnosis.node:
            return text.append(f"would be placed on node {diagnosis.node}.")
        return _with_nodes(text.append("would wait too."), diagnosis)
    if diagnosis.node:
        text = Text.assemble(f"Pod {diagnosis.pod} would be placed on node ", (diagnosis.node, "green"))
        return text.append(" by a decision now; the scheduler last said:" if explained.is_said_to_wait else ".")
    if explained.reserved:
        return _reserved_head(explained.reserved, diagnosis)
    return _with_nodes(Text.assemble(f"Pod {diagnosis.pod} ", ("waits", "yellow"), "."), diagnosis)


def _with_nodes(text: Text, diagnosis: PodDiagnosis) -> Text:
    """Say on how many nodes a pod that waits would fit."""
    fitting = sum(len(group.nodes) for group in diagnosis.nodes if group.fits)
    if fitting:
        text.append(f" It would fit alone on {counted(fitting, 'node')}{_lost(diagnosis)}.")
    elif diagnosis.nodes:
        total = sum(len(group.nodes) for group in diagnosis.nodes)
        text.append(f" None of {counted(total, 'node')} can take it now.")
    return text


def _reserved_head(reserved: Sequence[ReservedNodes], diagnosis: PodDiagnosis) -> Text:
    """Say for whom the nodes are reserved on which a pod would fit."""
    text = Text.assemble(f"Pod {diagnosis.pod} ", ("waits", "yellow"), ": ")
    kept = []
    for each in reserved:
        nodes = wording.shortened(each.nodes, _MOST_NAMES)
        are = "node {} is" if len(each.nodes) == 1 else "nodes {} are"
        whom = f"{each.pod}{f' and {each.gang_size - 1} more of its gang' if each.gang_size > 1 else ''}"
        waited = f", which has waited {each.waited}" if each.waited else ""
        kept.append(f"{are.format(nodes)} reserved for {whom}{waited}")
    text.append("; ".join(kept))
    return text.append(". Without that it would fit there.")


def _bound_head(diagnosis: PodDiagnosis) -> Text:
    """Say where a pod is bound, and where it could be instead."""
    text = Text.assemble(f"Pod {diagnosis.pod} is bound to node ", (diagnosis.node, "green"), ".")
    fitting = sum(len(group.nodes) for group in diagnosis.nodes if group.fits)
    total = sum(len(group.nodes) for group in diagnosis.nodes)
    if total:
        text.append(f" Without it, {fitting} of {counted(total, 'node')} could take it now")
        is_same = diagnosis.preferred == diagnosis.node
        again = "it again" if is_same else diagnosis.preferred
        text.append(f"; a new decision would choose {again}." if diagnosis.preferred else ".")
    elif diagnosis.reasons:
        text.append(f" Decided again, it would wait: {'; '.join(each.message for each in diagnosis.reasons)}.")
    return text


def _lost(diagnosis: PodDiagnosis) -> str:
    if not any(each.code in FITS_ALONE for each in diagnosis.reasons):
        return ""
    proof = "no plan places more" if diagnosis.is_proven else "it is not proven that no plan places more"
    others = wording.shortened(list(map(str, diagnosis.lost_to)), _MOST_NAMES) or "other pods"
    return f"; the plan places {others} instead, and {proof}"


def _show_group(
    group: NodeDiagnosis, console: Console, most_names: int | None, reserved: Sequence[ReservedNodes]
) -> None:
    names = list(runs(sorted(group.nodes, key=_numbered)))
    most = len(names) if not most_names or len(names) == most_names + 1 else most_names
    title = f"{counted(len(group.nodes), 'node')}: {wording.shortened(names, most)}"
    fits = "  fits" if len(group.nodes) == 1 else "  fit"
    kept = [each for each in reserved if group.fits and not set(group.nodes).isdisjoint(each.nodes)]
    for_whom = f", but for the reservation for {', '.join(str(each.pod) for each in kept)}" if kept else ""
    matches = not group.requests or any(each.matching for each in group.requests)
    state = (fits if group.fits else "", "green") if matches else ("  no device matches", "yellow")
    printing.sentence(console, Text.assemble((title, "bold"), state, (for_whom, "yellow")), hang=2 * HANG)
    for line in (*group.objections, *group.pools):
        _item(console, line, "yellow")
    if group.requests and matches:
        for part in _numbers(group.requests, console.width - _NUMBERS_WIDTH):
            console.print(Padding(part, (0, 0, 0, HANG), expand=False))
    for each in group.requests:
        if each.left_out:
            _item(console, f"{each.request}: {', '.join(each.left_out)}", "yellow")
    if not all(any(objection.endswith(each) for objection in group.objections) for each in group.conflict):
        lead = "conflict" if len(group.conflict) > 1 else "not possible"
        _item(console, f"{lead}: {'; '.join(group.conflict)}", "yellow")


def _numbered(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that puts n2 before n10."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d{1,18})", name)]


def _numbers(requests: Sequence[RequestCount], room: int) -> Iterator[Table | Text]:
    """Yield the table of requests; where a name has no `room` beside its numbers, it stands above its own table."""
    if max(len(each.request) for each in requests) <= room:
        yield _table(requests, _HEADS)
        return
    for each in requests:
        yield Text(each.request)
        yield _table([each], _HEADS[1:])


def _table(requests: Sequence[RequestCount], heads: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(head, justify="left" if head == _HEADS[0] else "right", overflow="fold")
    for each in requests:
        aligned = "-" if each.aligned is None else str(each.aligned)
        needed = str(each.needed) if each.needed else "all"
        together = "?" if each.together is None else str(each.together)
        counts = map(str, (each.matching, each.in_use, each.tainted, each.free))
        cells: tuple[Text | str, ...] = (Text(each.request), needed, *counts, aligned, together if each.needed else "-")
        table.add_row(*cells[-len(heads) :])
    return table


def _show_changes(diagnosis: PodDiagnosis, console: Console, *, has_hints: bool) -> None:
    has_room = any(group.fits for group in diagnosis.nodes)
    is_lost = any(each.code in FITS_ALONE for each in diagnosis.reasons)
    if diagnosis.node or not diagnosis.nodes or (has_room and (is_lost or not diagnosis.starts_with)):
        return
    if not diagnosis.changes:
        it = "its gang start" if diagnosis.starts_with else "it fit"
        printing.sentence(console, f"No {'other' if has_hints else 'single'} change that was tried makes {it}.")
        return
    lead = "It would fit with one of these"
    if diagnosis.starts_with:
        lead = f"Its gang would start with one of these, made in all {diagnosis.starts_with + 1} pods that wait"
    printing.sentence(console, f"{lead} (each was checked):")
    for change in diagnosis.changes:
        printing.arrow(console, f"{change.message}  ({change.node})")


def _sentence(reason: Reason) -> Text:
    return Text(reason.message.partition(wording.HINT)[0], "yellow")


def _group(group: NodeDiagnosis) -> Json:
    return {
        "names": list(group.nodes),
        "fits": group.fits,
        "objections": list(group.objections),
        "pools": list(group.pools),
        "requests": [
            {
                "request": each.request,
                "needed": each.needed or None,
                "matching": each.matching,
                "inUse": each.in_use,
                "tainted": each.tainted,
                "free": each.free,
                "aligned": each.aligned,
                "together": each.together if each.needed else None,
                "leftOut": list(each.left_out),
            }
            for each in group.requests
        ],
        "conflict": list(group.conflict),
    }
