"""
Splits the JSON of lists, watches and objects into parts, each level in one pass of msgspec.

What msgspec refuses although the API server admits it is made legible first (`legible_json`). Then each object is
decoded, or fails, by itself.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from scheduler.kube.decode.legible_json import LegibleJson, legible, legible_in_pieces
from scheduler.kube.decode.pieces import Pieces, at_once
from scheduler.kube.decode.shared_fields import Wire

T = TypeVar("T")

Raw = bytes | msgspec.Raw
_NULL: Final = msgspec.Raw(b"null")


class BrokenJsonError(ValueError):
    """The text is no JSON, or another type than expected."""


def decode(decoder: msgspec.json.Decoder[T], raw: Raw) -> T:
    """Decode one object; one that the decoder refuses is made legible. Raises what the decoder raises."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        return decoder.decode(legible(bytes(raw)).text)


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
"""Leaves the elements of an array undecoded."""


def elements(raw: Raw) -> list[msgspec.Raw]:
    """Split an array into its elements. Raises BrokenJsonError."""
    return _split(ELEMENTS, raw)


def members(raw: Raw) -> dict[str, msgspec.Raw]:
    """Split an object into its members; the last one of a name counts. Raises BrokenJsonError."""
    return _split(_members, raw)


def _split(decoder: msgspec.json.Decoder[T], raw: Raw) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenJsonError(str(error)) from error


class JsonObject:
    """An object whose parts are taken one by one; each level is split once, when something under it is asked for."""

    def __init__(self, raw: Raw) -> None:
        self.raw: Final = raw
        self._levels: Final[dict[tuple[str, ...], dict[str, msgspec.Raw]]] = {}
        self._lists: Final[dict[tuple[object, tuple[str, ...]], Any]] = {}

    def part(self, *path: str) -> msgspec.Raw | None:
        """Return the part under a path, None where there is none or it is null. Raises BrokenJsonError."""
        found = self.level(*path[:-1]).get(path[-1])
        return None if found is None or found == _NULL else found

    def level(self, *path: str) -> dict[str, msgspec.Raw]:
        """Return the members of the object under a path; none where there is none. Raises BrokenJsonError."""
        found = self._levels.get(path)
        if found is None:
            raw = self.part(*path) if path else self.raw
            self._levels[path] = found = members(raw) if raw is not None else {}
        return found

    def listed(self, decoder: msgspec.json.Decoder[list[T]], *path: str) -> Sequence[T]:
        """Decode the list under a path, once with each decoder; none where there is none. Raises BrokenJsonError."""
        found = self._lists.get((decoder, path))
        if found is None:
            raw = self.part(*path)
            self._lists[decoder, path] = found = _split(decoder, raw) if raw is not None else []
        return cast("list[T]", found)

    def trimmed(self, *paths: tuple[str, ...]) -> bytes:
        """Return the object with only the parts under some paths. Raises BrokenJsonError."""
        result: dict[str, Any] = {}
        for path in paths:
            found = self.part(*path)
            if found is None:
                continue
            inner = result
            for name in path[:-1]:
                inner = inner.setdefault(name, {})
            inner[path[-1]] = found
        return msgspec.json.encode(result)


class Page(NamedTuple):
    """A page of a list; `continue_token` is "" on the last one. `legible` is set where it had to be made legible."""

    resource_version: str
    continue_token: str
    items: Sequence[Raw]
    legible: LegibleJson | None = None


class Event(NamedTuple):
    """A line of a watch; `legible` as in `Page`."""

    type: str
    object: Raw
    legible: LegibleJson | None = None


class _ListMetadata(Wire, frozen=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _List(Wire, frozen=True):
    metadata: _ListMetadata = _ListMetadata()
    items: list[msgspec.Raw] | None = None


class _Event(Wire, frozen=True):
    type: str
    object: msgspec.Raw


_list: Final = msgspec.json.Decoder(_List)
_event: Final = msgspec.json.Decoder(_Event)


def read_page(body: bytes) -> Page:
    """Split a page at once. Raises ValueError if it is no list."""
    return at_once(read_page_in_pieces(body))


def read_page_in_pieces(body: bytes) -> Pieces[Page]:
    """Split a page. Raises ValueError if it is no list."""
    wire, made = yield from _decode_in_pieces(_list, body)
    return Page(wire.metadata.resource_version, wire.metadata.continue_token, wire.items or (), made)


def read_event_in_pieces(line: bytes) -> Pieces[Event]:
    """Split a line. Raises ValueError if it is no event."""
    wire, made = yield from _decode_in_pieces(_event, line)
    return Event(wire.type, wire.object, made)


def _decode_in_pieces(decoder: msgspec.json.Decoder[T], raw: bytes) -> Pieces[tuple[T, LegibleJson | None]]:
    try:
        found = decoder.decode(raw)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        yield len(raw)
    else:
        yield len(raw)
        return found, None
    made = yield from legible_in_pieces(raw)
    try:
        return decoder.decode(made.text), made
    except RecursionError as error:  # what is cut off in its depths cannot be made flatter
        raise BrokenJsonError(str(error)) from error
