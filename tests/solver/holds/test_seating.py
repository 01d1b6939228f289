"""Pods get exactly what is held for them, and nobody else does: small clusters, seen through `solve`."""

import pytest
from msgspec.structs import replace

from solver import places_of, solve, solve_greedily
from solver.domain import (
    Batch,
    Budget,
    HostPort,
    NodeReservation,
    Placement,
    Plan,
    Policy,
    ReasonCode,
    SearchStatus,
    Snapshot,
)
from solver.holds import seats_first
from solver.verify import check
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.preemption_cases import DEVICES, holding, running


def decided(snapshot: Snapshot, batch: Batch, policy: Policy = Policy(), *, greedily: bool = False) -> Plan:  # noqa: B008 - a frozen value
    plan = (solve_greedily if greedily else solve)(snapshot, batch, policy, Budget.unbounded())
    assert check(snapshot, batch, plan, policy) == ()
    return plan


def placed(plan: Plan) -> dict[str, tuple[str, str]]:
    return {each.pod.name: (each.node, each.place) for each in plan.placements}


def devices(plan: Plan) -> dict[str, list[str]]:
    return {
        each.claim.name: [f"{result.device.pool}/{result.device.device}" for result in each.allocation.results]
        for each in plan.allocations
    }


def fleet(*objects: b.SnapshotObject, count: int = 4, nodes: int = 2, cpu: int = 8) -> Snapshot:
    names = [f"n{i}" for i in range(1, nodes + 1)]
    return b.snapshot(
        [b.node(name, cpu=cpu) for name in names],
        [b.gpu_slice(name, count=count) for name in names],
        b.gpu_class(),
        objects,
    )


def test_a_pod_gets_the_very_devices_that_are_held_for_it() -> None:
    claims = [b.claim("c", b.request(count=2))]
    snapshot = h.holding(fleet(*claims), h.hold("h", h.place("p", "n2", "gpu-1", "gpu-3", cpu=1)))
    plan = decided(snapshot, b.batch(b.pod("p", "c", cpu=1)))
    assert placed(plan) == {"p": ("n2", "uid-h/0")}
    assert devices(plan) == {"c": ["n2/gpu-1", "n2/gpu-3"]}
    assert plan.report.stages == (seats_first.STAGE,)
    assert plan.report.status is SearchStatus.FEASIBLE


def test_others_take_neither_devices_nor_room_that_is_held() -> None:
    snapshot = h.holding(fleet(b.claim("c"), count=1, nodes=1), h.hold("h", h.place("later", "n1", "gpu-0", cpu=6)))
    plan = decided(snapshot, b.batch(b.pod("gpu", "c"), b.pod("small", cpu=2), b.pod("large", cpu=3)))
    assert placed(plan) == {"small": ("n1", "")}
    codes = {each.pod.name: {reason.code for reason in each.reasons} for each in plan.unplaced}
    assert codes == {"gpu": {ReasonCode.ROOM_HELD}, "large": {ReasonCode.ROOM_HELD}}


def departing(cpu: int = 6, wanted: int = 6) -> Snapshot:
    """A node of 8 cpu whose pod leaves it to a larger one, which waits for that; another one may come beside it."""
    leaver = running("leaver", "n1", cpu=cpu)
    later = h.hold("later", h.place("large", "n1", cpu=wanted), h.place(h.for_pod("next"), "n1", cpu=2))
    return h.holding(fleet(leaver, nodes=1), replace(later, departing=(leaver.uid,)))


@pytest.mark.parametrize(("cpu", "wanted"), [(6, 6), (4, 6), (6, 3)])
@pytest.mark.parametrize("greedily", [False, True])
def test_the_room_of_departing_pods_and_of_the_place_that_they_leave_it_to_counts_once(
    cpu: int, wanted: int, *, greedily: bool
) -> None:
    plan = decided(departing(cpu, wanted), b.batch(b.pod("next", cpu=2), b.pod("large", cpu=wanted)), greedily=greedily)
    assert placed(plan) == {"next": ("n1", "uid-later/1")}


def test_others_get_neither_what_departing_pods_have_nor_what_is_held_for_later() -> None:
    assert placed(decided(departing(4, 5), b.batch(b.pod("other", cpu=2)))) == {}
    assert placed(decided(departing(4, 5), b.batch(b.pod("other", cpu=1)))) == {"other": ("n1", "")}
    assert placed(decided(departing(6, 1), b.batch(b.pod("other", cpu=2)))) == {"other": ("n1", "")}
    assert placed(decided(departing(6, 1), b.batch(b.pod("other", cpu=3)))) == {}


