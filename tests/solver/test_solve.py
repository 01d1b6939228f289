"""The whole solve: every pod once, and what a joint decision has to get right."""

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import Budget, Claim, ClaimId, Pod, Policy, ReasonCode, ResourceSlice, SearchStatus
from solver.problem.solver_cache import SolverCache
from solver.verify import check
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
FABRIC = "fabric.example.com"
FABRIC_CLASS = b.device_class("fabric", driver=FABRIC)
ROOT = "resource.kubernetes.io/pcieRoot"


def fabric(count: int = 1, *, is_binding: bool = False) -> ResourceSlice:
    devices = (b.device(f"f{index}", binds_to_node=is_binding) for index in range(count))
    return b.resource_slice("fabric", *devices, driver=FABRIC, at=b.scope(all_nodes=True))


def singles(number: int, count: int = 1) -> tuple[list[Claim], list[Pod]]:
    """Pods p0, p1, … with a claim of their own."""
    numbers = range(number)
    claims = [b.claim(f"c{each}", b.request(count=count)) for each in numbers]
    return claims, [b.pod(f"p{each}", f"c{each}") for each in numbers]


# Nothing much


def test_an_empty_batch_is_an_empty_plan() -> None:
    decided = s.plan(b.node("n1"), pods=[])
    assert (decided.placements, decided.allocations, decided.unplaced) == ((), (), ())


def test_a_batch_of_one_is_placed() -> None:
    decided = s.plan(b.node("n1"), pods=[b.pod("p")])
    assert s.nodes_of(decided) == {"p": "n1"}
    assert decided.report.node_count == 1


def test_a_cluster_without_nodes_places_no_pod() -> None:
    claims, pods = singles(2)
    decided = s.plan(GPU, claims, pods=pods)
    assert [s.codes(decided, name) for name in ("p0", "p1")] == [["NoNodes"], ["NoNodes"]]


def test_a_pod_that_is_named_twice_is_decided_once() -> None:
    decided = s.plan(b.node("n1"), pods=[b.pod("p"), b.pod("p")])
    assert len(decided.placements) == 1


def test_a_bad_pod_stops_no_other_pod() -> None:
    claims, pods = singles(1)
    bad = [b.pod("missing", "absent"), b.pod("invalid", invalid="odd"), b.pod("huge", memory=2**70)]
    decided = s.plan(b.node("n1"), b.gpu_slice("n1"), GPU, claims, pods=[*bad, *pods])
    assert s.nodes_of(decided) == {"p0": "n1"}


def test_a_selector_that_does_not_compile_stops_no_other_pod() -> None:
    claims, pods = singles(1)
    bad = b.claim("bad", b.request(selectors=("device.",)))
    decided = s.plan(b.node("n1"), b.gpu_slice("n1"), GPU, claims, bad, pods=[b.pod("q", "bad"), *pods])
    assert (s.nodes_of(decided), s.codes(decided, "q")) == ({"p0": "n1"}, ["SelectorInvalid"])


def test_an_object_of_absurd_size_stops_no_pod() -> None:
    running = b.pod("running", node_name="n2", memory=2**70)
    nodes = [b.node("n1"), b.node("n2", memory=2**80)]
    assert len(s.plan(nodes, running, pods=[b.pod("p", memory="1Gi")]).placements) == 1


# Claims


def test_a_claim_that_two_entries_name_is_allocated_once() -> None:
    pod = b.pod("p", b.entry("c", name="a"), b.entry("c", name="b"))
    decided = s.plan(b.node("n1"), b.gpu_slice("n1"), GPU, b.claim("c"), pods=[pod])
    assert s.devices_of(decided, "c") == [("gpu", "gpu-0")]


def test_a_claim_without_requests_needs_no_device() -> None:
    empty = replace(b.claim("c"), requests=())
    assert s.nodes_of(s.plan(b.node("n1"), empty, pods=[b.pod("p", "c")])) == {"p": "n1"}


def test_a_claim_without_requests_may_be_shared() -> None:
    empty = replace(b.claim("c"), requests=())
    decided = s.plan(b.node("n1"), empty, pods=[b.pod("p", "c"), b.pod("q", "c")])
    assert (len(decided.placements), len(decided.allocations)) == (2, 1)


