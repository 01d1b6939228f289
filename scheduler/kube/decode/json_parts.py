r"""
Splits the JSON of lists and watches into objects, without recursion where the fast decoder refuses it.

The API server passes on users' JSON (opaque parameters, managed fields) that is nested thousands of levels deep or has
escapes of lone surrogates (`\ud800`). msgspec raises for both, even in fields that it skips, and one such object would
fail its whole page or line. Then `substitute` replaces these parts by short strings, or the text is split by hand: only
brackets, commas and strings are looked at, in linear time and at any depth. Each object is decoded, or fails, by
itself.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from scheduler.kube.decode.shared_fields import Wire

T = TypeVar("T")

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?P<end>"?)|[\[\]{},:]', re.DOTALL)
_STOP: Final = re.compile(
    rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\(?!u[dD][89a-fA-F]).)*+")*+(?P<stop>[\[\]{}]|"(?:[^"\\]++|\\.)*+")', re.DOTALL
)
"""Everything up to the next bracket, or to the next string with an escaped surrogate."""
_REST: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F])|.)", re.DOTALL
)
"""Escapes in a string: a pair of surrogates is a character, one alone is none."""
_DEEPEST: Final = 64
"""Levels that the fast decoder gets; the API's own types have less than half."""
_OPEN: Final = (b"{", b"[")
_CLOSE: Final = (b"}", b"]")


class BrokenJsonError(ValueError):
    """The text is no JSON (brackets or quotes do not match), or another type than expected."""


class SubstitutedJson(NamedTuple):
    """JSON with parts replaced by strings of the form `mark-index`; `restored` puts them back."""

    text: bytes
    mark: str
    parts: tuple[bytes, ...]

    def restored(self, text: str) -> str:
        """Put the original parts back into a text that was decoded from it."""
        pattern = rf'"{self.mark}-([0-9]+)"'
        return re.sub(pattern, lambda found: self.parts[int(found[1])].decode(errors="surrogatepass"), text)


