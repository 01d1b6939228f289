"""Extended resources through the whole core: node by node by device plugin or by devices (KEP-5004)."""

import pytest
from msgspec.structs import replace

from solver import greedy, solve, solve_greedily, verify
from solver.domain import (
    Budget,
    ExtendedResourceClaim,
    NodeAllocatableOverhead,
    Plan,
    Pod,
    Policy,
    ReasonCode,
    Snapshot,
)
from solver.domain.quantity import parse
from solver.model.objective import best_of, evaluate
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from solver.search import bound, exact, neighbourhoods
from tests.support import builders as b
from tests.support.extended_builders import RESOURCE, container, gpu_class, init, pod, sidecar
from tests.support.solver_problems import codes, messages, nodes_of, unplaced

IMPLICIT = f"deviceclass.resource.kubernetes.io/{b.GPU_CLASS}"


def _snapshot(*objects: b.SnapshotObject) -> Snapshot:
    return b.snapshot(*objects)


def _budget(deterministic_seconds: float = 4.0) -> Budget:
    """A budget that begins now, and is ended by work done."""
    return Budget(seconds=60.0, deterministic_seconds=deterministic_seconds)


def _plan(snapshot: Snapshot, *pods: Pod, policy: Policy = Policy()) -> Plan:  # noqa: B008 - a frozen value
    """Solve, check, and compare with the greedy plan, which is checked as well."""
    batch = b.batch(*pods)
    found = solve(snapshot, batch, policy, _budget())
    first = solve_greedily(snapshot, batch, policy, _budget())
    assert verify.check(snapshot, batch, found, policy) == ()
    assert verify.check(snapshot, batch, first, policy) == ()
    assert len(found.placements) >= len(first.placements)
    return found


def _special(found: Plan, name: str) -> ExtendedResourceClaim | None:
    (placement,) = (each for each in found.placements if each.pod.name == name)
    return placement.extended_resource_claim


def _devices(found: Plan, name: str) -> list[tuple[str, str]]:
    special = _special(found, name)
    if special is None:
        return []
    (made,) = (each for each in found.allocations if each.claim == special.id)
    return [(each.request, each.device.device) for each in made.allocation.results]


def test_a_resource_that_a_class_stands_for_comes_from_devices() -> None:
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=2), gpu_class())

    found = _plan(snapshot, pod("p", container(cpu=1, gpu=2)))

    assert _devices(found, "p") == [("container-0-request-1", "gpu-0"), ("container-0-request-1", "gpu-1")]
    special = _special(found, "p")
    assert special is not None
    assert found.placements[0].claims == (special.id,)
    assert [(each.container, each.resource, each.request) for each in special.mappings] == [
        ("main", RESOURCE, "container-0-request-1")
    ]


def test_the_name_of_a_class_is_an_extended_resource_too() -> None:
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=1), b.gpu_class())

    found = _plan(snapshot, pod("p", container(gpu=1), resource=IMPLICIT))

    assert _devices(found, "p") == [("container-0-request-0", "gpu-0")]


def test_a_device_plugin_serves_its_node_and_devices_serve_the_others() -> None:
    snapshot = _snapshot(b.node("a", extended={RESOURCE: 2}), b.node("b"), b.gpu_slice("b", count=2), gpu_class())

    found = _plan(snapshot, *(pod(f"p{index}", container(gpu=1)) for index in range(5)))

    by_node = {name: [each.pod.name for each in found.placements if each.node == name] for name in ("a", "b")}
    assert sorted(map(len, by_node.values())) == [2, 2]
    assert all(_special(found, name) is None for name in by_node["a"])
    assert all(_special(found, name) is not None for name in by_node["b"])
    assert len(found.unplaced) == 1


def test_one_pod_can_have_one_resource_from_a_plugin_and_another_from_devices() -> None:
    nic = b.device_class("nic", driver="nic.example.com", extended_resource_name="example.com/nic")
    nics = b.resource_slice("a", b.device("nic-0"), driver="nic.example.com")
    snapshot = _snapshot(b.node("a", extended={RESOURCE: 1}), nics, gpu_class(), nic)
    both = pod("p", replace(container(), requests=((RESOURCE, 1), ("example.com/nic", 1))))

    found = _plan(snapshot, both)

    special = _special(found, "p")
    assert special is not None
    assert special.resources == {"example.com/nic"}
    assert _devices(found, "p") == [("container-0-request-1", "nic-0")]


def test_a_node_with_neither_plugin_nor_class_refuses() -> None:
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=1), b.gpu_class())

    found = _plan(snapshot, pod("p", container(gpu=1)))

    assert codes(found, "p") == [ReasonCode.NODE_TOO_SMALL] * 2
    assert messages(found, "p")[1] == f"the pod requests 1 {RESOURCE}; no node that it may use has any"


