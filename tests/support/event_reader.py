"""A reader of Server-Sent Events, which keeps the document as the page does."""

import asyncio
import base64
import gzip
import json
from typing import Any, Final, NamedTuple

import aiohttp


class ReadEvent(NamedTuple):
    """An event with its data, unpacked."""

    name: str
    data: Any
    tag: str


class EventReader:
    """Reads the events of a response."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response: Final = response

    async def next(self) -> ReadEvent:
        """Wait for an event. Raise EOFError where the stream has ended."""
        async with asyncio.timeout(60):
            text = (await self.response.content.readuntil(b"\n\n")).decode()
        if not text:
            raise EOFError("the watch has ended")
        fields = dict(line.split(": ", 1) for line in text.strip("\n").split("\n"))
        data, name = fields["data"], fields["event"]
        packed = name in {"whole", "change"}
        content = gzip.decompress(base64.b64decode(data)) if packed else data
        return ReadEvent(name, json.loads(content) if content else None, fields.get("id", ""))

    async def until(self, *names: str) -> ReadEvent:
        """Wait for an event with one of some names, for a minute at most."""
        async with asyncio.timeout(60):
            while (found := await self.next()).name not in names:
                pass
            return found


def changed(before: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return the tables and fields that a change makes of others."""
    after = {**before, **change["fields"]}
    for name, operations in change["tables"].items():
        after[name] = spliced(before[name], operations)
    return after


def spliced(rows: list[Any], operations: list[Any]) -> list[Any]:
    """Return the rows that operations make of others."""
    found: list[Any] = []
    at = 0
    for each in operations:
        if isinstance(each, list):
            found += each
        else:
            found += rows[at : at + each] if each > 0 else []
            at += abs(each)
    return found
