"""Whether the objects are still there for which room is held, by live reads: few at a time, and each now and then."""

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from scheduler.kube.client import Client
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.kube.hold_writes import read_owner
from scheduler.kube.writer import Writer
from scheduler.observe import logs
from scheduler.observe.unexpected_errors import together
from solver.domain import HoldOwner

_AGAIN_SECONDS: Final = 15.0
"""An owner is read again after this time."""
_FORBIDDEN_SECONDS: Final = 300.0
"""One that the account may not read is tried again after this time."""
_AT_ONCE: Final = 4
"""The most owners that are read together: with one look per second, so many reads per second."""

_log: Final = logs.logger()


class HoldOwners:
    """Reads owners that are due. One whose kind cannot be read counts as there."""

    def __init__(self, client: Client, writer: Writer, clock: Callable[[], float] = time.monotonic) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._clock: Final = clock
        self._due: Final[dict[str, float]] = {}
        """When to read an owner next, by uid."""

    def suspect(self, uid: str) -> None:
        """Read an owner next: something says that it may be gone."""
        self._due[uid] = float("-inf")

    async def gone(self, owners: Iterable[HoldOwner]) -> dict[str, str]:
        """Read those owners that are due, and return why they are none any more, by uid. All owners are given."""
        known, now = {each.uid: each for each in owners if each.resource and each.uid}, self._clock()
        for uid in self._due.keys() - known.keys():
            del self._due[uid]
        for uid in known.keys() - self._due.keys():
            self._due[uid] = now + _AGAIN_SECONDS  # it was there when its hold was made
        due = sorted((at, uid) for uid, at in self._due.items() if at <= now)[:_AT_ONCE]
        found = await together(self._why_gone(known[uid]) for _, uid in due)
        return {uid: why for (_, uid), why in zip(due, found, strict=True) if why}

    async def _why_gone(self, owner: HoldOwner) -> str:
        self._due[owner.uid] = self._clock() + _AGAIN_SECONDS
        try:
            state = await self._writer.read(partial(read_owner, self._client, owner))
        except Forbidden as error:
            self._due[owner.uid] = self._clock() + _FORBIDDEN_SECONDS
            _log.info(logs.HOLD_OWNER_UNREAD, owner=str(owner), error=str(error))
            return ""
        except KubeError as error:
            _log.info(logs.HOLD_OWNER_UNREAD, owner=str(owner), error=str(error))
            return ""
        if state is None:
            return f"{owner} is gone"
        if state.uid != owner.uid:
            return f"{owner} was deleted, and another object has its name"
        return f"{owner} has finished or is being deleted" if state.has_ended else ""
