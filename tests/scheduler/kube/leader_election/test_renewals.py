"""Renewals whose answers take their time: the answers are a script's, and the clock is one that the test moves."""

import asyncio
from typing import Any, cast

import pytest

from scheduler.kube.client import Client
from scheduler.kube.errors import AnswerLost, LeadershipLost
from scheduler.kube.leader_election.elector import LeaderElector
from scheduler.kube.leader_election.lease import Timing
from tests.support.kube_objects import encoded
from tests.support.shell_clock import VirtualClock

TIMEOUT_SECONDS = 5.0


class SlowServer:
    """In the place of a client: the Lease is free, and each write of it takes so many seconds, or loses its answer."""

    def __init__(self, clock: VirtualClock, *seconds: float) -> None:
        self._clock = clock
        self._seconds = list(seconds)

    async def request(self, method: str, _path: str, **_: Any) -> bytes:
        if method == "PATCH":
            if not self._seconds:
                await asyncio.Event().wait()
            self._clock.advance(seconds := self._seconds.pop(0))
            if seconds >= TIMEOUT_SECONDS:
                raise AnswerLost("timed out")
        spec = {"holderIdentity": "us" if method == "PATCH" else "", "leaseDurationSeconds": 15}
        return encoded({"metadata": {"uid": "u", "resourceVersion": "9"}, "spec": spec})


async def leading(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> tuple[LeaderElector, VirtualClock]:
    clock = VirtualClock()
    leader = LeaderElector(
        cast("Client", SlowServer(clock, 0.0, *seconds)),
        namespace="n",
        name="dovetail",
        identity="us",
        timing=Timing(),
        on_error=lambda _: None,
        clock=clock,
    )
    await leader.acquire()
    monkeypatch.setattr(asyncio, "sleep", clock.sleep)
    return leader, clock


async def test_a_renewal_that_is_answered_after_the_deadline_does_not_open_the_fence_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What met the closed fence has given up for good: units that are written, and the loops in the background."""
    leader, _ = await leading(monkeypatch, TIMEOUT_SECONDS, 2.0)
    with pytest.raises(LeadershipLost, match="before its deadline"):
        await asyncio.wait_for(leader.hold(), 60)
    assert not leader.may_write()


async def test_a_renewal_that_is_answered_before_the_deadline_counts_from_when_it_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader, clock = await leading(monkeypatch, 4.0)
    await leader.write_record("record")
    assert leader.may_write()
    assert leader.write_seconds() == (15.0 - 4.0) / 2
    clock.advance(6.0)
    assert leader.may_write()
    clock.advance(0.1)
    assert not leader.may_write()


async def test_a_leader_whose_renewal_does_not_end_is_none_after_the_deadline() -> None:
    """Whatever the renewal waits for: a time-out of a request that is never reached, or a plugin for credentials."""
    leader = LeaderElector(
        cast("Client", SlowServer(VirtualClock(), 0.0)),
        namespace="n",
        name="dovetail",
        identity="us",
        timing=Timing(lease_duration=1.0, renew_deadline=0.3, retry_period=0.05),
        on_error=lambda _: None,
    )
    await leader.acquire()
    async with asyncio.timeout(60):
        with pytest.raises(LeadershipLost, match="before its deadline"):
            await leader.hold()
    assert not leader.may_write()
