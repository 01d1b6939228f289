"""A pod that completes a gang goes first: only in place of a placed member, and for no more than that member had."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.queue import GangReplacements
from scheduler.queue.gangs import REPLACEMENT_SECONDS
from solver.domain import Claim, ClaimId, Pod
from tests.support import builders as b


class Stage:
    """A gang of `minimum` that was placed, of which a test lets members go."""

    def __init__(self, *members: Pod, minimum: int = 2, claims: tuple[Claim, ...] = ()) -> None:
        known = {each.id: each for each in claims}
        self.replacements = GangReplacements(known.get)
        self.minimum = minimum
        self.replacements.placed(members, 0.0)

    def first(self, *pods: Pod, running: int = 1, now: float = 1.0) -> list[str]:
        """Name the waiting pods that go first while so many members run."""
        gang = replace(b.gang("g", self.minimum), running_count=running)
        found = self.replacements.replacements(b.batch(*pods, gangs=[gang]), now)
        return sorted(each.name for each in found)

    def lose(self, pod: Pod, now: float = 0.0, **ended: Any) -> None:
        self.replacements.see(pod, replace(pod, **ended) if ended else None, now)


def member(name: str, *claims: str, **more: Any) -> Pod:
    return b.member(b.pod(name, *claims, **more), "g")


KEEPER, WORKER = member("keeper"), member("worker", cpu=2)
HEIR = member("heir", cpu=2)


def test_a_dummy_with_a_node_and_a_minimum_gives_its_gang_nothing() -> None:
    stage = Stage()
    stage.lose(member("dummy", node_name="n1"))
    assert stage.first(HEIR) == []


def test_the_replacement_of_a_member_goes_first_for_a_while() -> None:
    stage = Stage(KEEPER, WORKER)
    assert stage.first(HEIR) == [], "no member has left"
    stage.lose(WORKER)
    assert stage.first(HEIR) == ["heir"]
    assert stage.first(HEIR, now=REPLACEMENT_SECONDS) == ["heir"]
    assert stage.first(HEIR, now=REPLACEMENT_SECONDS + 1) == []


@pytest.mark.parametrize(
    "heir",
    [
        pytest.param(member("heir", cpu=3), id="more room"),
        pytest.param(member("heir", cpu=2, priority=1), id="another priority"),
        pytest.param(member("heir", "gpus", cpu=2), id="devices"),
        pytest.param(member("heir", cpu=2, node_selector={"a": "b"}), id="other nodes"),
    ],
)
def test_a_pod_that_asks_for_something_else_than_the_member_that_left_goes_in_its_turn(heir: Pod) -> None:
    stage = Stage(KEEPER, WORKER, claims=(b.claim("gpus", b.request(count=8)),))
    stage.lose(WORKER)
    assert stage.first(heir) == []


def test_devices_count_by_what_their_claims_ask_for() -> None:
    claims = (b.claim("a", b.request(count=1)), b.claim("b", b.request(count=1)), b.claim("c", b.request(count=2)))
    stage = Stage(KEEPER, member("worker", "a"), claims=claims)
    stage.lose(member("worker", "a"))
    assert stage.first(member("heir", "c")) == []
    assert stage.first(member("heir", "unknown")) == []
    assert stage.first(member("heir", "b")) == ["heir"]


def test_one_place_is_for_one_pod_however_many_ask() -> None:
    stage = Stage(KEEPER, WORKER)
    stage.lose(WORKER)
    heirs = [member(f"heir-{n}", cpu=2) for n in range(5)]
    assert stage.first(*heirs) == ["heir-0"]
    assert stage.first(*reversed(heirs)) == ["heir-0"], "the place is kept for the pod that asked first"
    stage.lose(heirs[0])
    assert stage.first(*heirs[1:]) == ["heir-1"]


def test_it_gives_back_what_was_lost_and_again_only_what_was_lost_again() -> None:
    stage = Stage(KEEPER, WORKER)
    stage.lose(WORKER)
    assert stage.first(HEIR) == ["heir"]
    stage.replacements.placed([HEIR], 2.0)
    assert stage.first(member("next", cpu=2), now=3.0) == []


def test_a_gang_that_would_not_be_complete_goes_in_its_turn() -> None:
    stage = Stage(KEEPER, WORKER, minimum=4)
    stage.lose(WORKER)
    assert stage.first(HEIR) == []


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        pytest.param({"is_terminal": True}, [], id="it ended well"),
        pytest.param({"is_terminal": True, "has_failed": True}, ["heir"], id="it failed"),
        pytest.param({"is_deleting": True}, ["heir"], id="it is being deleted"),
        pytest.param({"labels": (("a", "b"),)}, [], id="it runs on"),
    ],
)
def test_a_place_is_empty_once_its_member_is_lost(ended: dict[str, Any], expected: list[str]) -> None:
    stage = Stage(KEEPER, WORKER)
    stage.lose(WORKER, **ended)
    assert stage.first(HEIR) == expected


def test_a_member_that_could_not_be_bound_keeps_its_place_for_a_while() -> None:
    stage = Stage(KEEPER, WORKER)
    assert stage.first(WORKER) == ["worker"]
    assert stage.first(WORKER, now=REPLACEMENT_SECONDS + 1) == []


def test_nothing_is_remembered_of_gangs_that_are_gone() -> None:
    claims: dict[ClaimId, Claim] = {}
    replacements = GangReplacements(claims.get)
    for n in range(100):
        pods = [b.member(b.pod(f"p{n}-{m}"), f"g{n}") for m in range(3)]
        replacements.placed(pods, float(n))
        for pod in pods:
            replacements.see(pod, replace(pod, is_terminal=True), float(n))
    assert len(replacements) == 0
