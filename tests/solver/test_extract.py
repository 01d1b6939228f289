"""From counts to names: devices, results, configuration and the node selector of an allocation."""

import uuid

import pytest
from msgspec.structs import replace

from solver.domain import (
    Allocation,
    Claim,
    ClaimId,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    OpaqueConfig,
    Plan,
    ResourceSlice,
)
from tests.support import builders as b
from tests.support import solver_problems as s

N1 = b.node("n1", labels={"zone": "a", "rack": "r"})
GPU = b.gpu_class()
POD = b.pod("p", "c")


def allocated(decided: Plan, name: str = "c") -> Allocation:
    (found,) = (each for each in decided.allocations if each.claim == ClaimId(b.NAMESPACE, name))
    return found.allocation


def allocation(claim: Claim, *objects: s.Objects) -> Allocation:
    return allocated(s.plan(N1, claim, *objects, pods=[POD]))


def devices(found: Allocation) -> list[tuple[str, str]]:
    return [(result.request, result.device.device) for result in found.results]


def test_devices_are_taken_in_the_order_in_which_slices_publish_them() -> None:
    published = b.resource_slice("n1", *(b.device(name) for name in ("z", "a", "m")))
    assert devices(allocation(b.claim("c", b.request("r", count=2)), published, GPU)) == [("r", "z"), ("r", "a")]


def test_devices_in_use_are_passed_over() -> None:
    holder = b.held("h", b.result("gpu", "gpu-0", "n1"))
    found = allocation(b.claim("c", b.request("r", count=2)), b.gpu_slice("n1", count=4), GPU, holder)
    assert devices(found) == [("r", "gpu-1"), ("r", "gpu-2")]


def test_results_come_in_the_order_of_requests() -> None:
    claim = b.claim("c", b.request("small"), b.request("large", count=3))
    assert [request for request, _ in devices(allocation(claim, b.gpu_slice("n1"), GPU))] == ["small", *["large"] * 3]


def test_a_result_of_an_alternative_has_both_names() -> None:
    claim = b.claim("c", b.first_available("r", b.alternative("many", count=9), b.alternative("one")))
    assert devices(allocation(claim, b.gpu_slice("n1"), GPU)) == [("r/one", "gpu-0")]


def test_no_device_is_given_twice() -> None:
    claims = [b.claim(f"c{index}", b.request(count=2)) for index in range(4)]
    decided = s.plan(N1, b.gpu_slice("n1"), GPU, claims, pods=[b.pod(f"p{i}", f"c{i}") for i in range(4)])
    given = [result.device for each in decided.allocations for result in each.allocation.results]
    assert len(set(given)) == len(given) == 8


def test_a_claim_without_requests_gets_an_empty_allocation() -> None:
    assert allocation(replace(b.claim("c"), requests=())) == Allocation()


def test_tolerations_of_the_request_are_copied() -> None:
    tolerations = (b.toleration("t"), b.toleration("u", "Equal", "v", "NoExecute"))
    claim = b.claim("c", b.request("r", tolerations=tolerations))
    (result,) = allocation(claim, b.gpu_slice("n1", count=1, taints=(b.taint("t"),)), GPU).results
    assert result.tolerations == tolerations


def test_tolerations_of_the_chosen_alternative_are_copied() -> None:
    first, second = (
        b.alternative(name, count=count, tolerations=(b.toleration(name),)) for name, count in (("a", 9), ("b", 1))
    )
    (result,) = allocation(b.claim("c", b.first_available("r", first, second)), b.gpu_slice("n1"), GPU).results
    assert result.tolerations == (b.toleration("b"),)


def test_binding_conditions_of_the_device_are_copied() -> None:
    device = b.device("d", binding_conditions=("Ready",), binding_failure_conditions=("Failed", "Gone"))
    (result,) = allocation(b.claim("c"), b.resource_slice("n1", device), GPU).results
    assert (result.binding_conditions, result.binding_failure_conditions) == (("Ready",), ("Failed", "Gone"))


def test_admin_access_is_written() -> None:
    (result,) = allocation(b.claim("c", b.request(is_admin=True)), b.gpu_slice("n1", count=1), GPU).results
    assert result.admin_access


def test_admin_access_leaves_the_free_device_to_the_other_request() -> None:
    claim = b.claim("c", b.request("watch", is_admin=True), b.request("work"))
    holder = b.held("h", b.result("gpu", "gpu-1", "n1"))
    assert devices(allocation(claim, b.gpu_slice("n1", count=2), GPU, holder)) == [
        ("watch", "gpu-1"),
        ("work", "gpu-0"),
    ]


