"""How old each watch is, by a clock that the test moves: also across suspends, which are one step of it."""

import asyncio

from scheduler.change import Kind
from scheduler.kube.watching.watch_ages import WatchAges
from tests.support.shell_clock import VirtualClock


def test_a_kind_is_stale_beyond_the_limit_and_until_it_is_heard_of() -> None:
    clock = VirtualClock()
    ages = WatchAges(180.0, clock)
    ages.heard(Kind.PODS)
    clock.advance(180.0)
    assert (ages.stale(), ages.age(Kind.PODS)) == ({}, 180.0)
    clock.advance(1.0)
    assert ages.stale() == {Kind.PODS: 181.0}
    ages.heard(Kind.PODS)
    assert ages.stale() == {}


def test_a_kind_that_the_server_does_not_have_or_that_is_not_listed_yet_is_not_stale() -> None:
    clock = VirtualClock()
    ages = WatchAges(180.0, clock)
    ages.heard(Kind.PODS)
    clock.advance(170.0)
    assert ages.age(Kind.POD_GROUPS) == 0.0
    clock.advance(20.0)
    assert list(ages.stale()) == [Kind.PODS]


def test_an_error_is_kept_until_the_kind_is_heard_of() -> None:
    ages = WatchAges(180.0, VirtualClock())
    assert ages.error(Kind.PODS) == ""
    ages.failed(Kind.PODS, "connection refused")
    assert ages.error(Kind.PODS) == "connection refused"
    ages.heard(Kind.PODS)
    assert ages.error(Kind.PODS) == ""


async def test_after_a_suspend_all_kinds_have_to_be_heard_of_first() -> None:
    """A suspend stops timers and watches; the clock is one that goes on."""
    clock = VirtualClock()
    ages = WatchAges(180.0, clock)
    for kind in (Kind.PODS, Kind.NODES):
        ages.heard(kind)
    await ages.until_fresh()
    clock.advance(3600.0)
    waiting = asyncio.create_task(ages.until_fresh())
    for kind in (Kind.PODS, Kind.NODES):
        await asyncio.sleep(0)
        assert not waiting.done()
        ages.heard(kind)
    await waiting


async def test_a_kind_that_gets_stale_meanwhile_is_waited_for_too() -> None:
    clock = VirtualClock()
    ages = WatchAges(180.0, clock)
    ages.heard(Kind.PODS)
    clock.advance(100.0)
    ages.heard(Kind.NODES)
    clock.advance(100.0)
    waiting = asyncio.create_task(ages.until_fresh())
    await asyncio.sleep(0)
    clock.advance(100.0)
    ages.heard(Kind.PODS)
    await asyncio.sleep(0)
    assert not waiting.done()
    ages.heard(Kind.NODES)
    await waiting


async def test_after_a_lost_connection_the_cluster_has_to_be_confirmed() -> None:
    ages = WatchAges(180.0, VirtualClock())
    await ages.until_interrupted(0.0)
    ages.interrupted()
    await asyncio.wait_for(ages.until_interrupted(60.0), 60)
    waiting = asyncio.create_task(ages.until_fresh())
    asked = ages.interruptions
    ages.interrupted()
    ages.confirmed(asked)  # says nothing about the connection that was lost meanwhile
    await asyncio.sleep(0)
    assert not waiting.done()
    ages.confirmed(ages.interruptions)
    await asyncio.wait_for(waiting, 60)