def test_a_pod_follows_its_allocated_claim() -> None:
    given = b.claim("c", allocation=b.allocation(b.result("gpu", "gpu-0", "n2"), node_name="n2"))
    nodes = (b.node(name) for name in ("n1", "n2", "n3"))
    assert s.nodes_of(s.plan(nodes, b.gpu_slice("n2"), GPU, given, pods=[b.pod("p", "c")])) == {"p": "n2"}


def test_an_allocated_claim_decides_where_the_new_one_is_allocated() -> None:
    given = b.claim("c", allocation=b.allocation(b.result("gpu", "gpu-0", "n2"), node_name="n2"))
    slices = (b.gpu_slice(name) for name in ("n1", "n2"))
    decided = s.plan(b.node("n1"), b.node("n2"), slices, GPU, given, b.claim("d"), pods=[b.pod("p", "c", "d")])
    assert (s.nodes_of(decided), s.devices_of(decided, "d")) == ({"p": "n2"}, [("gpu", "gpu-1")])


def test_claims_that_are_allocated_apart_keep_their_pod_from_every_node() -> None:
    given = [
        b.claim(name, allocation=b.allocation(b.result("gpu", "gpu-0", node), node_name=node))
        for name, node in (("c", "n1"), ("d", "n2"))
    ]
    decided = s.plan(b.node("n1"), b.node("n2"), GPU, given, pods=[b.pod("p", "c", "d")])
    assert s.codes(decided, "p") == ["ClaimElsewhere"]


def test_a_claim_takes_no_more_than_256_consumers() -> None:
    reserved = [b.consumer(f"c{index}") for index in range(255)]
    given = b.claim("c", allocation=b.allocation(b.result("gpu", "d", "n1")), reserved_for=reserved)
    decided = s.plan(b.node("n1", pods=500), GPU, given, pods=[b.pod("p", "c"), b.pod("q", "c")])
    assert (s.nodes_of(decided), s.codes(decided, "q")) == ({"p": "n1"}, ["Outranked", "ClaimFull"])


def test_the_last_place_of_a_claim_goes_to_a_pod_that_fits() -> None:
    reserved = [b.consumer(f"c{index}") for index in range(255)]
    given = b.claim("c", allocation=b.allocation(b.result("gpu", "d", "n1")), reserved_for=reserved)
    pods = [b.pod("too-large", "c", cpu=100), b.pod("p", "c"), b.pod("q", "c", cpu=2)]
    decided = s.plan(b.node("n1", pods=500), GPU, given, pods=pods)
    assert len(s.nodes_of(decided)) == 1
    assert set(s.codes(decided, "too-large")) == {"NodeTooSmall"}


def test_the_last_place_of_a_claim_goes_to_the_pod_of_the_highest_priority() -> None:
    reserved = [b.consumer(f"c{index}") for index in range(255)]
    given = b.claim("c", allocation=b.allocation(b.result("gpu", "d", "n1")), reserved_for=reserved)
    pods = [b.pod("low", "c"), b.pod("high", "c", priority=9)]
    decided = s.plan(b.node("n1", pods=500), b.node("n2"), GPU, given, pods=pods)
    assert list(s.nodes_of(decided)) == ["high"]


def test_places_of_two_claims_are_counted_apart() -> None:
    reserved = [b.consumer(f"c{index}") for index in range(255)]
    given = [
        b.claim(name, allocation=b.allocation(b.result("gpu", f"d{name}", "n1")), reserved_for=reserved)
        for name in ("c", "d")
    ]
    pods = [b.pod("both", "c", "d"), b.pod("only-c", "c"), b.pod("only-d", "d")]
    decided = s.plan(b.node("n1", pods=500), GPU, given, pods=pods)
    assert set(s.nodes_of(decided)) == {"only-c", "only-d"}


def test_a_new_claim_takes_no_more_than_256_consumers() -> None:
    pods = [b.pod(f"p{number:03}", "c") for number in range(258)]
    decided = s.plan(b.node("n1", pods=500), b.gpu_slice("n1"), GPU, b.claim("c"), pods=pods)
    assert len(decided.placements) == 256
    assert [[reason.code for reason in each.reasons] for each in decided.unplaced] == [
        [ReasonCode.OUTRANKED, ReasonCode.CLAIM_FULL]
    ] * 2


