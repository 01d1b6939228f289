"""Acquires, renews and releases the Lease: the I/O around `lease.Election`."""

import asyncio
import datetime as dt
import random
import socket
import threading
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import MERGE_PATCH, Client
from scheduler.kube.encode import Json
from scheduler.kube.errors import Conflict, Forbidden, KubeError, LeadershipLost, NotFound, Unreachable
from scheduler.kube.leader_election.boot_clock import boot_time
from scheduler.kube.leader_election.lease import Election, Lease, Timing, decode_lease
from scheduler.kube.leader_election.lease_thread import LeaseLoop, SameLoop

__all__ = ["LeaderElector", "LeadershipLost", "new_identity"]

_TRIES: Final = 4
_PAUSE_SECONDS: Final = 0.1
_MOST_JITTER: Final = 1.2
_LOOK_SECONDS: Final = 0.1
"""How often a standby reads the Lease, so that it takes a lease that is released or has ended at once."""


_MARKER: Final = "-led"
"""Ends the name of a second Lease, without a holder, that outlives the first one: candidates have been here."""


def new_identity() -> str:
    """Make an identity that no other process has, nor an earlier one in the same pod."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """
    Leader election for one process.

    `client` should have its own connections, so that renewals wait for no other request. `acquire` returns when the
    lease is ours; then `hold` has to run while we lead, and every write asks `write_seconds` first. `on_error` gets
    errors that are retried. `drained` is set while the Lease says that no replica may schedule (`dovetail pause`),
    else `undrained`: no lease is taken then, unless `drains` says that this is the process that drains.

    Requests run in `loop`, as do `on_error`, `on_wait` and `on_renewed`. `client` belongs to it; all else is called in
    the scheduler's own event loop. The lease is neither taken nor renewed while that one gives no sign of life.
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
        drains: bool = False,
        loop: LeaseLoop | None = None,
    ) -> None:
        self.election = Election(identity, timing)
        self._loop: Final[LeaseLoop] = loop or SameLoop()
        self._guard = threading.Lock()
        """A fence that was found closed stays closed: between the look at the clock and a renewal no write may ask."""
        self.drained, self.undrained = asyncio.Event(), asyncio.Event()
        self._drains = drains
        self._client = client
        self.namespace: Final = namespace
        self._name = name
        self._timing = timing
        self._on_error = on_error
        self._clock = clock
        self._turn = asyncio.Lock()
        self._asked_at: float | None = None
        """When the first acquisition was sent that may have been stored although its answer is not known."""
        self._first_until: float | None = None
        """Until when no other candidate can lead, because we are the first one ever; None: not known yet."""

    @property
    def object_name(self) -> str:
        """The Lease, for messages."""
        return f"leases {self.namespace}/{self._name}"

    @property
    def earlier_record(self) -> tuple[str, str]:
        """The record in the lease when it was taken, and the version of its format."""
        return self.election.record, self.election.record_version

    def say(self, report: str) -> None:
        """Have renewals write how the leader does, from the next one on."""
        self.election.report = report

    async def write_record(self, record: str) -> None:
        """Write the record for the next leader. Raises KubeError where it may not have been written."""
        await self._loop.run(self._write_record(record))

    async def _write_record(self, record: str) -> None:
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
        """Whether a write may start now; false at once when the process resumes after its lease has expired."""
        with self._guard:
            return self.election.may_write(self._clock())

    def write_seconds(self) -> float:
        """Return how long a write may take that starts now, 0 where none may start."""
        with self._guard:
            return self.election.write_seconds(self._clock())

    async def acquire(
        self, *, was_led: Callable[[], bool] = lambda: False, on_wait: Callable[[], object] = lambda: None
    ) -> None:
        """
        Return when the lease is ours.

        A Lease that does not exist may have been deleted under a leader, unless this is the first candidate ever: then
        it is taken at once. `was_led` says whether the cluster shows the work of a leader. `on_wait` is called whenever
        the lease was read and is not free.
        """
        await self._loop.run(self._acquire(partial(self._loop.is_so, was_led), on_wait))

    async def _acquire(self, was_led: Callable[[], bool], on_wait: Callable[[], object]) -> None:
        while True:
            self._loop.ask_for_sign()
            seconds = min(_LOOK_SECONDS, self._timing.retry_period)
            try:
                if await self._try_to_take(was_led=was_led):
                    return
                on_wait()
                seconds = min(seconds, self.election.seconds_until_free(self._clock()) or seconds)
            except KubeError as error:
                self._on_error(error)
                seconds = self._timing.retry_period
            await asyncio.sleep(seconds * _jitter())

    async def hold(self, on_renewed: Callable[[], object] = lambda: None) -> None:
        """
        Renew periodically. Raises LeadershipLost, after which nothing may be written.

        It ends by its own clock, whatever a renewal waits for.
        A renewal whose answer comes after the deadline of the one before counts as none: writes were refused meanwhile,
        and a caller that met that has given up for good.
        """
        await self._loop.run(self._hold(on_renewed))

    async def _hold(self, on_renewed: Callable[[], object]) -> None:
        while True:
            self._loop.ask_for_sign()
            await asyncio.sleep(self._timing.retry_period * _jitter())
            try:
                self._require_sign()
                async with asyncio.timeout(self.election.seconds_left(self._clock())):
                    await self._renew()
                on_renewed()
            except (KubeError, TimeoutError) as error:
                if self.election.has_lost(self._clock()):
                    self.election.resign()
                    why = error if isinstance(error, KubeError) else "it could not be renewed before its deadline"
                    raise LeadershipLost(f"the lease {self.namespace}/{self._name} is lost: {why}") from error
                self._on_error(error)

    async def release(self) -> None:
        """Release the lease at a clean stop, after the last write. Does nothing where it is not ours."""
        await self._loop.run(self._give_up())

    async def _give_up(self) -> None:
        try:
            if self._asked_at is not None:
                self._note_ours(await self._read())
            if self.election.is_leader:
                self.election.resign()
                await self._release()
        except KubeError as error:
            self._on_error(error)

    async def _release(self) -> None:
        """Release; a renewal that was cancelled may have been stored meanwhile."""
        for _ in range(_TRIES - 1):
            try:
                await self._patch(self.election.release(_now()))
            except Conflict:
                self.election.seen(await self._read(), self._clock())
                if self.election.holder != self.election.identity:
                    return
            else:
                return
        await self._patch(self.election.release(_now()))

    async def _try_to_take(self, *, was_led: Callable[[], bool]) -> bool:
        """Read the lease, and take it if it is free."""
        if self._first_until is None:
            self._first_until = await self._mark()
        lease = await self._read()
        if self._note_ours(lease):
            return True
        is_first = self._clock() <= self._first_until
        self.election.seen(lease, self._clock(), was_led=lease is None and (not is_first or was_led()))
        self._note_drained()
        if not self.election.can_take(self._clock()) or (self.election.is_drained and not self._drains):
            return False
        self._require_sign()
        started = self._clock()
        self._asked_at = started if self._asked_at is None else self._asked_at
        try:
            self.election.took(await self._write_ours(), started)
        except Conflict:
            return False  # another candidate was faster, or an earlier try of ours
        self._asked_at = None
        return True

    async def _mark(self) -> float:
        """
        Create the marker, before the Lease is read; return until when we may count as the first candidate ever.

        Every candidate does so. One that finds the marker waits for a lease duration where there is no Lease. So the
        first one has that long, in which its acquisition has to end. Where the marker is forbidden it says nothing.
        """
        started = self._clock()
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self.namespace, "name": f"{self._name}{_MARKER}"},
        }
        try:
            await self._create(body)
        except Conflict:
            return float("-inf")
        except Forbidden as error:
            self._on_error(error)
            return float("inf")
        return started + self._timing.lease_duration - self._request_seconds

    def _note_ours(self, lease: Lease | None) -> bool:
        """Return whether an acquisition whose answer is not known was stored, in time for a renewal."""
        asked_at = self._asked_at
        last = self._timing.renew_deadline - self._timing.retry_period * _MOST_JITTER
        if asked_at is None or self._clock() > asked_at + last:
            self._asked_at = None
            return False
        if lease is None or lease.holder != self.election.identity:
            return False
        self._asked_at = None
        self.election.took(lease, asked_at)
        return True

    async def _write_ours(self) -> Lease:
        if self.election.exists:
            return await self._patch(self.election.taking(_now()))
        return decode_lease(await self._create(self.election.creation(self.namespace, self._name, _now())))

    async def _create(self, body: Json) -> bytes:
        return await self._client.request(
            "POST",
            paths.leases(self.namespace),
            body=msgspec.json.encode(body),
            timeout_seconds=self._request_seconds,
        )

    async def _renew(self) -> None:
        """Renew once, one renewal at a time; after a conflict read the lease, and renew it where it is still ours."""
        async with self._turn:
            try:
                await self._renew_now()
            except (Conflict, NotFound):  # a renewal of ours whose answer was lost may have been stored
                self.election.seen(await self._read(), self._clock())
                if not self.election.is_leader:
                    held = "it was deleted" if not self.election.exists else f"{self.election.holder} holds it now"
                    raise LeadershipLost(held) from None
                await self._renew_now()
            self._note_drained()

    async def _renew_now(self) -> None:
        started = self._clock()
        self._require_lease()
        lease = await self._patch(self.election.renewal(_now()))
        with self._guard:
            self._require_lease()
            self.election.renewed(lease, started)

    def _require_lease(self) -> None:
        if self.election.has_lost(self._clock()):
            raise LeadershipLost("it could not be renewed before its deadline")

    def _require_sign(self) -> None:
        """Raise Unreachable where the scheduler's event loop is silent for half of the deadline: it may be dead."""
        if (silent := self._loop.silent_seconds()) > self._timing.renew_deadline / 2:
            raise Unreachable(f"the Lease is left alone: the event loop that schedules has not run for {silent:.1f} s")

    def _note_drained(self) -> None:
        self._loop.tell(self._show_drained)

    def _show_drained(self) -> None:
        now, before = self.drained, self.undrained
        if not self.election.is_drained:
            now, before = before, now
        before.clear()
        now.set()

    async def drain(self, *, is_drained: bool) -> bool:
        """Say in the Lease whether replicas may schedule; return whether there is a Lease. Raises KubeError."""
        for _ in range(_TRIES - 1):
            try:
                return await self._drain(is_drained=is_drained)
            except Conflict:  # its holder has renewed it
                await asyncio.sleep(_PAUSE_SECONDS * _jitter())
        return await self._drain(is_drained=is_drained)

    async def _drain(self, *, is_drained: bool) -> bool:
        self.election.seen(await self._read(), self._clock())
        if self.election.exists:
            self.election.seen(await self._patch(self.election.drain(_now(), is_drained=is_drained)), self._clock())
            self._note_drained()
        return self.election.exists

    async def _read(self) -> Lease | None:
        try:
            return decode_lease(
                await self._client.request(
                    "GET", paths.leases(self.namespace, self._name), timeout_seconds=self._request_seconds
                )
            )
        except NotFound:
            return None

    async def _patch(self, body: dict[str, object]) -> Lease:
        return decode_lease(
            await self._client.request(
                "PATCH",
                paths.leases(self.namespace, self._name),
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
    return random.uniform(0.8, _MOST_JITTER)  # noqa: S311 - spreads load, keeps no secret
