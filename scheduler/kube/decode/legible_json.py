r"""
Makes JSON legible that is valid for the API server and refused by msgspec, in the same number of bytes.

The API server passes on users' JSON (opaque parameters, managed fields) that is nested thousands of levels deep or has
escapes of lone surrogates (`\ud800`). msgspec refuses both, even in fields that it skips, and one such object would
fail its whole page or line. So arrays and objects at level 64 are emptied, which is deeper than any field that is read,
and a lone surrogate becomes U+FFFD, as Go reads it. No byte moves: what was sent stands at the same offset.

The text is scanned in arrays of numpy, some nanoseconds a byte whatever is in it, and in pieces: between two of them
other tasks may run.
"""

import functools
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube.decode.pieces import PIECE_BYTES, Pieces

_DEEPEST: Final = 64
"""Levels that msgspec gets; the API's own types have less than half."""
_AHEAD: Final = 12
"""Bytes of two escapes, which are looked at together."""
_STRUCTURE: Final = bytes(byte in b'"{}[]' for byte in range(256))
_QUOTE, _BACKSLASH, _SPACE = b'"\\ '
_LITTLE_U, _LITTLE_D = b"ud"
_LOWER: Final = 0x20
"""The bit that makes a letter small."""


class LegibleJson(NamedTuple):
    """JSON that msgspec reads, and the JSON that was sent; both have the same length."""

    text: bytes
    sent: bytes

    def sent_part(self, part: msgspec.Raw) -> bytes:
        """Return what was sent for a part that was decoded from `text` (a view of it)."""
        start = _address(part) - _address(self.text)
        if not 0 <= start <= len(self.text) - len(bytes(part)):
            raise ValueError("the part is no part of this text")
        return self.sent[start : start + len(bytes(part))]


def legible(sent: bytes) -> LegibleJson:
    """Make JSON legible at once: for one object."""
    scan = _Scan(sent)
    while scan.scan_piece():
        pass
    return LegibleJson(scan.text(), sent)


def legible_in_pieces(sent: bytes) -> Pieces[LegibleJson]:
    """Make JSON legible, and stop after each piece, with its bytes."""
    scan = _Scan(sent)
    while size := scan.scan_piece():
        yield size
    return LegibleJson(scan.text(), sent)


@functools.cache
def numpy() -> ModuleType:
    """Import numpy at the first use, for commands that need none of it; the scheduler calls this when it starts."""
    import numpy as np  # noqa: PLC0415 - 0.1 s

    return np