def decode(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> tuple[T, SubstitutedJson | None]:
    """
    Decode; where the decoder refuses the text, decode the substituted text and return that too.

    Raises what the decoder raises, and BrokenJsonError.
    """
    try:
        return decoder.decode(raw), None
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        substituted = substitute(bytes(raw))
        return decoder.decode(substituted.text), substituted


def members(raw: bytes) -> dict[str, bytes]:
    """Split an object into its members; the last one of a name counts. Raises BrokenJsonError."""
    found: dict[str, bytes] = {}
    for each in _split(raw, b"{"):
        key, colon, value = _key(each)
        if not colon:
            raise BrokenJsonError("a member has no value")
        found[key] = value
    return found


def elements(raw: bytes) -> list[bytes]:
    """Split an array into its elements. Raises BrokenJsonError."""
    return list(_split(raw, b"["))


def substitute(raw: bytes) -> SubstitutedJson:
    """Replace parts that are nested too deep, and strings with a lone surrogate. Raises BrokenJsonError."""
    mark = f"substituted-{secrets.token_hex(8)}"
    parts: list[bytes] = []
    pieces: list[bytes] = []

    def replaced(start: int, end: int) -> None:
        pieces.append(f'"{mark}-{len(parts)}"'.encode())
        parts.append(raw[start:end])

    done = depth = deep_from = 0
    for token, start, end in _stops(raw, 0):
        if token in _OPEN:
            depth += 1
            if depth == _DEEPEST:
                pieces.append(raw[done:start])
                deep_from = start
        elif token in _CLOSE:
            if depth == _DEEPEST:
                replaced(deep_from, end)
                done = end
            depth -= 1
        elif depth < _DEEPEST and _has_lone_surrogate(token):
            pieces.append(raw[done:start])
            replaced(start, end)
            done = end
    return SubstitutedJson(b"".join((*pieces, raw[done:])), mark, tuple(parts))


def _has_lone_surrogate(token: bytes) -> bool:
    return any(found["lone"] for found in _ESCAPE.finditer(token))


def _split(raw: bytes, bracket: bytes) -> Iterator[bytes]:
    """Return what stands between the commas of the outermost level."""
    body = raw.strip()
    if body[:1] != bracket:
        raise BrokenJsonError(f"it does not begin with {bracket.decode()}")
    at = begun = 1
    while found := _TOKEN.search(body, at):
        token, at = found[0], found.end()
        if token in _OPEN:
            at = _end_of(body, found.start())
        elif token in _CLOSE or token == b",":
            if (part := body[begun : found.start()].strip()) or token == b",":
                yield part
            begun = at
        elif token[:1] == b'"' and not found["end"]:
            raise BrokenJsonError("a string has no end")
        if token in _CLOSE:
            if token != _CLOSE[_OPEN.index(bracket)]:
                raise BrokenJsonError("its brackets do not match")
            return
    raise BrokenJsonError("it ends too early")


def _end_of(raw: bytes, start: int) -> int:
    """Return where the array or object ends that begins there."""
    depth = 0
    for token, _, end in _stops(raw, start):
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth == 0:
            return end
    raise BrokenJsonError("it ends too early")


def _stops(raw: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Return brackets, and strings with an escaped surrogate, with where they stand; all brackets match at the end."""
    expected: list[bytes] = []
    while found := _STOP.match(raw, at):
        token, at = found["stop"], found.end()
        if token in _OPEN:
            expected.append(_CLOSE[_OPEN.index(token)])
        elif token in _CLOSE and (not expected or expected.pop() != token):
            raise BrokenJsonError("its brackets do not match")
        yield token, found.start("stop"), at
    if expected or not _REST.fullmatch(raw, at):
        raise BrokenJsonError("it ends too early")


def _key(member: bytes) -> tuple[str, bytes, bytes]:
    """Split `"key": value`; keys that matter hold no escapes."""
    found = _TOKEN.match(member)
    if found is None or found[0][:1] != b'"':
        raise BrokenJsonError("a member has no name")
    rest = member[found.end() :].lstrip()
    return found[0][1:-1].decode(errors="replace"), rest[:1] if rest[:1] == b":" else b"", rest[1:].strip()


def walk(raw: bytes, *path: str) -> bytes | None:
    """Return the part of an object under a path, None where there is none or it is null. Raises BrokenJsonError."""
    part = raw
    for name in path:
        found = members(part).get(name)
        if found is None or found == b"null":
            return None
        part = found
    return part


def trimmed(raw: bytes, *paths: tuple[str, ...]) -> bytes:
    """Return an object that has only the parts under some paths. Raises BrokenJsonError."""
    result: dict[str, Any] = {}
    for path in paths:
        found = walk(raw, *path)
        if found is None:
            continue
        inner = result
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = msgspec.Raw(found)
    return msgspec.json.encode(result)


Raw = bytes | msgspec.Raw


class Page(NamedTuple):
    """A page of a list; `continue_token` is "" on the last one. `substituted` is set where parts were substituted."""

    resource_version: str
    continue_token: str
    items: Sequence[Raw]
    substituted: SubstitutedJson | None = None


class Event(NamedTuple):
    """A line of a watch; `substituted` as in `Page`."""

    type: str
    object: Raw
    substituted: SubstitutedJson | None = None


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
_list_metadata: Final = msgspec.json.Decoder(_ListMetadata)
_event: Final = msgspec.json.Decoder(_Event)
_text: Final = msgspec.json.Decoder(str)


def read_page(body: bytes) -> Page:
    """Split a page. Raises ValueError if it is no list."""
    try:
        wire, substituted = decode(_list, body)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):  # one of its objects is no JSON
        parts = members(body)
        metadata = _list_metadata.decode(parts.get("metadata", b"{}"))
        items = parts.get("items", b"null")
        apart = [] if items == b"null" else elements(items)
        return Page(metadata.resource_version, metadata.continue_token, apart)
    return Page(wire.metadata.resource_version, wire.metadata.continue_token, wire.items or (), substituted)


def read_event(line: bytes) -> Event:
    """Split a line. Raises ValueError if it is no event."""
    try:
        wire, substituted = decode(_event, line)
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError):
        parts = members(line)
        if not {"type", "object"} <= parts.keys():
            raise BrokenJsonError("it has no type or no object") from None
        return Event(_text.decode(parts["type"]), parts["object"])
    return Event(wire.type, wire.object, substituted)
