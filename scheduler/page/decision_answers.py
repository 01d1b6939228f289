"""The last decisions and the way of pods through them: what a running scheduler answers to the user of the page."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.api.history_answers import HistoryAnswer
from scheduler.api.queries import API_VERSION, Query
from scheduler.api.refusals import Refusal
from scheduler.history.records import DecisionRecord
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.page import history_listing
from scheduler.page.watched_document import WatchedDocument
from scheduler.visibility import HiddenCounts

AskScheduler = Callable[[str, Mapping[str, str], str], Awaitable[bytes]]
"""Asks a running scheduler a question by its name, its parameters, and the caller's token. Raises `KubeError`."""
_SECONDS: Final = "86400"
_MOST_RECORDS: Final = "200"


class DecisionRow(msgspec.Struct, frozen=True, rename="camel"):
    """A decision: how many pods it was about, what became of them, and its levels in words, with bound or proof."""

    time: datetime
    decision: int
    pods: int
    placed: int
    waiting: int
    nominated: int
    seconds: float
    status: str
    levels: tuple[str, ...]


class EventRow(msgspec.Struct, frozen=True, rename="camel"):
    """Something that happened to a pod, as in a row of `dovetail history`; `decision` 0 is none."""

    time: datetime
    decision: int
    namespace: str
    pod: str
    what: str
    node: str
    devices: str
    why: str


class Decisions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The document, the newest first. `oldest` is the time of the oldest record that the scheduler keeps."""

    api_version: str = API_VERSION
    kind: Literal["Decisions"] = "Decisions"
    oldest: datetime | None
    truncated: bool
    hidden: HiddenCounts
    decisions: tuple[DecisionRow, ...]
    events: tuple[EventRow, ...]


async def answer(ask: AskScheduler | None, query: Query, token: str = "") -> Decisions:
    """
    Answer about all pods, or about one, as the scheduler answers the caller of a token. Raise `Refusal`.

    `ask` is None where the page has no scheduler.
    """
    if ask is None:
        message = "this page has no decisions: it is not connected to the API of a running scheduler (docs/page.md)"
        raise Refusal(404, message, reason="NotFound")
    asked = {"namespace": query.namespace, "pod": query.pod, "since": _SECONDS, "limit": _MOST_RECORDS}
    try:
        received = await ask("history", {name: value for name, value in asked.items() if value}, token)
        return await in_thread(_document, received)
    except Forbidden as error:
        raise Refusal(403, str(error)) from error
    except KubeError as error:
        raise Refusal(503, str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(503, f"the scheduler is of another version: {error}") from error


def watched(found: Decisions) -> WatchedDocument:
    """Make the document that is watched."""
    fields = {"oldest": found.oldest, "truncated": found.truncated, "hidden": found.hidden}
    return WatchedDocument(msgspec.json.encode(found), {"decisions": found.decisions, "events": found.events}, fields)


def _document(received: bytes) -> Decisions:
    """Raise `MsgspecError`, `UnicodeDecodeError` and `RecursionError`."""
    found = msgspec.json.decode(received, type=HistoryAnswer)
    events = history_listing.pod_events(tuple(reversed(found.items)))
    return Decisions(
        oldest=found.oldest,
        truncated=found.truncated,
        hidden=found.hidden,
        decisions=tuple(_decision(each) for each in found.items if isinstance(each, DecisionRecord)),
        events=tuple(
            EventRow(each.time, each.decision, *each.pod, each.what, each.node, each.short_devices, each.full_why)
            for each in reversed(events)
        ),
    )


def _decision(record: DecisionRecord) -> DecisionRow:
    return DecisionRow(
        record.time,
        record.decision,
        record.pods,
        len(record.placed),
        len(record.waiting),
        len(record.nominated),
        record.seconds,
        record.status,
        tuple(map(history_listing.level_in_words, record.levels)),
    )
