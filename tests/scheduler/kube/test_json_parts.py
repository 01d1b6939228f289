"""JSON taken apart without recursion gives what the fast decoder gives, for all that both can read."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.kube.decode.json_parts import BrokenJsonError, elements, members, substitute, trimmed, walk

TEXTS = st.text(max_size=6) | st.sampled_from(['"', "\\", "\\u", "]{", ",", ":", "😀", "\x00"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def spelled(value: Any, *, blanks: bool) -> bytes:
    return json.dumps(value, indent=1 if blanks else None, ensure_ascii=blanks).encode()


@given(value=st.lists(JSON, max_size=5), blanks=st.booleans())
def test_an_array_is_split_into_its_elements(*, value: list[Any], blanks: bool) -> None:
    assert [json.loads(each) for each in elements(spelled(value, blanks=blanks))] == value


@given(value=st.dictionaries(st.from_regex("[a-z]{0,4}", fullmatch=True), JSON, max_size=5), blanks=st.booleans())
def test_an_object_is_split_into_its_members(*, value: dict[str, Any], blanks: bool) -> None:
    assert {key: json.loads(each) for key, each in members(spelled(value, blanks=blanks)).items()} == value


@example("a text", 0)
@example(["\ud800", "\\ud800", "\udfff\ud800", "😀", {"\ud800": "\ud800x"}], 3)
@given(JSON, st.integers(0, 200))
def test_what_was_softened_is_restored(value: Any, depth: int) -> None:
    text = b"[" * depth + spelled(value, blanks=True) + b"]" * depth
    soft = substitute(text)
    assert soft.restored(soft.text.decode()) == text.decode()
    assert len(soft.text) <= len(text) or soft.parts
    msgspec.json.decode(soft.text)


@given(st.binary(max_size=30))
def test_what_is_no_json_is_said_and_raises_nothing_else(text: bytes) -> None:
    for split in (members, elements, substitute):
        try:
            split(text)
        except BrokenJsonError:
            continue


@pytest.mark.parametrize("text", ["", "[", "[1", '["', '["\\"]', "{]", "1", '{"a"}', "{1:2}", '"a"'])
def test_broken_json_is_named(text: str) -> None:
    with pytest.raises(BrokenJsonError):
        members(text.encode())


def test_parts_are_found_under_their_path() -> None:
    body = b'{"a":{"b":{"c":[1]},"d":null},"e":2}'
    assert (walk(body, "a", "b", "c"), walk(body, "a", "d"), walk(body, "x")) == (b"[1]", None, None)
    assert trimmed(body, ("a", "b"), ("e",), ("x", "y")) == b'{"a":{"b":{"c":[1]}},"e":2}'


def test_the_depth_has_no_limit() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    assert len(substitute(deep).text) < 200
    assert elements(b"[1," + deep + b",2]")[0::2] == [b"1", b"2"]
