"""A DeviceHold of thousands of places, each for another pod: what they have in common is written and read once."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from scheduler.change import Kind
from scheduler.kube import hold_writes
from scheduler.kube.client import Client
from scheduler.kube.decode import device_holds, objects
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import AnswerLost
from scheduler.kube.hold_writes import create_hold, encoded
from solver.domain import DeviceHold
from tests.support import hold_builders as h


def large(places: int) -> DeviceHold:
    made = h.hold("large", *(h.place(f"p{n}", f"n{n}", "gpu-0", cpu=1, memory="2Gi") for n in range(places)))
    return replace(made, uid="", resource_version="", deadline=10)


def stored(hold: DeviceHold, version: int = 7) -> bytes:
    found = json.loads(encoded(hold))
    found["metadata"] |= {"uid": "uid-large", "resourceVersion": str(version)}
    return json.dumps(found).encode()


def counting(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[object]:
    calls: list[object] = []
    act: Callable[..., Any] = getattr(module, name)

    def noted(*given: Any, **named: Any) -> Any:
        calls.append(given[0])
        return act(*given, **named)

    monkeypatch.setattr(module, name, noted)
    return calls


@pytest.mark.parametrize("places", [10, 300])
def test_amounts_that_all_places_ask_for_are_written_and_read_once(
    places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = large(places)
    written = counting(monkeypatch, hold_writes, "amount_of")
    read = counting(monkeypatch, device_holds, "quantity")
    text = stored(hold)
    assert decode(Kind.HOLDS, text) == replace(hold, uid="uid-large", resource_version="7")
    assert (written, read) == (["cpu", "memory"], ["1", "2Gi"])


class Answering:
    """A client that answers every request alike."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def request(self, *_: object, **__: object) -> bytes:
        return self.answer


async def test_of_the_answer_to_a_creation_only_uid_and_version_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = large(20)
    decoded = counting(monkeypatch, objects, "_decode")
    made = await create_hold(cast("Client", Answering(stored(hold))), hold)
    assert made == replace(hold, uid="uid-large", resource_version="7")
    assert made.places is hold.places
    assert decoded == []


@pytest.mark.parametrize(
    "answer",
    [
        b'{"kind":"Status","status":"Success"}',
        b"<html>",
        b'{"metadata":{"name":"large"}}',
        b'{"metadata":{"name":"other","uid":"u"}}',
    ],
)
async def test_an_answer_that_names_no_such_hold_is_none(answer: bytes) -> None:
    with pytest.raises(AnswerLost):
        await create_hold(cast("Client", Answering(answer)), large(1))