def test_the_checker_refuses_what_only_fits_while_departing_pods_run() -> None:
    """The large pod gets 6 of 8 cpu when the small one has left, and the next one 2: nothing is left for others."""
    snapshot, batch = departing(1, 6), b.batch(b.pod("other", cpu=1))
    placement = Placement(pod=batch.pods[0].id, pod_uid=batch.pods[0].uid, node="n1")
    plan = replace(decided(snapshot, batch), placements=(placement,), unplaced=())
    assert [each.rule for each in check(snapshot, batch, plan, Policy())] == ["RoomHeld"]


def test_a_node_counts_as_held_only_where_the_pod_would_fit_otherwise() -> None:
    objects = [b.claim("c"), b.held("busy", b.result("gpu", "gpu-0", "n1"), node_name="n1")]
    snapshot = h.holding(fleet(*objects, count=1), h.hold("h", h.place("later", "n2", "gpu-0")))
    (waiting,) = decided(snapshot, b.batch(b.pod("p", "c"))).unplaced
    counts = {reason.code: reason.node_count for reason in waiting.reasons}
    assert counts == {ReasonCode.ROOM_HELD: 1, ReasonCode.DEVICES_IN_USE: 1}


def test_pods_of_a_higher_priority_do_not_see_a_hold() -> None:
    snapshot = h.holding(
        fleet(b.claim("c"), count=1, nodes=1), h.hold("h", h.place("later", "n1", "gpu-0"), priority=5)
    )
    assert placed(decided(snapshot, b.batch(b.pod("p", "c", priority=6)))) == {"p": ("n1", "")}
    assert placed(decided(snapshot, b.batch(b.pod("p", "c", priority=5)))) == {}


def test_in_a_batch_with_pods_of_a_low_priority_nobody_takes_held_room() -> None:
    snapshot = h.holding(
        fleet(b.claim("c"), count=1, nodes=1), h.hold("h", h.place("later", "n1", "gpu-0"), priority=5)
    )
    assert placed(decided(snapshot, b.batch(b.pod("high", "c", priority=6), b.pod("low", cpu=1)))) == {
        "low": ("n1", "")
    }


def test_a_held_pod_goes_where_it_is_held_although_its_priority_is_lower_than_the_hold_s() -> None:
    snapshot = h.holding(fleet(b.claim("c"), count=1, nodes=1), h.hold("h", h.place("p", "n1", "gpu-0"), priority=9))
    assert placed(decided(snapshot, b.batch(b.pod("p", "c")))) == {"p": ("n1", "uid-h/0")}


def test_different_pods_on_one_node_get_each_its_own() -> None:
    """Both arrive at once; the one with a pair must not lose one of it to the other."""
    pair = b.claim("pair", b.request(count=2), constraints=(b.match("resource.kubernetes.io/pcieRoot"),))
    snapshot = h.holding(
        fleet(pair, b.claim("one"), count=8, nodes=1),
        h.hold("a", h.place("one", "n1", "gpu-6")),
        h.hold("b", h.place("two", "n1", "gpu-1", "gpu-2")),
        h.hold("rest", h.place("later", "n1", *(f"gpu-{i}" for i in (0, 3, 4, 5, 7)))),
    )
    plan = decided(snapshot, b.batch(b.pod("one", "one"), b.pod("two", "pair")))
    assert devices(plan) == {"one": ["n1/gpu-6"], "pair": ["n1/gpu-1", "n1/gpu-2"]}


def test_equal_pods_of_different_holds_get_each_its_own() -> None:
    claims = [b.claim("c0"), b.claim("c1")]
    snapshot = h.holding(
        fleet(*claims, count=2, nodes=1),
        h.hold("a", h.place("p1", "n1", "gpu-0", cpu=1)),
        h.hold("b", h.place("p0", "n1", "gpu-1", cpu=1)),
    )
    plan = decided(snapshot, b.batch(b.pod("p0", "c0", cpu=1), b.pod("p1", "c1", cpu=1)))
    assert devices(plan) == {"c0": ["n1/gpu-1"], "c1": ["n1/gpu-0"]}


def test_a_pod_that_asks_for_less_uses_its_place_up() -> None:
    snapshot = h.holding(fleet(b.claim("c"), count=2, nodes=1), h.hold("h", h.place("p", "n1", "gpu-0", "gpu-1")))
    plan = decided(snapshot, b.batch(b.pod("p", "c")))
    assert (placed(plan), devices(plan)) == ({"p": ("n1", "uid-h/0")}, {"c": ["n1/gpu-0"]})


