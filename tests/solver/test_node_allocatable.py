"""Node resources that devices take on top of the pod's requests (KEP-5517)."""

import itertools
import random

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import (
    AllocationMode,
    ContainerRequests,
    Device,
    NodeAllocatableClaimStatus,
    NodeAllocatableMapping,
    Plan,
    Pod,
    Policy,
    PreemptionRules,
    ReasonCode,
    ResourceSlice,
)
from solver.domain.quantity import NANO, parse
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
GI = 2**30


def taking(pool: ResourceSlice, **amounts: str) -> ResourceSlice:
    """Let every device of a slice take of its node's resources."""
    mappings = tuple(
        NodeAllocatableMapping(resource=name, allocation_multiplier=parse(amount))
        for name, amount in sorted(amounts.items())
    )
    devices: tuple[Device, ...] = tuple(replace(each, node_allocatable=mappings) for each in pool.devices)
    return replace(pool, devices=devices)


def legacy(pool: ResourceSlice) -> ResourceSlice:
    """Let the devices of a slice map as in Kubernetes 1.36."""
    devices = [
        replace(each, node_allocatable=tuple(replace(one, is_legacy=True) for one in each.node_allocatable))
        for each in pool.devices
    ]
    return replace(pool, devices=tuple(devices))


def using(pod: Pod) -> Pod:
    """Let a container use every claim of a pod."""
    entries = tuple(each.entry for each in pod.claims)
    return replace(pod, containers=(ContainerRequests(name="main", claims=entries),))


def checked(*objects: s.Objects, pods: list[Pod]) -> Plan:
    snapshot, batch = b.snapshot(*objects), b.batch(*pods)
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert verify.check(snapshot, batch, plan, Policy()) == ()
    return plan


def test_a_node_is_too_small_for_what_a_pod_requests_itself_not_for_what_its_devices_take() -> None:
    """Devices are published with less, and tainted, and others are taken: nothing of that wakes NodeTooSmall."""
    pods = [using(b.pod("devices", "c0", cpu=3)), b.pod("itself", cpu=9)]

    plan = checked(
        b.node("n1", cpu=8), taking(b.gpu_slice("n1"), cpu="6"), GPU, b.claim("c0", b.request("r")), pods=pods
    )

    codes = {each.pod.name: {reason.code for reason in each.reasons} for each in plan.unplaced}
    assert codes == {"devices": {ReasonCode.NODE_RESOURCES}, "itself": {ReasonCode.NODE_TOO_SMALL}}


def test_what_devices_take_comes_on_top_of_what_the_pod_requests() -> None:
    pods = [using(b.pod(f"p{index}", f"c{index}", memory="1Gi")) for index in range(4)]
    claims = [b.claim(f"c{index}", b.request("r")) for index in range(4)]

    plan = checked(b.node("n1", memory="9Gi"), taking(b.gpu_slice("n1"), memory="2Gi"), GPU, claims, pods=pods)

    assert len(plan.placements) == 3
    assert [reason.code for reason in plan.unplaced[0].reasons] == [ReasonCode.OUTRANKED, ReasonCode.NODE_RESOURCES]
    claim = plan.placements[0].claims[0]
    assert plan.placements[0].node_allocatable == (
        NodeAllocatableClaimStatus(claim=claim, containers=("main",), mapping=(("memory", parse("2Gi")),)),
    )


def test_it_counts_for_every_device() -> None:
    objects = (taking(b.gpu_slice("n1"), cpu="2"), GPU, b.claim("c", b.request("r", count=3)))
    pod = using(b.pod("p", "c", cpu=1))

    assert checked(b.node("n1", cpu=7), *objects, pods=[pod]).placements
    assert not checked(b.node("n1", cpu=6), *objects, pods=[pod]).placements


def everywhere(pool: ResourceSlice) -> ResourceSlice:
    """Let every node use the devices of a slice."""
    return replace(pool, scope=b.scope(all_nodes=True))