# Shares


SHARED = b.resource_slice(
    "n1",
    b.device(
        "d",
        is_shareable=True,
        capacities={"memory": b.capacity("80Gi", default="2Gi", minimum="2Gi", step="2Gi"), "cores": b.capacity(8)},
    ),
)


def test_a_share_names_what_it_consumes_of_every_capacity() -> None:
    claim = b.claim("c", b.request(capacity={"memory": "9Gi"}))
    (result,) = allocation(claim, SHARED, GPU).results
    assert [(name, str(amount)) for name, amount in result.consumed_capacity] == [("cores", "8"), ("memory", "10Gi")]


def test_an_exclusive_device_consumes_nothing() -> None:
    claim = b.claim("c", b.request(capacity={"memory": "9Gi"}))
    (result,) = allocation(claim, b.gpu_slice("n1", count=1), GPU).results
    assert (result.share_id, result.consumed_capacity) == ("", ())


def shares() -> list[str]:
    card = b.device("d", is_shareable=True, capacities={"memory": b.capacity("80Gi", default="10Gi")})
    claims = [b.claim(f"c{index}", b.request("r"), b.request("s")) for index in range(3)]
    pods = [b.pod(f"p{index}", f"c{index}") for index in range(3)]
    decided = s.plan(N1, b.resource_slice("n1", card), GPU, claims, pods=pods)
    return [result.share_id for each in decided.allocations for result in each.allocation.results]


def test_every_share_has_an_id_of_its_own() -> None:
    assert len(set(shares())) == 6


def test_share_ids_are_lower_case_uuids() -> None:
    assert all(str(uuid.UUID(each)) == each for each in shares())


def test_share_ids_are_the_same_again() -> None:
    assert shares() == shares()


# Configuration


CLASS_CONFIG = (b.config(parameters='{"class": 1}'), b.config(parameters='{"class": 2}'))
CONFIGURED = b.device_class("gpu", driver=b.GPU_DRIVER, config=CLASS_CONFIG)
OTHER = b.device_class("other", driver=b.GPU_DRIVER, config=(b.config(parameters='{"other": 1}'),))


def configuration(claim: Claim) -> list[tuple[str, tuple[str, ...], str]]:
    found: tuple[OpaqueConfig, ...] = allocation(claim, b.gpu_slice("n1"), CONFIGURED, OTHER).config
    return [(each.parameters, each.requests, each.source) for each in found]


def test_each_entry_of_a_class_is_there_once_for_all_its_requests() -> None:
    claim = b.claim("c", b.request("r"), b.request("s", "other"), b.request("t"))
    assert configuration(claim) == [
        ('{"class": 1}', ("r", "t"), "FromClass"),
        ('{"class": 2}', ("r", "t"), "FromClass"),
        ('{"other": 1}', ("s",), "FromClass"),
    ]


def test_the_class_of_the_chosen_alternative_counts() -> None:
    claim = b.claim("c", b.first_available("r", b.alternative("a", count=9), b.alternative("b", "other")))
    assert configuration(claim) == [('{"other": 1}', (), "FromClass")]


CLAIM_CONFIG: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("no request named", (), True),
    ("the request named", ("r",), True),
    ("the chosen alternative named", ("r/b",), True),
    ("another alternative named", ("r/a",), False),
    ("another request and this one named", ("s", "r"), True),
    ("several names of one request", ("r", "r/b"), True),
    ("no request named", ("no",), False),
)


@pytest.mark.parametrize(("named", "is_kept"), [row[1:] for row in CLAIM_CONFIG], ids=[row[0] for row in CLAIM_CONFIG])
def test_an_entry_of_the_claim_is_kept_once_and_unchanged(named: tuple[str, ...], *, is_kept: bool) -> None:
    request = b.first_available("r", b.alternative("a", "other", count=9), b.alternative("b", "other"))
    claim = b.claim("c", request, b.request("t"), config=(b.config(*named, parameters='{"claim": 1}'),))
    assert configuration(claim)[3:] == ([('{"claim": 1}', named, "FromClaim")] if is_kept else [])


def test_an_entry_for_every_request_names_none() -> None:
    several = b.first_available("r", b.alternative("a", "other", count=9), b.alternative("b", "other"))
    claim = b.claim("c", several, b.request("t"), config=(b.config("t", "r/b", parameters='{"claim": 1}'),))
    assert configuration(claim)[-1] == ('{"claim": 1}', (), "FromClaim")


# Node selectors


