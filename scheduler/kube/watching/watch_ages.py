"""
How old the picture is that watches give: when each kind last had an event or a bookmark.

The API server sends a bookmark about once a minute, also where nothing changes. A kind that was silent for longer than
the limit is stale: what happened to its objects meanwhile is not known, so nothing may be written until its watch goes
on.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from scheduler.change import Kind, is_older
from scheduler.kube.leader_election.boot_clock import boot_time


class WatchAges:
    """
    The ages of all watches, in seconds of a clock that suspends do not stop.

    A kind counts from the end of its first listing. Kinds that the server does not have never have an event, and
    are never stale. After a lost connection all of them are stale until the cluster is known to be the same
    (`confirmed`).
    """

    def __init__(self, limit_seconds: float, clock: Callable[[], float] = boot_time) -> None:
        self.limit_seconds: Final = limit_seconds
        self._clock: Final = clock
        self._heard_at: Final[dict[Kind, float]] = {}
        self._errors: Final[dict[Kind, str]] = {}
        self._newest: Final[dict[Kind, str]] = {}
        self._heard: Final = asyncio.Event()
        self._interrupted: Final = asyncio.Event()
        self.interruptions = 0
        """How many connections were lost."""

    def heard(self, kind: Kind, version: str = "") -> None:
        """Note that the watch of a kind shows its objects as they are now, as of this resourceVersion."""
        self._heard_at[kind] = self._clock()
        if not is_older(version, self._newest.get(kind, "")):
            self._newest[kind] = version
        self._errors.pop(kind, None)
        self._heard.set()

    def newest(self) -> dict[Kind, str]:
        """Return the newest resourceVersion of each kind, by an event, a bookmark or a list."""
        return dict(self._newest)

    def failed(self, kind: Kind, error: str) -> None:
        """Note why the watch of a kind is silent."""
        self._errors[kind] = error

    def error(self, kind: Kind) -> str:
        """Return the last error since the last event or bookmark of a kind, "" where there was none."""
        return self._errors.get(kind, "")

    def age(self, kind: Kind) -> float:
        """Return the seconds since the last event or bookmark of a kind; 0 before its first listing has ended."""
        now = self._clock()
        return now - self._heard_at.get(kind, now)

    def stale(self) -> Mapping[Kind, float]:
        """Return the kinds that were silent for longer than the limit, with their ages."""
        now = self._clock()
        return {kind: now - at for kind, at in self._heard_at.items() if now - at > self.limit_seconds}

    def interrupted(self) -> None:
        """Note that a connection was lost: etcd may be restored from a backup before the next one."""
        self.interruptions += 1
        self._interrupted.set()

    @property
    def is_interrupted(self) -> bool:
        """Whether a connection was lost, and the cluster is not known to be the same since."""
        return self._interrupted.is_set()

    def confirmed(self, interruptions: int) -> None:
        """Note that the cluster is the same as before; `interruptions` is the count when it was asked."""
        if interruptions == self.interruptions:
            self._interrupted.clear()
            self._heard.set()

    async def until_interrupted(self, seconds: float) -> None:
        """Return when a connection is lost, after some seconds at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._interrupted.wait()

    def is_fresh(self) -> bool:
        """Whether no kind is stale."""
        return not (self.is_interrupted or self.stale())

    async def until_fresh(self) -> None:
        """Return when no kind is stale."""
        while not self.is_fresh():
            self._heard.clear()
            await self._heard.wait()
