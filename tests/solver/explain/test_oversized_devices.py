"""Devices that take more of a node than it has (KEP-5517): which pods wait for it, and the message."""

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import (
    AllocationMode,
    Device,
    Node,
    NodeAllocatableClaimStatus,
    NodeAllocatableMapping,
    NodeScope,
    Plan,
    Pod,
    Policy,
    ResourceSlice,
    Taint,
)
from solver.domain.quantity import parse
from solver.greedy import candidates
from solver.model.objective import evaluate, level_names
from solver.problem.devices.device_properties import NodeSizes
from solver.problem.solver_cache import SolverCache
from tests.solver.test_node_allocatable import everywhere, taking, using
from tests.support import builders as b
from tests.support import solver_problems as s

GPU, OTHER = b.gpu_class(), "other.example.com"
N1, N2 = b.node("n1", cpu=4), b.node("n2", cpu=2000)
HUGE = everywhere(taking(b.resource_slice("huge", b.device("huge")), cpu="1000"))
LOCAL = taking(b.resource_slice("n1", b.device("d0"), driver=OTHER), cpu="5")
TEXT = "request r: Insufficient cpu: device gpu.example.com/huge/huge takes 1000 cpu, and node n1 has 4"


def checked(*objects: s.Objects, pods: list[Pod], policy: Policy | None = None) -> Plan:
    snapshot, batch, policy = b.snapshot(*objects, GPU), b.batch(*pods), policy or Policy()
    plan = solve(snapshot, batch, policy, s.PATIENT)
    assert verify.check(snapshot, batch, plan, policy) == ()
    return plan


def by_unit(name: str = "part", *, cpu: str = "1", units: str = "8", consumes: str = "") -> Device:
    """Make a shareable device of which a unit takes so much cpu of the node; it draws on a counter where it is used."""
    mapping = NodeAllocatableMapping(resource="cpu", capacity_key="units", allocation_multiplier=parse(cpu))
    counters = {"set": {"free": consumes}} if consumes else {}
    device = b.device(name, capacities={"units": units}, consumes=counters, is_shareable=True)
    return replace(device, node_allocatable=(mapping,))


def sharing(at: NodeScope | None = None, **more: str) -> ResourceSlice:
    return b.resource_slice("parts", by_unit(**more), at=at or b.scope(all_nodes=True))


def asking_units(**units: str) -> tuple[s.Objects, list[Pod]]:
    """Make, by the node on which it has to be, a claim of so many units and its pod."""
    claims = [b.claim(f"c-{node}", b.request("r", capacity={"units": each})) for node, each in units.items()]
    pods = [using(b.pod(f"p-{n}", f"c-{n}", node_selector={"kubernetes.io/hostname": n})) for n in units]
    return claims, pods


def asking(mode: AllocationMode = AllocationMode.ALL, *, is_admin: bool = False) -> s.Objects:
    return b.claim("c", b.request("r", mode=mode, is_admin=is_admin))


def pod(node: str = "") -> Pod:
    return using(b.pod("p", "c", cpu=1, node_selector={"kubernetes.io/hostname": node} if node else {}))


@pytest.mark.parametrize("is_admin", [False, True])
@pytest.mark.parametrize("other", [LOCAL, replace(HUGE, driver=OTHER)], ids=["of the node", "of all nodes"])
def test_all_devices_of_one_driver_do_not_wait_for_those_of_another(other: ResourceSlice, *, is_admin: bool) -> None:
    plan = checked(N1, b.gpu_slice("n1", count=2), other, asking(is_admin=is_admin), pods=[pod()])

    assert [device for _, device in s.devices_of(plan, "c")] == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(
    ("tells", "text"), [(True, TEXT), (False, "request r: a matching device takes more of its node than it has")]
)
def test_a_request_for_all_devices_names_the_device_that_is_too_large(*, tells: bool, text: str) -> None:
    policy = Policy(tells_inventory=tells)
    plan = checked(N1, b.gpu_slice("n1", count=2), HUGE, asking(), pods=[pod()], policy=policy)

    assert s.codes(plan, "p") == ["DevicesNone", "NodeTooSmall"]
    lead = "request r: needs all devices, 3 match, 2 free, 1 too large for their node"
    assert s.messages(plan, "p") == [lead, text]


