"""
List and watch of one kind, without I/O: the next request, and the meaning of its answer.

`ListWatch` remembers what was handed over. It starts with a complete listing in pages, and continues with watches from
the last resourceVersion. When the server has compacted that version (410), it lists again. After a listing, known
objects that are not in it are handed over as deleted. Objects whose resourceVersion has not changed are not decoded
again. A streamed listing (a watch with sendInitialEvents, KEP-3157) costs the API server three times the CPU of pages.

For an object that cannot be decoded its substitute is handed over (`decode.partial_objects`). It is reported once per
version, and decoded again when it changes. No other object is affected.

An answer is taken in pieces (`decode.json_parts`): between two of them the event loop may run, and what has been
received so far can be handed over. So no object, and no page of objects, holds up what else the loop does.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Change, Kind, Object, is_older
from scheduler.kube import errors, paths
from scheduler.kube.decode.json_parts import Event, JsonObject, Raw, read_event_in_pieces, read_page_in_pieces
from scheduler.kube.decode.legible_json import LegibleJson
from scheduler.kube.decode.objects import Identity, identify_whole, read_in_pieces
from scheduler.kube.decode.pieces import Pieces
from scheduler.kube.decode.shared_fields import Wire
from scheduler.kube.errors import DecodeError, VersionWentBack
from scheduler.kube.http.page_size import PageSize
from scheduler.unreadable import cut
from solver.domain import Pod

_OBJECT_WORK: Final = 4 * 1024
"""What an object costs at least, in bytes that are gone over."""
_DECODED_WORK: Final = 4
"""What a byte costs to decode, in bytes that are gone over: the loop runs before a wide object is handed over."""
_ANY_VERSION: Final = "0"
"""The version to watch from after a listing without one: any."""


class _BookmarkMetadata(Wire, frozen=True):
    resource_version: str = ""


class _Bookmark(Wire, frozen=True):
    metadata: _BookmarkMetadata


_bookmark = msgspec.json.Decoder(_Bookmark)


class Received:
    """
    The changes of an answer, in order, and its problems.

    `problems` are objects that cannot be decoded, `readable` the keys of objects that can be decoded again or are
    deleted. `nameless` are objects whose name cannot be decoded. `torn` is a line that is no event: its change is lost.
    `went_back` is a resourceVersion that is lower than one before: what has it is not handed over. `is_heard` says
    whether there was anything but errors and what cannot be read.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.problems: list[DecodeError] = []
        self.nameless: list[DecodeError] = []
        self.readable: list[str] = []
        self.torn: DecodeError | None = None
        self.went_back: VersionWentBack | None = None
        self.is_heard = False

    def drain(self) -> "Received":
        """Return what was received since the last call."""
        drained = copy.copy(self)
        self.__init__()  # type: ignore[misc] # the same fields, empty
        return drained


class _Known(NamedTuple):
    """
    The last version of an object: whether it was handed over, and the value for the case that the next is unreadable.

    `value` is shared with the mirror. It is None for a pod without a node, of which nothing counts then.
    """

    uid: str
    version: str
    value: Object | None
    is_readable: bool
    is_there: bool


