"""The keeper makes holds and brings each to its end, whatever the API server answers and whoever leads."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from scheduler.holds.hold_requests import HoldEnding, HoldRefused
from scheduler.kube.errors import AnswerLost, Forbidden, KubeError, ServerError, Unreachable
from scheduler.kube.hold_writes import OwnerState
from solver.domain import ALL_POD_SLOTS, Claim, Pod
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import gone, seen
from tests.support.hold_stage import HoldStage, request
from tests.support.work import counted

OTHERS = replace(h.OWNER, name="other", uid="uid-other")


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HoldStage]:
    found = await HoldStage(monkeypatch).lead()
    yield found
    await found.end()


def endings(stage: HoldStage) -> list[HoldEnding | None]:
    return [each.ending for each in stage.news]


def taker(name: str, *devices: str) -> tuple[Claim, Pod]:
    """A pod that somebody has bound to n1 with some devices, and its claim."""
    claim = b.held(name, *(b.result("gpu", each, "n1") for each in devices), node_name="n1")
    return claim, b.pod(name, name, node_name="n1")


async def test_room_is_held_from_before_the_write_until_the_watch_shows_the_end(stage: HoldStage) -> None:
    stage.is_watching = False
    hold = await stage.keeper.hold(request())
    assert stage.is_held()
    stage.show()
    assert stage.is_held()
    stage.keeper.release(hold.uid)
    await stage.passes(1)
    assert stage.server.stored == {}
    assert stage.is_held()
    assert endings(stage) == []
    stage.show()
    assert not stage.is_held()
    assert endings(stage) == [HoldEnding.RELEASED]
    assert stage.freed() == 1


async def test_nodes_are_kept_from_autoscalers_as_soon_as_their_room_is_held(stage: HoldStage) -> None:
    """Before the object is written: until the annotation is there, Karpenter may take the node."""
    told: list[tuple[bool, list[str]]] = []
    stage.keeper.on_begin.append(lambda: told.append((stage.is_held(), list(stage.server.calls))))
    storing = stage.keeper.hold(request(name="h"))
    assert told == [(True, [])]
    await storing


async def test_a_hold_that_another_replica_has_made_begins_when_the_watch_shows_it(stage: HoldStage) -> None:
    told: list[None] = []
    stage.keeper.on_begin.append(lambda: told.append(None))
    stage.server.store(replace(h.hold("h", h.place(h.of_owner("job"), "n1", "gpu-1"), deadline=9000), uid=""))
    stage.show()
    assert len(told) == 1
    stage.show()
    assert len(told) == 1


async def test_a_hold_whose_answer_is_lost_is_found_by_a_read(stage: HoldStage) -> None:
    stage.server.error, stage.server.acts = AnswerLost("no answer"), True
    hold = await stage.keeper.hold(request(name="h"))
    assert hold == stage.server.stored["h"]
    assert stage.is_held()


async def test_a_hold_that_is_stored_after_it_was_given_up_is_deleted(stage: HoldStage) -> None:
    stage.server.arrives_late = stage.server.is_away = True
    with pytest.raises(HoldRefused):
        await stage.keeper.hold(request())
    assert not stage.is_held()
    assert stage.freed() == 1
    stage.server.is_away = False
    stage.server.deliver()
    await stage.passes(1)
    assert stage.server.stored == {}
    assert not stage.is_held()
    assert endings(stage) == [HoldEnding.RELEASED]


@pytest.mark.parametrize("error", [Forbidden(403), Unreachable("not sent"), ServerError(500)])
async def test_a_refused_request_holds_nothing(stage: HoldStage, error: KubeError) -> None:
    stage.server.error = error
    with pytest.raises(HoldRefused):
        await stage.keeper.hold(request(name="h"))
    assert not stage.is_held()
    stage.server.error = None
    hold = await stage.keeper.hold(request(name="h"))
    await stage.passes(5)
    assert stage.server.stored == {"h": hold}
    assert stage.is_held()


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_name_that_another_owner_has_is_refused_and_left_to_it(stage: HoldStage, is_shown: bool) -> None:  # noqa: FBT001
    stage.server.owners[OTHERS.uid] = OwnerState(OTHERS.uid, has_ended=False)
    stage.is_watching = is_shown
    theirs = h.hold("h", h.place(h.of_owner("job"), "n2", "gpu-1"), owner=OTHERS, deadline=9000)
    stage.server.store(replace(theirs, uid=""))
    with pytest.raises(HoldRefused, match="is there already, for Job default/other"):
        await stage.keeper.hold(request(name="h"))
    stage.is_watching = True
    stage.show()
    await stage.passes(30)
    assert list(stage.server.stored) == ["h"]
    assert stage.is_held("gpu-1", "n2")
    assert not stage.is_held()


async def test_an_owner_has_one_hold_of_each_name(stage: HoldStage) -> None:
    first = await stage.keeper.hold(request(name="h"))
    assert await stage.keeper.hold(request(name="h")) == first
    assert stage.server.calls == ["create h"]


async def test_a_hold_that_ends_is_no_answer_to_a_new_request(stage: HoldStage) -> None:
    hold = await stage.keeper.hold(request(name="h"))
    stage.server.error = ServerError(500)
    stage.keeper.release(hold.uid)
    await stage.passes(1)
    with pytest.raises(HoldRefused, match="is ending"):
        await stage.keeper.hold(request(name="h"))
    stage.server.error = None
    await stage.passes(6)
    assert stage.server.stored == {}
    assert (await stage.keeper.hold(request(name="h"))).uid != hold.uid


async def test_two_releases_end_a_hold_once(stage: HoldStage) -> None:
    hold = await stage.keeper.hold(request(name="h"))
    stage.keeper.release(hold.uid)
    stage.keeper.release(hold.uid)
    await stage.passes(10)
    stage.keeper.release(hold.uid)
    await stage.passes(10)
    assert stage.server.calls == ["create h", "delete h"]
    assert endings(stage) == [HoldEnding.RELEASED]


async def test_a_deletion_that_fails_is_sent_again(stage: HoldStage) -> None:
    hold = await stage.keeper.hold(request(name="h"))
    stage.server.error = ServerError(500)
    stage.keeper.release(hold.uid)
    await stage.passes(3)
    assert stage.is_held()
    stage.server.error = None
    await stage.passes(6)
    assert stage.server.calls == ["create h", "delete h", "delete h"]
    assert not stage.is_held()


async def test_a_hold_released_before_the_watch_shows_it_ends(stage: HoldStage) -> None:
    """The list after a broken watch may never show it: it was deleted meanwhile."""
    stage.is_watching = False
    hold = await stage.keeper.hold(request(name="h"))
    stage.keeper.release(hold.uid)
    await stage.passes(2)
    assert stage.server.stored == {}
    stage.unseen.clear()
    await stage.passes(6)
    assert not stage.is_held()
    assert stage.freed() == 1


@pytest.mark.parametrize("jump", [-3600.0, 0.0, 3600.0])
async def test_the_deadline_is_that_of_the_wall_clock_though_it_jumps(stage: HoldStage, jump: float) -> None:
    await stage.keeper.hold(request(seconds=60))
    stage.wall.advance(jump)
    await stage.passes(30)
    assert stage.is_held() == (jump <= 0)
    await stage.passes(31 - min(jump, 0))
    assert stage.server.stored == {}
    assert endings(stage) == [HoldEnding.DEADLINE]


async def test_a_place_that_somebody_has_taken_is_lost_and_the_others_stay(stage: HoldStage) -> None:
    places = [h.place(h.of_owner("job"), node, "gpu-0") for node in ("n1", "n2")]
    await stage.keeper.hold(request(*places, name="h"))
    for each in taker("taker", "gpu-0"):
        stage.see(seen(each))
    await stage.passes(2)
    (lost,) = stage.server.stored["h"].lost
    assert lost.place == 0
    assert "gpu-0" in lost.message
    assert not stage.is_held()
    assert stage.is_held("gpu-0", "n2")
    assert [(each.ending, each.hold.name) for each in stage.news] == [(None, "h")]
    stage.see(gone(b.node("n2")))
    await stage.passes(2)
    assert stage.server.stored == {}
    assert endings(stage) == [None, None, HoldEnding.LOST]


async def test_what_a_departing_pod_has_is_no_loss_but_what_comes_after_it_is(stage: HoldStage) -> None:
    claim, pod = taker("leaving", "gpu-0")
    stage.see(seen(claim))
    stage.see(seen(pod))
    await stage.keeper.hold(request(name="h", departing=(pod.uid,)))
    stage.see(seen(replace(pod, is_deleting=True)))
    await stage.passes(2)
    assert stage.server.stored["h"].lost == ()
    stage.see(gone(pod))
    stage.see(gone(claim))
    await stage.passes(2)
    assert stage.is_held()
    for each in taker("thief", "gpu-0"):
        stage.see(seen(each))
    await stage.passes(2)
    assert endings(stage) == [None, HoldEnding.LOST]


async def test_a_claim_of_the_own_pod_that_is_allocated_before_the_binding_loses_nothing(stage: HoldStage) -> None:
    hold = await stage.keeper.hold(request(name="h"))
    own = h.owned(b.pod("own", "own"), "job")
    stage.see(seen(own))
    stage.see(seen(b.held("own", b.result("gpu", "gpu-0", "n1"), node_name="n1")))
    await stage.passes(3)
    assert stage.is_held()
    assert endings(stage) == []
    stage.see(seen(replace(own, node_name="n1", place=f"{hold.uid}/0")))
    await stage.passes(2)
    assert stage.server.stored == {}
    assert endings(stage) == [HoldEnding.USED]


async def test_a_place_stays_used_though_its_pod_ends(stage: HoldStage) -> None:
    places = [h.place(h.of_owner("job"), node, "gpu-0") for node in ("n1", "n2")]
    hold = await stage.keeper.hold(request(*places, name="h"))
    own = replace(h.owned(b.pod("own"), "job"), node_name="n1", place=f"{hold.uid}/0")
    stage.see(seen(own))
    stage.see(gone(own))
    await stage.passes(2)
    assert stage.server.stored["h"].used == (0,)
    assert stage.is_held("gpu-0", "n2")
    assert not stage.is_held()


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_hold_ends_with_its_owner(stage: HoldStage, is_known: bool) -> None:  # noqa: FBT001
    """At once where the owner is a pod that the watch knows, else once it is read, every 15 seconds."""
    owner = replace(h.OWNER, uid="uid-default-owner") if is_known else h.OWNER
    stage.server.owners[owner.uid] = OwnerState(owner.uid, has_ended=False)
    stage.see(seen(b.pod("owner")))
    await stage.keeper.hold(request(owner=owner))
    stage.server.owners.clear()
    stage.see(gone(b.pod("owner")))
    await stage.passes(2 if is_known else 18)
    assert stage.server.stored == {}
    assert endings(stage) == [HoldEnding.OWNER]


async def test_a_new_leader_ends_what_the_old_one_began(stage: HoldStage) -> None:
    stage.server.arrives_late = stage.server.is_away = True
    with pytest.raises(HoldRefused):
        await stage.keeper.hold(request(name="late", seconds=30))
    await stage.change_leader()
    stage.server.arrives_late = stage.server.is_away = False
    stage.server.deliver()
    await stage.passes(5)
    assert stage.is_held()  # nobody knows that it was given up
    await stage.passes(31)
    assert stage.server.stored == {}
    assert endings(stage) == [HoldEnding.DEADLINE]


async def test_a_new_leader_notes_what_happened_while_nobody_led(stage: HoldStage) -> None:
    places = [h.place(h.of_owner("job"), node, "gpu-0") for node in ("n1", "n2")]
    hold = await stage.keeper.hold(request(*places, name="h"))
    await stage.end()
    stage.see(seen(replace(h.owned(b.pod("own"), "job"), node_name="n1", place=f"{hold.uid}/0")))
    stage.see(gone(b.node("n2")))
    await stage.change_leader()
    await stage.passes(2)
    assert stage.server.stored == {}
    assert endings(stage)[-1] is HoldEnding.LOST


async def test_a_hold_that_somebody_deletes_ends(stage: HoldStage) -> None:
    await stage.keeper.hold(request(name="h"))
    stage.server.remove("h")
    await stage.passes(1)
    assert not stage.is_held()
    assert endings(stage) == [HoldEnding.DELETED]


async def test_room_that_another_hold_or_pod_has_is_refused(stage: HoldStage) -> None:
    for each in taker("taker", "gpu-1"):
        stage.see(seen(each))
    await stage.keeper.hold(request())
    for device in ("gpu-0", "gpu-1"):
        with pytest.raises(HoldRefused, match=device):
            await stage.keeper.hold(request(h.place(h.of_owner("job"), "n1", device)))
    with pytest.raises(HoldRefused, match="cpu"):
        await stage.keeper.hold(request(h.place(h.of_owner("job"), "n1", cpu=4)))
    assert len(stage.server.calls) == 1


async def test_a_hold_that_no_watch_has_ever_shown_ends_with_its_deadline(stage: HoldStage) -> None:
    """Somebody has deleted it while the watch was broken, and the list after that does not have it."""
    stage.is_watching = False
    await stage.keeper.hold(request(name="h", seconds=60))
    stage.server.remove("h")
    stage.relist()
    await stage.passes(60)
    assert stage.is_held()
    await stage.passes(65)
    assert not stage.is_held()
    assert endings(stage) == [HoldEnding.DEADLINE]


async def test_what_was_given_up_is_forgotten_after_its_deadline(stage: HoldStage) -> None:
    stage.server.error = Forbidden(403)
    with pytest.raises(HoldRefused):
        await stage.keeper.hold(request(name="h", seconds=10))
    stage.server.error = None
    await stage.passes(75)
    place = h.place(h.of_owner("job"), "n1", "gpu-0")
    stage.server.store(replace(h.hold("h", place, deadline=9000), uid=""))
    await stage.passes(20)
    assert list(stage.server.stored) == ["h"]


async def test_a_place_of_a_hold_that_cannot_be_read_is_not_given_up(stage: HoldStage) -> None:
    """It may stand for more than it needs: every pod slot of its node."""
    for each in taker("runs", "gpu-1"):
        stage.see(seen(each))
    slots = replace(h.place(h.of_owner("job"), "n1", "gpu-0"), requests=ALL_POD_SLOTS)
    hold = stage.server.store(replace(h.hold("h", slots, deadline=9000), uid="", invalid="spec.groups[0].requests"))
    await stage.passes(3)
    assert stage.cluster.holds.get("h") == hold
    assert stage.is_held()


async def test_a_place_for_one_pod_is_lost_when_that_pod_is_gone(stage: HoldStage) -> None:
    waits = b.pod("p", "p")
    stage.see(seen(waits))
    await stage.keeper.hold(request(h.place(h.for_pod("p"), "n1", "gpu-0", cpu=1)))
    stage.show()
    stage.see(gone(waits))
    await stage.passes(1)
    assert [each.message for each in stage.news if each.ending is None] == [f"pod {waits.id} is gone"]
    assert stage.server.stored == {}


async def test_the_end_of_a_pod_costs_the_same_however_many_places_are_for_its_like(stage: HoldStage) -> None:
    costs = []
    for count in (10, 80):
        places = [h.place(h.of_owner("job"), "n1") for _ in range(count)]
        await stage.keeper.hold(request(*places, name=f"h{count}"))
        stage.show()
        pod = h.owned(b.pod("p"), "job")
        stage.see(seen(pod))
        with counted() as found:
            stage.see(gone(pod))
        costs.append(found.lines)
    assert costs[1] <= 1.3 * costs[0]


@pytest.mark.parametrize("is_first_awaited_first", [True, False])
async def test_of_two_overlapping_requests_the_first_gets_the_room(
    stage: HoldStage,
    is_first_awaited_first: bool,  # noqa: FBT001
) -> None:
    first, second = stage.keeper.hold(request(name="z")), stage.keeper.hold(request(name="a"))
    made = (first, second) if is_first_awaited_first else (second, first)
    found = await asyncio.gather(*made, return_exceptions=True)
    hold, refused = found if is_first_awaited_first else found[::-1]
    assert hold == stage.server.stored["z"]
    assert isinstance(refused, HoldRefused)
    assert "gpu-0" in str(refused)
    assert (list(stage.server.stored), stage.is_held(), stage.freed()) == (["z"], True, 1)


async def test_what_is_stored_meanwhile_keeps_its_room(stage: HoldStage) -> None:
    """It was refused to nobody: the one that came after it sees it, whether the watch shows it or not."""
    stage.is_watching = False
    hold = await stage.keeper.hold(request(name="z"))
    with pytest.raises(HoldRefused, match="gpu-0"):
        await stage.keeper.hold(request(name="a"))
    assert list(stage.server.stored) == [hold.name]