def test_an_allocatable_of_zero_is_none() -> None:
    snapshot = _snapshot(b.node("n", extended={RESOURCE: 0}), b.gpu_slice("n", count=1), gpu_class())

    assert nodes_of(_plan(snapshot, pod("p", container(gpu=1)))) == {"p": "n"}


def test_init_containers_need_no_devices_beyond_those_of_later_containers() -> None:
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=3), gpu_class())
    wanted = pod("p", sidecar(gpu=1), init(gpu=2), container("main", gpu=1))

    found = _plan(snapshot, wanted)

    assert sorted(device for _, device in _devices(found, "p")) == ["gpu-0", "gpu-1", "gpu-2"]


def test_devices_that_take_node_resources_serve_none() -> None:
    """The status of a pod could not say what such a claim takes: it names claims of spec.resourceClaims alone."""
    overhead = NodeAllocatableOverhead(resource="cpu", per_pod=parse("1"))
    pool = b.gpu_slice("n", count=1)
    taking = replace(pool, devices=tuple(replace(each, node_overhead=(overhead,)) for each in pool.devices))
    wanted = pod("p", container(cpu=1, gpu=1))
    assert nodes_of(_plan(_snapshot(b.node("n"), pool, gpu_class()), wanted)) == {"p": "n"}

    found = _plan(_snapshot(b.node("n"), taking, gpu_class()), wanted)

    text = "node(s) serve extended resources with devices that take resources of the node, which a pod's status"
    assert [(each.code, each.message.startswith(text)) for each in unplaced(found, "p").reasons] == [
        (ReasonCode.NODE_RESOURCES, True)
    ]


def test_devices_for_extended_resources_compete_with_claims() -> None:
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=2), gpu_class(), b.claim("c", b.request(count=2)))

    found = _plan(snapshot, pod("low", container(gpu=1)), b.pod("high", "c", priority=1))

    assert nodes_of(found) == {"high": "n"}


def test_a_pod_can_have_a_claim_and_extended_resources() -> None:
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=2), gpu_class(), b.claim("c"))
    both = replace(pod("p", container(gpu=1)), claims=b.pod("p", "c").claims)

    found = _plan(snapshot, both)

    assert len(found.allocations) == 2
    assert len({each.device for made in found.allocations for each in made.allocation.results}) == 2


def test_the_plugin_is_taken_before_devices() -> None:
    snapshot = _snapshot(b.node("a"), b.gpu_slice("a", count=1), b.node("b", extended={RESOURCE: 1}), gpu_class())

    assert nodes_of(_plan(snapshot, pod("p", container(gpu=1)))) == {"p": "b"}


def test_the_reason_names_the_resource_on_nodes_where_devices_serve_it() -> None:
    snapshot = _snapshot(b.node("a", extended={RESOURCE: 1}), b.node("b"), b.gpu_slice("b", count=1), gpu_class())

    found = _plan(snapshot, pod("p", container(gpu=2)))

    assert codes(found, "p") == [ReasonCode.DEVICES_NONE, ReasonCode.NODE_TOO_SMALL]
    assert messages(found, "p")[0].startswith(f"resource {RESOURCE}: needs 2 devices, 1 matches")
    assert messages(found, "p")[1] == f"Insufficient {RESOURCE}"


def test_each_node_is_counted_once_among_the_reasons() -> None:
    tainted = b.node("c", taints=[b.taint("away")])
    snapshot = _snapshot(b.node("a", extended={RESOURCE: 1}), b.node("b"), tainted, gpu_class())

    found = _plan(snapshot, pod("p", container(gpu=2)))

    counts = {each.code: each.node_count for each in found.unplaced[0].reasons}
    assert counts == {ReasonCode.DEVICES_NONE: 1, ReasonCode.NODE_TAINT: 1, ReasonCode.NODE_TOO_SMALL: 1}


def test_more_devices_than_a_claim_can_hold_are_refused_with_the_limit() -> None:
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=40), gpu_class())

    found = _plan(snapshot, pod("p", container(gpu=33)))

    assert codes(found, "p") == [ReasonCode.CLAIM_TOO_LARGE]
    assert "extended resources" in messages(found, "p")[0]


def test_a_class_whose_selector_is_wrong_is_no_way_and_plugins_still_serve() -> None:
    wrong = replace(gpu_class(), selectors=("device.driver ==",))
    snapshot = _snapshot(b.node("a", extended={RESOURCE: 1}), b.node("b"), wrong)

    found = _plan(snapshot, pod("p", container(gpu=1)), pod("q", container(gpu=1)))

    assert len(found.placements) == 1
    assert [each.code for each in found.unplaced[0].reasons] == [
        ReasonCode.OUTRANKED,
        ReasonCode.SELECTOR_INVALID,
        ReasonCode.NODE_RESOURCES,
    ]


