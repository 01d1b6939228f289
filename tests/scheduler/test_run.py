"""The scheduler starts again where the API server was upgraded or rolled back."""

import asyncio
from typing import cast

import pytest

from scheduler import run
from scheduler.kube.client import Client
from scheduler.observe.health import CheckState, Health
from scheduler.settings import default


async def test_a_check_of_a_kind_that_the_server_no_longer_has_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    health, client = Health(), cast("Client", None)
    process = run.Process(default(), client, client, health)
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
