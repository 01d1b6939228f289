"""
What an open page watches: the map with the queue, and decisions.

A watch sends these events, of which the data is one line:

    whole      the document, packed: gzip in base64
    change     what changed in it (`scheduler.page.watched_document`), packed as well; the `id` is the new version's tag
    state      `PageState`, after each of these, and when nothing has changed for a while
    heartbeat  nothing: the server is there, and takes long to find out what has changed
    refused    a `metav1.Status`: the token or the right has ended; nothing follows
"""

import asyncio
from typing import Final, Literal

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.event_stream import HEARTBEAT_SECONDS, StreamEvent
from scheduler.api.queries import API_VERSION, Query
from scheduler.api.refusals import Refusal
from scheduler.page import decision_answers, visible_part
from scheduler.page.decision_answers import AskScheduler, Decisions
from scheduler.page.fit_questions import FitQuestions
from scheduler.page.live_fleet import LiveFleet, ReadingFailure
from scheduler.page.watched_document import DocumentVersion, WatchedDocument


class PageSubjects(msgspec.Struct, frozen=True):
    """
    What the page shows.

    `ask_scheduler` is None where it shows no decisions, and `fit` where nothing can be placed: in a saved decision.
    """

    fleet: LiveFleet
    ask_scheduler: AskScheduler | None = None
    fit: FitQuestions | None = None


class PageState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """
    How old the document is that the caller has; None where nothing has been read yet.

    `failure` says why the fleet cannot be read now; the picture is the last one then. `has_decisions` says that there
    are answers about decisions, and `has_fit` about manifests; objects in these that name no namespace are in
    `namespace`.
    """

    api_version: str = API_VERSION
    kind: Literal["PageState"] = "PageState"
    age_seconds: float | None
    failure: ReadingFailure | None
    has_decisions: bool
    has_fit: bool
    namespace: str


class MapWatch:
    """The map of what a caller may see, which is read again while it is watched."""

    def __init__(self, about: PageSubjects, _: Query, tag: str) -> None:
        """`tag` is that of the version which the caller has."""
        self._about: Final = about
        self._known = _Known(about.fleet.version(tag))

    async def look(self, rights: CallerRights) -> list[StreamEvent]:
        """Return what changed since the caller was last told. Raise `KubeError`."""
        fleet = self._about.fleet
        reading = await fleet.last()
        if reading is None:
            return [_state(self._about, None)]
        read_at = fleet.read_at  # of this reading: another may end while the picture is made
        picture = await fleet.picture(reading, await visible_part.visible_to(rights, reading))
        return [*await self._known.news_of(picture), _state(self._about, fleet.seconds_since(read_at))]

    async def news(self) -> None:
        """Wait for the next reading."""
        await self._about.fleet.news(HEARTBEAT_SECONDS)


class DecisionsWatch:
    """The last decisions, or the way of a pod: the scheduler is asked for them at each heartbeat."""

    def __init__(self, about: PageSubjects, query: Query, _: str) -> None:
        self._about: Final = about
        self._query: Final = query
        self._known = _Known(None)

    async def look(self, rights: CallerRights) -> list[StreamEvent]:
        """Return what changed since the caller was last told. Raise `Refusal`."""
        found = await decision_answers.answer(self._about.ask_scheduler, self._query, rights.token)
        await _require_seen(found, rights)
        document = await in_thread(decision_answers.watched, found)
        return [*await self._known.news_of(document), _state(self._about, 0.0)]

    async def news(self) -> None:
        """Wait."""
        await asyncio.sleep(HEARTBEAT_SECONDS)


async def _require_seen(found: Decisions, rights: CallerRights) -> None:
    """
    Raise `Refusal` where the caller may not list what the scheduler has answered.

    The scheduler has asked for the rights itself, before an answer that may have taken long. The watch knows now which
    rights it goes by, and asks for them again.
    """
    named = {
        Listed.PODS: {each.namespace for each in found.events},
        Listed.CLAIMS: {each.namespace for each in found.events if each.devices},
    }
    for listed, among in named.items():
        seen = await rights.namespaces(listed, sorted(among))
        if any(each not in seen for each in among):
            raise Refusal(403, f"user {rights.caller!r} has lost rights since the scheduler answered")


class _Known:
    """The version that a caller has."""

    def __init__(self, version: DocumentVersion | None) -> None:
        self._version = version

    async def news_of(self, document: WatchedDocument) -> list[StreamEvent]:
        """Return what leads from there to a document, which the caller has then."""
        old, self._version = self._version, document.version
        return [] if old is not None and old.tag == document.version.tag else [await document.event_since(old)]


def _state(about: PageSubjects, age_seconds: float | None) -> StreamEvent:
    found = PageState(
        age_seconds=None if age_seconds is None else round(age_seconds, 1),
        failure=about.fleet.failure,
        has_decisions=about.ask_scheduler is not None,
        has_fit=about.fit is not None,
        namespace=about.fit.source.namespace if about.fit else "",
    )
    return StreamEvent("state", msgspec.json.encode(found))
