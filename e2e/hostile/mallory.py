"""
The process that does what a case says: `python -m e2e.hostile.mallory --kubeconfig FILE --case NAME`.

It has the rights of its account and that account's share of the API server. It goes on until it is ended; each second
it writes a line of JSON with what was created, changed and refused.
"""

import argparse
import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from e2e import objects
from e2e.controlplane import wire
from e2e.hostile.cases import CASES
from e2e.hostile.cases.case import Manifest
from e2e.hostile.objects.draw import written

CONNECTIONS: Final = 16
_TOLD_SECONDS: Final = 1.0
_MERGE: Final = "application/merge-patch+json"
_BUSY: Final = 429


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What was done up to now; `refusal` is the last word of the API server about something that it refused."""

    created: int = 0
    changed: int = 0
    refused: int = 0
    refusal: str = ""


class Mallory:
    """The hands of a case."""

    def __init__(self, session: aiohttp.ClientSession, nodes: int) -> None:
        self._session = session
        self._nodes = nodes
        self._counts = Counter[str]()
        self._refusal = ""
        self._free = asyncio.Semaphore(CONNECTIONS)

    @property
    def nodes(self) -> int:
        """The number of nodes of the fleet."""
        return self._nodes

    @property
    def told(self) -> Told:
        """What was done up to now."""
        counts = self._counts
        return Told(
            created=counts["POST"],
            changed=counts["PATCH"] + counts["DELETE"],
            refused=counts["refused"],
            refusal=self._refusal,
        )

    async def make(self, *manifests: Manifest) -> None:
        """Create objects, one after the other."""
        for each in manifests:
            await self._send("POST", objects.collection_path(each), each)

    async def many(self, count: int, manifest: Callable[[int], Manifest]) -> None:
        """Create so many objects, several at once, in their order as far as that goes."""
        for start in range(0, count, CONNECTIONS):
            numbers = range(start, min(start + CONNECTIONS, count))
            await asyncio.gather(*(self.make(manifest(number)) for number in numbers))

    async def patch(self, manifest: Manifest, body: Manifest, subresource: str = "") -> None:
        """Send a merge patch."""
        path = objects.object_path(manifest) + (f"/{subresource}" if subresource else "")
        await self._send("PATCH", path, body, _MERGE)

    async def remove(self, manifest: Manifest) -> None:
        """Delete an object."""
        await self._send("DELETE", objects.object_path(manifest), {"gracePeriodSeconds": 0})

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def repeat(self, per_second: float, step: Callable[[int], Awaitable[None]]) -> None:
        """Begin a step so many times a second, and skip those for which no connection is free."""
        began, tasks = time.monotonic(), set[asyncio.Task[None]]()
        number = 0
        while True:
            if len(tasks) < CONNECTIONS:
                task = asyncio.ensure_future(step(number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                number += 1
            await asyncio.sleep(max(0.001, began + number / per_second - time.monotonic()))

    async def _send(self, method: str, path: str, body: Manifest, content: str = "application/json") -> None:
        async with self._free:
            try:
                await self._request(method, path, body, content)
            except (aiohttp.ClientError, TimeoutError) as error:
                self._refuse(repr(error))

    async def _request(self, method: str, path: str, body: Manifest, content: str) -> None:
        headers = {"Content-Type": content}
        async with self._session.request(method, path, data=written(body), headers=headers) as answer:
            text = await answer.read()
            if answer.ok:
                self._counts[method] += 1
                return
            if method == "POST":
                self._refuse(f"{answer.status}: {text.decode(errors='replace')[:300]}")
            if answer.status == _BUSY:
                await asyncio.sleep(0.2)

    def _refuse(self, why: str) -> None:
        self._counts["refused"] += 1
        self._refusal = why


async def act(kubeconfig: Path, name: str, nodes: int) -> None:
    """Do a case until cancelled, and tell about it."""
    async with wire.session(kubeconfig, CONNECTIONS) as session:
        mallory = Mallory(session, nodes)
        doing = asyncio.create_task(_do(mallory, name))
        asyncio.get_running_loop().add_reader(0, _end_with_input, doing)
        while not doing.done():
            _tell(mallory.told)
            await asyncio.wait((doing,), timeout=_TOLD_SECONDS)
        _tell(mallory.told)
        if not doing.cancelled():
            doing.result()


def _tell(told: Told) -> None:
    print(msgspec.json.encode(told).decode(), flush=True)


async def _do(mallory: Mallory, name: str) -> None:
    """Do what the case says, and stay: what it has made stays too."""
    await CASES[name].act(mallory)
    await asyncio.Event().wait()


def _end_with_input(doing: asyncio.Task[None]) -> None:
    """End when standard input is closed, which it is when the process that started this one is gone."""
    if not os.read(0, 1):
        asyncio.get_running_loop().remove_reader(0)
        doing.cancel()


def read_told(log: Path) -> Told:
    """Read the last line that a process has told."""
    for line in reversed(log.read_text(errors="replace").splitlines() if log.exists() else []):
        try:
            return msgspec.json.decode(line, type=Told)
        except msgspec.MsgspecError:
            continue
    return Told()


def main() -> None:
    """Read the command line and act."""
    parser = argparse.ArgumentParser(prog="python -m e2e.hostile.mallory", description="Do what a case says.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--case", choices=list(CASES), required=True)
    parser.add_argument("--nodes", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(act(options.kubeconfig, options.case, options.nodes))


if __name__ == "__main__":
    main()
