"""A rollback ends when all of its requests have ended."""

import asyncio
from typing import Any, cast

import pytest

from scheduler.commit.bindings import PodBinder
from scheduler.commit.own_writes import OwnWrites
from scheduler.commit.rollback import Rollback
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.writer import ApiCall, Writer
from solver.domain import ClaimId


class Direct:
    """A writer that sends at once."""

    async def read(self, request: ApiCall[Any]) -> Any:
        return await request(timeout_seconds=1.0)


async def test_an_exception_is_raised_only_when_the_other_requests_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the recovery of the unit would read its pods while a write of its claims is still under way."""
    ended: list[str] = []

    async def read_claim(_: Client, claim: ClaimId, *, timeout_seconds: float) -> None:
        assert timeout_seconds == 1.0
        if claim.name == "bad":
            raise RuntimeError("a defect")
        await asyncio.sleep(0.01)
        ended.append(claim.name)

    monkeypatch.setattr(writes, "read_claim", read_claim)
    writer, binder = cast("Writer", Direct()), cast("PodBinder", None)
    rollback = Rollback(cast("Client", None), writer, binder, OwnWrites(), lambda _: None)
    claims = ClaimId("default", "bad"), ClaimId("default", "good")

    with pytest.raises(RuntimeError):
        await rollback.release(claims, ())

    assert ended == ["good"]
