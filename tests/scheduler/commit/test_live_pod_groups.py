"""Before a binding the PodGroups that have reserved claims are read live: the watch may lag behind."""

from typing import Any, cast

import pytest

from scheduler.cluster import Unit
from scheduler.commit.live_pod_groups import LivePodGroups
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Unreachable
from scheduler.kube.writer import ApiCall, Writer
from solver.domain import ConsumerReference, GangId
from tests.support import builders as b

GROUP = b.gang_id("g", source="scheduling.k8s.io")
ENTRY = ConsumerReference(api_group=GROUP.source, resource="podgroups", name="g", uid="uid-g")
CLAIM = b.claim("c", allocation=b.allocation(), reserved_for=(ENTRY, b.consumer("p")))
UNIT = Unit(placements=(b.placement(b.pod("p", "c"), "n1"),), pod_groups=((GROUP, "uid-g"),))


class Slots:
    async def read(self, request: ApiCall[Any]) -> object:
        return await request(timeout_seconds=1.0)


class Server:
    """Has the group with a uid, none where it is empty; it may be away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, uid: str, *, is_away: bool = False) -> None:
        self.uid, self.is_away = uid, is_away
        self.asked: list[tuple[str, GangId]] = []
        monkeypatch.setattr(writes, "read_group_uid", self.read_group_uid)

    async def read_group_uid(self, _: Client, collection: str, group: GangId, **__: object) -> str:
        self.asked.append((collection, group))
        if self.is_away:
            raise Unreachable("no server there")
        return self.uid


def groups() -> LivePodGroups:
    return LivePodGroups(cast("Client", None), cast("Writer", Slots()), "/podgroups")


@pytest.mark.parametrize(
    ("uid", "said"),
    [
        pytest.param("uid-g", [], id="there"),
        pytest.param("again", ["PodGroup default/g was deleted, and another one has its name"], id="made again"),
        pytest.param("", ["PodGroup default/g was deleted"], id="deleted"),
    ],
)
async def test_a_group_that_is_not_the_one_of_the_decision_is_named(
    monkeypatch: pytest.MonkeyPatch, uid: str, said: list[str]
) -> None:
    server = Server(monkeypatch, uid)

    assert [each.message for each in await groups().objections(UNIT, [CLAIM])] == said
    assert server.asked == [("/podgroups", GROUP)]


async def test_no_pod_is_bound_where_the_server_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, "uid-g", is_away=True)

    (reason,) = await groups().objections(UNIT, [CLAIM])
    assert "no server there" in reason.message


async def test_a_claim_that_no_group_has_reserved_costs_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, "again")

    assert await groups().objections(UNIT, [b.claim("c", reserved_for=(b.consumer("p"),))]) == ()
    assert server.asked == []