def test_a_request_for_one_device_says_that_the_only_one_is_too_large() -> None:
    plan = checked(N1, HUGE, asking(AllocationMode.EXACT_COUNT), pods=[pod()])

    lead = "request r: needs 1 device, 1 matches, 0 free, 1 too large for their node"
    assert s.messages(plan, "p") == [lead, TEXT]


def test_a_device_that_is_too_large_for_one_node_is_one_of_all_on_another() -> None:
    world = (N1, N2, b.gpu_slice("n1", count=2), HUGE, asking())

    plan = checked(*world, pods=[pod()])
    assert (s.nodes_of(plan), s.devices_of(plan, "c")) == ({"p": "n2"}, [("r", "huge")])
    assert s.messages(checked(*world, pods=[pod("n1")]), "p")[1] == TEXT


def test_what_is_in_use_elsewhere_is_said_beside_it() -> None:
    """A pod that gives it back helps, and so does a larger node."""
    held = b.claim("held", allocation=b.allocation(b.result("gpu", "gpu-0", "n2"), node_name="n2"))
    slices = [taking(b.gpu_slice("n1", count=2), cpu="5"), b.gpu_slice("n2", count=1)]

    plan = checked(N1, N2, slices, held, asking(), pods=[pod()])

    assert s.codes(plan, "p") == ["DevicesInUse", "NodeTooSmall"]


@pytest.mark.parametrize("nodes", [[N1], [N1, N2]], ids=["for all nodes", "for one of them"])
def test_admin_access_takes_nothing_of_the_node_and_gets_every_device(nodes: s.Objects) -> None:
    claim = b.claim("c", b.request("r", mode=AllocationMode.ALL, is_admin=True))

    plan = checked(nodes, b.gpu_slice("n1", count=2), HUGE, claim, pods=[pod("n1")])

    assert sorted(device for _, device in s.devices_of(plan, "c")) == ["gpu-0", "gpu-1", "huge"]
    assert plan.placements[0].node_allocatable == ()


def test_pods_share_a_claim_with_admin_access_to_what_takes_of_the_node() -> None:
    pods = [using(b.pod(name, "c", cpu=1)) for name in "pq"]

    plan = checked(N1, taking(b.gpu_slice("n1"), cpu="1"), asking(is_admin=True), pods=pods)

    assert len(plan.placements) == 2


def test_the_check_notices_that_admin_access_is_charged() -> None:
    snapshot = b.snapshot(N1, taking(b.gpu_slice("n1", count=1), cpu="1"), GPU, asking(is_admin=True))
    plan = solve(snapshot, b.batch(pod()), Policy(), s.PATIENT)
    burden = NodeAllocatableClaimStatus(
        claim=plan.placements[0].claims[0], containers=("main",), mapping=(("cpu", parse("1")),)
    )
    wrong = replace(plan, placements=(replace(plan.placements[0], node_allocatable=(burden,)),))

    assert [each.rule for each in verify.check(snapshot, b.batch(pod()), wrong, Policy())] == ["NodeAllocatableStatus"]


def test_it_stays_too_large_when_it_is_published_again() -> None:
    engine, known = SolverCache(), b.snapshot(N1, taking(b.gpu_slice("n1", count=1), cpu="5"), GPU, asking())
    assert s.codes(solve(known, b.batch(pod()), Policy(), s.PATIENT, engine), "p") == ["DevicesNone", "NodeTooSmall"]

    (old,) = known.slices
    device = replace(old.devices[0], taints=(Taint(key="k", value="v", effect="None"),))
    again = replace(known, slices=(replace(old, generation=old.generation + 1, devices=(device,)),))
    assert s.codes(solve(again, b.batch(pod()), Policy(), s.PATIENT, engine), "p") == ["DevicesNone", "NodeTooSmall"]


@pytest.mark.parametrize("at", [b.scope("n1"), b.scope(all_nodes=True)], ids=["of the node", "of all nodes"])
def test_a_share_that_takes_more_than_the_node_has_keeps_no_pod_from_other_devices(at: NodeScope) -> None:
    """A driver that calls its devices what others are called would else stop all pods that ask for those."""
    claims = [b.claim(f"c{index}", b.request("r", capacity={"units": "1"})) for index in range(2)]
    pods = [using(b.pod(f"p{index}", f"c{index}", cpu=1)) for index in range(2)]
    own = b.resource_slice("n1", b.device("own", capacities={"units": "1"}), b.device("two", capacities={"units": "1"}))

    plan = checked(N1, own, sharing(at, cpu="5"), claims, pods=pods)

    assert {name for index in range(2) for _, name in s.devices_of(plan, f"c{index}")} == {"own", "two"}


