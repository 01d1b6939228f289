"""
`dovetail queue`: the pods that wait for a scheduler, since when, and in which order they would be decided.

The order is that of the scheduling queue (`in_queue_order`); a gang is decided with its first pod. What only the
running scheduler knows is in it where that is asked: state, attempts, and its own order.
"""

import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TextIO

import msgspec
from msgspec.structs import replace

from scheduler.kube.pod_writes import PendingPod
from scheduler.queue import in_queue_order
from scheduler.settings.scheduler_names import misspelt, unserved
from scheduler.simulation import list_table, printing
from scheduler.simulation.list_table import Coloured, ListColumn, Row
from scheduler.status.waiting_pods import WaitingPod, numbered, waiting_pod
from solver.domain import LabelSelector, Pod

_GRACE: Final = dt.timedelta(seconds=30)
"""What a scheduler may take until it writes the first condition."""


def listed(
    pods: Sequence[PendingPod],
    scheduler_names: Collection[str],
    namespace: str = "",
    selector: LabelSelector | None = None,
) -> tuple[WaitingPod, ...]:
    """
    List the waiting pods of some schedulers in the order of the queue; gated pods stand at the end.

    With a namespace or a selector only those pods are listed, at their positions among all.
    """
    ours = {each.pod.id: each for each in pods if each.pod.scheduler_name in scheduler_names}
    return tuple(
        waiting_pod(ours[pod.id], position)
        for pod, position in numbered(in_queue_order(each.pod for each in ours.values()))
        if _is_asked(pod, namespace, selector)
    )


class UnservedPods(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods that wait for a scheduler that nobody is; `message` says what to write instead."""

    scheduler_name: str
    pods: int
    message: str

    def __str__(self) -> str:
        """Write the line below the list."""
        return f"{printing.counted(self.pods, 'pod')} {printing.waits(self.pods)} without a scheduler. {self.message}."


class Queue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The document: the pods that wait, in order, and those for which nobody is there."""

    pods: tuple[WaitingPod, ...]
    unserved: tuple[UnservedPods, ...] = ()


def unserved_pods(
    pods: Sequence[PendingPod],
    scheduler_names: Collection[str],
    now: dt.datetime,
    namespace: str = "",
    selector: LabelSelector | None = None,
) -> tuple[UnservedPods, ...]:
    """
    Count the waiting pods whose schedulerName nobody serves, by name: that of no profile, and no pod has a condition.

    Names that are not similar to one of ours may be those of schedulers that are slow: one of the pods has waited for
    `_GRACE`. Namespace and selector are as in `listed`.
    """
    others: defaultdict[str, list[PendingPod]] = defaultdict(list)
    for each in pods:
        pod = each.pod
        if pod.scheduler_name not in scheduler_names and not (pod.scheduling_gates or pod.is_deleting):
            others[pod.scheduler_name].append(each)
    latest = (now - _GRACE).timestamp()
    found = []
    for name, named in sorted(others.items()):
        is_known = any(each.condition is not None for each in named)
        is_left = any(each.pod.created_at <= latest for each in named) or misspelt([name], scheduler_names)
        count = sum(_is_asked(each.pod, namespace, selector) for each in named)
        if count and is_left and not is_known:
            message = unserved(name, scheduler_names)
            found.append(UnservedPods(scheduler_name=name, pods=count, message=message))
    return tuple(found)


def asked(pods: Iterable[Pod], namespace: str, selector: LabelSelector | None) -> tuple[Pod, ...]:
    """Return those of some pods that the namespace ("": all) and the selector mean."""
    return tuple(pod for pod in pods if _is_asked(pod, namespace, selector))


def _is_asked(pod: Pod, namespace: str, selector: LabelSelector | None) -> bool:
    return namespace in {"", pod.id.namespace} and (selector is None or selector.matches(dict(pod.labels)))


COLUMNS: Final = (
    ListColumn("#", is_number=True),
    ListColumn("NAMESPACE", is_copied=True),
    ListColumn("POD", is_copied=True),
    ListColumn("PRIORITY", is_number=True),
    ListColumn("WAITS", is_fixed=True),
    ListColumn("REASON", is_fixed=True),
    ListColumn("STATE", is_wide=True),
    ListColumn("ATTEMPTS", is_number=True, is_wide=True),
    ListColumn("GANG", is_wide=True),
    ListColumn("SCHEDULER", is_wide=True),
    ListColumn("NOMINATED NODE", is_wide=True),
    ListColumn("WHY", is_sentence=True),
)


def show(pods: Sequence[WaitingPod], to: TextIO, now: dt.datetime, *, is_wide: bool, namespace: str) -> None:
    """
    Print the table of the waiting pods of a namespace ("": of all).

    Pods of a gang that wait for the same reason are one row, but not with `is_wide`.
    """
    if not pods:
        where = f" in namespace {namespace} (-A shows all namespaces)" if namespace else ""
        to.write(f"No pod waits for Dovetail{where}.\n")
        return
    shown = [at for at, column in enumerate(COLUMNS) if not namespace or column.head != "NAMESPACE"]
    rows = [_row(each, now) for each in pods] if is_wide else list(_folded(pods, now))
    columns = [COLUMNS[at] for at in shown]
    list_table.show(columns, [[row[at] for at in shown] for row in rows], to, is_wide=is_wide)


def _folded(pods: Sequence[WaitingPod], now: dt.datetime) -> Iterator[Row]:
    """Yield a row for each pod, and one for pods of a gang that wait since the oldest of them for the same reason."""
    for _, same in itertools.groupby(pods, _sameness):
        first, *others = same
        if others:
            since = min(each.since for each in (first, *others))
            of_workload = f" of {first.workload}" if first.workload else ""
            name = f"gang/{first.gang} ({1 + len(others)} pods{of_workload})"
            yield _row(replace(first, name=name, since=since), now)
        else:
            yield _row(first, now)


def _sameness(each: WaitingPod) -> tuple[object, ...]:
    """Return what pods of one row have in common; a pod of no gang is alone."""
    own = "" if each.gang else each.name
    return each.position, each.namespace, each.gang, own, each.priority, each.reason, each.state, each.why


def _row(each: WaitingPod, now: dt.datetime) -> Row:
    return (
        str(each.position or "-"),
        each.namespace,
        each.name,
        str(each.priority),
        printing.age(each.since, now) or "-",
        Coloured(each.reason, "yellow"),
        each.state or "-",
        str(each.attempts or "-"),
        each.gang or "-",
        each.scheduler_name,
        each.nominated_node or "-",
        each.why,
    )