def test_a_special_claim_of_another_scheduler_is_usage() -> None:
    held = replace(
        b.held("other", b.result("container-0-request-0", "gpu-0", "n"), node_name="n"), is_extended_resource_claim=True
    )
    snapshot = _snapshot(b.node("n"), b.gpu_slice("n", count=1), gpu_class(), held)

    assert codes(_plan(snapshot, pod("p", container(gpu=1))), "p") == [ReasonCode.DEVICES_IN_USE]


# The same hardware offered twice


def _offered_twice() -> Snapshot:
    return _snapshot(b.node("n", extended={RESOURCE: 4}), b.gpu_slice("n", count=4), gpu_class(), b.claim("c"))


def test_no_claim_is_allocated_where_a_plugin_offers_the_same_devices() -> None:
    found = _plan(_offered_twice(), b.pod("p", "c"))

    assert codes(found, "p") == [ReasonCode.DEVICES_OFFERED_TWICE]
    assert RESOURCE in messages(found, "p")[0]
    assert f"class {b.GPU_CLASS}" in messages(found, "p")[0]


def test_claims_are_allocated_there_where_the_policy_says_so() -> None:
    policy = Policy(allocates_where_plugins_serve=True)

    assert nodes_of(_plan(_offered_twice(), b.pod("p", "c"), policy=policy)) == {"p": "n"}


def test_the_implicit_name_does_not_get_around_it() -> None:
    found = _plan(_offered_twice(), pod("p", container(gpu=1), resource=IMPLICIT))

    assert codes(found, "p") == [ReasonCode.DEVICES_OFFERED_TWICE]


def test_classes_that_are_no_extended_resource_are_not_concerned() -> None:
    snapshot = _snapshot(b.node("n", extended={RESOURCE: 4}), b.gpu_slice("n"), b.gpu_class(), b.claim("c"))

    assert nodes_of(_plan(snapshot, b.pod("p", "c"))) == {"p": "n"}


def test_admin_access_takes_nothing_and_is_given() -> None:
    wanted = b.claim("c", b.request(is_admin=True))
    snapshot = _snapshot(b.node("n", extended={RESOURCE: 4}), b.gpu_slice("n"), gpu_class(), wanted)

    assert nodes_of(_plan(snapshot, b.pod("p", "c"))) == {"p": "n"}


# The searches


def _mixed(count: int) -> tuple[Snapshot, list[Pod]]:
    plugins = [b.node(f"a{index}", extended={RESOURCE: 2}) for index in range(count)]
    served = [b.node(f"b{index}") for index in range(count)]
    slices = [b.gpu_slice(each.name, count=2) for each in served]
    pods = [pod(f"p{index}", container(gpu=1 + index % 2)) for index in range(3 * count)]
    return b.snapshot(*plugins, *served, *slices, gpu_class()), pods


def test_the_exact_search_counts_a_pod_once_however_many_ways_it_has() -> None:
    snapshot, pods = _mixed(3)
    problem = prepare(snapshot, b.batch(*pods), Policy(), SolverCache())
    start = best_of(problem, greedy.candidates(problem))
    nothing = bound.Bounds((None,) * len(evaluate(problem, start)), (0, 0))

    found = exact.improve(problem, start, nothing, _budget())

    assert found.levels[0].proven
    assert found.levels[0].value == evaluate(problem, start)[0] == 8


def test_neighbourhoods_keep_families_whole() -> None:
    snapshot, pods = _mixed(4)
    problem = prepare(snapshot, b.batch(*pods), Policy(), SolverCache())
    start = best_of(problem, greedy.candidates(problem))
    start.choices = start.choices[:3]
    nothing = bound.Bounds((None,) * len(evaluate(problem, start)), (0, 0))

    found = neighbourhoods.improve(problem, start, nothing, _budget(1.0))

    assert evaluate(problem, found.solution)[0] >= 8
    placed = [choice.pod_class for choice in found.solution.choices]
    for family in problem.families:
        assert sum(placed.count(each.index) for each in family) <= family[0].size


@pytest.mark.parametrize("count", [2, 5])
def test_order_of_pods_does_not_change_how_many_are_placed(count: int) -> None:
    snapshot, pods = _mixed(count)

    assert len(_plan(snapshot, *pods).placements) == len(_plan(snapshot, *reversed(pods)).placements)


def test_fewer_of_an_extended_resource_are_asked_for_in_the_pod() -> None:
    """No template and no claim has the count."""
    snapshot = _snapshot(b.node("n1"), b.gpu_slice("n1", count=4), gpu_class())
    hint = f"hint: 4 of 5 would fit now; request 4 {RESOURCE} in a new pod"
    assert any(each.endswith(hint) for each in messages(_plan(snapshot, pod("p", container(gpu=5))), "p"))
