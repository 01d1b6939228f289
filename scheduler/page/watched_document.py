"""
A document that callers watch: the whole of it, or what changed in it since a version that a caller has.

A document has tables, which are sequences of rows, and other fields. The change of a table is a list of operations on
the rows of the old version, in order: a number above 0 keeps so many rows, one below 0 leaves so many out, and a list
has new rows. Rows of pods that come and go shift those after them, so no row may say where another one stands.
"""

import asyncio
from array import array
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from scheduler.api.answer_threads import in_thread
from scheduler.api.event_stream import StreamEvent
from scheduler.page.html_file import packed

Operations = list[int | list[msgspec.Raw]]


class DocumentVersion(NamedTuple):
    """What is kept of an old version: its tag, and hashes of its rows and fields (SipHash, 64 bits)."""

    tag: str
    tables: Mapping[str, "array[int]"]
    fields: Mapping[str, int]


class DocumentChange(msgspec.Struct, frozen=True):
    """What makes one version of a document out of another: operations on tables, and new values of fields."""

    tables: dict[str, Operations]
    fields: dict[str, msgspec.Raw]


class WatchedDocument:
    """One version of a document. Versions with the same content have the same tag, except for times."""

    def __init__(
        self,
        document: bytes,
        tables: Mapping[str, Iterable[object]],
        fields: Mapping[str, object],
        times: Iterable[str] = (),
    ) -> None:
        """`document` is the whole of it, encoded; `times` are fields that make no other version."""
        encode = msgspec.json.Encoder().encode
        self.document: Final = document
        self._rows: Final = {name: [encode(row) for row in rows] for name, rows in tables.items()}
        self._fields: Final = {name: encode(value) for name, value in fields.items()}
        content = {**self._rows, **{name: [value] for name, value in self._fields.items() if name not in set(times)}}
        self.version: Final = DocumentVersion(
            _tag(content),
            {name: array("q", map(hash, rows)) for name, rows in self._rows.items()},
            {name: hash(value) for name, value in self._fields.items()},
        )
        self._making: Final = asyncio.Lock()
        self._events: Final[dict[str, StreamEvent]] = {}

    async def event_since(self, old: DocumentVersion | None) -> StreamEvent:
        """Return what a caller is sent that has an old version, or none; callers with the same one share it."""
        key = old.tag if old else ""
        async with self._making:
            if key not in self._events:
                self._events[key] = await in_thread(self._event_since, old)
            return self._events[key]

    def _event_since(self, old: DocumentVersion | None) -> StreamEvent:
        change = self._change_since(old) if old else None
        if change is not None and len(change) < len(self.document):
            return StreamEvent("change", packed(change), self.version.tag)
        return StreamEvent("whole", packed(self.document), self.version.tag)

    def _change_since(self, old: DocumentVersion) -> bytes | None:
        """Return the change, None where there are other tables or fields."""
        new = self.version
        if (old.tables.keys(), old.fields.keys()) != (new.tables.keys(), new.fields.keys()):
            return None
        tables = {
            name: operations(old.tables[name], new.tables[name], rows)
            for name, rows in self._rows.items()
            if old.tables[name] != new.tables[name]
        }
        fields = {
            name: msgspec.Raw(value) for name, value in self._fields.items() if old.fields[name] != new.fields[name]
        }
        return msgspec.json.encode(DocumentChange(tables, fields))


def operations(old: Sequence[int], new: Sequence[int], rows: Sequence[bytes]) -> Operations:
    """
    Return what makes the new rows out of the old ones, by the hashes of both: linear in time, right for any rows.

    Of two rows that both stand elsewhere, the one that moved farther is sent again.
    """
    where_old, where_new = ({row: at for at, row in enumerate(each)} for each in (old, new))
    found: Operations = []
    i = j = 0
    while i < len(old) or j < len(new):
        if i < len(old) and j < len(new) and old[i] == new[j]:
            _count(found, 1)
            i, j = i + 1, j + 1
            continue
        until_old = where_new.get(old[i], -1) - j if i < len(old) else -1
        until_new = where_old.get(new[j], -1) - i if j < len(new) else -1
        if j < len(new) and (until_new < 0 or (i == len(old)) or 0 <= until_old < until_new):
            _insert(found, rows[j])
            j += 1
        else:
            _count(found, -1)
            i += 1
    return found


def _count(found: Operations, step: int) -> None:
    last = found[-1] if found else 0
    if isinstance(last, int) and last * step > 0:
        found[-1] = last + step
    else:
        found.append(step)


def _insert(found: Operations, row: bytes) -> None:
    last = found[-1] if found else 0
    if isinstance(last, int):
        found.append([msgspec.Raw(row)])
    else:
        last.append(msgspec.Raw(row))


def _tag(content: Mapping[str, Sequence[bytes]]) -> str:
    found = sha256()
    for name, parts in sorted(content.items()):
        found.update(f"{name} {len(parts)}\n".encode())
        found.update(b"\n".join(parts))
    return found.hexdigest()[:32]
