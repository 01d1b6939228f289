"""The scheduler starts again where the API server was upgraded or rolled back."""

import asyncio
from typing import cast

import pytest

from scheduler import replica, run
from scheduler.components import ReplicaContext
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube.client import Client
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.kube.leader_election.lease_thread import LeaseThread
from scheduler.observe.health import CheckState, Health
from scheduler.observe.metrics import Metrics
from scheduler.settings import default
from scheduler.worker.fork_server import ForkServers


async def test_a_check_of_a_kind_that_the_server_no_longer_has_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    health, client = Health(), cast("Client", None)
    process = run.Process(default(), (client, cast("LeaseThread", None)), (health, Metrics()), ForkServers(512), None)
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

    def assembled(context: ReplicaContext, *_: object) -> None:
        found.append(context.history)
        raise EnoughError

    monkeypatch.setattr(replica, "assemble", assembled)
    client = cast("Client", None)
    process = run.Process(default(), (client, cast("LeaseThread", None)), (Health(), Metrics()), ForkServers(512), None)
    for _ in range(2):
        with pytest.raises(EnoughError):
            replica.Replica(process._context, DiscoveredKinds(), None, None, DeviceUsage(1))  # noqa: SLF001 - no server

    assert found[0] is found[1]
