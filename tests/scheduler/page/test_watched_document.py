"""What changed in a document: right for any rows, small for small changes, and the whole where that is smaller."""

import base64
import gzip
import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.page import watched_document
from scheduler.page.watched_document import DocumentVersion, WatchedDocument
from tests.support.event_reader import changed, spliced


def operations(old: list[int], new: list[int]) -> list[Any]:
    rows = [str(row).encode() for row in new]
    found: list[Any] = json.loads(msgspec.json.encode(watched_document.operations(old, new, rows)))
    return found


ROWS = st.lists(st.integers(0, 12), max_size=30)


@given(ROWS, ROWS)
def test_operations_make_the_new_rows_out_of_the_old_ones(old: list[int], new: list[int]) -> None:
    assert spliced(old, operations(old, new)) == new


@given(st.lists(st.integers(), unique=True, max_size=30), st.data())
def test_rows_that_come_go_and_move_are_sent_and_no_others(old: list[int], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.sampled_from(old))) if old else set()
    new = [row for row in old if row not in gone]
    for row in data.draw(st.lists(st.integers(), max_size=3)):
        if row not in old and row not in new:
            new.insert(data.draw(st.integers(0, len(new))), row)
    sent = [row for each in operations(old, new) if isinstance(each, list) for row in each]
    assert sorted(sent) == sorted(set(new) - set(old))


def test_a_row_that_moves_far_is_the_only_one_that_is_sent() -> None:
    rows = list(range(100))
    assert operations(rows, [99, *rows[:99]]) == [[99], 99, -1]
    assert operations(rows, [*rows[1:], 0]) == [-1, 99, [0]]


def document(rows: list[str], at: int = 0, **fields: Any) -> WatchedDocument:
    whole = {"rows": rows, "at": at, **fields}
    return WatchedDocument(msgspec.json.encode(whole), {"rows": rows}, {"at": at, **fields}, times=("at",))


async def sent(new: WatchedDocument, old: DocumentVersion | None) -> tuple[str, Any]:
    event = await new.event_since(old)
    assert event.tag == new.version.tag
    return event.name, json.loads(gzip.decompress(base64.b64decode(event.data)))


LONG = ["row " * 20 + str(at) for at in range(50)]


async def test_a_caller_without_a_version_is_sent_the_whole() -> None:
    assert await sent(document(LONG), None) == ("whole", {"rows": LONG, "at": 0})


async def test_a_caller_with_an_old_version_is_sent_what_changed() -> None:
    old, new = document(LONG, 1, free=7, held=1), document([*LONG[:30], "new", *LONG[31:]], 2, free=6, held=1)
    name, change = await sent(new, old.version)
    assert (name, change) == ("change", {"tables": {"rows": [30, ["new"], -1, 19]}, "fields": {"at": 2, "free": 6}})
    before = {"rows": LONG, "at": 1, "free": 7, "held": 1}
    assert changed(before, change) == json.loads(new.document)


async def test_a_change_that_is_larger_than_the_whole_is_not_sent() -> None:
    assert (await sent(document(["a", "b"]), document(LONG).version))[0] == "whole"


async def test_a_document_with_other_tables_or_fields_is_sent_whole() -> None:
    new = document(LONG, free=1)
    assert (await sent(new, document(LONG).version))[0] == "whole"
    without = WatchedDocument(new.document, {}, {"at": 0, "free": 1}, times=("at",))
    assert (await sent(new, without.version))[0] == "whole"


async def test_callers_with_the_same_version_share_what_is_sent() -> None:
    old, new = document(LONG), document(LONG[1:])
    assert await new.event_since(old.version) is await new.event_since(document(LONG).version)


def test_versions_with_the_same_content_have_the_same_tag_whenever_they_were_read() -> None:
    assert document(LONG, 1).version.tag == document(LONG, 2).version.tag
    assert document(LONG, 1).version.tag != document(LONG[1:], 1).version.tag
    assert document(["a", "b"]).version.tag != document(['a","b']).version.tag
    assert document(LONG, free=1).version.tag != document(LONG, free=2).version.tag