# Shared claims


def test_pods_that_share_a_claim_of_one_node_share_the_node() -> None:
    nodes = [b.node("n1", pods=1), b.node("n2", pods=2), b.node("n3", pods=1)]
    slices = [b.gpu_slice(node.name) for node in nodes]
    decided = s.plan(nodes, slices, GPU, b.claim("c"), pods=[b.pod("p", "c"), b.pod("q", "c")])
    assert s.nodes_of(decided) == {"p": "n2", "q": "n2"}


def test_pods_that_share_a_network_device_may_run_apart() -> None:
    nodes = [b.node(name, pods=1) for name in ("n1", "n2", "n3")]
    pods = [b.pod(name, "c") for name in "pqr"]
    decided = s.plan(nodes, fabric(), FABRIC_CLASS, b.claim("c", b.request("r", "fabric")), pods=pods)
    assert sorted(s.nodes_of(decided).values()) == ["n1", "n2", "n3"]


def test_pods_that_share_a_device_that_binds_to_a_node_run_together() -> None:
    nodes = [b.node(name, pods=2) for name in ("n1", "n2")]
    claim = b.claim("c", b.request("r", "fabric"))
    decided = s.plan(nodes, fabric(is_binding=True), FABRIC_CLASS, claim, pods=[b.pod(name, "c") for name in "pq"])
    assert len(set(s.nodes_of(decided).values())) == 1


def test_a_device_that_does_not_bind_is_chosen_where_pods_have_to_run_apart() -> None:
    devices = (b.device("f0", binds_to_node=True), b.device("f1"))
    published = b.resource_slice("fabric", *devices, driver=FABRIC, at=b.scope(all_nodes=True))
    nodes = [b.node(name, pods=1) for name in ("n1", "n2")]
    claim = b.claim("c", b.request("r", "fabric"))
    decided = s.plan(nodes, published, FABRIC_CLASS, claim, pods=[b.pod(name, "c") for name in "pq"])
    assert (len(decided.placements), s.devices_of(decided, "c")) == (2, [("r", "f1")])


def test_a_network_device_is_chosen_where_pods_have_to_run_apart() -> None:
    local = b.resource_slice("n1", b.device("local"), driver=FABRIC)
    nodes = [b.node(name, pods=1) for name in ("n1", "n2")]
    claim = b.claim("c", b.request("r", "fabric"))
    decided = s.plan(nodes, local, fabric(), FABRIC_CLASS, claim, pods=[b.pod(name, "c") for name in "pq"])
    assert (len(decided.placements), s.devices_of(decided, "c")) == (2, [("r", "f0")])


def test_pods_that_share_stay_within_the_nodes_of_the_device() -> None:
    nodes = [b.node(f"n{index}", pods=1, labels={"zone": "a" if index else "b"}) for index in range(3)]
    at = b.scope(selector=b.node_selector(zone="a"))
    published = b.resource_slice("fabric", b.device("f0"), driver=FABRIC, at=at)
    pods = [b.pod(name, "c") for name in "pqr"]
    decided = s.plan(nodes, published, FABRIC_CLASS, b.claim("c", b.request("r", "fabric")), pods=pods)
    assert sorted(s.nodes_of(decided).values()) == ["n1", "n2"]


def test_a_shared_claim_of_two_network_devices_is_used_where_both_reach() -> None:
    labels: list[dict[str, str]] = [{"x": "y"}, {"x": "y", "z": "y"}, {"x": "y", "z": "y"}, {"z": "y"}]
    nodes = [b.node(f"n{index}", pods=1, labels=each) for index, each in enumerate(labels)]
    selectors = {"x": b.node_selector(x="y"), "z": b.node_selector(z="y")}
    slices = [
        b.resource_slice(name, b.device(name), driver=name, at=b.scope(selector=each))
        for name, each in selectors.items()
    ]
    classes = [b.device_class(name, driver=name) for name in selectors]
    claim = b.claim("c", b.request("r", "x"), b.request("t", "z"))
    decided = s.plan(nodes, slices, classes, claim, pods=[b.pod(name, "c") for name in "pqr"])
    assert sorted(s.nodes_of(decided).values()) == ["n1", "n2"]


