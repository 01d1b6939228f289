"""JSON that msgspec refuses becomes legible without moving a byte; a slow reader says what it has to be."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.kube.decode import legible_json
from scheduler.kube.decode.legible_json import LegibleJson, legible, legible_in_pieces
from scheduler.kube.decode.pieces import PIECE_BYTES
from tests.scheduler.kube.test_json_parts import JSON

_DEEPEST = 64
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
PIECES = st.sampled_from(
    [
        rb"\ud800",
        rb"\uDBFF",
        rb"\udc00",
        rb"\uDFFF",
        rb"\\",
        rb"\"",
        b"a",
        b"[",
        b"}",
        rb"\u0041",
        b"d83d",
        b"u",
        rb"\n",
    ]
)
STRINGS = st.lists(PIECES, max_size=12).map(lambda parts: b'"' + b"".join(parts) + b'"')


def slow(sent: bytes) -> bytes:
    """Read byte by byte."""
    text = _ESCAPE.sub(lambda found: rb"\ufffd" if found["lone"] else found[0], sent)
    result, depth, is_inside, begun, at = bytearray(text), 0, False, 0, 0
    while at < len(text):
        byte = text[at : at + 1]
        if is_inside and byte == b"\\":
            at += 1
        elif byte == b'"':
            is_inside = not is_inside
        elif not is_inside and byte in (b"[", b"{"):
            depth += 1
            begun = at if depth == _DEEPEST else begun
        elif not is_inside and byte in (b"]", b"}"):
            if depth == _DEEPEST:
                result[begun + 1 : at] = b" " * (at - begun - 1)
            depth -= 1
        at += 1
    return bytes(result)


def in_pieces_of(size: int, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> LegibleJson:
    with monkeypatch.context() as patch:
        patch.setattr(legible_json, "PIECE_BYTES", size)
        return legible(sent)


@pytest.mark.parametrize("size", [1, 2, 5, 13, 1000])
@example(texts=[rb'"\ud800"'], depth=63)
@example(texts=[rb'"\\\ud83d\ude00\ude00"', rb'"\\ud800\udc00"'], depth=1)
@given(texts=st.lists(STRINGS, min_size=1, max_size=6), depth=st.sampled_from([0, 1, 62, 63, 64, 65]))
def test_whatever_is_in_it_it_is_what_a_slow_reader_makes(texts: list[bytes], depth: int, size: int) -> None:
    sent = b"[" * depth + b"[" + b",".join(texts) + b',[],{"a":[]}]' + b"]" * depth
    with pytest.MonkeyPatch.context() as monkeypatch:
        made = in_pieces_of(size, sent, monkeypatch)
    assert made.text == slow(sent)
    assert made.sent == sent
    msgspec.json.decode(made.text)


@given(JSON, st.integers(0, 63), st.booleans())
def test_what_is_legible_stays_as_it_is(value: Any, depth: int, blanks: bool) -> None:  # noqa: FBT001 - drawn
    text = json.dumps(value, indent=1 if blanks else None, ensure_ascii=blanks).encode()
    nested = b"[" * min(depth, 50) + text + b"]" * min(depth, 50)
    assert legible(nested).text == nested


def test_the_depth_has_no_limit_and_what_was_sent_is_found_again() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    sent = b'{"a":1,"parameters":' + deep + rb',"b":"\udfff"}'
    made = legible(sent)
    assert len(made.text) == len(sent)
    found = msgspec.json.decode(made.text, type=dict[str, msgspec.Raw])
    assert made.sent_part(found["parameters"]) == deep
    assert made.sent_part(found["b"]) == rb'"\udfff"'


def test_a_part_of_another_text_is_refused() -> None:
    made = legible(b'{"a":[1]}')
    other = msgspec.json.decode(b'{"a":[1]}', type=dict[str, msgspec.Raw])
    with pytest.raises(ValueError, match="no part"):
        made.sent_part(other["a"])


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, 10 * PIECE_BYTES + 1])
def test_each_piece_is_bounded(size: int) -> None:
    stops = list(legible_in_pieces(b" " * size))
    assert sum(stops) == size
    assert stops[:-1] == [PIECE_BYTES] * (len(stops) - 1)