@pytest.mark.parametrize("cpu", ["1000", "6"])
def test_a_device_that_takes_more_than_a_node_has_keeps_no_pod_from_the_others(cpu: str) -> None:
    """A driver that offers it to every node would else stop all pods that ask for devices of the class."""
    large = everywhere(taking(b.resource_slice("huge", b.device("huge")), cpu=cpu))
    claims = [b.claim(f"c{index}", b.request("r")) for index in range(2)]
    pods = [using(b.pod(f"p{index}", f"c{index}", cpu=1)) for index in range(2)]
    world = (b.node("n1", cpu=4), b.gpu_slice("n1", count=2), large, GPU, claims)

    assert len(checked(*world, pods=pods).placements) == 2


def test_a_request_for_all_devices_waits_where_one_of_them_takes_more_than_the_node_has() -> None:
    large = everywhere(taking(b.resource_slice("huge", b.device("huge")), cpu="1000"))
    every = b.claim("c", b.request("r", mode=AllocationMode.ALL))
    world = (b.node("n1", cpu=4), b.gpu_slice("n1", count=2), GPU, every)
    pod = using(b.pod("p", "c", cpu=1))

    assert checked(*world, pods=[pod]).placements
    assert not checked(*world, large, pods=[pod]).placements


def test_a_mapping_by_capacity_counts_all_of_a_device_that_is_not_shared() -> None:
    by_cores = NodeAllocatableMapping(resource="cpu", capacity_key="cores", allocation_multiplier=parse("2"))
    device = replace(b.device("d0", capacities={"cores": "3"}), node_allocatable=(by_cores,))
    objects = (b.resource_slice("n1", device), GPU, b.claim("c", b.request("r")))
    pod = using(b.pod("p", "c", cpu=1))

    (placed,) = checked(b.node("n1", cpu=7), *objects, pods=[pod]).placements
    assert placed.node_allocatable[0].mapping == (("cpu", parse("6")),)
    assert not checked(b.node("n1", cpu=6), *objects, pods=[pod]).placements


def test_nodes_that_differ_are_told_apart() -> None:
    slices = [taking(b.gpu_slice("n1"), memory="8Gi"), taking(b.gpu_slice("n2"), memory="1Gi")]
    nodes = [b.node(name, memory="4Gi") for name in ("n1", "n2")]

    plan = checked(nodes, slices, GPU, b.claim("c", b.request("r")), pods=[using(b.pod("p", "c"))])

    assert s.nodes_of(plan) == {"p": "n2"}


def test_capacity_that_is_consumed_counts_by_the_unit() -> None:
    shared = b.resource_slice("n1", b.device("gpu-0", capacities={"memory": "16Gi"}, is_shareable=True))
    mapping = NodeAllocatableMapping(resource="memory", capacity_key="memory", allocation_multiplier=parse("2"))
    pool = replace(shared, devices=tuple(replace(each, node_allocatable=(mapping,)) for each in shared.devices))
    claims = [b.claim(f"c{index}", b.request("r", capacity={"memory": "4Gi"})) for index in range(3)]
    pods = [using(b.pod(f"p{index}", f"c{index}")) for index in range(3)]

    plan = checked(b.node("n1", memory="17Gi"), pool, GPU, claims, pods=pods)

    assert len(plan.placements) == 2
    assert plan.placements[0].node_allocatable[0].mapping == (("memory", parse("8Gi")),)


def test_a_claim_that_no_container_uses_is_refused_on_1_36_where_it_takes_something() -> None:
    nodes, slices = [b.node("n1"), b.node("n2")], [legacy(taking(b.gpu_slice("n1"), cpu="1")), b.gpu_slice("n2")]
    unused = b.pod("p", "c")

    assert s.nodes_of(checked(nodes, slices, GPU, b.claim("c", b.request("r")), pods=[unused])) == {"p": "n2"}


