"""
Keeps autoscalers from draining nodes while room on them is held: the pods that it is for are still to come.

The leader writes annotations (`node_marks`) when the first hold of a node begins, and takes them away
when the last one has ended. It reads a node before each write, and leaves what somebody else has set. When it begins to
lead, it lists the nodes once, for annotations that a former leader has left.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Final

from scheduler.backoff import Cooldown, LongerWaits
from scheduler.cluster import Cluster
from scheduler.holds import node_marks
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined, together

_PERIOD_SECONDS: Final = 1.0
"""Between two looks, where no hold begins."""
_TOGETHER_SECONDS: Final = 0.1
"""Holds that begin within this time are handled together."""
_AGAIN_SECONDS: Final = 5.0
"""A write that failed is tried again after this time, doubled with each failure up to the next one."""
_LONGEST_SECONDS: Final = 600.0
_LOOK_SECONDS: Final = 60.0
"""A node whose annotation is somebody else's is read again after this time."""
_MOST_AT_ONCE: Final = 32
_TRIES: Final = 3
"""Attempts at a node that others write, too."""

_log: Final = logs.logger()


class KeptNodes:
    """Which nodes have the annotations, as far as this leader knows."""

    def __init__(
        self,
        access: tuple[Client, Writer, Cluster],
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._writer, self._cluster = access
        self._confined: Final = partial(Confined, metrics, Subsystem.HOLDS, passing=(FencedError,))
        self._kept: Final[dict[str, str]] = {}
        """The uids of nodes that are kept, by name."""
        self._sent: Final[Cooldown[str]] = Cooldown(_AGAIN_SECONDS, clock)
        self._of_others: Final[Cooldown[str]] = Cooldown(_LOOK_SECONDS, clock)
        self._refused: Final[LongerWaits[str]] = LongerWaits(_AGAIN_SECONDS, _LONGEST_SECONDS, clock)
        self._last_error = ""
        self._is_listed = False
        self._begun: Final = asyncio.Event()

    def wake(self) -> None:
        """Look at once: a hold has begun, and until the annotation is there its node may be taken."""
        self._begun.set()

    async def run(self) -> None:
        """Follow the holds; return when no write may start any more."""
        while True:
            self._begun.clear()
            try:
                with self._confined():
                    await self.look()
            except FencedError:
                return
            await asyncio.sleep(_TOGETHER_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PERIOD_SECONDS):
                    await self._begun.wait()

    async def look(self) -> None:
        """Write what has changed since the last look, of so many nodes at a time."""
        if not self._is_listed and self._sent.try_start(""):
            await self._list()
        nodes = map(self._cluster.store.nodes.get, self._cluster.holds.nodes)
        held = {node.name: node.uid for node in nodes if node is not None}
        over = sorted(self._kept.keys() - held.keys())
        wanted = (node for node in sorted(held) if held[node] != self._kept.get(node) and node not in self._of_others)
        self._refused.keep(self._kept.keys() | held.keys())
        turns = (each for each in chain.from_iterable(zip_longest(over, wanted)) if each is not None)
        due = (each for each in turns if each not in self._sent and each not in self._refused)
        await together([self._write(node, is_held=node in held) for node in islice(due, _MOST_AT_ONCE)])

    async def _list(self) -> None:
        """Find what a former leader has left; it is known to be kept then, and taken away where no hold is left."""
        try:
            self._kept.update(await node_marks.kept_nodes(self._client))
            self._is_listed = True
        except KubeError as error:
            self._report("", error)

    def _report(self, node: str, error: KubeError) -> None:
        """Log an error once while it stays the same, whatever node it is about."""
        if str(error) != self._last_error:
            self._last_error = str(error)
            _log.warning(logs.NODE_KEEP_FAILED, node=node, error=str(error))

    async def _write(self, node: str, *, is_held: bool) -> None:
        self._sent.start(node)
        with self._confined(node=node):
            try:
                is_written, tries = False, 0
                while not is_written and tries < _TRIES:
                    is_written, tries = await self._written(node, is_held=is_held), tries + 1
                self._refused.succeeded(node)
            except KubeError as error:
                self._refused.failed(node)
                self._report(node, error)

    async def _written(self, node: str, *, is_held: bool) -> bool:
        """Bring the annotation in line with the holds; False where the node changed meanwhile."""
        mark = await self._writer.read(partial(node_marks.read_mark, self._client, node))
        is_ours = mark is not None and mark.is_ours
        try:
            if mark is not None and is_held and not is_ours:
                is_ours = bool(mark.missing)
                if is_ours:
                    await self._writer.write(partial(node_marks.keep, self._client, mark))
                else:
                    self._of_others.start(node)
            elif mark is not None and is_ours and not is_held:
                await self._writer.write(partial(node_marks.let_go, self._client, mark))
        except Conflict:
            return False
        self._kept.pop(node, None)
        if mark is not None and is_held and is_ours:
            self._kept[node] = mark.uid
        return True