def test_a_share_is_too_large_for_a_pod_that_asks_for_much_of_it_and_not_for_one_that_asks_for_little() -> None:
    world = (N1, N2, sharing(cpu="1"))

    claims, pods = asking_units(n1="4", n2="4")
    assert len(checked(*world, claims, pods=pods).placements) == 2

    claims, pods = asking_units(n1="5", n2="3")
    plan = checked(*world, claims, pods=pods)
    assert s.nodes_of(plan) == {"p-n2": "n2"}
    assert s.messages(plan, "p-n1")[:2] == [
        "request r: needs 1 device, 1 matches, 0 free, 1 too large for their node",
        "request r: Insufficient cpu: device gpu.example.com/parts/part takes 5 cpu, and node n1 has 4",
    ]


def test_nodes_that_see_a_device_differently_share_what_it_has() -> None:
    claims, pods = asking_units(n1="4", n2="5")
    plan = checked(N1, N2, sharing(cpu="1", units="8"), claims, pods=pods)
    assert len(plan.placements) == 1

    assert len(checked(N1, N2, sharing(cpu="1", units="9"), claims, pods=pods).placements) == 2


def test_a_device_that_nodes_see_differently_draws_on_its_counters_once() -> None:
    counters = b.resource_slice("parts", counter_sets={"set": {"free": "1"}}, slice_count=2)
    devices = replace(sharing(cpu="1", units="9", consumes="1"), name="devices", slice_count=2)

    claims, pods = asking_units(n1="4", n2="5")
    assert len(checked(N1, N2, counters, devices, claims, pods=pods).placements) == 2


def test_a_device_that_nodes_see_differently_is_opened_once() -> None:
    claims, pods = asking_units(n1="4", n2="5")
    problem = s.problem(N1, N2, sharing(cpu="1", units="9"), GPU, claims, pods=pods)
    worth = [dict(zip(level_names(problem), evaluate(problem, each), strict=True)) for each in candidates(problem)]

    assert {each["opened-devices"] for each in worth} == {-1}


def test_a_request_for_all_devices_waits_where_its_share_of_one_takes_too_much() -> None:
    every = b.request("r", mode=AllocationMode.ALL, capacity={"units": "5"})
    own = b.resource_slice("n1", b.device("own", capacities={"units": "5"}))
    two = b.resource_slice("n2", b.device("own", capacities={"units": "5"}))

    assert not checked(N1, own, sharing(cpu="1"), b.claim("c", every), pods=[pod("n1")]).placements
    plan = checked(N1, N2, own, two, sharing(cpu="1"), b.claim("c", every), pods=[pod()])
    assert s.nodes_of(plan) == {"p": "n2"}
    assert sorted(name for _, name in s.devices_of(plan, "c")) == ["own", "part"]


NODES = [
    b.node(f"n{index}", cpu=cpu, memory=f"{memory}Gi") for index, (cpu, memory) in enumerate([(4, 8), (2, 9), (8, 1)])
]


@pytest.mark.parametrize("seen", [None, (0, 1), (2,), ()])
@pytest.mark.parametrize(
    "taken", [{}, {"cpu": 1}, {"cpu": 3}, {"cpu": 5, "memory": 2 << 30}, {"other": 1}, {"other": 0}]
)
def test_nodes_that_are_too_small_are_those_that_have_less_of_something(
    seen: tuple[int, ...] | None, taken: dict[str, int]
) -> None:
    (device,) = taking(
        b.resource_slice("x", b.device("d")), **{name: str(each) for name, each in taken.items()}
    ).devices
    sizes, nodes = NodeSizes(tuple(NODES)), None if seen is None else frozenset(seen)

    def is_small(node: Node) -> bool:
        there = {**dict(node.allocatable), "cpu": dict(node.allocatable)["cpu"] // 1000}
        return any(there.get(name, 0) < each for name, each in taken.items())

    looked_at = range(3) if seen is None else seen
    expected = {index for index in looked_at if is_small(NODES[index])}
    for _ in range(2):  # the second time as it is remembered
        assert sizes.too_small(device, {}, nodes) == expected
    assert {index for index in looked_at if any(sizes.excess(device, {}, index))} == expected