def test_a_claim_that_takes_something_is_one_pod_s_alone() -> None:
    pods = [using(b.pod("p", "c")), using(b.pod("q", "c"))]

    plan = checked(b.node("n1"), taking(b.gpu_slice("n1"), cpu="1"), GPU, b.claim("c", b.request("r")), pods=pods)

    assert len(plan.placements) == 1
    assert ReasonCode.CLAIM_FULL in {reason.code for reason in plan.unplaced[0].reasons}


def test_an_allocated_claim_counts_and_takes_no_second_pod() -> None:
    allocation = b.allocation(b.result("r", "gpu-0", "n1"), node_name="n1")
    free = b.claim("c", b.request("r"), allocation=allocation)
    taken = b.claim("c", b.request("r"), allocation=allocation, reserved_for=(b.consumer("other"),))
    pool, pod = taking(b.gpu_slice("n1"), cpu="4"), using(b.pod("p", "c"))

    assert checked(b.node("n1", cpu=4), pool, GPU, free, pods=[pod]).placements
    assert not checked(b.node("n1", cpu=3), pool, GPU, free, pods=[pod]).placements
    assert s.codes(checked(b.node("n1"), pool, GPU, taken, pods=[pod]), "p") == ["ClaimFull"]


@pytest.mark.parametrize(("slack", "fits"), [(2000, True), (1999, False)])
def test_pod_level_requests_have_to_cover_it_and_hold_it(*, slack: int, fits: bool) -> None:
    pod = replace(using(b.pod("p", "c", cpu=4)), level_slack=(("cpu", slack),))
    plan = checked(
        b.node("n1", cpu=4), taking(b.gpu_slice("n1"), cpu="2"), GPU, b.claim("c", b.request("r")), pods=[pod]
    )

    assert bool(plan.placements) == fits