def test_a_pod_that_asks_for_more_is_decided_within_its_place_and_free_room() -> None:
    wanted = b.claim("c", b.request(count=3))
    snapshot = h.holding(
        fleet(wanted, count=4, nodes=1),
        h.hold("h", h.place("p", "n1", "gpu-0")),
        h.hold("other", h.place("later", "n1", "gpu-1")),
    )
    plan = decided(snapshot, b.batch(b.pod("p", "c")))
    assert placed(plan) == {"p": ("n1", "uid-h/0")}
    assert sorted(devices(plan)["c"]) == ["n1/gpu-0", "n1/gpu-2", "n1/gpu-3"]


def test_pods_that_are_larger_than_their_places_take_nothing_of_their_neighbours() -> None:
    """Something has added a container to both: the first one may not have a cpu that is held for the second."""
    snapshot = h.holding(fleet(nodes=1), h.hold("h", h.place("p", "n1", cpu=4), h.place("q", "n1", cpu=4)))
    plan = decided(snapshot, b.batch(b.pod("p", cpu=5), b.pod("q", cpu=4)))
    assert placed(plan) == {"q": ("n1", "uid-h/1")}


def test_a_pod_that_may_not_run_on_its_node_goes_elsewhere_and_uses_its_place_up() -> None:
    snapshot = h.holding(fleet(b.claim("c"), count=1), h.hold("h", h.place("p", "n2", "gpu-0")))
    pod = b.pod("p", "c", node_selector={"kubernetes.io/hostname": "n1"})
    assert placed(decided(snapshot, b.batch(pod))) == {"p": ("n1", "uid-h/0")}


def test_a_pod_that_does_not_fit_leaves_its_place_whole() -> None:
    """Two pods with seats neither of which fits as it is; the second must not be placed on the first one's."""
    wide = [b.claim(name, b.request(count=2)) for name in ("c0", "c1")]
    snapshot = h.holding(
        fleet(*wide, count=2, nodes=1),
        h.hold("a", h.place("p0", "n1", "gpu-0")),
        h.hold("b", h.place("p1", "n1", "gpu-1")),
    )
    plan = decided(snapshot, b.batch(b.pod("p0", "c0"), b.pod("p1", "c1")))
    assert placed(plan) == {}
    assert {reason.code for each in plan.unplaced for reason in each.reasons} == {ReasonCode.ROOM_HELD}


def test_a_gang_comes_to_its_places_whole() -> None:
    pods = [b.member(h.owned(b.pod(f"p{i}", f"c{i}"), "job"), "g") for i in range(3)]
    claims = [b.claim(f"c{i}") for i in range(3)]
    places = [h.place(h.of_owner("job"), "n2", f"gpu-{i}") for i in range(3)]
    snapshot = h.holding(fleet(*claims), h.hold("h", *places))
    plan = decided(snapshot, b.batch(*pods, gangs=[b.gang("g", 3)]))
    assert placed(plan) == {f"p{i}": ("n2", f"uid-h/{i}") for i in range(3)}


def test_a_part_of_a_gang_takes_no_place_of_a_member_that_waits() -> None:
    """Two of three suffice; each asks for one device more than it has."""
    pods = [b.member(b.pod(f"p{i}", f"c{i}"), "g") for i in range(3)]
    claims = [b.claim(f"c{i}", b.request(count=2)) for i in range(3)]
    places = [h.place(f"p{i}", "n1", f"gpu-{i}") for i in range(3)]
    snapshot = h.holding(fleet(*claims, count=5, nodes=1), h.hold("h", *places))
    plan = decided(snapshot, b.batch(*pods, gangs=[b.gang("g", 2)]))
    assert len(plan.placements) == 2
    (waiting,) = plan.unplaced
    taken = {device for own in devices(plan).values() for device in own}
    assert f"n1/gpu-{waiting.pod.name[1:]}" not in taken


def test_a_gang_with_a_member_that_has_no_place_is_decided_whole() -> None:
    pods = [b.member(b.pod(f"p{i}", f"c{i}"), "g") for i in range(2)]
    snapshot = h.holding(fleet(b.claim("c0"), b.claim("c1"), count=1), h.hold("h", h.place("p0", "n2", "gpu-0")))
    plan = decided(snapshot, b.batch(*pods, gangs=[b.gang("g", 2)]))
    assert {name: place for name, (_, place) in placed(plan).items()} == {"p0": "uid-h/0", "p1": ""}