def test_all_devices_of_a_shared_claim_include_those_of_the_node() -> None:
    published = b.resource_slice("wide", b.device("w0"), driver=FABRIC, at=b.scope(all_nodes=True))
    claim = b.claim("c", b.request("r", "any", mode="All"))
    objects = (b.node("n1", pods=1), b.resource_slice("n1", b.device("d0")), published, b.device_class("any"), claim)
    decided = s.plan(*objects, pods=[b.pod("p", "c"), b.pod("q", "c")])
    assert sorted(device for _, device in s.devices_of(decided, "c")) == ["d0", "w0"]


def test_several_shared_claims_of_both_sorts_are_allocated_together() -> None:
    nodes = [b.node(name, pods=2) for name in ("n1", "n2")]
    slices = [b.gpu_slice(node.name, count=1) for node in nodes]
    claims = [b.claim("c", b.request("r", "fabric")), b.claim("d")]
    pods = [b.pod("p", "c", "d"), b.pod("q", "c"), b.pod("r", "d"), b.pod("t", "c")]
    decided = s.plan(nodes, slices, fabric(), FABRIC_CLASS, GPU, claims, pods=pods)
    assert len(decided.placements) == 4


def test_a_shared_claim_is_allocated_once() -> None:
    decided = s.plan(b.node("n1"), b.gpu_slice("n1"), GPU, b.claim("c"), pods=[b.pod(name, "c") for name in "pqr"])
    assert [each.claim for each in decided.allocations] == [ClaimId(b.NAMESPACE, "c")]


# Together


def test_small_asks_leave_whole_nodes_to_large_ones() -> None:
    nodes, slices = [b.node("n1"), b.node("n2")], [b.gpu_slice("n1"), b.gpu_slice("n2")]
    small, small_pods = singles(8)
    large = b.claim("large", b.request(count=8))
    decided = s.plan(nodes, slices, GPU, small, large, pods=[*small_pods, b.pod("whole", "large")])
    assert len(decided.placements) == 9


def test_a_small_ask_takes_the_small_card() -> None:
    cards = (b.device("large", capacities={"memory": "80Gi"}), b.device("small", capacities={"memory": "16Gi"}))
    decided = s.plan(b.node("n1"), b.resource_slice("n1", *cards), GPU, b.claim("c"), pods=[b.pod("p", "c")])
    assert s.devices_of(decided, "c") == [("gpu", "small")]


def test_a_higher_priority_goes_before_any_number_of_lower_ones() -> None:
    claims, pods = singles(8)
    large = b.claim("large", b.request(count=8))
    whole = b.pod("whole", "large", priority=1)
    decided = s.plan(b.node("n1"), b.gpu_slice("n1"), GPU, claims, large, pods=[*pods, whole])
    assert s.nodes_of(decided) == {"whole": "n1"}


def test_more_pods_of_one_priority_are_better_than_the_first() -> None:
    claims, pods = singles(8)
    large = b.claim("large", b.request(count=8))
    decided = s.plan(b.node("n1"), b.gpu_slice("n1"), GPU, claims, large, pods=[b.pod("whole", "large"), *pods])
    assert len(decided.placements) == 8


def test_two_pods_of_one_batch_do_not_fill_a_node_twice() -> None:
    decided = s.plan(b.node("n1", cpu=3), pods=[b.pod("p", cpu=2), b.pod("q", cpu=2)])
    assert (len(decided.placements), s.codes(decided, "q")) == (1, ["Outranked", "NodeResources"])