@pytest.mark.parametrize("seed", range(25))
def test_as_many_pods_are_placed_as_an_enumeration_finds(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - test data
    rooms = {name: dice.randint(1, 9) for name in ("n1", "n2")}
    takes = {name: dice.randint(0, 3) for name in rooms}
    counts = [dice.randint(1, 2) for _ in range(4)]
    asks = [dice.randint(0, 3) for _ in range(4)]
    slices = [
        taking(b.gpu_slice(name, count=3), cpu=str(amount)) if amount else b.gpu_slice(name, count=3)
        for name, amount in takes.items()
    ]
    pods = [using(b.pod(f"p{index}", f"c{index}", cpu=ask)) for index, ask in enumerate(asks)]
    claims = [b.claim(f"c{index}", b.request("r", count=count)) for index, count in enumerate(counts)]

    plan = checked([b.node(name, cpu=cpu) for name, cpu in rooms.items()], slices, GPU, claims, pods=pods)

    def holds(places: tuple[str | None, ...]) -> bool:
        for name, room in rooms.items():
            here = [index for index, place in enumerate(places) if place == name]
            # A pod that asks for nothing of a resource is not kept away by others that take all of it.
            needs = [asks[index] + counts[index] * takes[name] for index in here]
            if (sum(needs) > room and any(needs)) or sum(counts[index] for index in here) > 3:
                return False
        return True

    best = max(
        sum(place is not None for place in places)
        for places in itertools.product((None, *rooms), repeat=4)
        if holds(places)
    )
    assert len(plan.placements) == best


BROKEN = [
    pytest.param(lambda each: replace(each, node_allocatable=()), {"NodeAllocatableStatus"}, id="it is not said"),
    pytest.param(
        lambda each: replace(
            each, node_allocatable=(replace(each.node_allocatable[0], mapping=(("memory", parse("1")),)),)
        ),
        {"NodeAllocatableStatus"},
        id="another amount is said",
    ),
    pytest.param(
        lambda each: replace(each, node_allocatable=(replace(each.node_allocatable[0], containers=("other",)),)),
        {"NodeAllocatableStatus"},
        id="another container is said",
    ),
]


@pytest.mark.parametrize(("change", "rules"), BROKEN)
def test_the_check_notices_what_a_placement_says_wrongly(change: object, rules: set[str]) -> None:
    objects = (b.node("n1"), taking(b.gpu_slice("n1"), memory="2Gi"), GPU, b.claim("c", b.request("r")))
    snapshot, batch = b.snapshot(*objects), b.batch(using(b.pod("p", "c")))
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    wrong = replace(plan, placements=(change(plan.placements[0]),))  # type: ignore[operator]  # one of the rows above

    assert {each.rule for each in verify.check(snapshot, batch, wrong, Policy())} == rules


def found_against(plan: Plan, *objects: s.Objects, pods: list[Pod]) -> set[str]:
    """Check a plan against another cluster or other pods than it was made for."""
    return {each.rule for each in verify.check(b.snapshot(*objects), b.batch(*pods), plan, Policy())}


def test_the_check_notices_a_node_that_has_too_little() -> None:
    pool, claim, pod = taking(b.gpu_slice("n1"), memory="2Gi"), b.claim("c", b.request("r")), using(b.pod("p", "c"))
    plan = checked(b.node("n1", memory="2Gi"), pool, GPU, claim, pods=[pod])

    assert found_against(plan, b.node("n1", memory="1Gi"), pool, GPU, claim, pods=[pod]) == {"NodeResources"}


def test_the_check_notices_pod_level_requests_that_do_not_cover_it() -> None:
    pool, claim, pod = taking(b.gpu_slice("n1"), cpu="2"), b.claim("c", b.request("r")), using(b.pod("p", "c", cpu=4))
    plan = checked(b.node("n1"), pool, GPU, claim, pods=[replace(pod, level_slack=(("cpu", 2000),))])

    short = replace(pod, level_slack=(("cpu", 1000),))
    assert found_against(plan, b.node("n1"), pool, GPU, claim, pods=[short]) == {"NodeAllocatablePodLevel"}


def test_the_check_notices_a_claim_that_no_container_uses() -> None:
    pool, claim, pod = taking(b.gpu_slice("n1"), cpu="2"), b.claim("c", b.request("r")), using(b.pod("p", "c"))
    for each, more in ((pool, set()), (legacy(pool), {"NodeAllocatableUnused"})):
        plan = checked(b.node("n1"), each, GPU, claim, pods=[pod])

        found = found_against(plan, b.node("n1"), each, GPU, claim, pods=[b.pod("p", "c")])
        assert found == {"NodeAllocatableStatus", *more}


def test_the_check_notices_a_second_pod() -> None:
    plain, claim = b.gpu_slice("n1"), b.claim("c", b.request("r"))
    pods = [using(b.pod("p", "c")), using(b.pod("q", "c"))]
    plan = checked(b.node("n1"), plain, GPU, claim, pods=pods)

    assert "NodeAllocatableShared" in found_against(plan, b.node("n1"), taking(plain, cpu="1"), GPU, claim, pods=pods)


@pytest.mark.parametrize("amount", ["8Ei", "9223372036854775807", "99999999999999999999"])
def test_amounts_that_no_node_has_keep_only_their_own_devices_from_pods(amount: str) -> None:
    objects = (
        [b.node("n1", memory="4Gi"), b.node("n2", memory="4Gi")],
        [taking(b.gpu_slice("n1"), cpu=amount, memory=amount), taking(b.gpu_slice("n2"), memory="1Gi")],
        GPU,
        [b.claim("c", b.request("r", count=2)), b.claim("d", b.request("r", count=2))],
    )
    plan = checked(*objects, pods=[using(b.pod("p", "c")), using(b.pod("q", "d"))])
    assert {each.node for each in plan.placements} == {"n2"}


def test_what_an_older_generation_of_a_pool_took_does_not_count() -> None:
    old = taking(b.gpu_slice("n1", count=1), memory="2Gi")
    new = replace(b.gpu_slice("n1", count=1), name="newer", generation=old.generation + 1)

    (placed,) = checked(
        b.node("n1", memory="1Gi"), [old, new], GPU, b.claim("c", b.request("r")), pods=[using(b.pod("p", "c"))]
    ).placements
    assert placed.node_allocatable == ()


def test_an_allocated_claim_takes_of_the_node_although_its_pool_is_incomplete() -> None:
    allocation = b.allocation(b.result("r", "gpu-0", "n1"))
    pool = replace(taking(b.gpu_slice("n1"), cpu="2"), slice_count=2)
    objects = (pool, GPU, b.claim("c", b.request("r"), allocation=allocation))
    pod = using(b.pod("p", "c", cpu=1))

    assert checked(b.node("n1", cpu=3), *objects, pods=[pod]).placements[0].node_allocatable
    assert not checked(b.node("n1", cpu=2), *objects, pods=[pod]).placements


def test_what_devices_of_the_plan_take_counts_before_pods_are_evicted() -> None:
    """The node has two of four cpu left beside the pod that is placed: to evict another helps no pod."""
    low = replace(b.pod("low", node_name="n0", cpu=1, priority=-1), started=1000)
    snapshot = b.snapshot(
        b.node("n0", cpu=4), taking(b.gpu_slice("n0", count=1), cpu="2"), GPU, low, b.claim("c", b.request("r"))
    )
    batch = b.batch(replace(using(b.pod("a", "c")), priority=5), b.pod("p", cpu=4))
    policy = Policy(
        preemption=PreemptionRules(is_enabled=True, frees_devices=True, scheduler_names=("dovetail",), now=100_000)
    )

    plan = solve(snapshot, batch, policy, s.PATIENT)

    assert (plan.preemptions, verify.check(snapshot, batch, plan, policy)) == ((), ())
    assert s.nodes_of(plan) == {"a": "n0"}


def test_pods_of_a_plan_that_are_moved_keep_what_their_devices_take() -> None:
    slices = [taking(b.gpu_slice("n0", count=2), cpu="2"), b.gpu_slice("n1", count=1)]
    low = replace(b.pod("low", namespace="third", node_name="n1", priority=-1), started=1000)
    claims = [b.claim("c", b.request("r"), namespace=each) for each in ("v0", "v1", "default")]
    on = {name: {"kubernetes.io/hostname": name} for name in ("n0", "n1")}
    pods = [
        using(b.pod("victim-0", "c", namespace="v0", cpu=2, node_selector=on["n0"])),
        using(b.pod("victim-1", "c", namespace="v1")),
        using(b.pod("hostile", "c", cpu=2, node_selector=on["n1"])),
    ]
    policy = Policy(
        preemption=PreemptionRules(is_enabled=True, frees_devices=True, scheduler_names=("dovetail",), now=100_000)
    )
    nodes = [b.node(name, cpu=4) for name in ("n0", "n1")]
    snapshot, batch = b.snapshot(nodes, slices, GPU, low, claims), b.batch(*pods)

    plan = solve(snapshot, batch, policy, s.PATIENT)

    assert verify.check(snapshot, batch, plan, policy) == ()
    assert len(plan.placements) == 2


EVIL = "evil.example.com"
ANY = b.device_class("gpu")


def beside_others(cpu: str, *objects: s.Objects, pods: list[Pod]) -> list[int]:
    """How many pods are placed without and with a device for all nodes that takes so much of them."""
    nodes, good = [b.node(f"n{i}", cpu=8) for i in range(3)], [b.gpu_slice(f"n{i}") for i in range(3)]
    taker = everywhere(taking(b.resource_slice("e", b.device("d"), driver=EVIL), cpu=cpu))
    worlds = (nodes, good, ANY, *objects), (nodes, good, ANY, *objects, taker)
    return [len(checked(*world, pods=pods).placements) for world in worlds]


def test_a_device_that_takes_nearly_the_whole_node_keeps_no_pod_from_those_that_take_nothing() -> None:
    claims = [b.claim(f"c{i}", b.request("r")) for i in range(6)]
    pods = [using(b.pod(f"p{i}", f"c{i}", cpu=1)) for i in range(6)]
    assert beside_others("7500m", claims, pods=pods) == [6, 6]


def test_nor_pods_that_ask_for_several() -> None:
    claim = b.claim("c", b.request("r", count=2))
    assert beside_others("3", claim, pods=[using(b.pod("p", "c", cpu=4))]) == [1, 1]


def test_nor_pods_that_share_a_claim() -> None:
    pods = [using(b.pod(f"p{i}", "c", cpu=1)) for i in range(3)]
    assert beside_others("1m", b.claim("c", b.request("r")), pods=pods) == [3, 3]


def test_nor_pods_whose_claim_no_container_uses() -> None:
    claims = [b.claim(f"c{i}", b.request("r")) for i in range(2)]
    assert beside_others("1m", claims, pods=[b.pod(f"p{i}", f"c{i}", cpu=1) for i in range(2)]) == [2, 2]


def test_nor_pods_with_requests_of_their_own_level() -> None:
    pod = replace(using(b.pod("p", "c", cpu=1)), level_slack=(("cpu", 0),))
    assert beside_others("1m", b.claim("c", b.request("r")), pods=[pod]) == [1, 1]


def test_where_too_few_take_nothing_the_others_are_given() -> None:
    pool = b.resource_slice("n0", b.device("free"), *taking(b.gpu_slice("n0", count=2), cpu="1").devices)
    world = b.node("n0", cpu=4), pool, GPU, b.claim("c", b.request("r", count=2))

    (placed,) = checked(*world, pods=[using(b.pod("p", "c", cpu=1))]).placements
    assert sum(each.taken["cpu"] for each in placed.node_allocatable) >= NANO


def test_devices_that_are_left_out_are_in_the_message() -> None:
    pool = b.resource_slice("n0", b.device("free"), *taking(b.gpu_slice("n0", count=1), cpu="1").devices)
    claims = [b.claim("mine", b.request("r")), b.claim("c", b.request("r"))]
    pods = [using(b.pod("first", "mine", priority=1)), using(b.pod("p", "c"))]

    plan = checked(b.node("n0"), pool, GPU, claims, pods=pods)

    lead = "request r: needs 1 device, 2 match, 0 free, 1 in use, 1 left out because others do as well"
    assert f"with these pods in place, {lead} and take less of the node" in s.messages(plan, "p")


def test_what_is_left_aside_follows_what_is_published() -> None:
    engine = SolverCache()
    slices = b.gpu_slice("n0", count=1), taking(b.resource_slice("e", b.device("d"), at=b.scope("n0")), cpu="1")
    known = b.snapshot(b.node("n0", cpu=4), slices, GPU, b.claim("c", b.request("r")))
    batch = b.batch(using(b.pod("p", "c", cpu=1)))
    assert s.devices_of(solve(known, batch, Policy(), s.PATIENT, engine), "c") == [("r", "gpu-0")]

    old = next(each for each in known.slices if each.pool == "n0")
    tainted = replace(old, devices=(replace(old.devices[0], taints=(b.taint("broken"),)),))
    again = replace(known, slices=tuple(tainted if each is old else each for each in known.slices))
    assert s.devices_of(solve(again, batch, Policy(), s.PATIENT, engine), "c") == [("r", "d")]


@pytest.mark.parametrize("capacity", ["-1", "-9223372036854775808", "-1e30"])
def test_a_held_device_of_less_than_nothing_takes_nothing(capacity: str) -> None:
    """Its pool is invalid; what holds the device is looked at all the same."""
    mapping = NodeAllocatableMapping(resource="cpu", capacity_key="cores", allocation_multiplier=parse("9E"))
    device = replace(b.device("d", capacities={"cores": capacity}), node_allocatable=(mapping,))
    held = b.claim("c", b.request("r"), allocation=b.allocation(b.result("r", "d", "n0"), node_name="n0"))

    plan = checked(b.node("n0"), b.resource_slice("n0", device), GPU, held, pods=[using(b.pod("p", "c", cpu=1))])
    assert s.nodes_of(plan) == {"p": "n0"}
