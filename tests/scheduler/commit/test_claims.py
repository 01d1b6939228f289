"""A claim that cannot be written, and what its pods are told; one that needs no write, and gets one all the same."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from scheduler.commit.bindings import PodBinder
from scheduler.commit.claims import Allocate, ClaimWriter, NotWritten, Reserve, Written
from scheduler.commit.own_writes import OwnWrites
from scheduler.commit.rollback import Rollback
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden
from scheduler.kube.writer import ApiCall, Writer
from solver.domain import FINALIZER, Claim, ReasonCode
from tests.support import builders as b

CLAIM = b.claim("c", b.request("r"), finalizers=(FINALIZER,))
WRITE = Allocate(claim=CLAIM, allocation=b.allocation(b.result("r", "gpu-0", "n1")), consumers=(b.consumer("p"),))


class Slots:
    """Writes and reads at once, and rests for no time."""

    def __init__(self) -> None:
        self.pauses = 0

    async def write(self, request: ApiCall[Any]) -> object:
        return await request(timeout_seconds=1.0)

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
    writer = ClaimWriter(cast("Client", None), cast("Writer", Slots()), OwnWrites(), lambda _: None)
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


async def test_an_allocation_that_is_there_after_a_conflict_is_rolled_back_where_no_more_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A late write of the leader before has made it, and the watch may not have shown it yet."""

    async def conflict(*_: object, **__: object) -> Claim:
        raise Conflict(409, "Conflict", "changed")

    async def refuse(*_: object, **__: object) -> Claim:
        raise Forbidden(403, "Forbidden", "no")

    async def read(*_: object, **__: object) -> Claim:
        return msgspec.structs.replace(CLAIM, allocation=WRITE.allocation, reserved_for=WRITE.consumers)

    for name, does in (("allocate", conflict), ("adopt", refuse), ("read_claim", read)):
        monkeypatch.setattr(writes, name, does)
    writer = ClaimWriter(cast("Client", None), cast("Writer", Slots()), OwnWrites(), lambda _: None)
    answer = await writer.write(WRITE)

    assert isinstance(answer, NotWritten)
    assert answer.may_have_acted


async def test_a_right_that_is_missing_comes_with_what_grants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    words = 'User "x" cannot patch resource "resourceclaims" in API group "resource.k8s.io" in the namespace "n"'
    answer = await failing_with(monkeypatch, Forbidden(403, "Forbidden", words))

    assert answer.reason.message.endswith("lacks this right, deploy/base grants it")


async def test_what_admission_forbids_is_no_missing_right(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = await failing_with(monkeypatch, Forbidden(403, "Forbidden", "unable to create new content"))

    assert answer.reason.message.startswith("the decision could not be written: ")
    assert "hint" not in answer.reason.message


class Server:
    """One claim, of which every write makes another version; a write of another version than it has is a conflict."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, claim: Claim) -> None:
        self.claim = msgspec.structs.replace(claim, resource_version="1")
        self.done: list[str] = []
        self.own = OwnWrites()
        for name in ("adopt", "reserve", "release"):
            monkeypatch.setattr(writes, name, self._writes(name))
        monkeypatch.setattr(writes, "read_claim", self._read)

    async def _read(self, *_: object, **__: object) -> Claim:
        return self.claim

    def _writes(self, name: str) -> Callable[..., Awaitable[Claim]]:
        async def write(_: object, claim: Claim, *__: object, **___: object) -> Claim:
            if claim.resource_version != self.claim.resource_version:
                raise Conflict(409, "Conflict", "changed")
            self.done.append(name)
            return self.changed()

        return write

    def changed(self, **changes: Any) -> Claim:
        """Make it another version."""
        version = str(int(self.claim.resource_version) + 1)
        self.claim = msgspec.structs.replace(self.claim, resource_version=version, **changes)
        return self.claim

    async def reserve(self, *names: str, seen: Claim | None = None) -> Written | NotWritten:
        """Reserve the claim for pods, as seen by the watch."""
        writer = ClaimWriter(cast("Client", None), cast("Writer", Slots()), self.own, lambda _: None)
        consumers = tuple(b.consumer(each) for each in names)
        return await writer.write(Reserve(claim=seen or self.claim, consumers=consumers))

    async def release(self) -> None:
        """Take the allocation back."""
        rollback = Rollback(
            cast("Client", None), cast("Writer", Slots()), cast("PodBinder", None), self.own, lambda _: None
        )
        assert await rollback.deallocate(CLAIM.id, lambda _: True)


HELD = msgspec.structs.replace(CLAIM, allocation=WRITE.allocation, reserved_for=(b.consumer("p"),))


async def test_a_claim_that_another_process_reserved_becomes_another_version_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A former leader may have sent a release of the version before, which may come at any time."""
    server = Server(monkeypatch, HELD)
    answer = await server.reserve("p")

    assert isinstance(answer, Written)
    assert (server.done, answer.claim.resource_version) == (["adopt"], "2")
    await server.reserve("p")
    assert server.done == ["adopt"]


@pytest.mark.parametrize(("device", "done"), [("gpu-0", ["adopt"]), ("gpu-7", [])], ids=["as planned", "otherwise"])
async def test_a_claim_that_was_allocated_between_the_decision_and_the_write(
    monkeypatch: pytest.MonkeyPatch, device: str, done: list[str]
) -> None:
    """By a late write of the leader before, which has decided the same, or by another client."""
    allocation = b.allocation(b.result("r", device, "n1"))
    server = Server(monkeypatch, msgspec.structs.replace(HELD, allocation=allocation))
    writer = ClaimWriter(cast("Client", None), cast("Writer", Slots()), server.own, lambda _: None)
    answer = await writer.write(replace(WRITE, claim=server.claim))

    assert isinstance(answer, Written if done else NotWritten)
    assert server.done == done


async def test_a_claim_that_this_process_reserved_costs_no_write(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, HELD)
    await server.reserve("q")
    server.changed(reserved_for=(*HELD.reserved_for, b.consumer("q")))

    assert isinstance(await server.reserve("p", "q"), Written)
    assert server.done == ["reserve"]


async def test_a_release_that_was_sent_since_makes_it_a_claim_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The release may have got lost, and may still come."""
    server = Server(monkeypatch, msgspec.structs.replace(HELD, reserved_for=()))
    await server.reserve("q")
    await server.release()
    server.changed(reserved_for=HELD.reserved_for)
    await server.reserve("p")

    assert server.done == ["reserve", "release", "adopt"]


async def test_a_release_that_comes_first_deallocates_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, HELD)
    adopt = writes.adopt

    async def too_late(*given: Any, **more: Any) -> Claim:
        server.changed(allocation=None, reserved_for=())
        return await adopt(*given, **more)

    monkeypatch.setattr(writes, "adopt", too_late)
    answer = await server.reserve("p")

    assert isinstance(answer, NotWritten)
    assert "was deallocated meanwhile" in answer.reason.message
    assert server.done == []


async def test_what_another_one_reserved_meanwhile_becomes_another_version_too(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, msgspec.structs.replace(HELD, reserved_for=()))
    seen = server.claim
    server.changed(reserved_for=HELD.reserved_for)

    assert isinstance(await server.reserve("p", seen=seen), Written)
    assert server.done == ["adopt"]


def test_of_too_many_claims_those_are_forgotten_that_were_written_longest_ago() -> None:
    own = OwnWrites()
    claims = [msgspec.structs.replace(CLAIM, uid=str(number)) for number in range(20_001)]
    for each in (*claims[:2], claims[0], *claims[2:]):
        own.add(each)

    assert [each.uid for each in claims if each not in own] == ["1"]