def test_partitions_are_packed_so_that_both_large_and_small_fit() -> None:
    sizes = {"large": 4, "half": 2, "small": 1}
    devices = [
        b.device(f"card{card}-{name}-{index}", attributes={"size": name}, consumes={f"card{card}": {"slices": size}})
        for card in range(2)
        for name, size in sizes.items()
        for index in range(4 // size)
    ]
    counters = {f"card{card}": {"slices": 4} for card in range(2)}
    slices = [
        b.resource_slice("n1", *devices, slice_count=2),
        b.resource_slice("n1", slice_count=2, counter_sets=counters),
    ]
    wanted = ["small", "half", "large", "small"]
    claims = [
        b.claim(f"c{i}", b.request(selectors=(f"device.attributes['{b.GPU_DRIVER}'].size == '{size}'",)))
        for i, size in enumerate(wanted)
    ]
    pods = [b.pod(f"p{index}", f"c{index}") for index in range(4)]
    assert len(s.plan(b.node("n1"), slices, GPU, claims, pods=pods).placements) == 4


@pytest.mark.parametrize(
    ("amounts", "placed"),
    [
        (("40Gi", "40Gi"), 2),
        (("40Gi", "41Gi"), 1),
        (("60Gi", "30Gi", "1u"), 2),
        (("80Gi", "1n"), 1),
        (("0", "80Gi"), 2),
    ],
    ids=[
        "just enough",
        "a little too much",
        "tiny beside large",
        "one nano-unit too much",
        "nothing beside everything",
    ],
)
def test_shares_never_exceed_a_device(amounts: tuple[str, ...], placed: int) -> None:
    card = b.device("d", is_shareable=True, capacities={"memory": b.capacity("80Gi", default="1Gi")})
    claims = [b.claim(f"c{i}", b.request(capacity={"memory": amount})) for i, amount in enumerate(amounts)]
    pods = [b.pod(f"p{index}", f"c{index}") for index in range(len(amounts))]
    decided = s.plan(b.node("n1"), b.resource_slice("n1", card), GPU, claims, pods=pods)
    assert len(decided.placements) == placed


def test_requests_of_one_claim_share_a_device_and_those_of_one_request_do_not() -> None:
    card = b.device("d", is_shareable=True, capacities={"memory": b.capacity("80Gi", default="1Gi")})
    claims = [b.claim("two", b.request("r"), b.request("t")), b.claim("double", b.request(count=2))]
    pods = [b.pod("p", "two"), b.pod("q", "double")]
    decided = s.plan(b.node("n1"), b.resource_slice("n1", card), GPU, claims, pods=pods)
    assert s.nodes_of(decided) == {"p": "n1"}


def test_a_device_without_capacity_is_shared_without_end() -> None:
    card = b.device("d", is_shareable=True)
    claims, pods = singles(40)
    decided = s.plan(b.node("n1"), b.resource_slice("n1", card), GPU, claims, pods=pods)
    assert len(decided.placements) == 40


def test_a_share_on_a_device_that_has_become_exclusive_blocks_it() -> None:
    held = b.held("h", b.result("gpu", "d", "n1", share_id=b.share_id(1)))
    decided = s.plan(
        b.node("n1"), b.resource_slice("n1", b.device("d")), GPU, held, b.claim("c"), pods=[b.pod("p", "c")]
    )
    assert s.codes(decided, "p") == ["DevicesInUse"]


def test_an_exclusive_holder_of_a_device_that_has_become_shareable_blocks_it() -> None:
    held = b.held("h", b.result("gpu", "d", "n1"))
    card = b.resource_slice("n1", b.device("d", is_shareable=True))
    assert s.plan(b.node("n1"), card, GPU, held, b.claim("c"), pods=[b.pod("p", "c")]).placements == ()


def test_admin_access_sees_devices_in_use() -> None:
    held = b.held("h", b.result("gpu", "gpu-0", "n1"))
    admin = b.claim("c", b.request(mode="All", is_admin=True))
    decided = s.plan(b.node("n1"), b.gpu_slice("n1", count=2), GPU, held, admin, pods=[b.pod("p", "c")])
    assert s.devices_of(decided, "c") == [("gpu", "gpu-0"), ("gpu", "gpu-1")]


def test_an_admin_s_results_are_no_usage() -> None:
    held = b.held("h", b.result("gpu", "gpu-0", "n1", is_admin=True))
    claims, pods = singles(1)
    assert s.plan(b.node("n1"), b.gpu_slice("n1", count=1), GPU, held, claims, pods=pods).placements


def test_counters_of_devices_on_nodes_that_are_gone_still_count() -> None:
    devices = (b.device(f"d-{name}", consumes={"set": {"slots": 1}}, scope=b.scope(name)) for name in ("n1", "gone"))
    slices = [
        b.resource_slice("pool", *devices, at=b.scope(per_device=True), slice_count=2),
        b.resource_slice("pool", slice_count=2, counter_sets={"set": {"slots": 1}}),
    ]
    held = b.held("h", b.result("gpu", "d-gone", "pool"))
    claims, pods = singles(1)
    assert s.plan(b.node("n1"), slices, GPU, held, claims, pods=pods).placements == ()


@pytest.mark.parametrize("is_shareable", [False, True])
def test_a_device_that_draws_nothing_of_a_counter_is_there_when_it_is_used_up(*, is_shareable: bool) -> None:
    drawing = [b.device(f"d{n}", consumes={"set": {"slots": n}}, is_shareable=is_shareable) for n in range(3)]
    counters = b.resource_slice("n1", slice_count=2, counter_sets={"set": {"slots": 1}})
    claims = [b.claim(f"c{n}", b.request("r", capacity={})) for n in range(3)]
    world = (b.node("n1"), b.resource_slice("n1", *drawing, slice_count=2, name="devices"), counters, GPU, claims)

    plan = s.plan(*world, pods=[b.pod(f"p{n}", f"c{n}") for n in range(3)])

    given = {device for n in range(3) if f"p{n}" in s.nodes_of(plan) for _, device in s.devices_of(plan, f"c{n}")}
    assert given <= {"d0", "d1"}
    assert len(plan.placements) == (3 if is_shareable else 2)


def test_a_shareable_device_of_the_cluster_draws_its_counters_once() -> None:
    slots = {"set": {"slots": 1}}
    devices = (b.device("w0", consumes=slots), b.device("w1", is_shareable=True, consumes=slots))
    slices = [
        b.resource_slice("wide", *devices, driver=FABRIC, at=b.scope(all_nodes=True), slice_count=2),
        b.resource_slice("wide", driver=FABRIC, slice_count=2, counter_sets={"set": {"slots": 2}}),
        b.resource_slice("n2", b.device("d1")),
    ]
    claims = [b.claim("c", b.request("r", "any", count=3)), b.claim("d", b.request("r", "fabric"))]
    nodes = [b.node("n1", pods=1), b.node("n2", pods=1)]
    classes = (b.device_class("any"), FABRIC_CLASS)
    decided = s.plan(nodes, slices, classes, claims, pods=[b.pod("p", "c"), b.pod("q", "d")])
    assert s.nodes_of(decided) == {"p": "n2", "q": "n1"}


def test_distinct_values_hold_within_a_claim_and_not_across_those_of_a_pod() -> None:
    distinct = "x.io/root"
    card = b.device("d", is_shareable=True, attributes={distinct: "q"})
    claims = [
        b.claim("c", b.request("r"), b.request("t"), constraints=(b.distinct(distinct, "t"),)),
        b.claim("d", b.request("r"), constraints=(b.distinct(distinct),)),
    ]
    decided = s.plan(b.node("n1"), b.resource_slice("n1", card), GPU, claims, pods=[b.pod("p", "c", "d")])
    assert s.nodes_of(decided) == {"p": "n1"}


def test_32_devices_fit_into_a_claim() -> None:
    claim = b.claim("c", b.request("r", count=20), b.request("t", count=12))
    decided = s.plan(b.node("n1"), b.gpu_slice("n1", count=40), GPU, claim, pods=[b.pod("p", "c")])
    assert len(s.devices_of(decided, "c")) == 32


def test_without_time_the_first_plan_stands() -> None:
    claims, pods = singles(3)
    snapshot = b.snapshot(b.node("n1"), b.gpu_slice("n1"), GPU, claims)
    decided = solve(snapshot, b.batch(*pods), Policy(), Budget(seconds=60.0, deterministic_seconds=0.0))
    assert len(decided.placements) == 3


# How it is reported


def test_a_proven_plan_says_so() -> None:
    claims, pods = singles(3)
    report = s.plan(b.node("n1"), b.gpu_slice("n1"), GPU, claims, pods=pods).report
    assert (report.status, all(level.proven for level in report.levels)) == (SearchStatus.OPTIMAL, True)


def test_levels_are_named_by_priority_and_then_by_the_policy() -> None:
    pods = [b.pod("p", priority=5), b.pod("q", priority=-1)]
    report = s.plan(b.node("n1"), pods=pods).report
    names = ["placed:5", "placed:-1", "alternatives", "opened-nodes", "opened-devices", "device-value", "scores"]
    assert [level.name for level in report.levels] == names


# Hard ones


def test_eight_alternatives_of_several_requests_end_soon() -> None:
    nodes = [b.node(f"n{index}") for index in range(4)]
    slices = [b.gpu_slice(node.name) for node in nodes]
    requests = [
        b.first_available(f"r{number}", *(b.alternative(f"a{i}", count=8 - i) for i in range(8))) for number in range(4)
    ]
    claim = b.claim("c", *requests, constraints=(b.match(ROOT),))
    decided = s.plan(nodes, slices, GPU, claim, pods=[b.pod("p", "c")])
    assert {request for request, _ in s.devices_of(decided, "c")} == {f"r{number}/a7" for number in range(4)}


def test_six_constraints_over_overlapping_requests_end_soon() -> None:
    devices = [
        b.device(f"d{index}", attributes={f"x.io/a{j}": "pqr"[(index * (j + 1) + index // 3) % 3] for j in range(6)})
        for index in range(16)
    ]
    constraints = [b.match(f"x.io/a{j}", *(f"r{k % 6}" for k in range(j, j + 3))) for j in range(6)]
    claims = [b.claim(f"c{i}", *(b.request(f"r{k}") for k in range(6)), constraints=constraints) for i in range(3)]
    snapshot = b.snapshot(b.node("n1"), b.resource_slice("n1", *devices), GPU, claims)
    batch = b.batch(*(b.pod(f"p{i}", f"c{i}") for i in range(3)))
    decided = solve(snapshot, batch, Policy(), s.PATIENT)
    assert (check(snapshot, batch, decided), decided.report.status) == ((), SearchStatus.OPTIMAL)


# Memory


def test_a_warm_engine_decides_as_a_cold_one() -> None:
    engine = SolverCache()
    objects = (b.node("n1"), b.node("n2"), b.gpu_slice("n1"), b.gpu_slice("n2"), GPU)
    claims, pods = singles(3, count=5)
    s.plan(*objects, claims, pods=pods[:1], engine=engine)
    warm = s.plan(*objects, claims, pods=pods, engine=engine)
    assert warm == s.plan(*objects, claims, pods=pods)


def test_a_warm_engine_sees_that_a_slice_has_changed() -> None:
    engine, node = SolverCache(), b.node("n1")
    claims, pods = singles(2)
    first = s.plan(node, b.gpu_slice("n1", count=1), GPU, claims, pods=pods, engine=engine)
    second = s.plan(node, b.gpu_slice("n1", count=2), GPU, claims, pods=pods, engine=engine)
    assert (len(first.placements), len(second.placements)) == (1, 2)


def test_a_warm_engine_sees_that_a_class_has_changed() -> None:
    engine = SolverCache()
    snapshot = b.snapshot(b.node("n1"), b.gpu_slice("n1"), GPU, b.claim("c"))
    batch = b.batch(b.pod("p", "c"))
    first = solve(snapshot, batch, Policy(), s.PATIENT, engine)
    changed = replace(snapshot, classes=(b.device_class("gpu", "false"),))
    second = solve(changed, batch, Policy(), s.PATIENT, engine)
    assert (len(first.placements), len(second.placements)) == (1, 0)


def test_a_warm_engine_sees_that_a_device_was_freed() -> None:
    engine = SolverCache()
    held = b.held("h", b.result("gpu", "gpu-0", "n1"))
    snapshot = b.snapshot(b.node("n1"), b.gpu_slice("n1", count=1), GPU, b.claim("c"), held)
    batch = b.batch(b.pod("p", "c"))
    first = solve(snapshot, batch, Policy(), s.PATIENT, engine)
    second = solve(replace(snapshot, claims=(b.claim("c"),)), batch, Policy(), s.PATIENT, engine)
    assert (len(first.placements), len(second.placements)) == (0, 1)