def test_the_devices_of_a_pod_whose_leader_died_stay_its_own() -> None:
    """Its claim was allocated from the place, and the binding never sent."""
    mine = b.held("c", b.result("gpu", "gpu-1", "n2"), node_name="n2")
    mine = replace(mine, reserved_for=(b.consumer("p"),))
    snapshot = h.holding(fleet(mine, cpu=2), h.hold("h", h.place("p", "n2", "gpu-1", cpu=2)))
    assert placed(decided(snapshot, b.batch(b.pod("p", "c", cpu=2)))) == {"p": ("n2", "uid-h/0")}


def test_a_share_is_held_and_given() -> None:
    card = b.device("card", is_shareable=True, capacities={"memory": b.capacity("40Gi", default="10Gi")})
    claims = [b.claim(name, b.request("share", "shared", capacity={"memory": "20Gi"})) for name in ("mine", "other")]
    snapshot = b.snapshot(
        b.node("n1"),
        b.resource_slice("n1", card, driver="shared.example.com"),
        b.device_class("shared", driver="shared.example.com"),
        b.held(
            "busy",
            b.result(
                "share", "card", "n1", driver="shared.example.com", share_id=b.share_id(1), consumed={"memory": "10Gi"}
            ),
        ),
        claims,
    )
    kept = h.share("card", "n1", {"memory": "20Gi"}, number=2, driver="shared.example.com")
    snapshot = h.holding(snapshot, h.hold("h", h.place("p", "n1", kept)))
    assert placed(decided(snapshot, b.batch(b.pod("q", "other")))) == {}
    assert placed(decided(snapshot, b.batch(b.pod("p", "mine")))) == {"p": ("n1", "uid-h/0")}


def test_a_partition_is_held_with_its_counters() -> None:
    halves = [b.device(f"half-{i}", consumes={"card": {"slices": 4}}) for i in range(3)]
    snapshot = b.snapshot(
        b.node("n1"),
        b.resource_slice("n1", *halves, driver="parts.example.com", slice_count=2),
        b.resource_slice("n1", driver="parts.example.com", slice_count=2, counter_sets={"card": {"slices": 8}}),
        b.device_class("parts", driver="parts.example.com"),
        b.held("busy", b.result("half", "half-0", "n1", driver="parts.example.com"), node_name="n1"),
        b.claim("mine", b.request("half", "parts")),
        b.claim("other", b.request("half", "parts")),
    )
    snapshot = h.holding(snapshot, h.hold("h", h.place("p", "n1", h.whole("half-2", "n1", "parts.example.com"))))
    assert placed(decided(snapshot, b.batch(b.pod("q", "other")))) == {}  # half-1 is free, its counters are held
    plan = decided(snapshot, b.batch(b.pod("p", "mine")))
    assert devices(plan) == {"mine": ["n1/half-2"]}


def test_host_ports_are_held() -> None:
    port = HostPort(port=80)
    snapshot = h.holding(fleet(nodes=1), h.hold("h", h.place("p", "n1", host_ports=(port,))))
    other, mine = (replace(b.pod(name), host_ports=(port,)) for name in ("q", "p"))
    assert placed(decided(snapshot, b.batch(other))) == {}
    assert placed(decided(snapshot, b.batch(mine))) == {"p": ("n1", "uid-h/0")}


def test_a_pod_without_devices_gets_its_room() -> None:
    snapshot = h.holding(fleet(nodes=2, cpu=4), h.hold("h", h.place("p", "n2", cpu=4)))
    assert placed(decided(snapshot, b.batch(b.pod("p", cpu=4)))) == {"p": ("n2", "uid-h/0")}


def test_a_device_of_several_nodes_is_held() -> None:
    rack = b.node_selector(rack="r1")
    ports = [b.device(f"port-{i}") for i in range(2)]
    snapshot = b.snapshot(
        [b.node(name, labels={"rack": "r1"}) for name in ("n1", "n2")],
        b.resource_slice("rack", *ports, driver="fabric.example.com", at=b.scope(selector=rack)),
        b.device_class("fabric", driver="fabric.example.com"),
        b.claim("mine", b.request("port", "fabric")),
        b.claim("other", b.request("port", "fabric", count=2)),
    )
    snapshot = h.holding(snapshot, h.hold("h", h.place("p", "n2", h.whole("port-1", "rack", "fabric.example.com"))))
    assert placed(decided(snapshot, b.batch(b.pod("q", "other")))) == {}
    assert devices(decided(snapshot, b.batch(b.pod("p", "mine")))) == {"mine": ["rack/port-1"]}