class ListWatch:
    """
    The state of the protocol for one kind.

    `resource_version` is where a watch continues ("": nothing is listed yet).
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.resource_version = ""
        self._known: dict[str, _Known] = {}
        self._seen: set[str] | None = None
        self._has_nameless = False
        """Whether the current listing had objects without a readable name: they may be any that are missing in it."""
        self._continue = ""
        self.page_size: Final = PageSize()
        self._newest = ""
        """The last resourceVersion of a listing or a watch, from which later ones may not go back."""

    # requests

    @property
    def needs_listing(self) -> bool:
        """Whether the next request is a listing (or the rest of one), not a watch."""
        return not self.resource_version

    def shows(self, identities: Mapping[str, tuple[str, str]]) -> bool:
        """Whether exactly these objects are known, by key, each with this uid and resourceVersion."""
        return len(self._known) == len(identities) and all(
            identities.get(key) == known[:2] for key, known in self._known.items()
        )

    def start_listing(self) -> None:
        """Drop the resourceVersion, and keep the known objects: a complete listing follows."""
        self.resource_version = ""
        self._continue = ""
        self._seen = set()
        self._has_nameless = False

    def distrust(self) -> None:
        """Start a listing that hands over every object again, also unchanged ones, whatever its versions are."""
        self._known = {key: known._replace(version="") for key, known in self._known.items()}
        self._newest = ""
        self.start_listing()

    def page_query(self) -> dict[str, str]:
        """Return the query of the next page."""
        query = {"limit": str(self.page_size.objects)} | self._selector()
        if self._continue:
            query["continue"] = self._continue
        return query

    def watch_query(self, timeout_seconds: int) -> dict[str, str]:
        """Return the query of a watch from the last resourceVersion."""
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(timeout_seconds)}
        return query | self._selector() | {"resourceVersion": self.resource_version}

    def _selector(self) -> dict[str, str]:
        selector = paths.FIELD_SELECTORS.get(self.kind)
        return {"fieldSelector": selector} if selector else {}

    # answers

    def receive_page(self, body: bytes, received: Received) -> Pieces[None]:
        """Take one page, adding to `received`. Raises DecodeError if it is no list."""
        try:
            page = yield from read_page_in_pieces(body)
        except ValueError as error:
            raise DecodeError(self.kind.value, "list", "(page)", str(error)) from error
        received.is_heard = True
        for item in page.items:
            yield from self._put(item, page.legible, received)
        self.page_size.learn(len(page.items), len(body))
        self._continue = page.continue_token
        if not self._continue:
            yield from self._end_listing(page.resource_version, received)

    def receive_lines(self, lines: Sequence[bytes], received: Received) -> Pieces[None]:
        """
        Take lines of a watch, adding to `received`.

        Raises the server's own error (`Gone`: list again); what came before it is in `received`.
        """
        for line in lines:
            if not line:
                continue
            try:
                event = yield from read_event_in_pieces(line)
            except ValueError as error:
                received.torn = DecodeError(self.kind.value, "watch", "(event)", cut(str(error)))
                continue
            yield from self._take(event, received)
            received.is_heard = True

    def _take(self, event: Event, received: Received) -> Pieces[None]:
        match event.type:
            case "ADDED" | "MODIFIED":
                yield from self._put(event.object, event.legible, received)
            case "DELETED":
                yield _OBJECT_WORK
                self._remove(event.object, received)
            case "BOOKMARK":
                self._mark(event.object, received)
            case "ERROR":
                raise errors.from_status(event.object)
            case _:
                # An event type of a newer API server.
                return

    def _put(self, raw: Raw, made: LegibleJson | None, received: Received) -> Pieces[None]:
        """Hand over an object, or its substitute."""
        whole = JsonObject(raw)
        yield max(len(raw), _OBJECT_WORK)
        try:
            identity = identify_whole(whole)
        except DecodeError as error:
            self._has_nameless = True
            received.nameless.append(error)
            return
        yield from self._show(identity, whole, made, received)
        if self._seen is not None:
            self._seen.add(identity.key)
        else:  # not before: a take-over waits until the version of what it has to know was passed
            self._go_on_from(identity.resource_version)

    def _show(
        self, identity: Identity, whole: JsonObject, made: LegibleJson | None, received: Received
    ) -> Pieces[None]:
        """Hand over an object whose identity is known, unless it is the version that was handed over last."""
        key, uid, version = identity
        known = self._known.get(key)
        if known is not None and version and known[:2] == (uid, version):
            return
        if known is not None and known.uid == uid and is_older(version, known.version):
            self._note_went_back(version, known.version, received)
            return
        if known is not None and known.uid != uid:
            # It was deleted and created again between two watches.
            self._forget(key, received)
            known = None
        value, problem = yield from read_in_pieces(self.kind, whole, known.value if known is not None else None, made)
        yield _DECODED_WORK * len(whole.raw)
        if known is not None and known.value == value:
            value = known.value  # the mirror keeps the object that it has: no second copy
        stored = None if isinstance(value, Pod) and not _holds(value) else value
        self._known[key] = _Known(uid, version, stored, problem is None, value is not None)
        if problem is not None:
            received.problems.append(problem)
        elif known is not None and not known.is_readable:
            received.readable.append(key)
        if value is not None:
            received.changes.append(Change(kind=self.kind, key=key, value=value))

    def _remove(self, raw: Raw, received: Received) -> None:
        try:
            identity = identify_whole(JsonObject(raw))
        except DecodeError as error:
            received.nameless.append(error)
            return
        self._go_on_from(identity.resource_version)
        self._forget(identity.key, received)

    def _forget(self, key: str, received: Received) -> None:
        known = self._known.pop(key, None)
        if known is not None and known.is_there:
            received.changes.append(Change(kind=self.kind, key=key, value=None))
        if known is not None and not known.is_readable:
            received.readable.append(key)

    def _mark(self, raw: Raw, received: Received) -> None:
        """Go on from the bookmark's resourceVersion."""
        try:
            metadata = _bookmark.decode(raw).metadata
        except msgspec.MsgspecError as error:
            received.nameless.append(DecodeError(self.kind.value, "bookmark", "metadata", str(error)))
            return
        if is_older(metadata.resource_version, self._newest):
            self._note_went_back(metadata.resource_version, self._newest, received)
        else:
            self._go_on_from(metadata.resource_version)

    def _end_listing(self, resource_version: str, received: Received) -> Pieces[None]:
        """Hand over as deleted what the listing did not have, unless it is old or had objects without a name."""
        if received.went_back is None and is_older(resource_version, self._newest):
            self._note_went_back(resource_version, self._newest, received)
        if received.went_back is not None:
            return
        seen = self._seen or set()
        for key in [key for key in self._known if key not in seen and not self._has_nameless]:
            self._forget(key, received)
            yield _OBJECT_WORK
        self._seen = None
        self.resource_version = self._newest = resource_version or _ANY_VERSION

    def _go_on_from(self, version: str) -> None:
        """Continue after this version, where there is one."""
        self.resource_version = self._newest = version or self.resource_version

    def _note_went_back(self, version: str, before: str, received: Received) -> None:
        received.went_back = VersionWentBack(f"{self.kind} went back from resourceVersion {before} to {version}")


def _holds(pod: Pod) -> bool:
    """Whether a pod takes room on a node, or has room reserved there."""
    return bool(pod.node_name or pod.nominated_node_name) and not pod.is_terminal
