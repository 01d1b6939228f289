"""
Lists and watches the objects of one path that no decision reads: those of Kueue, claim templates, PriorityClasses.

What decides about pods and devices goes through `kube.watching`, whose age fences every write. Here a write names the
resourceVersion that it was decided by, so a watch that is late costs a conflict and nothing else.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.backoff import doubled, jittered
from scheduler.kube.client import Client, pages
from scheduler.kube.decode.json_parts import Event, Raw, read_event_in_pieces
from scheduler.kube.decode.objects import identify
from scheduler.kube.decode.pieces import at_once
from scheduler.kube.decode.shared_fields import MalformedError
from scheduler.kube.decode.value_limits import within_limit
from scheduler.kube.errors import DecodeError, Gone, KubeError
from scheduler.unreadable import cut

_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 30.0
_WATCH_SECONDS: Final = (240, 480)
_SILENT_SECONDS: Final = 300.0
"""The API server sends a bookmark each minute."""

T = TypeVar("T")


class _Metadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")


class _Versioned(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_versioned: Final = msgspec.json.Decoder(_Versioned)


class ObjectWatch(Generic[T]):
    """
    The objects of one path as the API server last showed them, by key (`name` or `namespace/name`).

    `on_change` gets the key of each object that comes, changes or goes. `on_error` gets what is
    tried again, and an object that cannot be read, which is left out. `synced` is set after the first list.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        decode: Callable[[Raw], T],
        *,
        on_change: Callable[[str], None],
        on_error: Callable[[str, Exception], None],
    ) -> None:
        self.path: Final = path
        self.objects: Final[dict[str, T]] = {}
        self.synced: Final = asyncio.Event()
        self._client: Final = client
        self._decode: Final = decode
        self._on_change: Final = on_change
        self._on_error: Final = on_error
        self._version = ""
        self.problem = ""
        """Why the objects are not followed now; "" while they are."""

    async def run(self) -> None:
        """Follow the objects until cancelled."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._list()
                self.problem = ""
                self.synced.set()
                await self._watch()
                failures = 0
            except Exception as error:  # noqa: BLE001 - one object must not end the task
                if not isinstance(error, KubeError) or isinstance(error, Gone | DecodeError):
                    self._version = ""
                if self.problem != (problem := f"{self.path}: {error}"):
                    self._on_error(self.path, error)
                self.problem = problem
                await asyncio.sleep(jittered(doubled(_FIRST_SECONDS, _LONGEST_SECONDS, failures)))
                failures += 1

    async def _list(self) -> None:
        seen, version = set[str](), ""
        async for page in pages(self._client, self.path):
            version = version or page.resource_version
            for raw in page.items:
                if key := self._take(raw):
                    seen.add(key)
        for key in [each for each in self.objects if each not in seen]:
            self._drop(key)
        self._version = version

    async def _watch(self) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*_WATCH_SECONDS)),  # noqa: S311 - spreads load, keeps no secret
        }
        lines_of = self._client.stream_lines(self.path, query, read_timeout_seconds=_SILENT_SECONDS)
        async with contextlib.aclosing(lines_of) as reads:
            async for lines in reads:
                for line in lines:
                    self._see(at_once(read_event_in_pieces(line)))

    def _see(self, event: Event) -> None:
        if event.type == "ERROR":  # the version is too old, or the server wants a new list
            raise DecodeError("event", self.path, "type", cut(bytes(event.object).decode(errors="replace")))
        self._version = _versioned.decode(event.object).metadata.version or self._version
        if event.type == "DELETED":
            self._drop(identify(event.object).key)
        elif event.type in {"ADDED", "MODIFIED"}:
            self._take(event.object)

    def _take(self, raw: Raw) -> str:
        """Decode an object and return its key; one that cannot be read counts as absent."""
        key = identify(raw).key
        try:
            value = self._decode(within_limit(bytes(raw)))
        except (MalformedError, ValueError) as error:
            self._on_error(f"{self.path} {key}", error)
            self._drop(key)
            return ""
        if self.objects.get(key) != value:
            self.objects[key] = value
            self._on_change(key)
        return key

    def _drop(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            self._on_change(key)
