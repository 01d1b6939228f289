"""Generated objects on the real API server, beside a running Dovetail and a stream of good pods."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
from rich import box
from rich.table import Table

from e2e import objects
from e2e.controlplane.plane import ControlPlane
from e2e.hostile.objects.draw import written
from e2e.hostile.objects.generator import Hostile, generate
from e2e.hostile.objects.kinds import API_VERSIONS, NAMESPACE, NAMESPACED
from e2e.hostile.run import Setting, World, tell, world
from e2e.hostile.verdict import MOST_P99_SECONDS, Wait, duration, median, percentile
from scheduler.change import Kind

LEAST_ADMITTED: Final = 0.6
_WINDOW: Final = 60
_REST_SECONDS: Final = 0.5
"""How long the objects of a window stay."""
_TAIL_SECONDS: Final = 15.0
_WITHOUT_STATUS: Final = frozenset({Kind.NAMESPACES, Kind.COSCHEDULING_GROUPS})
_REFUSALS_SHOWN: Final = 3


@dataclass(slots=True)
class Found:
    """What the objects came to, by kind, and what happened meanwhile."""

    made: Counter[Kind] = field(default_factory=Counter)
    admitted: Counter[Kind] = field(default_factory=Counter)
    statuses: Counter[Kind] = field(default_factory=Counter)
    unexpected: Counter[Kind] = field(default_factory=Counter)
    refusals: dict[Kind, list[str]] = field(default_factory=dict)
    waits: tuple[Wait, ...] = ()
    harm: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """Say what went wrong, the share of admitted objects included; empty where nothing did."""
        return list(self._failures())

    def _failures(self) -> Iterator[str]:
        share = self.admitted.total() / max(1, self.made.total())
        if share <= LEAST_ADMITTED:
            yield f"only {share:.0%} of the objects were admitted: that shows too little"
        left = sum(not each.is_bound for each in self.waits)
        if left:
            yield f"{left} good pods were left behind"
        if percentile(self.waits, 0.99) > MOST_P99_SECONDS:
            yield f"p99 of the good pods is {duration(percentile(self.waits, 0.99))}"
        yield from self.harm


async def run(plane: ControlPlane, seed: int, count: int, setting: Setting) -> Found:
    """Create so many objects, some at a time, and take them away again. Raises ComponentError and RequestError."""
    found = Found()
    async with world(plane, setting) as there:
        since = time.monotonic()
        for start in range(0, count, _WINDOW):
            numbers = range(start, min(start + _WINDOW, count))
            await _window(there, [generate(seed, number) for number in numbers], found)
            if start % (10 * _WINDOW) == 0:
                tell(f"{numbers.stop} of {count}: {found.admitted.total()} admitted, {len(found.harm)} times harm")
        found.waits = await there.stream.waited(since, time.monotonic(), _TAIL_SECONDS)
        await there.stage.clean()
    return found


async def _window(there: World, hostile: list[Hostile], found: Found) -> None:
    """Create objects, leave them a moment, delete them; note an end of a process."""
    before = there.keeper.restarts, there.keeper.solver_restarts
    session = there.stage.session
    free = asyncio.Semaphore(16)
    made = await asyncio.gather(*(_create(session, each, found, free) for each in hostile))
    await asyncio.sleep(_REST_SECONDS)
    await asyncio.gather(*(_remove(session, path, free) for path in made if path))
    await there.stage.clean()
    after = there.keeper.restarts, there.keeper.solver_restarts
    numbers = f"seed {hostile[0].seed}, objects up to {hostile[-1].number}"
    found.harm += [
        f"{numbers}: {what} ended" for what, was, now in zip(_PROCESSES, before, after, strict=True) if now > was
    ]


_PROCESSES: Final = ("the scheduler", "its worker process")


async def _create(session: aiohttp.ClientSession, hostile: Hostile, found: Found, free: asyncio.Semaphore) -> str:
    """Create one object, and write its status; give its path, empty where it was refused."""
    kind = hostile.kind
    found.made[kind] += 1
    async with free:
        status, answer = await _send(session, "POST", collection(kind), hostile.manifest)
        if status >= 300:
            found.unexpected[kind] += hostile.is_admitted
            told = found.refusals.setdefault(kind, [])
            if hostile.is_admitted and len(told) < _REFUSALS_SHOWN:
                told.append(f"{hostile.number} {', '.join(hostile.about)}: {answer[:300]}")
            return ""
        found.admitted[kind] += 1
        path = f"{collection(kind)}/{hostile.manifest['metadata']['name']}"
        wanted = hostile.manifest.get("status")
        if wanted and kind not in _WITHOUT_STATUS:
            body = {"status": wanted}
            status, _ = await _send(session, "PATCH", f"{path}/status", body, "application/merge-patch+json")
            found.statuses[kind] += status < 300
        return path


async def _remove(session: aiohttp.ClientSession, path: str, free: asyncio.Semaphore) -> None:
    async with free:
        await _send(session, "DELETE", path, {"gracePeriodSeconds": 0})


async def _send(
    session: aiohttp.ClientSession, method: str, path: str, body: Any, content: str = "application/json"
) -> tuple[int, str]:
    headers = {"Content-Type": content}
    try:
        async with session.request(method, path, data=written(body), headers=headers) as answer:
            text = await answer.read()
            return answer.status, text.decode(errors="replace")
    except (aiohttp.ClientError, TimeoutError) as error:
        return 599, repr(error)


def collection(kind: Kind) -> str:
    """Say where objects of a kind are created."""
    version, name = API_VERSIONS[kind]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = objects.PLURALS[name]
    return f"{root}/namespaces/{NAMESPACE}/{plural}" if kind in NAMESPACED else f"{root}/{plural}"


def render(found: Found) -> Table:
    """Lay out what was admitted, by kind."""
    share = found.admitted.total() / max(1, found.made.total())
    waits = found.waits
    caption = (
        f"{found.admitted.total()} of {found.made.total()} admitted ({share:.0%}). "
        "UNEXPECTED: refused against what was expected. "
        f"Good pods: {len(waits)}, median {duration(median(waits))}, p99 {duration(percentile(waits, 0.99))}."
    )
    columns = ("KIND", "MADE", "ADMITTED", "REFUSED", "UNEXPECTED", "STATUSES")
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    for column in table.columns[1:]:
        column.justify = "right"
    for kind, made in sorted(found.made.items()):
        admitted = found.admitted[kind]
        numbers = (made, admitted, made - admitted, found.unexpected[kind], found.statuses[kind])
        table.add_row(kind.value, *map(str, numbers))
    return table
