"""What others have of held room, and what a unit takes of it before the first write."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.change import Object
from scheduler.cluster import Cluster
from scheduler.cluster.devices import SliceIndex
from scheduler.cluster.holds.held_conflicts import lost_seats, objections, unit_conflicts
from solver.domain import HeldPlace, Placement, Pod
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import cluster_of, seen, show, unit
from tests.support.preemption_cases import running

Found = TypeVar("Found")


def cluster(*waiting: Pod) -> Cluster:
    """A node of 8 cpu, where 6 are in use and are left to `large`; 2 are held for `next`."""
    leaver = running("leaver", "n1", cpu=6)
    hold = h.hold("later", h.place("large", "n1", cpu=6), h.place("next", "n1", cpu=2))
    found = cluster_of(b.node("n1", cpu=8), leaver, *waiting)
    show(found, replace(hold, departing=(leaver.uid,)))
    return found


@pytest.mark.parametrize(("place", "is_refused"), [("uid-later/1", False), ("", True)])
def test_a_pod_comes_to_its_place_though_a_departing_pod_is_still_there(place: str, *, is_refused: bool) -> None:
    pod = b.pod("next" if place else "other", cpu=2)
    mirror = cluster(pod)
    taken = unit(Placement(pod=pod.id, pod_uid=pod.uid, node="n1", place=place))
    mirror.assume(taken)
    messages = [each.message for each in mirror.check(taken)]
    assert bool(messages) == is_refused, messages
    assert all(each.startswith("room is held for other pods") for each in messages)


def test_a_place_waits_for_pods_that_leave_their_room_to_another_hold() -> None:
    """What has changed may be one of its devices, which says nothing of the other places on its node."""
    leaver = running("leaver", "n1", cpu=6)
    found = cluster_of(b.node("n1", cpu=8), b.gpu_slice("n1", count=2), leaver)
    show(found, replace(h.hold("earlier", h.place("small", "n1", "gpu-1", cpu=2)), departing=(leaver.uid,)))
    later = h.hold("later", h.place("large", "n1", "gpu-0", cpu=6))
    assert list(objections(found.store, found.holds, later)) == [()]
    show(found, later)
    (device,) = later.places[0].devices
    assert list(lost_seats(found.store, found.holds, (), (device.device,))) == []


NAMES = ("n1", "n2")
POOLS = {"n1": ("a", "b"), "n2": ("a", "b"), "fabric": ("a", "b", "c", "d"), "parts": ("a", "b", "c")}
"""Devices of each node, some of all nodes, and some of all nodes that draw on a counter which has enough for two."""
DEVICES = st.sampled_from([(device, pool) for pool, devices in POOLS.items() for device in devices])
PLACES = st.lists(
    st.builds(
        lambda node, devices, cpu: h.place("next", node, *(h.whole(*each) for each in devices), cpu=cpu),
        st.sampled_from(NAMES),
        st.lists(DEVICES, max_size=2, unique=True),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=5,
)


def machines() -> list[Object]:
    everywhere = b.scope(all_nodes=True)
    own = (b.resource_slice(name, *map(b.device, POOLS[name])) for name in NAMES)
    drawing = (b.device(name, consumes={"set": {"units": 1}}) for name in POOLS["parts"])
    return [
        *(b.node(name, cpu=4) for name in NAMES),
        *own,
        b.resource_slice("fabric", *map(b.device, POOLS["fabric"]), at=everywhere),
        b.resource_slice("parts", *drawing, at=everywhere, slice_count=2),
        b.resource_slice("parts", counter_sets={"set": {"units": 2}}, at=everywhere, slice_count=2),
    ]


@given(
    holds=st.lists(PLACES, min_size=1, max_size=3),
    made=PLACES,
    taken=st.lists(DEVICES, max_size=4, unique=True),
    wanted=DEVICES,
)
@settings(max_examples=50)
def test_places_are_compared_with_what_they_have_in_common_and_nothing_is_missed(
    holds: list[list[HeldPlace]], made: list[HeldPlace], taken: list[tuple[str, str]], wanted: tuple[str, str]
) -> None:
    """It is the same as with everything in their pools, where no place of those has lost its room before."""
    mirror = cluster_of(*machines(), *(h.hold(f"h{n}", *each, priority=n) for n, each in enumerate(holds)))
    for number, (device, pool) in enumerate(taken):
        mirror.apply(seen(b.held(f"c{number}", b.result("r", device, pool))))
        mirror.apply(seen(b.pod(f"p{number}", f"c{number}", node_name="n1")))
    pod, claim = b.pod("wants", "wanted"), b.claim("wanted")
    show(mirror, pod, claim)
    decided = unit(b.placement(pod, "n1"), b.claim_allocation(claim, b.result("r", *wanted)))
    every = [b.result("r", device, pool).device for pool, devices in POOLS.items() for device in devices]

    def lost() -> list[str]:
        parts = mirror.store.slice_index.parts_of(every)
        return sorted(seat.id for seat, _ in lost_seats(mirror.store, mirror.holds, NAMES, parts))

    def against() -> bool:
        return any(objections(mirror.store, mirror.holds, h.hold("made", *made, priority=1)))

    def conflicts() -> bool:
        return bool(unit_conflicts(mirror.store, mirror.holds, decided))

    for each in same_in_pools(lost):
        mirror.holds.lose(each, "others have it")
    same_in_pools(against)
    mirror.assume(decided)
    same_in_pools(conflicts)


def same_in_pools(ask: Callable[[], Found]) -> Found:
    """Return an answer that is the same where everything in pools is compared."""
    narrowed = ask()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SliceIndex, "parts_of", lambda _, devices: dict.fromkeys(each.pool_id for each in devices))
        assert narrowed == ask()
    return narrowed
