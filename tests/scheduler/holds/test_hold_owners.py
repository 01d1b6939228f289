"""Owners are read live, few at a time; one that cannot be read counts as there."""

from typing import cast

import pytest

from scheduler.holds.hold_owners import HoldOwners
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import Forbidden, KubeError, NotFound, ServerError
from scheduler.kube.writer import NoFence, Writer
from solver.domain import HoldOwner
from tests.support.shell_clock import VirtualClock


def owner(name: str, kind: str = "jobs") -> HoldOwner:
    group = "batch/v1" if kind == "jobs" else "v1"
    return HoldOwner(api_version=group, resource=kind, kind="Job", namespace="ml", name=name, uid=f"uid-{name}")


class Server:
    """Answers GETs of owners by their paths: a body, or an error."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, bytes | KubeError] = {}

    async def request(self, method: str, path: str, *, timeout_seconds: float) -> bytes:
        assert method == "GET"
        assert timeout_seconds > 0
        self.asked.append(path)
        answer = self.answers.get(path.rpartition("/")[2], NotFound(404))
        if isinstance(answer, KubeError):
            raise answer
        return answer

    def has(self, name: str, status: str = "{}", metadata: str = "") -> None:
        self.answers[name] = f'{{"metadata": {{"uid": "uid-{name}"{metadata}}}, "status": {status}}}'.encode()


class Stage:
    def __init__(self) -> None:
        self.server, self.clock = Server(), VirtualClock()
        slots = RequestSlots(ConcurrencyLimit(), self.clock, self.clock.sleep)
        writer = Writer(slots, NoFence(), 10.0, self.clock, self.clock.sleep)
        self.owners = HoldOwners(cast("Client", self.server), writer, self.clock)

    async def gone_later(self, *of: HoldOwner) -> dict[str, str]:
        """What is found once all are due."""
        first = await self.owners.gone(of)
        assert first == {}
        self.clock.advance(15.0)
        return await self.owners.gone(of)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize(
    ("status", "metadata", "said"),
    [
        ('{"conditions": [{"type": "Complete", "status": "True"}]}', "", "has finished"),
        ('{"phase": "Succeeded"}', "", "has finished"),
        ('{"state": "Done"}', "", "has finished"),
        ("{}", ', "deletionTimestamp": "2026-01-01T00:00:00Z"', "is being deleted"),
    ],
)
async def test_an_owner_that_has_ended(stage: Stage, status: str, metadata: str, said: str) -> None:
    stage.server.has("x", status, metadata)
    assert said in (await stage.gone_later(owner("x")))["uid-x"]
    assert stage.server.asked == ["/apis/batch/v1/namespaces/ml/jobs/x"]


@pytest.mark.parametrize(
    "status", ['{"conditions": [{"type": "Complete", "status": "False"}]}', '{"phase": "Running"}', "null", "{}"]
)
async def test_an_owner_that_is_there(stage: Stage, status: str) -> None:
    stage.server.has("x", status)
    assert await stage.gone_later(owner("x")) == {}
    assert len(stage.server.asked) == 1


@pytest.mark.parametrize("status", ['"fine"', '{"conditions": {"a": 1}}', '{"conditions": [{"type": 3}]}', "[1]"])
async def test_an_owner_of_any_form_is_there(stage: Stage, status: str) -> None:
    """A kind of somebody else may have any status: what is no sign of an end is none."""
    stage.server.has("x", status)
    stage.server.has("y", status, ', "deletionTimestamp": "2026-01-01T00:00:00Z"')
    assert list(await stage.gone_later(owner("x"), owner("y"))) == ["uid-y"]
    assert len(stage.server.asked) == 2


async def test_an_owner_that_is_gone_or_another_one(stage: Stage) -> None:
    stage.server.answers["y"] = b'{"metadata": {"uid": "other"}}'
    found = await stage.gone_later(owner("x"), owner("y"))
    assert {key: why.partition(" ")[2] for key, why in found.items()} == {
        "uid-x": "ml/x is gone",
        "uid-y": "ml/y was deleted, and another object has its name",
    }


@pytest.mark.parametrize("error", [Forbidden(403), ServerError(500)])
async def test_an_owner_that_cannot_be_read_counts_as_there(stage: Stage, error: KubeError) -> None:
    stage.server.answers["x"] = error
    assert await stage.gone_later(owner("x")) == {}
    stage.clock.advance(300.0)
    del stage.server.answers["x"]
    assert "uid-x" in await stage.owners.gone([owner("x")])


async def test_of_many_owners_few_are_read_at_once_and_each_in_its_turn(stage: Stage) -> None:
    many = [owner(f"o{n}") for n in range(10)]
    for each in many:
        stage.server.has(each.name)
    await stage.gone_later(*many)
    for _ in range(2):
        assert len(stage.server.asked) <= 8
        await stage.owners.gone(many)
    assert sorted(set(stage.server.asked)) == sorted(f"/apis/batch/v1/namespaces/ml/jobs/o{n}" for n in range(10))


async def test_one_that_may_be_gone_is_read_first(stage: Stage) -> None:
    many = [owner(f"o{n}") for n in range(10)]
    await stage.owners.gone(many)
    stage.owners.suspect("uid-o9")
    assert list(await stage.owners.gone(many)) == ["uid-o9"]
    assert len(stage.server.asked) == 1


async def test_an_owner_without_resource_is_not_read(stage: Stage) -> None:
    assert await stage.gone_later(HoldOwner(kind="Job", name="x", uid="uid-x")) == {}
    assert stage.server.asked == []
