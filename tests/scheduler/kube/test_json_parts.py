"""JSON taken apart level by level gives what the whole gives."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.decode.json_parts import BrokenJsonError, JsonObject, elements, members, read_page

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
    assert [json.loads(bytes(each)) for each in elements(spelled(value, blanks=blanks))] == value


@given(value=st.dictionaries(TEXTS, JSON, max_size=5), blanks=st.booleans())
def test_an_object_is_split_into_its_members(*, value: dict[str, Any], blanks: bool) -> None:
    assert {key: json.loads(bytes(each)) for key, each in members(spelled(value, blanks=blanks)).items()} == value


def test_what_is_cut_off_in_its_depths_is_no_list() -> None:
    with pytest.raises(ValueError, match="recursion"):
        read_page(b'{"a":' * 5000)


@given(st.binary(max_size=30) | st.binary(max_size=6).map(lambda key: b'{"%s": 1}' % key))
def test_what_is_no_json_is_said_and_raises_nothing_else(text: bytes) -> None:
    for split in (members, elements):
        try:
            split(text)
        except BrokenJsonError:
            continue


@pytest.mark.parametrize("text", ["", "[", "[1", '["', '["\\"]', "{]", "1", '{"a"}', "{1:2}", '"a"'])
def test_broken_json_is_named(text: str) -> None:
    with pytest.raises(BrokenJsonError):
        members(text.encode())


def test_parts_are_found_under_their_path() -> None:
    whole = JsonObject(b'{"a":{"b":{"c":[1]},"d":null},"e":2}')
    found = whole.part("a", "b", "c")
    assert found is not None
    assert (bytes(found), whole.part("a", "d"), whole.part("x")) == (b"[1]", None, None)
    assert whole.trimmed(("a", "b"), ("e",), ("x", "y")) == b'{"a":{"b":{"c":[1]}},"e":2}'
