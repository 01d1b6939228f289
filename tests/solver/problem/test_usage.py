"""What allocations leave of nodes and devices."""

from collections.abc import Mapping

import pytest

from solver.domain import Claim, ClaimId
from solver.problem.devices.layout import GLOBAL
from solver.problem.problem import Problem
from tests.support import builders as b
from tests.support import solver_problems as s

GPU = b.gpu_class()
NODES = (b.node("n1"), b.node("n2"))


def problem(*objects: s.Objects, request: Mapping[str, b.Amount] | None = None) -> Problem:
    claim = b.claim("c", b.request(capacity=request))
    return s.problem(NODES, GPU, claim, *objects, pods=[b.pod("p", "c")])


def free(found: Problem, node: int = 0) -> list[int]:
    """Units left of every type's gate."""
    return [found.available.states[node][each.gate] for each in found.group(node).types]


def test_nothing_is_in_use_at_first() -> None:
    assert free(problem(b.gpu_slice("n1"))) == [8]


def test_an_allocated_device_is_gone() -> None:
    assert free(problem(b.gpu_slice("n1"), b.held("h", b.result("gpu", "gpu-3", "n1")))) == [7]


def test_admin_access_takes_nothing() -> None:
    assert free(problem(b.gpu_slice("n1"), b.held("h", b.result("gpu", "gpu-3", "n1", is_admin=True)))) == [8]


def test_a_device_of_another_pool_is_another_device() -> None:
    slices = (b.gpu_slice("n1"), b.gpu_slice("n2"))
    found = problem(*slices, b.held("h", b.result("gpu", "gpu-3", "n2")))
    assert (free(found), free(found, 1)) == ([8], [7])


def test_a_device_of_another_driver_is_another_device() -> None:
    held = b.held("h", b.result("gpu", "gpu-3", "n1", driver="other.example.com"))
    assert free(problem(b.gpu_slice("n1"), held)) == [8]


def test_a_device_that_two_claims_hold_is_gone_once() -> None:
    held = [b.held(name, b.result("gpu", "gpu-3", "n1")) for name in ("h", "i")]
    assert free(problem(b.gpu_slice("n1"), held)) == [7]


CARD = b.resource_slice(
    "n1", b.device("d", is_shareable=True, capacities={"memory": b.capacity("80Gi", default="1Gi")})
)


def share(name: str, amount: b.Amount, number: int) -> Claim:
    return b.held(name, b.result("gpu", "d", "n1", share_id=b.share_id(number), consumed={"memory": amount}))


def left_of_card(*held: Claim) -> int:
    found = problem(CARD, held, request={"memory": "10Gi"})
    (card,) = found.group(0).types
    return found.available.states[0][card.capacities["memory"]]


@pytest.mark.parametrize(
    ("amounts", "left"),
    [((), 8), (("20Gi",), 6), (("20Gi", "30Gi"), 3), (("1Gi",), 7), (("80Gi",), 0), (("90Gi",), 0)],
    ids=["none", "one", "two", "a part of a unit", "all", "more than there is"],
)
def test_shares_of_a_device_add_up(amounts: tuple[str, ...], left: int) -> None:
    assert left_of_card(*(share(f"h{i}", amount, i) for i, amount in enumerate(amounts))) == left


def test_a_capacity_that_is_not_published_any_more_is_forgotten() -> None:
    consumed: dict[str, b.Amount] = {"memory": "10Gi", "gone": 5}
    held = b.held("h", b.result("gpu", "d", "n1", share_id=b.share_id(1), consumed=consumed))
    assert left_of_card(held) == 7


def test_an_exclusive_holder_closes_a_shareable_device() -> None:
    assert free(problem(CARD, b.held("h", b.result("gpu", "d", "n1")), request={"memory": 1})) == [0]


def test_a_share_closes_an_exclusive_device() -> None:
    held = b.held("h", b.result("gpu", "gpu-0", "n1", share_id=b.share_id(1)))
    assert free(problem(b.gpu_slice("n1", count=1), held)) == [0]


def counted(*names: str, budget: int = 4) -> list[b.SnapshotObject]:
    devices = (b.device(name, consumes={"set": {"slots": 1}}) for name in names)
    return [
        b.resource_slice("n1", *devices, slice_count=2),
        b.resource_slice("n1", slice_count=2, counter_sets={"set": {"slots": budget}}),
    ]


def test_used_devices_draw_on_their_counters() -> None:
    held = b.held("h", b.result("gpu", "d0", "n1"), b.result("gpu", "d1", "n1"))
    assert problem(counted("d0", "d1", "d2"), held).available.states[0][0] == 2


def test_a_shared_device_draws_once() -> None:
    card = b.device("d0", is_shareable=True, consumes={"set": {"slots": 1}})
    slices = [
        b.resource_slice("n1", card, slice_count=2),
        b.resource_slice("n1", slice_count=2, counter_sets={"set": {"slots": 4}}),
    ]
    held = [b.held(f"h{i}", b.result("gpu", "d0", "n1", share_id=b.share_id(i))) for i in range(3)]
    assert problem(slices, held).available.states[0][0] == 3


def test_a_used_device_that_is_published_no_more_blocks_its_pool_s_counters() -> None:
    assert problem(counted("d0"), b.held("h", b.result("gpu", "gone", "n1"))).available.states[0][0] == 0


def test_devices_of_the_cluster_are_counted_once_for_all_nodes() -> None:
    wide = b.resource_slice("wide", b.device("w0"), b.device("w1"), at=b.scope(all_nodes=True))
    found = problem(wide, b.held("h", b.result("gpu", "w0", "wide")))
    assert found.available.left(0, found.layout.wide_types[0].gate) == 1


def test_budgets_of_the_cluster_are_numbered_apart() -> None:
    wide = b.resource_slice("wide", b.device("w0"), at=b.scope(all_nodes=True))
    assert problem(wide).layout.wide_types[0].gate >= GLOBAL


WHOLE: tuple[tuple[str, list[Claim], list[bool]], ...] = (
    ("nothing is in use", [], [True, False]),
    ("a device is in use", [b.held("h", b.result("gpu", "gpu-0", "n1"))], [False, False]),
    ("an administrator looks", [b.held("h", b.result("gpu", "gpu-0", "n1", is_admin=True))], [True, False]),
)


@pytest.mark.parametrize(("held", "whole"), [row[1:] for row in WHOLE], ids=[row[0] for row in WHOLE])
def test_nodes_with_devices_none_of_them_in_use_are_whole(held: list[Claim], whole: list[bool]) -> None:
    assert problem(b.gpu_slice("n1"), held).available.is_unused.tolist() == whole


def test_running_pods_take_room() -> None:
    running = [b.pod(f"r{index}", node_name="n1", cpu=3, memory="1Gi") for index in range(2)]
    room = problem(running).available.room
    assert (room.of("cpu").tolist(), room.of("pods").tolist()) == ([58_000, 64_000], [108, 110])


def test_a_resource_that_no_node_publishes_is_nowhere() -> None:
    assert problem().available.room.of("example.com/x").tolist() == [0, 0]


def test_a_pod_on_a_node_that_is_gone_takes_nothing() -> None:
    assert problem(b.pod("r", node_name="gone", cpu=3)).available.room.of("cpu").tolist() == [64_000, 64_000]


def test_a_claim_that_is_allocated_is_not_demanded() -> None:
    given = b.claim("c", allocation=b.allocation())
    found = s.problem(NODES, GPU, given, pods=[b.pod("p", "c")])
    assert (found.requests.demands, found.requests.claims[ClaimId(b.NAMESPACE, "c")]) == ((), given)
