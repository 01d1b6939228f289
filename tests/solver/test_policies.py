"""What each policy takes when several places do, a clear case each."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import verify
from solver.domain import PACK, SPREAD, SUSPECT_TAINT, TOPOLOGY, Claim, NodeScope, Plan, Pod, Policy
from solver.greedy import candidates
from solver.model import assignment, build, cells
from solver.model.objective import evaluate
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
CLIQUE = "nvidia.com/gpu.clique"
PACKING, SPREADING, ALIGNING = (
    Policy(name="pack", levels=PACK),
    Policy(name="spread", levels=SPREAD),
    Policy(name="topology", levels=TOPOLOGY),
)


def planned(*objects: Any, pods: list[Pod], policy: Policy = PACKING) -> Plan:
    found = s.plan(*objects, pods=pods, policy=policy)
    assert verify.check(b.snapshot(*objects), b.batch(*pods), found, policy) == ()
    assert len(found.placements) == len(pods)
    return found


def devices(plan: Plan) -> list[str]:
    return sorted(f"{r.device.pool}/{r.device.device}" for each in plan.allocations for r in each.allocation.results)


def wanting(*counts: int) -> tuple[list[Any], list[Pod]]:
    claims: list[Any] = [b.claim(f"c{i}", b.request(count=count)) for i, count in enumerate(counts)]
    return claims, [b.pod(f"p{i}", f"c{i}") for i in range(len(counts))]


def of_nodes(*names: str, count: int = 8) -> list[Any]:
    return [GPU, *(b.node(name) for name in names), *(b.gpu_slice(name, count=count) for name in names)]


# pack


def test_pack_keeps_whole_nodes_free() -> None:
    claims, pods = wanting(2)
    taken = b.held("h", b.result("r", "gpu-7", "n2"), node_name="n2")
    assert {each.partition("/")[0] for each in devices(planned(*of_nodes("n1", "n2"), claims, taken, pods=pods))} == {
        "n2"
    }


def test_pack_gives_a_small_ask_the_small_card() -> None:
    sizes = {"large": "80Gi", "small": "10Gi", "middle": "40Gi"}
    cards = [b.device(name, capacities={"memory": size}) for name, size in sizes.items()]
    enough = "device.capacity['gpu.example.com'].memory.compareTo(quantity('10Gi')) >= 0"
    claim = b.claim("c", b.request(selectors=(enough,)))
    objects = (GPU, b.node("n"), b.resource_slice("n", *cards), claim)
    assert devices(planned(*objects, pods=[b.pod("p", "c")])) == ["n/small"]


def test_pack_keeps_groups_of_nodes_free_that_are_whole() -> None:
    machines = [b.node(f"n{i}", labels={CLIQUE: "ab"[i // 2]}) for i in range(4)]
    slices = [b.gpu_slice(each.name) for each in machines]
    taken = b.held("h", *(b.result(f"r{i}", f"gpu-{i}", "n2") for i in range(8)), node_name="n2")
    claims, pods = wanting(8)
    plan = planned(GPU, machines, slices, taken, claims, pods=pods)
    assert plan.placements[0].node == "n3"
    assert all(level.proven for level in plan.report.levels)


def test_pack_opens_one_group_of_nodes_for_all() -> None:
    machines = [b.node(f"n{i}", labels={CLIQUE: "abc"[i % 3]}) for i in range(6)]
    slices = [b.gpu_slice(each.name) for each in machines]
    claims, pods = wanting(8, 8)
    plan = planned(GPU, machines, slices, claims, pods=pods)
    assert len({int(each.node[1]) % 3 for each in plan.placements}) == 1


def partitioned(*names: str) -> list[Any]:
    """Cards that are cut into halves or quarters, by counters of slices of memory."""
    found: list[Any] = [b.device_class("part", driver="mig.example.com")]
    for name in names:
        sizes = {"full": 4, "half": 2, "quarter": 1}
        parts = [
            b.device(
                f"{card}-{kind}-{i}",
                attributes={"profile": kind},
                capacities={"memory": f"{size}0Gi"},
                consumes={card: {"slices": size}},
            )
            for card in ("x", "y")
            for kind, size in sizes.items()
            for i in range(4 // size)
        ]
        counters = {card: {"slices": 4} for card in ("x", "y")}
        found.append(b.node(name))
        found.append(b.resource_slice(name, *parts, driver="mig.example.com", slice_count=2))
        found.append(b.resource_slice(name, driver="mig.example.com", slice_count=2, counter_sets=counters))
    return found


def part(name: str, kind: str) -> Claim:
    wanted = f"device.attributes['mig.example.com'].profile == '{kind}'"
    return b.claim(name, b.request("r", "part", selectors=(wanted,)))


def test_pack_cuts_a_card_that_is_cut_already() -> None:
    taken = b.held("h", b.result("r", "y-quarter-0", "n", driver="mig.example.com"), node_name="n")
    plan = planned(*partitioned("n"), taken, part("c", "quarter"), pods=[b.pod("p", "c")])
    assert devices(plan)[0].startswith("n/y-")


def test_pack_cuts_one_card_for_several_parts() -> None:
    claims = [part(f"c{i}", "quarter") for i in range(3)]
    plan = planned(*partitioned("n"), claims, pods=[b.pod(f"p{i}", f"c{i}") for i in range(3)])
    assert len({name[:3] for name in devices(plan)}) == 1


def test_pack_cuts_where_a_half_stays_whole() -> None:
    taken = [
        b.held("h1", b.result("r", "x-half-0", "n", driver="mig.example.com"), node_name="n"),
        b.held("h2", b.result("r", "y-quarter-0", "n", driver="mig.example.com"), node_name="n"),
    ]
    plan = planned(*partitioned("n"), taken, part("c", "quarter"), pods=[b.pod("p", "c")])
    assert devices(plan)[0].startswith("n/y-")


CUTS = {
    "one": (1, 14, 4864, range(7)),
    "two": (2, 28, 9856, (0, 2, 4)),
    "three": (4, 42, 19968, (0, 4)),
    "four": (4, 56, 19968, (0,)),
}
"""Profiles of a card of eight slices: how many they lie on, the engines and memory that they draw, where they begin."""


def sliced() -> list[Any]:
    """Give one card that is cut anywhere: every part draws on the slices of memory that it lies on."""
    parts = [
        b.device(
            f"{kind}-{start}",
            attributes={"profile": kind},
            capacities={"memory": f"{memory}Mi", "engines": engines},
            consumes={
                "card": {
                    "memory": memory,
                    "engines": engines,
                    **{f"slice-{i}": 1 for i in range(start, start + width)},
                }
            },
        )
        for kind, (width, engines, memory, starts) in CUTS.items()
        for start in starts
    ]
    counters = {"card": {"memory": 40960, "engines": 98, **{f"slice-{i}": 1 for i in range(8)}}}
    return [
        b.device_class("part", driver="mig.example.com"),
        b.node("n"),
        b.resource_slice("n", *parts, driver="mig.example.com", slice_count=2),
        b.resource_slice("n", driver="mig.example.com", slice_count=2, counter_sets=counters),
    ]


@pytest.mark.parametrize(
    "order",
    [("one", "two", "four"), ("one", "two", "three"), ("two", "one", "four"), ("one", "one", "one", "four")],
    ids="-".join,
)
def test_parts_that_come_one_after_the_other_leave_room_for_the_largest(order: tuple[str, ...]) -> None:
    held: list[Claim] = []
    for number, kind in enumerate(order):
        plan = planned(*sliced(), held, part(f"c{number}", kind), pods=[b.pod(f"p{number}", f"c{number}")])
        (name,) = devices(plan)
        result = b.result("r", name.removeprefix("n/"), "n", driver="mig.example.com")
        held.append(b.held(f"h{number}", result, node_name="n"))


# spread


def test_spread_takes_the_node_with_most_free_devices() -> None:
    taken = b.held("h", b.result("r", "gpu-7", "n1"), node_name="n1")
    claims, pods = wanting(1)
    plan = planned(*of_nodes("n1", "n2"), taken, claims, pods=pods, policy=SPREADING)
    assert plan.placements[0].node == "n2"


def test_spread_leaves_few_devices_in_use_on_each_node() -> None:
    claims, pods = wanting(1, 1, 1, 1, 1, 1)
    plan = planned(*of_nodes("n1", "n2", "n3"), claims, pods=pods, policy=SPREADING)
    assert set(Counter(each.node for each in plan.placements).values()) == {2}
    assert all(level.proven for level in plan.report.levels)


def test_spread_evens_out_what_is_uneven() -> None:
    taken = b.held("h", *(b.result(f"r{i}", f"gpu-{i}", "n1") for i in range(3)), node_name="n1")
    claims, pods = wanting(1, 1, 1)
    plan = planned(*of_nodes("n1", "n2", count=4), taken, claims, pods=pods, policy=SPREADING)
    assert {each.node for each in plan.placements} == {"n2"}


def test_spread_and_pack_differ() -> None:
    claims, pods = wanting(1, 1)
    packed, spread = (planned(*of_nodes("n1", "n2"), claims, pods=pods, policy=each) for each in (PACKING, SPREADING))
    assert (len({p.node for p in packed.placements}), len({p.node for p in spread.placements})) == (1, 2)


# topology


def test_topology_takes_from_a_group_that_is_broken_already() -> None:
    taken = b.held("h", b.result("r", "gpu-4", "n"), node_name="n")
    claims, pods = wanting(2)
    plan = planned(*of_nodes("n"), taken, claims, pods=pods, policy=ALIGNING)
    assert set(devices(plan)) <= {f"n/gpu-{i}" for i in (5, 6, 7)}


def test_topology_takes_a_whole_group_rather_than_halves_of_two() -> None:
    claims, pods = wanting(4, 2, 2)
    plan = planned(*of_nodes("n1", "n2"), claims, pods=pods, policy=ALIGNING)
    assert len({(name[:2], int(name[-1]) // 4) for name in devices(plan)}) == 2


def test_topology_opens_a_node_rather_than_break_a_group() -> None:
    taken = [
        b.held("h1", *(b.result(f"r{i}", f"gpu-{i}", "n1") for i in range(4)), node_name="n1"),
        b.held("h2", *(b.result(f"r{i}", f"gpu-{i}", "n2") for i in range(3)), node_name="n2"),
    ]
    claims, pods = wanting(1)
    plan = planned(*of_nodes("n1", "n2"), taken, claims, pods=pods, policy=ALIGNING)
    assert devices(plan) == ["n2/gpu-3"]


@pytest.mark.parametrize("policy", [PACKING, SPREADING, ALIGNING], ids=lambda each: each.name)
@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    used=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 7)), max_size=6, unique=True),
    grouped=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_the_model_values_what_the_greedy_finds_as_it_is(
    policy: Policy, counts: list[int], used: list[tuple[int, int]], *, grouped: bool
) -> None:
    claims, pods = wanting(*counts)
    machines = [b.node(f"n{i}", labels={CLIQUE: "ab"[i // 2]} if grouped else {}) for i in range(3)]
    slices = [b.gpu_slice(each.name) for each in machines]
    held = [b.held(f"h{n}-{d}", b.result("r", f"gpu-{d}", f"n{n}"), node_name=f"n{n}") for n, d in used]
    problem = s.problem(GPU, machines, slices, held, claims, pods=pods, policy=policy)
    variables = build.build(problem, cells.single(problem))
    for solution in candidates(problem):
        found = assignment.values_of(variables, solution)
        assert variables.form.broken_by(found) == ()
        assert tuple(level.expression.value(found) for level in variables.form.levels) == evaluate(problem, solution)


@given(
    kinds=st.lists(st.sampled_from(["full", "half", "quarter"]), min_size=1, max_size=5),
    used=st.sets(st.sampled_from(["x-half-0", "y-quarter-0", "y-quarter-1"])),
)
@settings(max_examples=40, deadline=None)
def test_the_model_values_partitions_as_the_choices_do(kinds: list[str], used: set[str]) -> None:
    driver = "mig.example.com"
    taken = [b.held(f"h-{each}", b.result("r", each, "n", driver=driver), node_name="n") for each in sorted(used)]
    claims = [part(f"c{i}", kind) for i, kind in enumerate(kinds)]
    pods = [b.pod(f"p{i}", f"c{i}") for i in range(len(kinds))]
    problem = s.problem(*partitioned("n", "m"), taken, claims, pods=pods)
    variables = build.build(problem, cells.single(problem))
    for solution in candidates(problem):
        found = assignment.values_of(variables, solution)
        assert variables.form.broken_by(found) == ()
        assert tuple(level.expression.value(found) for level in variables.form.levels) == evaluate(problem, solution)


def suspected(node: str, *names: str) -> list[Any]:
    taint = b.taint(SUSPECT_TAINT, effect="None")
    return [b.taint_rule(f"r-{node}-{name}", taint, pool=node, device_name=name) for name in names]


def test_a_device_that_work_failed_on_is_given_last() -> None:
    claims, pods = wanting(1)
    assert devices(planned(*of_nodes("n", count=2), claims, pods=pods)) == ["n/gpu-0"]
    assert devices(planned(*of_nodes("n", count=2), suspected("n", "gpu-0"), claims, pods=pods)) == ["n/gpu-1"]


def test_another_node_is_opened_rather_than_a_suspect_device_given() -> None:
    taken = b.held("h", b.result("r", "gpu-1", "n1"), node_name="n1")
    claims, pods = wanting(1)
    plan = planned(*of_nodes("n1", "n2", count=2), taken, suspected("n1", "gpu-0"), claims, pods=pods)
    assert plan.placements[0].node == "n2"
    assert all(level.proven for level in plan.report.levels)


def test_a_suspect_device_is_given_where_no_other_is_left() -> None:
    claims, pods = wanting(2)
    assert len(devices(planned(*of_nodes("n", count=2), suspected("n", "gpu-0"), claims, pods=pods))) == 2


def test_without_suspects_there_is_no_such_level() -> None:
    claims, pods = wanting(1)
    assert "suspects" not in {level.name for level in planned(*of_nodes("n"), claims, pods=pods).report.levels}


# what is at hand

ANYWHERE = NodeScope(all_nodes=True)


def fabric(*conditions: str, count: int = 4) -> Any:
    """Devices that every node can use, to be attached first where there are conditions."""
    made = (b.device(f"far-{index}", binding_conditions=conditions) for index in range(count))
    return b.resource_slice("fabric", *made, at=ANYWHERE)


@pytest.mark.parametrize("policy", [PACKING, SPREADING, ALIGNING], ids=lambda each: each.name)
@pytest.mark.parametrize("conditions", [(), ("Attached",)], ids=["ready", "to be attached"])
def test_a_device_of_the_node_itself_goes_before_one_that_others_could_use(
    policy: Policy, conditions: tuple[str, ...]
) -> None:
    """Also where that opens a node: packing says which nodes stay whole, and not what a pod waits for."""
    claims, pods = wanting(1, 1)
    plan = planned(*of_nodes("n1", "n2", count=1), fabric(*conditions), claims, pods=pods, policy=policy)
    assert devices(plan) == ["n1/gpu-0", "n2/gpu-0"]


def test_a_ready_device_goes_before_one_that_has_to_be_attached_first() -> None:
    claims, pods = wanting(2)
    ready = b.resource_slice("ready", b.device("far-9"), at=ANYWHERE)
    plan = planned(GPU, b.node("n1"), b.gpu_slice("n1", count=1), fabric("Attached"), ready, claims, pods=pods)
    assert devices(plan) == ["n1/gpu-0", "ready/far-9"]


def test_what_is_not_at_hand_is_taken_where_nothing_else_is_left() -> None:
    claims, pods = wanting(2)
    plan = planned(GPU, b.node("n1"), b.gpu_slice("n1", count=1), fabric("Attached"), claims, pods=pods)
    assert devices(plan) == ["fabric/far-0", "n1/gpu-0"]


def test_where_all_devices_are_equally_near_there_is_no_such_level() -> None:
    claims, pods = wanting(1)
    for near in (of_nodes("n"), [GPU, b.node("n"), fabric("Attached")]):
        assert "remote-devices" not in {level.name for level in planned(*near, claims, pods=pods).report.levels}


# nominations


@pytest.mark.parametrize("policy", [PACKING, SPREADING, ALIGNING], ids=lambda each: each.name)
def test_the_node_that_is_nominated_goes_before_whatever_else_a_pod_prefers(policy: Policy) -> None:
    elsewhere = ((100, b.expressions(b.requirement("kubernetes.io/hostname", "In", "n1"))),)
    nodes = [b.node(name, cpu=4, labels={"kubernetes.io/hostname": name}) for name in ("n1", "n2", "n3")]
    asking = replace(b.pod("p", cpu=1), preferred_node_affinity=elsewhere)
    for name in ("n2", "n3"):
        (placed,) = planned(*nodes, pods=[replace(asking, nominated_node_name=name)], policy=policy).placements
        assert placed.node == name


@pytest.mark.parametrize("nominated", ["small", "gone"])
def test_a_nominated_node_that_cannot_take_the_pod_says_nothing(nominated: str) -> None:
    nodes = b.node("small", cpu=1), b.node("large", cpu=4)
    (placed,) = planned(*nodes, pods=[replace(b.pod("p", cpu=2), nominated_node_name=nominated)]).placements
    assert placed.node == "large"


def test_pods_of_one_kind_go_to_the_nodes_that_are_nominated_for_each() -> None:
    nodes = [b.node(f"n{index}", cpu=8) for index in range(4)]
    pods = [replace(b.pod(f"p{index}", cpu=1), nominated_node_name=f"n{3 - index}") for index in range(4)]
    assert s.nodes_of(planned(*nodes, pods=pods)) == {"p0": "n3", "p1": "n2", "p2": "n1", "p3": "n0"}
