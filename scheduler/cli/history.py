"""`dovetail history [pod/x]`: what the running scheduler decided, bound and evicted."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from scheduler.cli.arguments import (
    TABLE,
    WIDE,
    add_cluster,
    add_format,
    add_namespaces,
    add_watch,
    cluster_access,
    namespace_of,
)
from scheduler.cli.sources.running_scheduler import API_IS_OFF, add_scheduler, add_since, ask, ended, print_document
from scheduler.cli.sources.targets import TargetKind, add_target, target_of

if TYPE_CHECKING:
    from scheduler.api.history_answers import HistoryAnswer
    from scheduler.history.records import HistoryRecord
    from scheduler.kube.access import ClusterAccess
    from solver.domain import PodId

_KINDS: Final = (TargetKind.POD,)
_LIMIT: Final = 200
_MOST_RECORDS: Final = 1_000
"""As many records the scheduler gives at once."""
_MORE: Final = 5
"""How many times more records are asked for where they have too few lines."""


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
        "--limit",
        type=int,
        default=_LIMIT,
        metavar="N",
        help="the most lines; of -o json the most records (default: %(default)s)",
    )
    parser.add_argument("--decisions", action="store_true", help="a line for each decision, with its levels")
    add_scheduler(parser)
    add_cluster(parser)
    add_format(parser, has_wide=True)
    add_watch(parser)


def execute(options: argparse.Namespace) -> int:
    """Ask and print; with `--watch` again whenever there is more."""
    from scheduler.cli.sources import watching  # noqa: PLC0415 - only what answers needs it
    from solver.domain import PodId  # noqa: PLC0415 - the solver's values take a while to import

    access = cluster_access(options)
    namespace, pod = namespace_of(options, access), ""
    if options.target:
        target = target_of(options.target, options, _KINDS, access)
        namespace, pod = target.namespace, target.name
    parameters = {"namespace": namespace, "pod": pod, "since": str(options.since), "limit": str(options.limit)}
    answer = watching.shown(
        lambda: _asked(options, access, parameters),
        lambda found: _print(options, found, PodId(namespace, pod)),
        is_watched=options.watch,
    )
    return ended(
        answer.hidden, is_truncated=answer.truncated or _row_count(options, answer) > options.limit, has_limit=True
    )


def _asked(options: argparse.Namespace, access: "ClusterAccess", parameters: dict[str, str]) -> "HistoryAnswer":
    """
    Ask for as many records as the lines need; return at most `--limit` of them where the document is printed.

    A record has lines for several pods, and the lines of several records become one where they say the same. Records
    that the caller may not see are left out after the scheduler has counted them.
    """
    answer = ask(options, access, "history", parameters, _answer)
    limit = options.limit
    while answer.truncated and _row_count(options, answer) < options.limit and limit < _MOST_RECORDS:
        limit = min(_MOST_RECORDS, limit * _MORE)
        answer = ask(options, access, "history", {**parameters, "limit": str(limit)}, _answer)
    if options.output in {TABLE, WIDE} or len(answer.items) <= options.limit:
        return answer
    from msgspec import structs  # noqa: PLC0415 - it is not needed for help and completion

    return structs.replace(answer, items=answer.items[: options.limit], truncated=True)


def _row_count(options: argparse.Namespace, answer: "HistoryAnswer") -> int:
    """Return how many lines an answer has."""
    if options.output not in {TABLE, WIDE}:
        return len(answer.items)
    if options.decisions:
        from scheduler.history.records import DecisionRecord  # noqa: PLC0415 - as above

        return sum(isinstance(each, DecisionRecord) for each in answer.items)
    from scheduler.page import history_listing  # noqa: PLC0415 - as above

    return len(history_listing.pod_events(tuple(reversed(answer.items))))


def _answer() -> "type[HistoryAnswer]":
    """Import the type of the answer, and what prints it."""
    from scheduler.api.history_answers import HistoryAnswer  # noqa: PLC0415 - the solver's values take a while to import
    from scheduler.page import history_listing  # noqa: F401, PLC0415 - as above
    from scheduler.simulation import list_table  # noqa: F401, PLC0415 - as above

    return HistoryAnswer


def _print(options: argparse.Namespace, answer: "HistoryAnswer", asked: "PodId") -> None:
    if print_document(answer, options.output):
        return
    records, is_wide = tuple(reversed(answer.items)), options.output == WIDE
    if options.decisions:
        _show_decisions(records, options.limit, is_wide=is_wide)
    elif records:
        show_pods(records, options.limit, is_wide=is_wide)
    else:
        sys.stdout.write(f"{_nothing(answer, asked)}\n")


def _nothing(answer: "HistoryAnswer", asked: "PodId") -> str:
    """Say that there is no record, of which pod or namespace, and since when there could be one."""
    begin = (
        f"the history begins at {_time(answer.oldest)}"
        if answer.oldest
        else "nothing was decided since this replica leads"
    )
    seen = " that you may see" if answer.hidden.pods else ""
    where = f" in namespace {asked.namespace} (-A shows all namespaces)" if asked.namespace else ""
    if asked.name:
        where = f" of pod {asked}"
    return f"Nothing{seen} is recorded{where}; {begin}. What another replica decided before is in its log."


def show_pods(records: Sequence["HistoryRecord"], limit: int, *, is_wide: bool) -> None:
    """Print what happened to pods: the last `limit` lines."""
    from scheduler.page import history_listing  # noqa: PLC0415 - as above
    from scheduler.simulation import list_table  # noqa: PLC0415 - as above

    column = list_table.ListColumn
    columns = (
        column("TIME", is_fixed=True),
        column("DECISION", is_number=True),
        column("NAMESPACE", is_copied=True),
        column("POD", is_copied=True),
        column("WHAT", is_fixed=True),
        column("NODE", is_copied=True),
        column("DEVICES", is_sentence=True),
        column("WAITED", is_number=True, is_wide=True),
        column("WHY", is_sentence=True),
    )
    rows = [
        (
            _time(each.time),
            str(each.decision or ""),
            *each.pod,
            each.what,
            each.node,
            ", ".join(each.devices) if is_wide else each.short_devices,
            f"{each.waited:g} s" if each.waited else "",
            each.full_why,
        )
        for each in history_listing.pod_events(records)[-limit:]
    ]
    list_table.show(columns, rows, sys.stdout, is_wide=is_wide)


def _show_decisions(records: Sequence["HistoryRecord"], limit: int, *, is_wide: bool) -> None:
    from scheduler.history.records import DecisionRecord  # noqa: PLC0415 - as above
    from scheduler.page import history_listing  # noqa: PLC0415 - as above
    from scheduler.simulation import list_table  # noqa: PLC0415 - as above

    column = list_table.ListColumn
    columns = (
        column("TIME", is_fixed=True),
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
            "; ".join(map(history_listing.level_in_words, each.levels)),
            each.file,
        )
        for each in [each for each in records if isinstance(each, DecisionRecord)][-limit:]
    ]
    list_table.show(columns, rows, sys.stdout, is_wide=is_wide)


def _time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