def test_a_request_for_all_devices_gets_them() -> None:
    every = b.claim("c", b.request(mode="All"))
    snapshot = h.holding(fleet(every, count=3), h.hold("h", h.place("p", "n2", "gpu-0", "gpu-1", "gpu-2")))
    plan = decided(snapshot, b.batch(b.pod("p", "c")))
    assert sorted(devices(plan)["c"]) == ["n2/gpu-0", "n2/gpu-1", "n2/gpu-2"]


def test_no_pod_is_evicted_to_free_held_room() -> None:
    """A hold of a higher priority: the preemptor may evict the running pod, and gets no more."""
    runs = running("runs", "n1", "c-runs", cpu=1)
    snapshot = h.holding(
        fleet(
            b.claim("c", b.request(count=2)),
            runs,
            holding("c-runs", "n1", "gpu-0", consumers=("runs",)),
            count=2,
            nodes=1,
        ),
        h.hold("h", h.place("later", "n1", "gpu-1"), priority=9),
    )
    policy = replace(Policy(), preemption=DEVICES)
    plan = decided(snapshot, b.batch(b.pod("p", "c", priority=5)), policy)
    assert (plan.placements, plan.preemptions) == ((), ())


def test_the_fallback_keeps_holds_too() -> None:
    snapshot = h.holding(
        fleet(b.claim("c0"), b.claim("c1"), count=2, nodes=1), h.hold("h", h.place("p0", "n1", "gpu-1"))
    )
    plan = decided(snapshot, b.batch(b.pod("p0", "c0"), b.pod("p1", "c1")), greedily=True)
    assert {name: place for name, (_, place) in placed(plan).items()} == {"p0": "uid-h/0", "p1": ""}


def test_a_reserved_node_does_not_keep_a_held_pod_away() -> None:
    reserved = NodeReservation(pod=b.pod("old").id, uids=("uid-old",), priority=5, nodes=("n1",))
    snapshot = h.holding(fleet(b.claim("c"), count=1, nodes=1), h.hold("h", h.place("p", "n1", "gpu-0")))
    batch = replace(b.batch(b.pod("p", "c")), node_reservations=(reserved,))
    assert placed(decided(snapshot, batch)) == {"p": ("n1", "uid-h/0")}


def test_the_places_of_a_plan_are_what_its_pods_get() -> None:
    """From a plan to a hold to the same plan."""
    pods = [b.pod(f"p{i}", f"c{i}", cpu=2) for i in range(3)]
    claims = [b.claim(f"c{i}", b.request(count=2)) for i in range(3)]
    snapshot, batch = fleet(*claims), b.batch(*pods)
    first = decided(snapshot, batch)
    places = places_of(batch, first, {pod.id: h.for_pod(pod.id.name) for pod in pods})
    then = h.holding(snapshot, h.hold("h", *places))
    again = decided(then, batch)
    assert [replace(each, place="") for each in again.placements] == list(first.placements)
    assert again.allocations == first.allocations
    assert placed(decided(then, b.batch(b.pod("other", cpu=7)))) == {}


def test_places_of_some_pods_are_numbered_in_their_order() -> None:
    pods = [b.pod(f"p{i}", cpu=2) for i in range(3)]
    snapshot, batch = fleet(), b.batch(*pods)
    places = places_of(batch, decided(snapshot, batch), {pods[2].id: h.for_pod("p2"), pods[0].id: h.for_pod("p0")})
    assert [(each.index, each.pods.pod_uid, each.requests) for each in places] == [
        (0, "uid-default-p0", (("cpu", 2000),)),
        (1, "uid-default-p2", (("cpu", 2000),)),
    ]


@pytest.mark.parametrize("change", ["other pod", "twice", "closed", "unknown"])
def test_a_plan_that_uses_a_place_wrongly_is_refused(change: str) -> None:
    snapshot = h.holding(fleet(nodes=1), h.hold("h", h.place("p", "n1", cpu=1), h.place("q", "n1", cpu=1), lost=(1,)))
    batch = b.batch(b.pod("p", cpu=1), b.pod("q", cpu=1))
    plan = decided(snapshot, batch)
    first, second = plan.placements
    wrong: dict[str, tuple[Placement, ...]] = {
        "other pod": (replace(first, place=""), replace(second, place="uid-h/0")),
        "twice": (first, replace(second, place="uid-h/0")),
        "closed": (first, replace(second, place="uid-h/1")),
        "unknown": (replace(first, place="uid-gone/0"), second),
    }
    rules = {each.rule for each in check(snapshot, batch, replace(plan, placements=wrong[change]))}
    assert rules == {"HoldPlace"}
