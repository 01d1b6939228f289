"""The task that lists and watches one kind: the I/O and the backoff around `list_watch.ListWatch`."""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.backoff import doubled, jittered
from scheduler.change import Change, Kind
from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.decode.pieces import PIECE_BYTES, Pieces
from scheduler.kube.errors import (
    AnswerTooLarge,
    ApiError,
    DecodeError,
    Gone,
    KubeError,
    VersionWentBack,
    WatchSilent,
)
from scheduler.kube.watching.list_watch import ListWatch, Received
from scheduler.kube.watching.watch_ages import WatchAges

WATCH_SECONDS: Final = (240, 480)
"""The server ends a watch after a random time between these, so that watches do not end together."""
_SILENT_SHARE: Final = 0.5
"""Part of the limit of a watch's age after which its connection counts as dead, so that a listing may be in time."""
_RELIST_SECONDS: Final = 300.0
"""Least time between two listings that were caused by a line that cannot be read."""
_SHORT_SECONDS: Final = 1.0
"""A watch that ends sooner without an event counts as a failure: no busy loop."""


class Taken(NamedTuple):
    """What an answer was: whether anything was heard in it, and a line of it that is no event."""

    is_heard: bool = False
    torn: DecodeError | None = None


class Reflector:
    """
    Lists and watches one kind, and gives every change to `on_changes`.

    `on_changes` gets the changes of one read, in order. Then `ages` notes that they show the objects as they are now.
    `on_error` gets the kind and an error that is retried, or an object without a name. `on_unreadable` gets an object
    that cannot be decoded, once per version (default: `on_error`), `on_readable` the key of one that can be decoded
    again or is deleted. `synced` is set when a watch is open after the first complete listing: a listing alone grows
    old. No exception ends the task.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        on_changes: Callable[[Sequence[Change]], None],
        on_error: Callable[[Kind, Exception], None],
        *,
        ages: WatchAges,
        path: str | None = None,
        on_unreadable: Callable[[Kind, DecodeError], None] | None = None,
        on_readable: Callable[[Kind, str], None] | None = None,
    ) -> None:
        """`path` is the collection's, where it is not the one of `paths.COLLECTIONS`."""
        self.kind = kind
        self.synced = asyncio.Event()
        self._client = client
        self.path = path if path is not None else paths.COLLECTIONS[kind]
        self._on_changes = on_changes
        self._on_error = on_error
        self._on_unreadable = on_unreadable or on_error
        self._on_readable = on_readable or _ignore
        self._ages = ages
        self._relisted_at = -_RELIST_SECONDS
        self._mirrored = ListWatch(kind)
        self._mirrored.start_listing()
        self._backoff = RequestBackoff()
        self._defects = RequestBackoff()

    @property
    def resource_version(self) -> str:
        """The version up to which changes have been handed over."""
        return self._mirrored.resource_version

    def shows(self, identities: Mapping[str, tuple[str, str]]) -> bool:
        """Whether exactly these objects have been handed over, by key, each with this uid and resourceVersion."""
        return self._mirrored.shows(identities)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self._step()
            except KubeError as error:
                await self._recover(error)
            except Exception as error:  # noqa: BLE001 - one object must not end the task
                self._mirrored.distrust()
                self._on_error(self.kind, error)
                await asyncio.sleep(self._defects.seconds())

    async def _step(self) -> None:
        """Send one request and handle its whole answer."""
        if self._mirrored.needs_listing:
            await self._list_page()
            self._backoff.reset()
        else:
            await self._watch()

    async def _list_page(self) -> None:
        """Ask for a page and hand it over; one that is too large is asked for with fewer objects."""
        query, size = self._mirrored.page_query(), self._mirrored.page_size
        try:
            page = await self._client.request("GET", self.path, query=query, most_bytes=size.most_bytes)
        except AnswerTooLarge:
            size.give_up()
            return
        received = Received()
        await self._take(self._mirrored.receive_page(page, received), received)

    async def _take(self, pieces: Pieces[None], received: Received) -> Taken:
        """Take an answer; after each piece hand over what was received, and let the event loop run."""
        taken, work = Taken(), 0
        try:
            for size in pieces:
                work += size
                if work >= PIECE_BYTES:
                    taken = self._hand_over(received.drain(), taken)
                    await asyncio.sleep(0)
                    work = 0
        finally:
            taken = self._hand_over(received.drain(), taken)
        return taken

    async def _watch(self) -> None:
        """Follow a watch to its end."""
        started, query = time.monotonic(), self._mirrored.watch_query(_watch_seconds())
        heard = False
        lines_of = self._client.stream_lines(
            self.path, query, read_timeout_seconds=self._ages.limit_seconds * _SILENT_SHARE
        )
        async with contextlib.aclosing(lines_of) as reads:
            async for lines in reads:
                self.synced.set()
                received = Received()
                taken = await self._take(self._mirrored.receive_lines(lines, received), received)
                heard = heard or taken.is_heard
                self._list_again_after(taken.torn)
                if taken.is_heard:
                    self._backoff.reset()
                    self._defects.reset()
        if not heard and time.monotonic() - started < _SHORT_SECONDS:
            await asyncio.sleep(self._backoff.seconds())

    def _list_again_after(self, torn: DecodeError | None) -> None:
        """Raise for a line that could not be read, to list again, at most every `_RELIST_SECONDS`."""
        if torn is None:
            return
        if time.monotonic() - self._relisted_at >= _RELIST_SECONDS:
            self._relisted_at = time.monotonic()
            raise torn
        self._on_error(self.kind, torn)

    def _hand_over(self, received: Received, before: Taken) -> Taken:
        for problem in received.nameless:
            self._on_error(self.kind, problem)
        for problem in received.problems:
            self._on_unreadable(self.kind, problem)
        for key in received.readable:
            self._on_readable(self.kind, key)
        if received.changes:
            self._on_changes(received.changes)
        if received.went_back is not None:
            raise received.went_back
        if received.is_heard and not self._mirrored.needs_listing:
            self._ages.heard(self.kind, self._mirrored.resource_version)
        return Taken(before.is_heard or received.is_heard, received.torn or before.torn)

    async def _recover(self, error: KubeError) -> None:
        """Report, wait, and continue from the last version, or list again where that one may lead nowhere."""
        if isinstance(error, VersionWentBack):
            self._mirrored.distrust()
        elif isinstance(error, Gone | DecodeError | WatchSilent):
            self._mirrored.start_listing()
        self._on_error(self.kind, error)
        await asyncio.sleep(self._backoff.seconds(error))


class RequestBackoff:
    """
    Seconds before the next request: exponential from `first` to `longest`, jittered, at least the server's Retry-After.

    `reset` after a success.
    """

    def __init__(self, first: float = 0.5, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0
        self._random = random.Random()  # noqa: S311 - spreads load, keeps no secret

    def reset(self) -> None:
        """Start over after a success."""
        self._failures = 0

    def seconds(self, error: Exception | None = None) -> float:
        """Count a failure, and return the time to wait."""
        wait = jittered(doubled(self._first, self._longest, self._failures), self._random)
        self._failures += 1
        asked = error.retry_after_seconds if isinstance(error, ApiError) else 0.0
        return max(wait, asked * self._random.uniform(1.0, 1.2))


def _watch_seconds() -> int:
    return random.randint(*WATCH_SECONDS)  # noqa: S311 - spreads load, keeps no secret


def _ignore(_kind: Kind, _key: str) -> None:
    """Nothing has to be done."""
