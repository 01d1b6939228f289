"""A claim that cannot be written: what its pods are told."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from scheduler.commit.steps.claims import ClaimWriter, NotWritten
from scheduler.commit.steps.operations import Allocate
from scheduler.commit.writer import Writer
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.encode import FINALIZER
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden
from solver.domain import Claim, ReasonCode
from tests.support import builders as b

CLAIM = b.claim("c", b.request("r"), finalizers=(FINALIZER,))
WRITE = Allocate(claim=CLAIM, allocation=b.allocation(b.result("r", "gpu-0", "n1")), consumers=(b.consumer("p"),))


class Slots:
    """Writes and reads at once, and rests for no time."""

    def __init__(self) -> None:
        self.pauses = 0

    async def write(self, request: Callable[[float], Awaitable[Any]]) -> object:
        return await request(1.0)

    read = write

    async def pause(self, _: int) -> None:
        self.pauses += 1


async def failing_with(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> NotWritten:
    """Write a claim that the server shows as it was, while every write fails as told."""
    left = list(errors)

    async def fail(*_: object, **__: object) -> Claim:
        raise left.pop(0)

    async def read(*_: object, **__: object) -> Claim:
        return CLAIM

    monkeypatch.setattr(writes, "allocate", fail)
    monkeypatch.setattr(writes, "read_claim", read)
    writer = ClaimWriter(cast("Client", None), cast("Writer", Slots()), lambda _: None)
    answer = await writer.write(WRITE)
    assert isinstance(answer, NotWritten)
    assert not left
    return answer


async def test_a_write_whose_answers_never_come_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = AnswerLost("PATCH: no answer within 4 s")
    answer = await failing_with(monkeypatch, *[lost] * 5)

    assert answer.reason.code is ReasonCode.API_ERROR
    assert "no answer within 4 s" in answer.reason.message
    assert answer.may_have_acted


async def test_a_claim_that_changes_all_the_time_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await failing_with(monkeypatch, *[Conflict(409, "Conflict", "changed")] * 5)

    assert answer.reason.code is ReasonCode.CONFLICT
    assert not answer.may_have_acted


async def test_a_right_that_is_missing_comes_with_what_grants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await failing_with(monkeypatch, Forbidden(403, "Forbidden", 'User "x" cannot patch resource "claims"'))

    assert answer.reason.message.endswith("lacks this right, deploy/base grants it")


async def test_what_admission_forbids_is_no_missing_right(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await failing_with(monkeypatch, Forbidden(403, "Forbidden", "unable to create new content"))

    assert answer.reason.message.startswith("what was decided could not be written: ")
    assert "hint" not in answer.reason.message
