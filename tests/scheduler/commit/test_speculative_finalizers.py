"""Finalizers that are written while pods are decided: for which claims, and how an allocation goes on from them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest

from scheduler.commit.claims import Allocate, ClaimWriter, Written
from scheduler.commit.own_writes import OwnWrites
from scheduler.commit.speculative_finalizers import SpeculativeFinalizers
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe.metrics import Metrics
from solver.domain import FINALIZER, Claim, Plan
from tests.support import builders as b

OPEN = msgspec.structs.replace(b.claim("c", b.request("r")), resource_version="1")
ALLOCATION = b.allocation(b.result("r", "gpu-0", "n1"))
PLACED = b.plan(b.placement(b.pod("p", "c"), "n1"))
WAITS = b.plan(*PLACED.placements, b.unplaced(b.pod("q")))


class Server:
    """One claim; a write of another version than it has is a conflict. `done` are the writes that acted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, claim: Claim = OPEN) -> None:
        self.claim, self.done, self.error = claim, list[str](), cast("KubeError | None", None)
        self.sent = list[str]()
        self.answers = asyncio.Event()
        self.answers.set()
        self.writer = ClaimWriter(cast("Client", None), cast("Writer", self), OwnWrites(), lambda _: None)
        monkeypatch.setattr(writes, "add_finalizer", self._does("finalizer", finalizers=(FINALIZER,)))
        monkeypatch.setattr(writes, "allocate", self._does("allocate", allocation=ALLOCATION))
        monkeypatch.setattr(writes, "read_claim", self._read)

    async def write(self, request: ApiCall[Any]) -> object:
        return await request(timeout_seconds=1.0)

    read = write

    async def pause(self, _: int) -> None:
        self.done.append("pause")

    async def _read(self, *_: object, **__: object) -> Claim:
        return self.claim

    def _does(self, name: str, **changes: Any) -> Callable[..., Awaitable[Claim]]:
        async def write(_: object, claim: Claim, *__: object, **___: object) -> Claim:
            self.sent.append(name)
            await self.answers.wait()
            if self.error is not None:
                raise self.error
            if claim.resource_version != self.claim.resource_version:
                raise Conflict(409, "Conflict", "changed")
            version = str(int(claim.resource_version) + 1)
            self.claim = msgspec.structs.replace(self.claim, resource_version=version, **changes)
            self.done.append(name)
            return self.claim

        return write

    async def allocate(self, seen: Claim = OPEN) -> bool:
        """Allocate the claim as the watch has shown it."""
        write = Allocate(claim=seen, allocation=ALLOCATION, consumers=(b.consumer("p"),))
        return isinstance(await self.writer.write(write), Written)

    def finalizers(self, *claims: Claim) -> SpeculativeFinalizers:
        found = {each.id: each for each in claims}
        return SpeculativeFinalizers(self.writer, found.get, Metrics())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


async def test_an_allocation_goes_on_from_the_answer_that_the_watch_has_not_shown_yet(server: Server) -> None:
    await server.writer.add_finalizer(OPEN)
    assert await server.allocate()
    assert server.done == ["finalizer", "allocate"]


async def test_an_allocation_waits_for_the_answer(server: Server) -> None:
    server.answers.clear()
    tasks = [asyncio.create_task(each) for each in (server.writer.add_finalizer(OPEN), server.allocate())]
    await asyncio.sleep(0)
    server.answers.set()
    await asyncio.gather(*tasks)
    assert server.done == ["finalizer", "allocate"]


async def test_an_allocation_adds_a_finalizer_that_could_not_be_written(server: Server) -> None:
    server.error = Conflict(409, "Conflict", "changed")
    await server.writer.add_finalizer(OPEN)
    server.error = None
    assert await server.allocate()
    assert server.done == ["finalizer", "allocate"]


async def test_a_claim_that_has_changed_since_is_read_once(server: Server) -> None:
    await server.writer.add_finalizer(OPEN)
    server.claim = msgspec.structs.replace(server.claim, resource_version="9")
    assert await server.allocate()
    assert server.done == ["finalizer", "pause", "allocate"]


async def test_nothing_is_sent_while_the_watch_is_behind_an_answer(server: Server) -> None:
    """Another round of the same decision: an allocation would wait for a conflict."""
    for _ in range(2):
        await server.writer.add_finalizer(OPEN)
    server.answers.clear()
    tasks = [asyncio.create_task(each) for each in (server.allocate(), server.writer.add_finalizer(OPEN))]
    await asyncio.sleep(0)
    server.answers.set()
    await asyncio.gather(*tasks)
    assert server.sent == ["finalizer", "allocate"]


async def test_a_finalizer_that_others_have_removed_is_written_again(server: Server) -> None:
    await server.writer.add_finalizer(OPEN)
    server.claim = msgspec.structs.replace(OPEN, resource_version="9")
    await server.writer.add_finalizer(server.claim)
    assert server.done == ["finalizer", "finalizer"]


async def test_an_answer_about_another_claim_of_the_same_name_is_not_used(server: Server) -> None:
    await server.writer.add_finalizer(OPEN)
    anew = msgspec.structs.replace(OPEN, uid="anew")
    server.claim = anew
    assert await server.allocate(anew)
    assert server.done == ["finalizer", "finalizer", "allocate"]


@pytest.mark.parametrize(
    ("claim", "last", "count", "written"),
    [
        pytest.param(OPEN, PLACED, 1, ["finalizer"], id="open"),
        pytest.param(OPEN, WAITS, 1, [], id="a pod of the last decision waits"),
        pytest.param(OPEN, b.plan(), 1, [], id="nothing was placed"),
        pytest.param(OPEN, None, 1, [], id="nothing was decided"),
        pytest.param(OPEN, PLACED, 9, [], id="many pods"),
        pytest.param(b.claim("c", finalizers=(FINALIZER,)), PLACED, 1, [], id="has it"),
        pytest.param(msgspec.structs.replace(OPEN, allocation=ALLOCATION), PLACED, 1, [], id="allocated"),
        pytest.param(msgspec.structs.replace(OPEN, is_deleting=True), PLACED, 1, [], id="being deleted"),
        pytest.param(msgspec.structs.replace(OPEN, invalid="unreadable"), PLACED, 1, [], id="unreadable"),
        pytest.param(b.claim("other"), PLACED, 1, [], id="not there"),
    ],
)
async def test_for_which_claims(
    server: Server, claim: Claim, last: Plan | None, count: int, written: list[str]
) -> None:
    finalizers = server.finalizers(claim)
    if last is not None:
        finalizers.decided(last)
    finalizers.begin([b.pod(f"p{number}", "c") for number in range(count)])
    assert await finalizers.finish(1.0)
    assert server.done == written


async def test_nothing_is_begun_while_a_watch_is_stale(server: Server) -> None:
    """It would wait as long, and so would the end of the scheduler."""
    server.answers.clear()
    finalizers = SpeculativeFinalizers(server.writer, lambda _: OPEN, Metrics(), is_fresh=lambda: False)
    finalizers.decided(PLACED)
    finalizers.begin([b.pod("p", "c")])
    assert await finalizers.finish(0.0)
    assert server.sent == []
