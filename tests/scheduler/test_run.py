"""The scheduler starts again where the API server was upgraded or rolled back."""

import asyncio
from typing import cast

import pytest

from scheduler import replica, run
from scheduler.history.decision_history import DecisionHistory
from scheduler.kube.client import Client
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.kube.leader_election.lease_thread import LeaseThread
from scheduler.observe.health import CheckState, Health
from scheduler.settings import default
from scheduler.worker.fork_server import ForkServers


async def test_a_check_of_a_kind_that_the_server_no_longer_has_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    health, client = Health(), cast("Client", None)
    process = run.Process(default(), (client, cast("LeaseThread", None)), health, ForkServers(512))
    kinds = iter((("nodes", "podgroups"), ("nodes",)))

    async def once(_: run.Process, stop: asyncio.Event) -> int:
        served = next(kinds)
        for kind in served:
            health.ready(kind).fail("not listed yet")
        health.ready("nodes").succeed()
        if served == ("nodes",):
            stop.set()
        return 0 if stop.is_set() else 3

    monkeypatch.setattr(run.Process, "_run", once)

    assert await process.run(asyncio.Event()) == 0
    assert [(each.name, each.state) for each in health.ready_checks] == [("nodes", CheckState.OK)]


class EnoughError(Exception):
    """Ends a start of the scheduler."""


def test_the_history_outlives_a_new_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[DecisionHistory] = []

    def assembled(*_: object, history: DecisionHistory, **__: object) -> None:
        found.append(history)
        raise EnoughError

    monkeypatch.setattr(replica, "assemble", assembled)
    client = cast("Client", None)
    process = run.Process(default(), (client, cast("LeaseThread", None)), Health(), ForkServers(512))
    for _ in range(2):
        with pytest.raises(EnoughError):
            replica.Replica(process._surroundings(), DiscoveredKinds(), None)  # noqa: SLF001 - a start, without a server

    assert found[0] is found[1]
