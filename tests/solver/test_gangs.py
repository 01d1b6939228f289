"""Gangs: all of the pods or none, in one domain, with members that run already; and the reasons of those that wait."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from scheduler.status.conditions import condition_reason
from solver import solve, solve_greedily, verify
from solver.domain import Batch, Claim, Gang, GangLevel, Node, Plan, Pod, Policy, ResourceSlice, Snapshot
from tests.support import builders as b
from tests.support import solver_problems as p
from tests.support import volume_builders as volumes

RACK = "example.com/rack"
BLOCK = "example.com/block"
CLIQUE = f"{b.GPU_DRIVER}/clique"


def decide(snapshot: Snapshot, *pods: Pod, gangs: Sequence[Gang]) -> Plan:
    """The plan, after it and the greedy one were checked, and the first is not below the second."""
    batch = Batch(pods=pods, gangs=tuple(gangs))
    plan = solve(snapshot, batch, Policy(), p.PATIENT)
    greedy = solve_greedily(snapshot, batch, Policy(), p.PATIENT)
    assert verify.check(snapshot, batch, plan) == ()
    assert verify.check(snapshot, batch, greedy) == ()
    assert [level.value for level in plan.report.levels] >= [level.value for level in greedy.report.levels]
    return plan


def gang_pods(name: str, count: int, *, cpu: int = 1, priority: int = 0) -> tuple[Pod, ...]:
    return tuple(b.member(b.pod(f"{name}-{i}", cpu=cpu, priority=priority), name) for i in range(count))


def gpu_gang(name: str, count: int) -> tuple[Pod, ...]:
    return tuple(b.member(b.pod(f"{name}-{i}", f"{name}-{i}"), name) for i in range(count))


def gpu_claims(name: str, count: int, gpus: int = 1) -> list[Claim]:
    return [b.claim(f"{name}-{i}", b.request(count=gpus)) for i in range(count)]


def racked(name: str, rack: str, *, cpu: int = 1, block: str = "") -> Node:
    labels = {RACK: rack} | ({BLOCK: block} if block else {})
    return b.node(name, cpu=cpu, labels=labels)


def clique_slice(node: str, clique: str, count: int = 2) -> ResourceSlice:
    devices = (b.device(f"gpu-{i}", attributes={"clique": clique} if clique else {}) for i in range(count))
    return b.resource_slice(node, *devices)


def test_a_gang_that_fits_is_placed_whole() -> None:
    plan = decide(b.snapshot(b.node("n1", cpu=2), b.node("n2", cpu=2)), *gang_pods("g", 4), gangs=[b.gang("g", 4)])
    assert len(plan.placements) == 4


def test_of_a_gang_that_does_not_fit_nothing_is_placed() -> None:
    plan = decide(b.snapshot(b.node("n1", cpu=2)), *gang_pods("g", 3), gangs=[b.gang("g", 3)])
    assert plan.placements == ()
    assert p.codes(plan, "g-0") == ["GangUnplaced"]
    assert (
        p.messages(plan, "g-0")[0]
        == "gang g: 3 pods must run together, but only 2 fit now; alone, its pods fit on n1 (1 of 1 node); "
        "even with nothing else running, only 2 would fit"
    )


def test_more_members_than_the_minimum_may_be_left_out() -> None:
    plan = decide(b.snapshot(b.node("n1", cpu=2)), *gang_pods("g", 3), gangs=[b.gang("g", 2)])
    assert len(plan.placements) == 2
    assert p.codes(plan, "g-2")[0] == "Outranked"


def test_a_gang_that_waits_explains_every_kind_of_node() -> None:
    nodes = [b.node("big-0"), b.node("big-1"), b.node("small", cpu=1), b.node("kept", taints=(b.taint("team", "x"),))]
    slices = [b.gpu_slice(name, count=2) for name in ("big-0", "big-1")]
    used = b.held("used", b.result("gpu", "gpu-0", "big-0"))
    pods = [b.member(b.pod(f"g-{i}", f"g-{i}", cpu=2), "g") for i in range(2)]
    plan = decide(b.snapshot(nodes, slices, b.gpu_class(), used, gpu_claims("g", 2, 2)), *pods, gangs=[b.gang("g", 2)])

    assert [(each.message, each.node_count) for each in p.unplaced(plan, "g-0").reasons] == [
        ("gang g: 2 pods must run together, but only 1 fits now; alone, its pods fit on big-1 (1 of 4 nodes)", 0),
        ("request gpu: needs 2 devices, 2 match, 1 free, 1 in use", 1),
        ("Insufficient cpu", 1),
        ("node(s) had untolerated taint {team: x}", 1),
    ]


def test_the_members_of_a_gang_that_run_are_counted_in_its_message() -> None:
    running = [b.member(b.pod(f"g-{i}", node_name="n1", cpu=1), "g") for i in (8, 9)]
    plan = decide(b.snapshot(b.node("n1", cpu=3), running), *gang_pods("g", 2), gangs=[b.gang("g", 4)])
    lead = p.unplaced(plan, "g-0").reasons[0]
    assert lead.status == "pod group is unschedulable, minCount (4) cannot be satisfied: 3 scheduled, 0 remaining"
    assert p.messages(plan, "g-0")[0].startswith(
        "gang g: 4 pods must run together; 2 run, and only 1 of the other 2 fits now"
    )


def test_members_that_run_count() -> None:
    running = b.member(b.pod("g-9", node_name="n1", cpu=1), "g")
    plan = decide(b.snapshot(b.node("n1", cpu=2), running), *gang_pods("g", 1), gangs=[b.gang("g", 2)])
    assert len(plan.placements) == 1


def test_members_that_are_being_deleted_do_not_count() -> None:
    running = b.member(b.pod("g-9", node_name="n1", cpu=1, is_deleting=True), "g")
    plan = decide(b.snapshot(b.node("n1", cpu=2), running), *gang_pods("g", 1), gangs=[b.gang("g", 2)])
    assert p.codes(plan, "g-0") == ["GangIncomplete"]
    assert p.messages(plan, "g-0") == ["gang g waits for members: 1 of 2 exist"]


def test_too_few_members_take_nothing_from_other_pods() -> None:
    other = b.pod("other", cpu=1)
    plan = decide(b.snapshot(b.node("n1", cpu=2)), *gang_pods("g", 2), other, gangs=[b.gang("g", 8, members=3)])
    assert p.nodes_of(plan) == {"other": "n1"}
    assert p.messages(plan, "g-0") == ["gang g waits for members: 3 of 8 exist"]


def test_a_gang_whose_object_is_missing_or_contradictory_says_so() -> None:
    absent = b.gang("a", 1, invalid="PodGroup a does not exist", is_absent=True)
    torn = b.gang("t", 1, invalid="members disagree: 2 and 3")
    plan = decide(b.snapshot(b.node("n1")), *gang_pods("a", 1), *gang_pods("t", 1), gangs=[absent, torn])
    assert (p.codes(plan, "a-0"), p.codes(plan, "t-0")) == (["GangIncomplete"], ["GangInvalid"])
    assert p.messages(plan, "t-0") == ["members disagree: 2 and 3"]


def test_a_member_that_cannot_be_placed_holds_its_gang_and_is_named() -> None:
    stuck = b.member(b.pod("g-stuck", "missing"), "g")
    plan = decide(b.snapshot(b.node("n1", cpu=9)), *gang_pods("g", 2), stuck, gangs=[b.gang("g", 3)])
    assert plan.placements == ()
    assert "pod g-stuck cannot be placed: " in p.messages(plan, "g-0")[0]


def test_of_two_gangs_that_each_need_six_of_eight_nodes_exactly_one_runs() -> None:
    nodes = [b.node(f"n{i}", cpu=1) for i in range(8)]
    plan = decide(b.snapshot(nodes), *gang_pods("a", 6), *gang_pods("b", 6), gangs=[b.gang("a", 6), b.gang("b", 6)])
    assert len(plan.placements) == 6
    assert len({name[0] for name in p.nodes_of(plan)}) == 1
    loser = {"a": "b-0", "b": "a-0"}[next(iter(p.nodes_of(plan)))[0]]
    assert p.codes(plan, loser)[:2] == ["Outranked", "GangUnplaced"]
    assert "pod group is unschedulable" in p.unplaced(plan, loser).reasons[1].status  # a new node would help


def test_the_larger_gang_wins_where_more_pods_count() -> None:
    nodes = [b.node(f"n{i}", cpu=1) for i in range(8)]
    plan = decide(b.snapshot(nodes), *gang_pods("a", 5), *gang_pods("b", 7), gangs=[b.gang("a", 5), b.gang("b", 7)])
    assert {name[0] for name in p.nodes_of(plan)} == {"b"}


def test_a_gang_of_higher_priority_goes_before_more_pods() -> None:
    nodes = [b.node(f"n{i}", cpu=1) for i in range(8)]
    gangs = [b.gang("a", 5), b.gang("b", 7)]
    plan = decide(b.snapshot(nodes), *gang_pods("b", 7), *gang_pods("a", 5, priority=9), gangs=gangs)
    assert {name[0] for name in p.nodes_of(plan)} == {"a"}


def test_whole_and_halves_in_one_gang() -> None:
    """First fit in queue order puts the halves where the whole has to go."""
    slices = (b.gpu_slice("n1", count=2), b.gpu_slice("n2", count=2))
    claims = [b.claim("h1"), b.claim("h2"), b.claim("w", b.request(count=2))]
    pods = [b.member(b.pod(name, name), "g") for name in ("h1", "h2", "w")]
    plan = decide(b.snapshot(b.node("n1"), b.node("n2"), slices, b.gpu_class(), claims), *pods, gangs=[b.gang("g", 3)])
    assert len(plan.placements) == 3


def test_a_required_label_holds_all_in_one_domain() -> None:
    nodes = [racked("a1", "a"), racked("a2", "a"), racked("b1", "b"), racked("b2", "b"), racked("b3", "b"), b.node("x")]
    plan = decide(b.snapshot(nodes), *gang_pods("g", 3), gangs=[b.gang("g", 3, b.by_label(RACK))])
    assert set(p.nodes_of(plan).values()) == {"b1", "b2", "b3"}


def test_the_smallest_domain_that_does_is_taken() -> None:
    nodes = [racked(f"{rack}{i}", rack) for rack, count in (("a", 4), ("b", 2), ("c", 3)) for i in range(count)]
    plan = decide(b.snapshot(nodes), *gang_pods("g", 2), gangs=[b.gang("g", 2, b.by_label(RACK))])
    assert set(p.nodes_of(plan).values()) == {"b0", "b1"}


def test_pods_beyond_the_minimum_do_not_spill_into_another_domain() -> None:
    nodes = [racked(f"{rack}{i}", rack) for rack, count in (("a", 2), ("b", 2)) for i in range(count)]
    plan = decide(b.snapshot(nodes), *gang_pods("g", 4), gangs=[b.gang("g", 2, b.by_label(RACK))])
    assert len(plan.placements) == 2
    assert len({node[0] for node in p.nodes_of(plan).values()}) == 1


def test_no_domain_is_large_enough() -> None:
    nodes = [racked("a1", "a"), racked("b1", "b"), racked("b2", "b")]
    plan = decide(b.snapshot(nodes), *gang_pods("g", 3), gangs=[b.gang("g", 3, b.by_label(RACK))])
    assert plan.placements == ()
    assert p.codes(plan, "g-0")[0] == "GangUnplaced"


def test_a_replacement_goes_where_the_others_run() -> None:
    running = b.member(b.pod("g-9", node_name="b1", cpu=1), "g")
    nodes = [racked("a1", "a"), racked("a2", "a"), racked("b1", "b"), racked("b2", "b")]
    plan = decide(b.snapshot(nodes, running), *gang_pods("g", 1), gangs=[b.gang("g", 2, b.by_label(RACK))])
    assert p.nodes_of(plan) == {"g-0": "b2"}


def test_a_replacement_waits_where_the_others_leave_no_room() -> None:
    running = b.member(b.pod("g-9", node_name="b1", cpu=1), "g")
    nodes = [racked("a1", "a"), racked("b1", "b")]
    plan = decide(b.snapshot(nodes, running), *gang_pods("g", 1), gangs=[b.gang("g", 2, b.by_label(RACK))])
    assert plan.placements == ()
    assert "GangTopology" in p.codes(plan, "g-0")


def test_several_levels_hold_together() -> None:
    nodes = [
        racked("a1", "r1", block="a"),
        racked("a2", "r2", block="a"),
        racked("b1", "r3", block="b"),
        racked("b2", "r3", block="b"),
    ]
    levels = (b.by_label(BLOCK), b.by_label(RACK))
    plan = decide(b.snapshot(nodes), *gang_pods("g", 2), gangs=[b.gang("g", 2, *levels)])
    assert set(p.nodes_of(plan).values()) == {"b1", "b2"}


def test_a_preferred_level_is_kept_where_it_can_be() -> None:
    nodes = [
        racked("a1", "r1", block="a"),
        racked("a2", "r2", block="a"),
        racked("b1", "r3", block="b"),
        racked("b2", "r3", block="b"),
    ]
    levels = (b.by_label(BLOCK), b.by_label(RACK, is_required=False))
    two = decide(b.snapshot(nodes), *gang_pods("g", 2), gangs=[b.gang("g", 2, *levels)])
    assert set(p.nodes_of(two).values()) == {"b1", "b2"}
    assert [(each.name, each.value, each.proven) for each in two.report.levels[:2]] == [
        ("placed:0", 2, True),
        ("gang-topology", -1, True),
    ]
    three = decide(b.snapshot(nodes), *gang_pods("g", 3), gangs=[b.gang("g", 3, b.by_label(RACK, is_required=False))])
    assert len(three.placements) == 3
    assert three.report.levels[1].value == -2


def test_a_level_of_devices_holds_all_in_one_value() -> None:
    objects: list[b.SnapshotObject] = [
        *(b.node(f"n{i}") for i in range(4)),
        *(clique_slice(f"n{i}", clique) for i, clique in enumerate(("x", "y", "y", ""))),
        b.gpu_class(),
        *gpu_claims("g", 2, 2),
    ]
    plan = decide(b.snapshot(objects), *gpu_gang("g", 2), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert set(p.nodes_of(plan).values()) == {"n1", "n2"}


def test_a_level_of_devices_that_no_device_publishes_places_no_pod() -> None:
    objects: list[b.SnapshotObject] = [b.node("n1"), clique_slice("n1", ""), b.gpu_class(), *gpu_claims("g", 2)]
    plan = decide(b.snapshot(objects), *gpu_gang("g", 2), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert plan.placements == ()
    assert "GangTopology" in p.codes(plan, "g-0")


def test_members_without_devices_are_free_of_a_level_of_devices() -> None:
    leader = b.member(b.pod("g-leader", cpu=60), "g")
    objects: list[b.SnapshotObject] = [
        b.node("n1", cpu=1),
        b.node("n2"),
        clique_slice("n1", "x"),
        b.gpu_class(),
        *gpu_claims("g", 2),
    ]
    plan = decide(b.snapshot(objects), *gpu_gang("g", 2), leader, gangs=[b.gang("g", 3, b.by_device(CLIQUE))])
    assert p.nodes_of(plan) == {"g-0": "n1", "g-1": "n1", "g-leader": "n2"}


def test_a_level_of_devices_follows_those_that_members_hold() -> None:
    running = b.member(b.pod("g-9", "g-9", node_name="n1"), "g")
    held = b.held("g-9", b.result("gpu", "gpu-0", "n1"), node_name="n1")
    objects: list[b.SnapshotObject] = [
        *(b.node(f"n{i}") for i in range(3)),
        clique_slice("n0", "x"),
        clique_slice("n1", "y"),
        clique_slice("n2", "y"),
        b.gpu_class(),
        *gpu_claims("g", 1, 2),
        running,
        held,
    ]
    plan = decide(b.snapshot(objects), *gpu_gang("g", 1), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert p.nodes_of(plan) == {"g-0": "n2"}


def test_a_gang_goes_on_with_what_was_allocated_before_a_crash() -> None:
    """One member's claim is allocated in clique x; the rest has to follow there, though y is the better fit."""
    objects: list[b.SnapshotObject] = [
        *(b.node(f"n{i}") for i in range(4)),
        *(clique_slice(f"n{i}", clique) for i, clique in enumerate(("x", "x", "y", "z"))),
        b.gpu_class(),
        b.claim("g-0", allocation=b.allocation(b.result("gpu", "gpu-0", "n0"), node_name="n0")),
        b.claim("g-1"),
    ]
    plan = decide(b.snapshot(objects), *gpu_gang("g", 2), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert p.nodes_of(plan)["g-0"] == "n0"
    assert p.nodes_of(plan)["g-1"] in {"n0", "n1"}


def test_a_group_of_the_basic_policy_ties_nothing() -> None:
    plan = decide(b.snapshot(b.node("n1", cpu=2)), *gang_pods("g", 3), gangs=[b.gang("g", 0)])
    assert len(plan.placements) == 2


def test_many_gangs_on_few_racks_are_dealt_so_that_most_pods_run() -> None:
    """Best fit puts the gang of two into the rack that the gang of three needs, unless the racks are dealt jointly."""
    nodes = [racked(f"{rack}{i}", rack) for rack, count in (("a", 3), ("b", 4)) for i in range(count)]
    gangs = [b.gang(name, size, b.by_label(RACK)) for name, size in (("p", 2), ("q", 3), ("r", 2))]
    pods = [pod for name, size in (("p", 2), ("q", 3), ("r", 2)) for pod in gang_pods(name, size)]
    plan = decide(b.snapshot(nodes), *pods, gangs=gangs)
    assert len(plan.placements) == 7


@pytest.mark.parametrize(
    "level", [b.by_label(RACK), b.by_label(RACK, is_required=False)], ids=["required", "preferred"]
)
def test_the_order_of_the_pods_decides_nothing(level: GangLevel) -> None:
    nodes = [racked(f"{rack}{i}", rack) for rack, count in (("a", 3), ("b", 2)) for i in range(count)]
    pods = gang_pods("g", 3) + gang_pods("h", 2)
    gangs = [b.gang("g", 3, level), b.gang("h", 2, level)]
    one = decide(b.snapshot(nodes), *pods, gangs=gangs)
    other = decide(b.snapshot(nodes), *reversed(pods), gangs=gangs[::-1])
    assert [each.value for each in one.report.levels] == [each.value for each in other.report.levels]


def mixed_slice(node: str, *cliques: str) -> ResourceSlice:
    """One GPU per entry, in this clique (in none where it is empty)."""
    devices = (
        b.device(f"gpu-{i}", attributes={"clique": clique} if clique else {}) for i, clique in enumerate(cliques)
    )
    return b.resource_slice(node, *devices)


def cliques_of(plan: Plan, snapshot: Snapshot) -> dict[str, set[str]]:
    """The cliques that pods' devices are in, by claim; "" for none."""
    known = {
        (each.pool, device.name): str(dict(device.attributes)["clique"].items()[0][1]) if device.attributes else ""
        for each in snapshot.slices
        for device in each.devices
    }
    return {
        each.claim.name: {known[result.device.pool, result.device.device] for result in each.allocation.results}
        for each in plan.allocations
    }


def test_a_level_of_devices_holds_inside_a_node_of_several_values() -> None:
    snapshot = b.snapshot(b.node("n1"), mixed_slice("n1", *"xyxyxy"), b.gpu_class(), gpu_claims("g", 3))
    plan = decide(snapshot, *gpu_gang("g", 3), gangs=[b.gang("g", 3, b.by_device(CLIQUE))])
    assert len(plan.placements) == 3
    assert set().union(*cliques_of(plan, snapshot).values()) in ({"x"}, {"y"})


def test_members_of_a_split_node_take_the_value_that_is_large_enough() -> None:
    snapshot = b.snapshot(b.node("n1"), mixed_slice("n1", *"xyyxyy"), b.gpu_class(), gpu_claims("g", 2, 2))
    plan = decide(snapshot, *gpu_gang("g", 2), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert cliques_of(plan, snapshot) == {"g-0": {"y"}, "g-1": {"y"}}


def test_a_gang_that_fits_no_value_of_a_split_node_is_told_so() -> None:
    snapshot = b.snapshot(b.node("n1"), mixed_slice("n1", *"xyxy"), b.gpu_class(), gpu_claims("g", 3))
    plan = decide(snapshot, *gpu_gang("g", 3), gangs=[b.gang("g", 3, b.by_device(CLIQUE))])
    assert plan.placements == ()
    assert (
        "3 pods must run together, but only 2 fit now (in device attribute gpu.example.com/clique"
        in (p.messages(plan, "g-0")[0])
    )


def test_a_member_that_is_larger_than_any_value_of_its_node_is_told_so() -> None:
    snapshot = b.snapshot(b.node("n1"), mixed_slice("n1", *"xyxy"), b.gpu_class(), gpu_claims("g", 1, 3))
    plan = decide(snapshot, *gpu_gang("g", 1), gangs=[b.gang("g", 1, b.by_device(CLIQUE))])
    assert plan.placements == ()
    assert p.messages(plan, "g-0")[-1] == (
        "node(s) have no value of device attribute gpu.example.com/clique with enough free devices for the pod"
    )


def test_a_split_node_joins_a_node_of_one_value() -> None:
    slices = (mixed_slice("n1", *"xy"), mixed_slice("n2", *"yy"), mixed_slice("n3", *"xz"))
    nodes = [b.node(f"n{i}") for i in (1, 2, 3)]
    snapshot = b.snapshot(nodes, slices, b.gpu_class(), gpu_claims("g", 3))
    plan = decide(snapshot, *gpu_gang("g", 3), gangs=[b.gang("g", 3, b.by_device(CLIQUE))])
    assert cliques_of(plan, snapshot) == {each: {"y"} for each in ("g-0", "g-1", "g-2")}


def test_devices_without_the_attribute_are_not_taken_on_a_split_node() -> None:
    snapshot = b.snapshot(b.node("n1"), mixed_slice("n1", "", "x", "", "x"), b.gpu_class(), gpu_claims("g", 2))
    plan = decide(snapshot, *gpu_gang("g", 2), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert cliques_of(plan, snapshot) == {"g-0": {"x"}, "g-1": {"x"}}


def test_a_replacement_takes_devices_of_the_value_that_members_hold_in_a_split_node() -> None:
    running = b.member(b.pod("g-9", "g-9", node_name="n1"), "g")
    held = b.held("g-9", b.result("gpu", "gpu-3", "n1"), node_name="n1")
    snapshot = b.snapshot(b.node("n1"), mixed_slice("n1", *"xxxyy"), b.gpu_class(), gpu_claims("g", 1), running, held)
    plan = decide(snapshot, *gpu_gang("g", 1), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert cliques_of(plan, snapshot) == {"g-0": {"y"}}


def test_a_replacement_is_told_where_its_value_is_on_no_other_node() -> None:
    running = b.member(b.pod("g-9", "g-9", node_name="n1"), "g")
    held = b.held("g-9", b.result("gpu", "gpu-0", "n1"), node_name="n1")
    slices = (mixed_slice("n1", "z"), mixed_slice("n2", *"xy"))
    objects = (b.node("n1"), b.node("n2"), slices, b.gpu_class(), gpu_claims("g", 1), running, held)
    plan = decide(b.snapshot(*objects), *gpu_gang("g", 1), gangs=[b.gang("g", 2, b.by_device(CLIQUE))])
    assert plan.placements == ()
    wrong = "node(s) outside of device attribute gpu.example.com/clique z, where members of gang g run"
    assert wrong in p.messages(plan, "g-0")


def test_a_split_node_keeps_two_levels_of_devices_at_once() -> None:
    rail = f"{b.GPU_DRIVER}/rail"
    pairs = (("x", "1"), ("x", "2"), ("y", "1"), ("y", "2"), ("y", "2"))
    devices = (b.device(f"gpu-{i}", attributes={"clique": x, "rail": y}) for i, (x, y) in enumerate(pairs))
    snapshot = b.snapshot(b.node("n1"), b.resource_slice("n1", *devices), b.gpu_class(), gpu_claims("g", 2))
    plan = decide(snapshot, *gpu_gang("g", 2), gangs=[b.gang("g", 2, b.by_device(CLIQUE), b.by_device(rail))])
    taken = {result.device.device for each in plan.allocations for result in each.allocation.results}
    assert taken == {"gpu-3", "gpu-4"}


def test_members_whose_devices_are_all_tainted_are_not_free_of_a_level_of_devices() -> None:
    """Else a worker would count as a launcher on the day when all devices with the attribute are tainted."""
    tainted = [b.device(f"gpu-{i}", attributes={"clique": "x"}, taints=(b.taint("sick"),)) for i in range(2)]
    slices = (b.resource_slice("n1", *tainted), mixed_slice("n2", "", ""), mixed_slice("n3", "y"))
    only = b.claim("g-0", b.request(selectors=('device.attributes["gpu.example.com"].?clique.orValue("x") == "x"',)))
    objects = (b.node("n1"), b.node("n2"), b.node("n3"), slices, b.gpu_class(), only, b.claim("g-1"))
    plan = decide(b.snapshot(*objects), *gpu_gang("g", 2), gangs=[b.gang("g", 1, b.by_device(CLIQUE))])
    assert p.nodes_of(plan) == {"g-1": "n3"}


def crowd(count: int, *, name: str = "shared") -> list[b.SnapshotObject]:
    """A claim on the only node that so many others use already."""
    consumers = [b.consumer(f"old-{i}") for i in range(count)]
    held = b.allocation(b.result("gpu", "gpu-0", "n1"), node_name="n1")
    return [b.node("n1", cpu=64), b.gpu_slice("n1", count=2), b.claim(name, allocation=held, reserved_for=consumers)]


def sharing(name: str, count: int) -> tuple[Pod, ...]:
    """Members that use a claim through their group."""
    return tuple(b.member(b.pod(f"{name}-{i}", b.entry("shared", name="shared")), name) for i in range(count))


def test_a_group_takes_one_place_in_a_claim_for_all_of_its_pods() -> None:
    gang = b.gang("g", 10, claims=("shared",))
    plan = decide(b.snapshot(crowd(255), b.gpu_class()), *sharing("g", 10), gangs=[gang])
    assert len(plan.placements) == 10


def test_a_group_that_would_be_one_consumer_too_many_waits() -> None:
    gang = b.gang("g", 2, claims=("shared",))
    plan = decide(b.snapshot(crowd(256), b.gpu_class()), *sharing("g", 2), gangs=[gang])
    assert plan.placements == ()
    assert p.codes(plan, "g-0") == ["ClaimFull"]


def test_a_group_and_a_pod_share_the_last_places_of_a_claim() -> None:
    gang = b.gang("g", 2, claims=("shared",))
    pods = (*sharing("g", 2), *(b.pod(f"single-{i}", "shared") for i in range(2)))
    plan = decide(b.snapshot(crowd(254), b.gpu_class()), *pods, gangs=[gang])
    assert {"g-0", "g-1"} < p.nodes_of(plan).keys()
    assert len(plan.placements) == 3


def test_of_two_groups_the_first_gets_the_last_place_of_a_claim() -> None:
    gangs = [b.gang(name, 2, claims=("shared",)) for name in "gh"]
    plan = decide(b.snapshot(crowd(255), b.gpu_class()), *sharing("h", 2), *sharing("g", 2), gangs=gangs)
    assert p.nodes_of(plan).keys() == {"h-0", "h-1"}


@pytest.mark.parametrize("first", [BLOCK, RACK], ids=["block", "rack"])
def test_of_several_preferred_levels_each_counts_its_domains(first: str) -> None:
    """Two racks of two nodes in one block, one rack of three across two blocks: four pods use the block."""
    places = [("a", "r1"), ("a", "r1"), ("a", "r2"), ("a", "r2"), ("b", "r3"), ("c", "r3"), ("c", "r3")]
    nodes = [racked(f"n{i}", rack, block=block) for i, (block, rack) in enumerate(places)]
    levels = [b.by_label(key, is_required=False) for key in sorted((BLOCK, RACK), key=lambda key: key != first)]
    four = decide(b.snapshot(nodes), *gang_pods("g", 4), gangs=[b.gang("g", 4, *levels)])
    assert set(p.nodes_of(four).values()) == {"n0", "n1", "n2", "n3"}
    assert four.report.levels[1].value == -3
    three = decide(b.snapshot(nodes), *gang_pods("g", 3), gangs=[b.gang("g", 3, *levels)])
    assert three.report.levels[1].value == -3
    six = decide(b.snapshot(nodes), *gang_pods("g", 6), gangs=[b.gang("g", 6, *levels)])
    assert set(p.nodes_of(six).values()) == {"n0", "n1", "n2", "n3", "n5", "n6"}
    assert six.report.levels[1].value == -5


def test_the_others_are_told_which_member_fits_nowhere_and_why() -> None:
    claims = [b.claim("g-0"), b.claim("g-1"), b.claim("g-2", b.request(count=2))]
    objects = (b.node("n1"), b.node("n2"), b.gpu_slice("n1", count=1), b.gpu_slice("n2", count=1), b.gpu_class())
    plan = decide(b.snapshot(*objects, claims), *gpu_gang("g", 3), gangs=[b.gang("g", 3)])
    lead = "gang g: 3 pods must run together, but only 2 fit now; alone, its pods fit on n1, n2 (2 of 2 nodes)"
    stuck = "pod g-2 fits on no node, even alone; even with nothing else running, only 2 would fit"
    why = "request gpu: needs 2 devices, 2 match, 2 free, no node has more than 1 of them"
    assert p.messages(plan, "g-0")[0] == f"{lead}; {stuck}"
    assert p.messages(plan, "g-0")[1].startswith(f"pod g-2: {why}")
    assert p.codes(plan, "g-0") == ["GangUnplaced", "DevicesNone"]
    assert p.messages(plan, "g-2")[0] == f"{lead}; {stuck}"
    assert p.messages(plan, "g-2")[1].startswith(why)


def test_a_member_that_fits_outside_of_the_gangs_domains_only_is_not_said_to_fit_nowhere() -> None:
    nodes = b.node("n1", labels={"rack": "a"}), b.node("n2")
    claims = [b.claim("g-0"), b.claim("g-1")]
    objects = (*nodes, b.gpu_slice("n2", count=1), b.gpu_class())
    plan = decide(b.snapshot(*objects, claims), *gpu_gang("g", 2), gangs=[b.gang("g", 2, b.by_label("rack"))])
    lead = "gang g: 2 pods must run together, but none fits now"
    assert p.messages(plan, "g-0")[0] == f"{lead}; pod g-0 fits on no node where its gang may run"


def test_a_gang_whose_claims_are_still_to_be_made_waits_for_them_and_is_not_called_unschedulable() -> None:
    ready, late = gpu_gang("g", 2), b.member(b.pod("g-2", b.waiting_entry()), "g")
    objects = (b.node("n1"), b.gpu_slice("n1", count=3), b.gpu_class(), gpu_claims("g", 2))
    plan = decide(b.snapshot(*objects), *ready, late, gangs=[b.gang("g", 3)])
    assert p.codes(plan, "g-0") == ["ClaimMissing"]
    (message,) = p.messages(plan, "g-0")
    assert message.startswith("gang g waits for claims of 1 of its pods: pod g-2 cannot be placed: the claim of entry")
    assert p.codes(plan, "g-2") == ["ClaimMissing"]
    assert {condition_reason(each.reasons) for each in plan.unplaced} == {"WaitingForClaims"}
    enough = decide(b.snapshot(*objects), *ready, late, gangs=[b.gang("g", 2)])
    assert p.nodes_of(enough).keys() == {"g-0", "g-1"}


def test_a_gang_says_of_all_its_pods_what_one_of_them_waits_for() -> None:
    """Also where the other thing is no claim that is still to be made: a volume of a class that does not wait."""
    unbound = volumes.volume_claim("data", storage="at-once")
    others, late = gang_pods("g", 2), volumes.using(b.member(b.pod("g-2", cpu=1), "g"), "data")
    stand = volumes.with_storage(
        b.snapshot(b.node("n1", cpu=8)), volumes.storage_class("at-once", waits=False), unbound
    )
    plan = decide(stand, *others, late, gangs=[b.gang("g", 3)])
    assert {condition_reason(each.reasons) for each in plan.unplaced} == {"Unschedulable"}
    words = "gang g waits for 1 of its pods: pod g-2 cannot be placed: pod has unbound immediate PersistentVolumeClaims"
    assert p.messages(plan, "g-0")[0].startswith(words)
    enough = decide(stand, *others, late, gangs=[b.gang("g", 2)])
    assert p.nodes_of(enough).keys() == {"g-0", "g-1"}


def test_a_gang_is_unschedulable_while_a_claim_of_one_of_its_pods_is_allocated_elsewhere() -> None:
    """As with kube-scheduler, although no other node changes it; the message says so of both pods."""
    held = b.held("g-1", b.result("gpu", "gpu-0", "n2"), node_name="n2")
    objects = (
        b.node("n1", cpu=8),
        b.node("n2", cpu=8, is_unschedulable=True),
        b.gpu_slice("n2", count=1),
        b.gpu_class(),
    )
    pods = (b.member(b.pod("g-0", cpu=1), "g"), b.member(b.pod("g-1", "g-1", cpu=1), "g"))
    plan = decide(b.snapshot(*objects, [held]), *pods, gangs=[b.gang("g", 2)])
    told = {each.pod.name: condition_reason(each.reasons) for each in plan.unplaced}
    assert told == {"g-0": "Unschedulable", "g-1": "Unschedulable"}
    assert all(any("allocated elsewhere" in each for each in p.messages(plan, name)) for name in told)


def test_one_pod_of_a_high_priority_takes_no_room_for_the_low_ones_of_its_gang() -> None:
    nodes = [b.node(f"n{n}", cpu=1) for n in range(4)]
    gang = (*gang_pods("g", 1, priority=1000), *(b.member(b.pod(f"low-{n}", cpu=1), "g") for n in range(3)))
    others = [b.pod(f"other-{n}", cpu=1, priority=500) for n in range(4)]

    plan = decide(b.snapshot(nodes), *gang, *others, gangs=[b.gang("g", 4)])

    assert sorted(each.pod.name for each in plan.placements) == [f"other-{n}" for n in range(4)]


def test_pods_above_what_a_gang_needs_count_by_their_own_priority() -> None:
    nodes = [b.node(f"n{n}", cpu=1) for n in range(3)]
    gang = (*gang_pods("g", 2, priority=1000), b.member(b.pod("extra", cpu=1), "g"))
    others = [b.pod(f"other-{n}", cpu=1, priority=500) for n in range(4)]

    plan = decide(b.snapshot(nodes), *gang, *others, gangs=[b.gang("g", 2)])

    assert {"g-0", "g-1"} < {each.pod.name for each in plan.placements}
    assert "extra" not in {each.pod.name for each in plan.placements}


def test_a_pod_group_s_own_priority_counts_for_nothing() -> None:
    low = [replace(pod, priority=0) for pod in gang_pods("g", 1)]
    gang = replace(b.gang("g", 1), priority=2_000_000_000)

    plan = decide(b.snapshot(b.node("n", cpu=1)), *low, b.pod("other", cpu=1, priority=1), gangs=[gang])

    assert [each.pod.name for each in plan.placements] == ["other"]


def holding(name: str, node: str, *gpus: int, gang: str = "", namespace: str = b.NAMESPACE) -> list[b.SnapshotObject]:
    """A running pod, and the claim with the GPUs of its node that it holds."""
    claim = b.held(name, *(b.result("gpu", f"gpu-{each}", node) for each in gpus), namespace=namespace)
    pod = b.pod(name, name, node_name=node, namespace=namespace)
    claim = replace(claim, reserved_for=(b.consumer(name, namespace),))
    return [claim, b.member(pod, gang) if gang else pod]


def trained(rack: str = "example.com/rack") -> list[b.SnapshotObject]:
    """Four nodes of 8 GPUs in two racks; train-a holds those of the first rack, train-c one node of the second."""
    nodes = [b.node(f"n{number}", labels={rack: f"r{number // 2}"}) for number in range(4)]
    slices = [b.gpu_slice(each.name, count=8) for each in nodes]
    running = [*holding("a-0", "n0", *range(8), gang="train-a"), *holding("a-1", "n1", *range(8), gang="train-a")]
    return [b.gpu_class(), *nodes, *slices, *running, *holding("c-0", "n2", *range(8), gang="train-c")]


def lead(objects: list[b.SnapshotObject], size: int, *levels: GangLevel) -> str:
    """The first message of a gang whose pods have 8 GPUs each."""
    plan = decide(
        b.snapshot(objects, gpu_claims("g", size, 8)), *gpu_gang("g", size), gangs=[b.gang("g", size, *levels)]
    )
    return p.messages(plan, "g-0")[0]


def test_a_gang_names_the_workload_that_it_waits_for() -> None:
    assert lead(trained(), 2).endswith(
        "it can start when gang default/train-c ends: it holds 8 of the 32 matching devices"
    )
    assert lead(trained(), 3).endswith(
        "it can start when gang default/train-a ends: it holds 16 of the 32 matching devices"
    )
    assert lead(trained(), 4).endswith(
        "it can start when default/train-a, default/train-c end: they hold 24 of the 32 matching devices"
    )


def test_a_workload_of_another_namespace_is_not_named() -> None:
    objects: list[b.SnapshotObject] = [b.gpu_class(), b.node("n1"), b.gpu_slice("n1", count=16)]
    found = lead([*objects, *holding("x", "n1", *range(8), namespace="secret")], 2)
    assert found.endswith("it can start when a pod of another namespace ends: it holds 8 of the 16 matching devices")


def test_a_gang_that_is_larger_than_the_largest_domain_says_how_large_that_is() -> None:
    rack = b.by_label("example.com/rack")
    assert lead(trained(), 3, rack).endswith(
        "even with nothing else running, only 2 would fit in the largest label example.com/rack (r0)"
    )
    assert lead(trained(), 5).endswith("even with nothing else running, only 4 would fit")


def test_a_topology_that_nothing_has_is_named_with_the_nearest_one() -> None:
    assert lead(trained(), 2, b.by_label("example.com/rak")).endswith(
        "; hint: no node has a label example.com/rak: did you mean example.com/rack?"
    )
    cliques: list[b.SnapshotObject] = [b.gpu_class(), b.node("n1"), mixed_slice("n1", *"xyxyxyxy")]
    assert lead(cliques, 1, b.by_device("gpu.example.com/cliqe")).endswith(
        "; hint: no matching device has the attribute gpu.example.com/cliqe: did you mean gpu.example.com/clique?"
    )