IN_A, IN_R = b.node_selector(zone="a"), b.node_selector(rack="r")
BOTH = b.node_selector(b.expressions(b.requirement("zone", "In", "a"), b.requirement("rack", "In", "r")))
EITHER = b.node_selector(b.expressions(b.requirement("zone", "In", "z")), *IN_A.terms)


def wide(name: str, scope: NodeScope, *, binds: bool = False) -> ResourceSlice:
    return b.resource_slice(name, b.device(name, binds_to_node=binds), driver=name, at=scope)


def usable_on(*slices: ResourceSlice) -> NodeSelector | None:
    classes = [b.device_class(each.driver, driver=each.driver) for each in slices]
    other = b.node("n0", cpu=0, labels={"zone": "a", "rack": "r"})
    claim = b.claim("c", *(b.request(each.driver, each.driver) for each in slices))
    pods = [b.pod("p", "c", cpu=1)]
    return allocated(s.plan(N1, other, claim, slices, classes, pods=pods)).node_selector


SELECTORS: tuple[tuple[str, tuple[ResourceSlice, ...], NodeSelector | None], ...] = (
    ("a device of one node", (b.resource_slice("n1", b.device("d")),), b.on_node("n1")),
    ("a device of all nodes", (wide("x", b.scope(all_nodes=True)),), None),
    ("a device of a selector's nodes", (wide("x", b.scope(selector=IN_A)),), IN_A),
    ("devices of two selectors", (wide("x", b.scope(selector=IN_A)), wide("y", b.scope(selector=IN_R))), BOTH),
    (
        "a requirement of both is there once",
        (wide("x", b.scope(selector=IN_A)), wide("y", b.scope(selector=BOTH))),
        BOTH,
    ),
    ("a device that binds to its node", (wide("x", b.scope(all_nodes=True), binds=True),), b.on_node("n1")),
    (
        "a device of one node among others",
        (wide("x", b.scope(selector=IN_A)), b.resource_slice("n1", b.device("d"))),
        b.on_node("n1"),
    ),
    (
        "a device with a scope of its own",
        (b.resource_slice("x", b.device("x", scope=b.scope(selector=IN_R)), driver="x", at=b.scope(per_device=True)),),
        IN_R,
    ),
)


@pytest.mark.parametrize(("slices", "selector"), [row[1:] for row in SELECTORS], ids=[row[0] for row in SELECTORS])
def test_an_allocation_says_where_it_can_be_used(
    slices: tuple[ResourceSlice, ...], selector: NodeSelector | None
) -> None:
    assert usable_on(*slices) == selector


def test_terms_of_several_devices_are_multiplied_out() -> None:
    own = b.resource_slice("x", b.device("x", scope=b.scope(selector=EITHER)), driver="x", at=b.scope(per_device=True))
    found = usable_on(own, wide("y", b.scope(selector=IN_R)))
    rack = b.requirement("rack", "In", "r")
    zones = (b.requirement("zone", "In", zone) for zone in ("z", "a"))
    assert found == NodeSelector(terms=tuple(NodeSelectorTerm(match_expressions=(zone, rack)) for zone in zones))


# Placements


def test_placements_come_in_the_order_of_the_batch() -> None:
    pods = [b.pod(name, priority=priority) for name, priority in (("a", 0), ("b", 9), ("c", 5))]
    assert [placed.pod.name for placed in s.plan(N1, pods=pods).placements] == ["a", "b", "c"]


def test_a_placement_names_every_claim_once_and_the_pod_s_uid() -> None:
    given = b.claim("given", allocation=b.allocation())
    pod = b.pod("p", b.entry("c", name="a"), b.entry("c", name="b"), b.entry("given"), b.skipped_entry())
    (placed,) = s.plan(N1, b.gpu_slice("n1"), GPU, b.claim("c"), given, pods=[pod]).placements
    names = tuple(ClaimId(b.NAMESPACE, name) for name in ("c", "given"))
    assert (placed.claims, placed.pod_uid, placed.node) == (names, pod.uid, "n1")


def test_claims_that_are_allocated_are_not_allocated_again() -> None:
    given = b.claim("c", allocation=b.allocation(b.result("gpu", "gpu-0", "n1"), node_name="n1"))
    assert s.plan(N1, b.gpu_slice("n1"), GPU, given, pods=[POD]).allocations == ()


def test_an_allocation_carries_the_uid_of_its_claim() -> None:
    (found,) = s.plan(N1, b.gpu_slice("n1"), GPU, b.claim("c"), pods=[POD]).allocations
    assert found.claim_uid == "uid-default-c"
