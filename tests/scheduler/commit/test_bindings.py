"""A binding whose answer is lost may arrive yet, whatever a later try is answered."""

from typing import cast

import pytest

from scheduler.commit.bindings import NotBound, PodBinder
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import AnswerLost, Conflict, Forbidden, KubeError
from scheduler.kube.writer import LATE_SECONDS, NoFence, Writer
from solver.domain import Placement, Pod, PodId, ReasonCode
from tests.support import builders as b
from tests.support.shell_clock import VirtualClock

POD = b.pod("p")
WANTED = b.placement(POD, "n1")


class Server:
    """Answers bindings with errors, the last one again and again; the first binding arrives after some seconds."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *errors: KubeError, arrives_after: float = float("inf")
    ) -> None:
        self.clock = VirtualClock()
        self.began, self.arrives_after = self.clock.now, arrives_after
        self.errors = list(errors)
        self.reads = 0
        monkeypatch.setattr(writes, "bind", self.bind)
        monkeypatch.setattr(writes, "read_pod", self.read_pod)

    async def bind(self, *_: object, **__: object) -> None:
        raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]

    async def read_pod(self, _: Client, key: PodId, **__: object) -> Pod:
        self.reads += 1
        return b.pod(key.name, node_name="n1" if self.seconds >= self.arrives_after else "")

    @property
    def seconds(self) -> float:
        return self.clock.now - self.began

    def binder(self) -> PodBinder:
        slots = RequestSlots(ConcurrencyLimit(), self.clock, self.clock.sleep)
        writer = Writer(slots, NoFence(), 10.0, self.clock, self.clock.sleep)
        return PodBinder(cast("Client", None), writer, self.clock)

    async def bind_pod(self) -> Placement | NotBound:
        return await self.binder().bind(WANTED)


@pytest.mark.parametrize("refusal", [Forbidden(403, "Forbidden", "no"), Conflict(409)], ids=["refused", "conflicts"])
async def test_a_binding_that_is_late_counts_though_a_later_try_was_refused(
    monkeypatch: pytest.MonkeyPatch, refusal: KubeError
) -> None:
    """Its claims would be released, and the pod would wait on its node for ever."""
    server = Server(monkeypatch, AnswerLost("no answer"), refusal, arrives_after=20.0)

    assert await server.bind_pod() == WANTED


async def test_a_refusal_counts_when_no_earlier_try_can_arrive_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, AnswerLost("no answer"), Forbidden(403, "Forbidden", "no"))
    outcome = await server.bind_pod()

    assert isinstance(outcome, NotBound)
    assert outcome.reason.code is ReasonCode.API_ERROR
    assert LATE_SECONDS < server.seconds <= LATE_SECONDS + 10.0


async def test_a_refusal_of_the_first_try_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, Forbidden(403, "Forbidden", "no"))

    assert isinstance(await server.bind_pod(), NotBound)
    assert (server.seconds, server.reads) == (0.0, 0)


async def test_after_a_defect_a_binding_that_is_late_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, AnswerLost("no answer"), arrives_after=20.0)

    assert await server.binder().find(WANTED) == WANTED
