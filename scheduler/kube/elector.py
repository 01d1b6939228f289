"""Take a Lease, keep it, give it up: the I/O around `lease.Election`."""

import asyncio
import datetime as dt
import random
import socket
import time
import uuid
from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.errors import Conflict, KubeError, LeadershipLost, NotFound
from scheduler.kube.lease import Election, Lease, Timing, decode_lease

__all__ = ["LeaderElector", "LeadershipLost", "boot_time", "new_identity"]

_TRIES: Final = 4
_PAUSE_SECONDS: Final = 0.1


def boot_time() -> float:
    """Seconds that go on while the process is stopped and, where the system has such a clock, while it sleeps."""
    clock: int | None = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def new_identity() -> str:
    """Name this process, unlike any other, also unlike an earlier one in the same pod."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """
    Leader election for one process.

    `client` should be one of its own, so that renewals wait behind nothing. `acquire` returns when the lease is ours;
    then `hold` has to run as long as we lead, and every write asks `may_write` first. `on_error` gets what went wrong
    and is tried again.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing,
        on_error: Callable[[Exception], None],
        clock: Callable[[], float] = boot_time,
    ) -> None:
        self.election = Election(identity, timing)
        self._client = client
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._on_error = on_error
        self._clock = clock
        self._turn = asyncio.Lock()

    @property
    def inherited(self) -> str:
        """What leaders before us left in the lease, or we ourselves."""
        return self.election.record

    async def hand_down(self, record: str) -> None:
        """Leave something in the lease for the next leader. Raises KubeError where it may not be there."""
        self.election.record = record
        for _ in range(_TRIES - 1):
            try:
                return await self._renew()
            except LeadershipLost:
                raise
            except KubeError as error:
                self._on_error(error)
            await asyncio.sleep(_PAUSE_SECONDS)
        return await self._renew()

    def may_write(self) -> bool:
        """Whether a write may start now; false at once when the process wakes up after its lease has run out."""
        return self.election.may_write(self._clock())

    async def settled(self) -> None:
        """Wait until the late writes of a leader before us are out of the way (`hold` has to run meanwhile)."""
        await asyncio.sleep(max(0.0, self.election.not_before - self._clock()))

    async def acquire(self) -> None:
        """Return when the lease is ours."""
        while True:
            try:
                if await self._try_to_take():
                    return
            except KubeError as error:
                self._on_error(error)
            await asyncio.sleep(self._timing.retry_period * _jitter())

    async def hold(self) -> None:
        """Renew for ever. Raises LeadershipLost; nothing may be written after it."""
        while True:
            await asyncio.sleep(self._timing.retry_period * _jitter())
            try:
                await self._renew()
            except KubeError as error:
                if self.election.has_lost(self._clock()):
                    self.election.resign()
                    raise LeadershipLost(f"the lease {self._namespace}/{self._name} is lost: {error}") from error
                self._on_error(error)

    async def release(self) -> None:
        """Give the lease up at a clean stop, after the last write has ended. Does nothing where we do not lead."""
        if not self.election.is_leader:
            return
        self.election.resign()
        try:
            await self._patch(self.election.release(_now()))
        except KubeError as error:
            self._on_error(error)

    async def _try_to_take(self) -> bool:
        """Look, and take the lease if it is free."""
        self.election.seen(await self._read(), self._clock())
        if not self.election.can_take(self._clock()):
            return False
        started = self._clock()
        try:
            self.election.took(await self._write_ours(), started)
        except Conflict:
            return False  # somebody was faster
        return True

    async def _write_ours(self) -> Lease:
        if self.election.exists:
            return await self._patch(self.election.taking(_now()))
        body = msgspec.json.encode(self.election.creation(self._namespace, self._name, _now()))
        answer = await self._client.request(
            "POST", paths.leases(self._namespace), body=body, timeout_seconds=self._request_seconds
        )
        return decode_lease(answer)

    async def _renew(self) -> None:
        """Renew once, one at a time; after a conflict, or an answer that was lost, first look who holds it."""
        async with self._turn:
            await self._renew_now()

    async def _renew_now(self) -> None:
        started = self._clock()
        if self.election.has_lost(started):
            raise LeadershipLost("it could not be renewed before its deadline")
        try:
            lease = await self._patch(self.election.renewal(_now()))
        except (Conflict, NotFound):
            self.election.seen(await self._read(), self._clock())
            if not self.election.is_leader:
                held = "it was deleted" if not self.election.exists else f"{self.election.holder} holds it now"
                raise LeadershipLost(held) from None
            raise
        self.election.renewed(lease, started)

    async def _read(self) -> Lease | None:
        try:
            return decode_lease(
                await self._client.request(
                    "GET", paths.leases(self._namespace, self._name), timeout_seconds=self._request_seconds
                )
            )
        except NotFound:
            return None

    async def _patch(self, body: dict[str, object]) -> Lease:
        return decode_lease(
            await self._client.request(
                "PATCH",
                paths.leases(self._namespace, self._name),
                body=msgspec.json.encode(body),
                content_type=MERGE_PATCH,
                timeout_seconds=self._request_seconds,
            )
        )

    @property
    def _request_seconds(self) -> float:
        """At least two tries fit before the deadline."""
        return self._timing.renew_deadline / 2


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _jitter() -> float:
    return random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, keeps no secret