class _Scan:
    """
    Reads a text piece by piece, and rewrites it in place.

    What goes over from one piece to the next: whether its first byte is escaped, whether it begins inside a string, the
    depth, where an array or object at the deepest level has begun, and where the last high surrogate is.
    """

    def __init__(self, sent: bytes) -> None:
        self._length: Final = len(sent)
        self._buffer: Final = bytearray(sent) + bytes(_AHEAD)
        self._bytes: Final[Any] = numpy().frombuffer(self._buffer, numpy().uint8)
        self._structure: Final = sent.translate(_STRUCTURE)
        self._has_surrogates: Final = b"\\ud" in sent or b"\\uD" in sent
        self._at = 0
        self._is_escaped = False
        self._is_inside = 0
        self._depth = 0
        self._deep_from = -1
        self._high = -_AHEAD

    def text(self) -> bytes:
        """Return the text as it was rewritten."""
        return bytes(memoryview(self._buffer)[: self._length])

    def scan_piece(self) -> int:
        """Scan the next piece, and return its bytes; 0 at the end."""
        start, end = self._at, min(self._at + PIECE_BYTES, self._length)
        if start == end:
            return 0
        np = numpy()
        escapes = self._escapes(start, end)
        tokens = np.flatnonzero(np.frombuffer(self._structure, np.bool_, end - start, start))
        kinds = self._bytes[start:end][tokens]
        is_end = kinds == _QUOTE
        if len(escapes):
            is_escaped = np.zeros(end - start + 1, np.bool_)
            is_escaped[escapes + 1] = True
            is_end &= ~is_escaped[tokens]
        if self._is_escaped and len(tokens) and tokens[0] == 0:
            is_end[0] = False
        self._is_escaped = len(escapes) > 0 and int(escapes[-1]) == end - start - 1
        inside = (np.cumsum(is_end, dtype=np.int32) + self._is_inside) & 1
        is_bracket = (kinds != _QUOTE) & (inside == 0)
        if len(inside):
            self._is_inside = int(inside[-1])
        self._empty_deep(start + tokens[is_bracket], kinds[is_bracket])
        if self._has_surrogates and len(escapes):
            self._replace_lone_surrogates(start + escapes)
        self._at = end
        return end - start

    def _escapes(self, start: int, end: int) -> Any:
        """Return where escapes begin in a piece: every second backslash of a run, from the first."""
        np = numpy()
        found = np.flatnonzero(self._bytes[start:end] == _BACKSLASH)
        if self._is_escaped and len(found) and found[0] == 0:
            found = found[1:]
        if not len(found):
            return found
        is_first = np.ones(len(found), np.bool_)
        np.not_equal(found[1:], found[:-1] + 1, out=is_first[1:])
        places = np.arange(len(found))
        return found[(places - np.maximum.accumulate(np.where(is_first, places, 0))) & 1 == 0]

    def _empty_deep(self, places: Any, brackets: Any) -> None:
        """Write spaces into arrays and objects at the deepest level."""
        if not len(places):
            return
        np = numpy()
        is_open = (brackets | _LOWER) == ord("{")  # `[` and `{` differ in this bit alone, as do `]` and `}`
        depths = np.cumsum(np.where(is_open, 1, -1).astype(np.int32), dtype=np.int32) + self._depth
        self._depth = int(depths[-1])
        begins = places[is_open & (depths == _DEEPEST)]
        ends = places[~is_open & (depths == _DEEPEST - 1)]
        if self._deep_from >= 0:
            begins = np.concatenate(([self._deep_from], begins))
        self._deep_from = int(begins[-1]) if len(begins) > len(ends) else -1
        begins = begins[: len(ends)]
        if not len(begins):
            return
        first = int(begins[0])
        change = np.zeros(int(ends[-1]) - first + 1, np.int8)
        change[begins + 1 - first] += 1
        change[ends - first] -= 1
        self._bytes[first : first + len(change)][np.cumsum(change, dtype=np.int8) > 0] = _SPACE
        self._bytes[ends] = self._bytes[begins] + 2  # the bracket that closes it, whatever stood there

    def _replace_lone_surrogates(self, escapes: Any) -> None:
        """Write U+FFFD for each half of a pair without the other; `escapes` are where escapes begin."""
        np, text = numpy(), self._bytes
        letters = escapes[(text[escapes + 1] == _LITTLE_U) & ((text[escapes + 2] | _LOWER) == _LITTLE_D)]
        highs = letters[_is_digit(text[letters + 3], b"89ab")]
        lows = letters[_is_digit(text[letters + 3], b"cdef")]
        after = highs + len(b"\\ud800")
        is_paired = (
            (text[after] == _BACKSLASH)
            & (text[after + 1] == _LITTLE_U)
            & ((text[after + 2] | _LOWER) == _LITTLE_D)
            & _is_digit(text[after + 3], b"cdef")
        )
        before = lows - len(b"\\ud800")
        is_second = np.isin(before, np.append(highs, self._high), assume_unique=True)
        if len(highs):
            self._high = int(highs[-1])
        lone = np.concatenate((highs[~is_paired], lows[~is_second]))
        for offset, letter in enumerate(b"fffd", start=2):
            text[lone + offset] = letter


def _is_digit(found: Any, digits: bytes) -> Any:
    """Whether bytes are among some hexadecimal digits."""
    is_one = numpy().zeros(256, bool)
    is_one[[*digits, *digits.upper()]] = True
    return is_one[found]


def _address(part: bytes | msgspec.Raw) -> int:
    return int(numpy().frombuffer(part, numpy().uint8).__array_interface__["data"][0])
