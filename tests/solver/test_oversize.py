"""Devices that take more of a node than the node has (KEP-5517): who waits for that, who does not, and what is said."""

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import AllocationMode, ClaimBurden, Plan, Pod, Policy, ResourceSlice, Taint
from solver.problem.memory import Engine
from tests.solver.test_burdens import everywhere, taking, using
from tests.support import builders as b
from tests.support import solver_problems as s

GPU, OTHER = b.gpu_class(), "other.example.com"
N1, N2 = b.node("n1", cpu=4), b.node("n2", cpu=2000)
HUGE = everywhere(taking(b.resource_slice("huge", b.device("huge")), cpu="1000"))
LOCAL = taking(b.resource_slice("n1", b.device("d0"), driver=OTHER), cpu="5")
TEXT = "request r: device gpu.example.com/huge/huge takes 1k cpu, and node n1 has 4"


def checked(*objects: s.Objects, pods: list[Pod], policy: Policy | None = None) -> Plan:
    snapshot, batch, policy = b.snapshot(*objects, GPU), b.batch(*pods), policy or Policy()
    plan = solve(snapshot, batch, policy, s.PATIENT)
    assert verify.check(snapshot, batch, plan, policy) == ()
    return plan


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
    ("tells", "text"), [(True, TEXT), (False, "request r: a device that matches takes more of its node than it has")]
)
def test_who_asks_for_all_devices_hears_which_is_too_large(*, tells: bool, text: str) -> None:
    policy = Policy(tells_inventory=tells)
    plan = checked(N1, b.gpu_slice("n1", count=2), HUGE, asking(), pods=[pod()], policy=policy)

    assert s.codes(plan, "p") == ["DevicesNone", "NodeTooSmall"]
    lead = "request r: needs all devices, 3 match, 2 free, 1 that takes more of its node than it has"
    assert s.messages(plan, "p") == [lead, text]


def test_who_asks_for_one_device_hears_that_the_only_one_is_too_large() -> None:
    plan = checked(N1, HUGE, asking(AllocationMode.EXACT_COUNT), pods=[pod()])

    lead = "request r: needs 1 device, 1 matches, 0 free, 1 that takes more of its node than it has"
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
    assert plan.placements[0].burdens == ()


def test_pods_share_a_claim_with_admin_access_to_what_takes_of_the_node() -> None:
    pods = [using(b.pod(name, "c", cpu=1)) for name in "pq"]

    plan = checked(N1, taking(b.gpu_slice("n1"), cpu="1"), asking(is_admin=True), pods=pods)

    assert len(plan.placements) == 2


def test_the_check_notices_that_admin_access_is_charged() -> None:
    snapshot = b.snapshot(N1, taking(b.gpu_slice("n1", count=1), cpu="1"), GPU, asking(is_admin=True))
    plan = solve(snapshot, b.batch(pod()), Policy(), s.PATIENT)
    burden = ClaimBurden(claim=plan.placements[0].claims[0], containers=("main",), resources=(("cpu", 10**9),))
    wrong = replace(plan, placements=(replace(plan.placements[0], burdens=(burden,)),))

    assert [each.rule for each in verify.check(snapshot, b.batch(pod()), wrong, Policy())] == ["BurdenSaid"]


def test_it_stays_too_large_when_it_is_published_again() -> None:
    engine, known = Engine(), b.snapshot(N1, taking(b.gpu_slice("n1", count=1), cpu="5"), GPU, asking())
    assert s.codes(solve(known, b.batch(pod()), Policy(), s.PATIENT, engine), "p") == ["DevicesNone", "NodeTooSmall"]

    (old,) = known.slices
    device = replace(old.devices[0], taints=(Taint(key="k", value="v", effect="None"),))
    again = replace(known, slices=(replace(old, generation=old.generation + 1, devices=(device,)),))
    assert s.codes(solve(again, b.batch(pod()), Policy(), s.PATIENT, engine), "p") == ["DevicesNone", "NodeTooSmall"]
