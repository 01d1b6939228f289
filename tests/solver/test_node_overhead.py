"""What devices map of their node, and their overhead (nodeAllocatableResources of Kubernetes 1.37, KEP-5517)."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from solver import solve, verify
from solver.domain import (
    Claim,
    ContainerRequests,
    Device,
    NodeAllocatableClaimStatus,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    Plan,
    Pod,
    Policy,
    ReasonCode,
    ResourceSlice,
)
from solver.domain.quantity import parse
from tests.support import builders as b
from tests.support import solver_problems as s

CLASS = b.gpu_class()
POOL = {"d/cpu": "100", "d/memory": "1k"}


def overhead(resource: str, per_pod: str = "", per_container: str = "") -> NodeAllocatableOverhead:
    amounts = [parse(each) if each else None for each in (per_pod, per_container)]
    return NodeAllocatableOverhead(resource=resource, per_pod=amounts[0], per_container=amounts[1])


def mapping(resource: str, multiplier: str, key: str = "") -> NodeAllocatableMapping:
    return NodeAllocatableMapping(resource=resource, capacity_key=key, allocation_multiplier=parse(multiplier))


def published(*parts: NodeAllocatableMapping | NodeAllocatableOverhead, device: Device | None = None) -> ResourceSlice:
    maps = tuple(each for each in parts if isinstance(each, NodeAllocatableMapping))
    costs = tuple(each for each in parts if isinstance(each, NodeAllocatableOverhead))
    made = replace(device or b.device("d0"), node_allocatable=maps, node_overhead=costs)
    return b.resource_slice("n1", made)


def pool() -> ResourceSlice:
    device = b.device("d0", capacities=POOL, is_shareable=True)
    return published(mapping("cpu", "1", "d/cpu"), mapping("memory", "1", "d/memory"), device=device)


def using(name: str, *claims: str, containers: int = 1, cpu: b.Amount = 0, memory: b.Amount = 0) -> Pod:
    pod = b.pod(name, *claims, cpu=cpu, memory=memory)
    entries = tuple(each.entry for each in pod.claims)
    made = (ContainerRequests(name=f"c{number}", claims=entries) for number in range(containers))
    return replace(pod, containers=tuple(made))


def solved(*objects: s.Objects, pods: Sequence[Pod], cpu: b.Amount = 100) -> Plan:
    snapshot, batch = b.snapshot(b.node("n1", cpu=cpu, memory="1k"), CLASS, *objects), b.batch(*pods)
    plan = solve(snapshot, batch, Policy(), s.PATIENT)
    assert verify.check(snapshot, batch, plan, Policy()) == ()
    return plan


def status_of(plan: Plan, name: str) -> NodeAllocatableClaimStatus:
    (placed,) = (each for each in plan.placements if each.pod.name == name)
    (found,) = placed.node_allocatable
    return found


def test_a_claim_takes_what_it_consumes_of_a_pool_in_the_notation_of_the_pool() -> None:
    plan = solved(pool(), b.claim("c", b.request("r")), pods=[using("p", "c", containers=2)])

    said = status_of(plan, "p")
    assert (said.containers, said.overhead) == (("c0", "c1"), ())
    assert said.mapping == (("cpu", parse("100")), ("memory", parse("1k")))

    part = b.claim("c", b.request("r", capacity={"d/cpu": "10", "d/memory": "100"}))
    said = status_of(solved(pool(), part, pods=[using("p", "c")]), "p")
    assert said.mapping == (("cpu", parse("10")), ("memory", parse("100")))


def test_what_a_claim_takes_of_the_node_is_not_left_for_other_pods() -> None:
    pods = [replace(using("p", "c"), priority=1), b.pod("other", cpu=2)]

    plan = solved(pool(), b.claim("c", b.request("r")), pods=pods)

    assert s.nodes_of(plan) == {"p": "n1"}
    assert any("Insufficient cpu" in each for each in s.messages(plan, "other"))


@pytest.mark.parametrize(
    ("cost", "taken"),
    [
        pytest.param(overhead("memory", "100"), 100, id="per pod"),
        pytest.param(overhead("memory", "", "50"), 100, id="per container"),
        pytest.param(overhead("memory", "100", "50"), 200, id="both"),
    ],
)
def test_overhead_is_taken_per_pod_and_per_container(cost: NodeAllocatableOverhead, taken: int) -> None:
    """With two containers that use the claim and one that does not; 1,000 bytes are there."""
    claim = b.claim("c", b.request("r"))

    def placed(memory: int) -> Plan:
        pod = using("p", "c", containers=2, memory=memory)
        bystander = ContainerRequests(name="bystander")
        return solved(published(cost), claim, pods=[replace(pod, containers=(*pod.containers, bystander))])

    said = status_of(placed(1000 - taken), "p")
    assert (said.containers, said.mapping, said.overhead) == (("c0", "c1"), (), (cost,))
    assert not placed(1001 - taken).placements


def test_overhead_of_several_devices_adds_up() -> None:
    kinds = (overhead("memory", "100", "10"), overhead("cpu", "1"))
    device = replace(b.device("d0"), node_overhead=kinds)
    both = b.resource_slice("n1", device, replace(device, name="d1"))

    said = status_of(solved(both, b.claim("c", b.request("r", count=2)), pods=[using("p", "c")]), "p")

    assert said.overhead == (overhead("cpu", "2"), overhead("memory", "200", "20"))


def test_a_device_whose_overhead_no_node_has_is_not_given() -> None:
    plan = solved(published(overhead("memory", "2k")), b.claim("c", b.request("r")), pods=[using("p", "c")])

    assert plan.placements == ()
    assert {each.code for each in s.unplaced(plan, "p").reasons} == {ReasonCode.DEVICES_NONE, ReasonCode.NODE_TOO_SMALL}
    assert any("Insufficient memory" in each for each in s.messages(plan, "p"))


def test_pods_share_a_claim_with_overhead_and_each_takes_it() -> None:
    shared, claims = published(overhead("cpu", "1", "1")), b.claim("c", b.request("r"))
    pods = [using(f"p{number}", "c", cpu=1) for number in range(4)]

    assert len(solved(shared, claims, pods=pods, cpu=9).placements) == 3


@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_claim_in_use_is_shared_only_without_a_mapped_device(is_mapped: bool) -> None:  # noqa: FBT001 - a parameter
    parts = (mapping("cpu", "1"), overhead("cpu", "1")) if is_mapped else (overhead("cpu", "1"),)
    held = b.held("c", b.result("r", "d0", "n1"), node_name="n1")

    plan = solved(published(*parts), held, pods=[using("second", "c")])

    if not is_mapped:
        assert status_of(plan, "second").overhead == (overhead("cpu", "1"),)
        return
    (reason,) = s.unplaced(plan, "second").reasons
    assert (reason.code, reason.status) == (
        ReasonCode.CLAIM_FULL,
        "node allocatable resource claim c has a mapped device and cannot be shared across pods",
    )


def test_a_claim_that_no_container_uses_is_charged_once_and_for_no_container() -> None:
    parts = (mapping("cpu", "60"), overhead("cpu", "10", "500"))
    plan = solved(published(*parts, device=b.device("d0")), b.claim("c", b.request("r")), pods=[b.pod("p", "c")])
    assert plan.placements == ()  # what one container would take is more than the node has

    parts = (mapping("cpu", "60"), overhead("cpu", "10", "5"))
    plan = solved(published(*parts), b.claim("c", b.request("r")), pods=[b.pod("p", "c", cpu=30)])
    assert status_of(plan, "p").containers == ()
    assert not solved(published(*parts), b.claim("c", b.request("r")), pods=[b.pod("p", "c", cpu=31)]).placements


@pytest.mark.parametrize("slack", [3999, 4000])
def test_pod_level_requests_have_to_cover_mapping_and_overhead(slack: int) -> None:
    parts = (mapping("cpu", "2"), overhead("cpu", "1", "500m"))
    pod = replace(using("p", "c", containers=2, cpu=6), level_slack=(("cpu", slack),))

    plan = solved(published(*parts), b.claim("c", b.request("r")), pods=[pod], cpu=6)

    assert bool(plan.placements) == (slack == 4000)
    if not plan.placements:
        text = "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA"
        assert any(each.status.startswith(text) for each in s.unplaced(plan, "p").reasons)


@pytest.mark.parametrize("slack", [3499, 3500])
@pytest.mark.parametrize("is_allocated", [False, True])
def test_a_pod_level_limit_has_to_cover_each_container_with_its_claims(slack: int, *, is_allocated: bool) -> None:
    """The mapping, the overhead per pod, and that of one container; a container that uses no claim takes nothing."""
    pod = using("p", "c", containers=2, cpu=6)
    first, second = (replace(each, limit_slack=(("cpu", slack),)) for each in pod.containers)
    pod = replace(pod, containers=(first, second, ContainerRequests(name="other", limit_slack=(("cpu", 0),))))
    given = b.allocation(b.result("r", "d0", "n1"), node_name="n1") if is_allocated else None
    claim = b.claim("c", b.request("r"), allocation=given)

    plan = solved(published(mapping("cpu", "2"), overhead("cpu", "1", "500m")), claim, pods=[pod])

    assert bool(plan.placements) == (slack == 3500)
    if not plan.placements:
        text = "pod level limit for cpu is insufficient to cover the limit and DRA overhead for container c0"
        assert text in {each.status for each in s.unplaced(plan, "p").reasons}


def test_pods_with_other_limits_are_another_class() -> None:
    pods = [using(f"p{number}", f"c{number}") for number in range(2)]
    limited = replace(pods[1], containers=(replace(pods[1].containers[0], limit_slack=(("cpu", 1),)),))
    devices = [replace(b.device(f"d{number}"), node_overhead=(overhead("cpu", "1"),)) for number in range(2)]
    claims = [b.claim(f"c{number}", b.request("r")) for number in range(2)]
    plan = solved(b.resource_slice("n1", *devices), *claims, pods=[pods[0], limited])
    assert s.nodes_of(plan) == {"p0": "n1"}


def test_pods_that_use_a_claim_in_more_containers_are_another_class() -> None:
    """Equal claims of their own, one cpu for each container; the node has room for one pod of each kind."""
    cost = overhead("cpu", "", "1")
    devices = [replace(b.device(f"d{number}"), node_overhead=(cost,)) for number in range(4)]
    claims = [b.claim(f"c{number}", b.request("r")) for number in range(4)]
    pods = [using(f"p{number}", f"c{number}", containers=1 + 2 * (number // 2)) for number in range(4)]

    plan = solved(b.resource_slice("n1", *devices), claims, pods=pods, cpu=5)

    assert {each.pod.name for each in plan.placements} >= {"p0", "p1"}
    assert len(plan.placements) == 3


def test_shared_devices_of_all_nodes_that_take_too_much_of_one_keep_no_pod_from_others() -> None:
    """One unit takes more of n1 than it has; consumed by the unit, the device looks small."""
    device = b.device("huge", capacities={"d/units": b.capacity(1000, default=1)}, is_shareable=True)
    huge = replace(published(mapping("cpu", "500", "d/units"), device=device), name="e", pool="e")
    huge = replace(huge, driver="evil.example.com", scope=b.scope(all_nodes=True))
    claims: list[Claim] = [b.claim(f"c{number}", b.request("r")) for number in range(2)]
    local = b.resource_slice("n1", b.device("a"), b.device("b"))
    any_class = b.device_class(CLASS.name)
    snapshot = b.snapshot(b.node("n1", cpu=100), any_class, huge, local, claims)
    batch = b.batch(*(using(f"p{number}", f"c{number}") for number in range(2)))

    plan = solve(snapshot, batch, Policy(), s.PATIENT)

    assert (len(plan.placements), verify.check(snapshot, batch, plan, Policy())) == (2, ())
