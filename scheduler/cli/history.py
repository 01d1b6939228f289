"""`dovetail history [pod/x]`: what the running scheduler decided, bound and evicted."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cli.arguments import WIDE, add_cluster, add_format, add_namespaces, cluster_access, namespace_of
from scheduler.cli.sources.running_scheduler import API_IS_OFF, add_scheduler, add_since, ask, ended, print_document
from scheduler.cli.sources.targets import TargetKind, add_target, target_of

if TYPE_CHECKING:
    from scheduler.api.history_answers import HistoryAnswer
    from scheduler.history.records import DecisionRecord, HistoryRecord, PodRecord

_KINDS: Final = (TargetKind.POD,)
_LIMIT: Final = 200
_PLACED: Final = "Placed"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The running scheduler answers, from memory: what it has done since it leads, within the bounds of `history` "
        "in its configuration. "
        f"{API_IS_OFF} Exit status: 0 the answer was printed, 2 the scheduler cannot be asked, 3 the answer "
        "leaves something out that you may not list."
    )
    add_target(parser, _KINDS, is_optional=True)
    add_namespaces(parser)
    add_since(parser, "1h")
    parser.add_argument(
        "--limit", type=int, default=_LIMIT, metavar="N", help="the most records (default: %(default)s)"
    )
    parser.add_argument("--decisions", action="store_true", help="a line for each decision, with its levels")
    add_scheduler(parser)
    add_cluster(parser, has_config=False)
    add_format(parser, has_wide=True)


def execute(options: argparse.Namespace) -> int:
    """Ask and print."""
    from scheduler.api.history_answers import HistoryAnswer  # noqa: PLC0415 - the solver's values take a second

    access = cluster_access(options)
    namespace, pod = namespace_of(options, access), ""
    if options.target:
        target = target_of(options.target, options, _KINDS, access)
        namespace, pod = target.namespace, target.name
    parameters = {"namespace": namespace, "pod": pod, "since": str(options.since), "limit": str(options.limit)}
    answer = ask(options, access, "history", parameters, HistoryAnswer)
    if not print_document(answer, options.output):
        records, is_wide = tuple(reversed(answer.items)), options.output == WIDE
        if options.decisions:
            _show_decisions(records, is_wide=is_wide)
        elif records:
            _show_pods(records, is_wide=is_wide)
        else:
            sys.stdout.write(f"{_nothing(answer, namespace)}\n")
    return ended(answer.hidden, is_truncated=answer.truncated)


def _nothing(answer: "HistoryAnswer", namespace: str) -> str:
    """Say that there is no record, of which namespace, and since when there could be one."""
    begin = (
        f"the history begins at {_time(answer.oldest)}"
        if answer.oldest
        else "nothing was decided since this replica leads"
    )
    seen = " that you may see" if answer.hidden.pods else ""
    where = f" in namespace {namespace} (-A shows all namespaces)" if namespace else ""
    return f"Nothing{seen} is recorded{where}; {begin}."


def _show_pods(records: Sequence["HistoryRecord"], *, is_wide: bool) -> None:
    from scheduler.simulation import list_table  # noqa: PLC0415 - as above

    column = list_table.ListColumn
    columns = (
        column("TIME"),
        column("DECISION", is_number=True),
        *map(column, ("NAMESPACE", "POD", "WHAT", "NODE")),
        column("DEVICES", is_sentence=True),
        column("WHY", is_sentence=True),
    )
    list_table.show(columns, _rows(records, is_wide=is_wide), sys.stdout, is_wide=is_wide)


def _rows(records: Sequence["HistoryRecord"], *, is_wide: bool) -> list[tuple[str, ...]]:
    """
    Make a row for each thing that happened to a pod; one for all decisions in a row that say the same of it.

    Such a row has the time of the last of these decisions, and stands there.
    """
    from scheduler.history.records import PodRecord  # noqa: PLC0415 - as above

    settled = {(each.decision, each.namespace, each.name) for each in records if isinstance(each, PodRecord)}
    events: list[_Event] = []
    last: dict[tuple[str, str], int] = {}
    for record in records:
        found = [_pod_event(record)] if isinstance(record, PodRecord) else _decision_events(record)
        for event in found:
            if event.what == _PLACED and event.settled_key in settled:
                continue  # the row that it was bound says more
            at = last.get(event.pod, -1)
            if at >= 0 and events[at].says_the_same(event):
                events[at] = event._replace(times=events[at].times + 1)
            else:
                last[event.pod] = len(events)
                events.append(event)
    return [event.row(is_wide=is_wide) for event in sorted(events, key=lambda event: event.time)]


class _Event(NamedTuple):
    """Something that happened to a pod, so many `times` without another thing in between."""

    time: datetime
    decision: int
    pod: tuple[str, str]
    what: str
    node: str = ""
    devices: tuple[str, ...] = ()
    why: str = ""
    times: int = 1

    @property
    def settled_key(self) -> tuple[int, str, str]:
        return self.decision, *self.pod

    def says_the_same(self, other: "_Event") -> bool:
        return self._replace(time=other.time, decision=other.decision, times=1) == other

    def row(self, *, is_wide: bool) -> tuple[str, ...]:
        why = self.why if self.times == 1 else f"{self.why} (the last of {self.times} decisions)"
        number = str(self.decision or "")
        devices = ", ".join(self.devices) if is_wide else _shortened(self.devices, self.node)
        return _time(self.time), number, *self.pod, self.what, self.node, devices, why


def _shortened(devices: tuple[str, ...], node: str) -> str:
    """Write devices as `explain` does: gpu-0 … gpu-7 (gpu.nvidia.com)."""
    from scheduler.simulation.printing import pool_name, runs  # noqa: PLC0415 - as above
    from solver.domain import PoolId  # noqa: PLC0415 - as above

    pools: dict[str, list[str]] = {}
    for each in devices:
        pool, _, device = each.rpartition("/")
        driver, _, name = pool.partition("/")
        pools.setdefault(pool_name(PoolId(driver, name), node), []).append(device)
    return "; ".join(f"{', '.join(runs(names))} ({pool})" for pool, names in pools.items())


def _pod_event(record: "PodRecord") -> _Event:
    why = record.message or (f"after {record.seconds:g} s" if record.seconds else "")
    if record.preemptor not in why:
        why += f" (pod {record.preemptor})"
    pod = record.namespace, record.name
    return _Event(record.time, record.decision, pod, record.result.value, record.node, record.devices, why)


def _decision_events(record: "DecisionRecord") -> Iterator[_Event]:
    event = _Event(record.time, record.decision, ("", ""), "")
    for placed in record.placed:
        pod = placed.namespace, placed.name
        yield event._replace(pod=pod, what=_PLACED, node=placed.node, devices=placed.devices)
    for waiting in record.waiting:
        why = waiting.message or waiting.reason
        yield event._replace(pod=(waiting.namespace, waiting.name), what="Waits", why=why)
    for nominated in record.nominated:
        pod = nominated.namespace, nominated.name
        victims = nominated.victims
        why = f"{victims} pod{'s are' if victims > 1 else ' is'} evicted for it" if victims else "pods leave for it"
        yield event._replace(pod=pod, what="Nominated", node=nominated.node, why=why)


def _show_decisions(records: Sequence["HistoryRecord"], *, is_wide: bool) -> None:
    from scheduler.history import level_words  # noqa: PLC0415 - as above
    from scheduler.history.records import DecisionRecord  # noqa: PLC0415 - as above
    from scheduler.simulation import list_table  # noqa: PLC0415 - as above

    column = list_table.ListColumn
    columns = (
        column("TIME"),
        *(column(head, is_number=True) for head in ("DECISION", "PODS", "PLACED", "WAIT", "NOMINATED", "SECONDS")),
        column("STATUS"),
        column("LEVELS", is_sentence=True),
        column("FILE", is_wide=True),
    )
    rows = [
        (
            _time(each.time),
            *map(str, (each.decision, each.pods, len(each.placed), len(each.waiting), len(each.nominated))),
            f"{each.seconds:.3f}",
            each.status,
            "; ".join(map(level_words.written, each.levels)),
            each.file,
        )
        for each in records
        if isinstance(each, DecisionRecord)
    ]
    list_table.show(columns, rows, sys.stdout, is_wide=is_wide)


def _time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
