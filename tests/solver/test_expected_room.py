"""The level `expected-room`: pods leave the room that expected pods need."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from solver import SolverCache, solution, solve
from solver.arrays import Amounts, Floats
from solver.domain import EXPECTED_ROOM, SPREAD, Claim, ExpectedPod, Policy
from solver.problem.expected_room import ExpectedRoom, ExpectedTable
from solver.problem.problem import Problem
from solver.problem.requests.expected_kinds import ExpectedKindsCache
from solver.search import exhaustive, node_ways
from solver.solution import NodeUse, ServedComponents
from tests.support import builders as b
from tests.support import solver_problems as s


def expecting(*kinds: ExpectedPod) -> Policy:
    return Policy(expected=kinds)


def kind(*, share: int = 1000, count: int = 1, cpu: int = 0, selector: str = "", milli: int = 0) -> ExpectedPod:
    capacity = {"milli": milli} if milli else None
    asked = b.request("gpu", count=count, selectors=(selector,) if selector else (), capacity=capacity)
    return ExpectedPod(share=share, requests=(("cpu", 1000 * cpu),) if cpu else (), device_requests=(asked,))


def in_use(node: str, count: int) -> list[Claim]:
    return [b.held(f"of-{node}-{at}", b.result("gpu", f"gpu-{at}", node), node_name=node) for at in range(count)]


def two_nodes(cpu: Mapping[str, int] | None = None, **used: int) -> tuple[b.SnapshotObject, ...]:
    """Two nodes of four devices each, of which some are in use."""
    nodes = [b.node(each, cpu=(cpu or {}).get(each, 64)) for each in used]
    slices = [b.gpu_slice(each, count=4) for each in used]
    held = [claim for each, count in used.items() for claim in in_use(each, count)]
    return (*nodes, *slices, b.gpu_class(), *held)


def values(policy: Policy, *objects: s.Objects) -> dict[str, int]:
    decided = s.plan(*objects, pods=[b.pod("p", "c", cpu=4)], policy=policy)
    return {each.name: each.value for each in decided.report.levels}


def test_a_pod_leaves_the_devices_that_others_need_together() -> None:
    objects = (*two_nodes(n1=2, n2=3), b.claim("c"))
    assert s.nodes_of(s.plan(*objects, pods=[b.pod("p", "c")], policy=expecting(kind(count=2)))) == {"p": "n2"}
    assert s.nodes_of(s.plan(*objects, pods=[b.pod("p", "c")], policy=expecting(kind(count=1)))) == {"p": "n1"}


def test_it_leaves_the_cpu_that_others_need_beside_devices() -> None:
    objects = (*two_nodes({"n1": 9, "n2": 63}, n1=1, n2=1), b.claim("c"))
    assert s.nodes_of(s.plan(*objects, pods=[b.pod("p", "c", cpu=4)], policy=expecting(kind(cpu=8)))) == {"p": "n2"}
    assert s.nodes_of(s.plan(*objects, pods=[b.pod("p", "c", cpu=4)], policy=expecting(kind(cpu=60)))) == {"p": "n1"}


def test_it_leaves_the_devices_that_selectors_of_others_accept() -> None:
    nodes = (b.node("n1"), b.node("n2"), b.gpu_slice("n1", model="A"), b.gpu_slice("n2", model="B"), b.gpu_class())
    for model, node in (("A", "n2"), ("B", "n1")):
        policy = expecting(kind(selector=f"device.attributes['gpu.example.com'].model == '{model}'"))
        assert s.nodes_of(s.plan(*nodes, b.claim("c"), pods=[b.pod("p", "c")], policy=policy)) == {"p": node}


def test_to_take_the_last_place_of_a_kind_on_a_node_is_worse_than_one_of_many() -> None:
    shareable = [b.device("gpu-0", capacities={"milli": 1000}, is_shareable=True)]
    taken = [
        b.held(
            f"of-{node}",
            b.result("gpu", "gpu-0", node, share_id=b.share_id(at), consumed={"milli": used}),
            node_name=node,
        )
        for at, (node, used) in enumerate((("n1", 500), ("n2", 400)))
    ]
    nodes = [each for node in ("n1", "n2") for each in (b.node(node), b.resource_slice(node, *shareable))]
    claim = b.claim("c", b.request("gpu", capacity={"milli": 300}))
    decided = s.plan(*nodes, *taken, claim, b.gpu_class(), pods=[b.pod("p", "c")], policy=expecting(kind(milli=300)))
    assert s.nodes_of(decided) == {"p": "n2"}


def test_the_value_is_what_is_lost_by_share_and_devices() -> None:
    policy = expecting(kind(share=700, count=2), kind(share=300, cpu=61))
    lost = values(policy, *two_nodes({"n1": 64}, n1=2), b.claim("c"))
    dear = 20_000
    assert lost[EXPECTED_ROOM] == -dear * (1 + 4) - dear * 300 // (700 * 2) * (1 + 4)


def test_a_place_is_worth_more_where_few_nodes_have_one() -> None:
    """Nodes n1 and n2 have room for small pods, n3 alone for those of four devices."""
    policy = expecting(kind(share=960, count=1), kind(share=100, count=4))
    objects = (*two_nodes(n1=3, n2=2, n3=0), b.claim("c"))
    # n1 loses its last place, 5/3 of 960; n2 loses 1/3, and n3 beside it 5 times 400, the only place for four devices.
    assert s.nodes_of(s.plan(*objects, pods=[b.pod("p", "c")], policy=policy)) == {"p": "n2"}
    full = (*two_nodes(n1=3, n3=0), b.claim("c"))
    assert s.nodes_of(s.plan(*full, pods=[b.pod("p", "c")], policy=policy)) == {"p": "n1"}
    # With a second empty node a place for four is worth half.
    more = (*two_nodes(n1=3, n3=0, n4=0), b.claim("c"))
    assert s.nodes_of(s.plan(*more, pods=[b.pod("p", "c")], policy=policy)) == {"p": "n3"}


def test_pods_of_a_batch_leave_together_what_others_need() -> None:
    objects = (*two_nodes(n1=2, n2=2), b.claim("c"), b.claim("d"))
    pods = [b.pod("p", "c"), b.pod("q", "d")]
    decided = s.plan(*objects, pods=pods, policy=expecting(kind(count=2)))
    assert len(set(s.nodes_of(decided).values())) == 1
    assert all(level.proven for level in decided.report.levels)


def test_without_anything_that_is_expected_there_is_no_such_level() -> None:
    unknown = ExpectedPod(share=1000, device_requests=(b.request("gpu", "no-such-class"),))
    unreadable = kind(selector="device.attributes[")
    unmatched = msgspec.structs.replace(kind(count=2), constraints=(b.match("index"),))
    for policy in (Policy(), *map(expecting, (unknown, unreadable, unmatched, kind(share=0), kind(count=0)))):
        assert EXPECTED_ROOM not in values(policy, *two_nodes(n1=1), b.claim("c"))


def test_pods_without_devices_do_not_ask_for_it() -> None:
    decided = s.plan(*two_nodes(n1=1), pods=[b.pod("p", cpu=1)], policy=expecting(kind()))
    assert EXPECTED_ROOM not in {level.name for level in decided.report.levels}


PLAIN = [b.pod("p", cpu=4)]
NARROW = two_nodes({"n1": 7, "n2": 8}, n1=1, n2=1)
"""Four of cpu are a larger share of n1, where an expected pod with 8 has no place."""


def test_pods_without_devices_leave_the_room_of_expected_ones() -> None:
    assert s.nodes_of(s.plan(*NARROW, pods=PLAIN)) == {"p": "n2"}
    assert s.nodes_of(s.plan(*NARROW, pods=PLAIN, policy=expecting(kind(cpu=8)))) == {"p": "n1"}
    assert s.nodes_of(s.plan(*NARROW, pods=PLAIN, policy=expecting(kind(cpu=9)))) == {"p": "n2"}


def test_they_leave_it_also_beside_pods_with_devices() -> None:
    with_device = b.pod("q", "c", node_selector={"kubernetes.io/hostname": "n2"})
    decided = s.plan(*NARROW, b.claim("c"), pods=[*PLAIN, with_device], policy=expecting(kind(cpu=8)))
    assert s.nodes_of(decided) == {"p": "n1", "q": "n2"}


def test_the_weight_of_nodes_free_of_devices_turns_it_off() -> None:
    weights = msgspec.structs.replace(Policy().weights, free_of_devices=0)
    policy = msgspec.structs.replace(expecting(kind(cpu=8)), weights=weights)
    assert s.nodes_of(s.plan(*NARROW, pods=PLAIN, policy=policy)) == {"p": "n2"}


def test_the_scores_beside_a_claim_that_pods_share() -> None:
    """Their problem has the pods without devices alone."""
    nodes = (b.node("n1", cpu=3), b.node("n2", cpu=3), b.resource_slice("n1", b.device("gpu-0")), b.gpu_class())
    pods = [b.pod("p", "c"), b.pod("q", "c"), b.pod("r", cpu=2), b.pod("s", cpu=2)]
    decided = s.plan(*nodes, b.claim("c"), pods=pods, policy=expecting(kind(cpu=1)))
    assert len(decided.placements) == 4
    assert all(level.proven for level in decided.report.levels)


@pytest.mark.parametrize("amount", [2**52, 2**63, 2**80])
def test_more_than_any_node_has_is_expected_in_vain(amount: int) -> None:
    huge = msgspec.structs.replace(kind(), requests=(("memory", amount),))
    assert s.nodes_of(s.plan(*NARROW, pods=PLAIN, policy=expecting(huge))) == {"p": "n2"}


def test_what_is_expected_is_described_once_for_a_policy_and_its_device_classes() -> None:
    cache, policy = ExpectedKindsCache(), expecting(kind(count=2), kind(selector="device.driver == 'gpu.example.com'"))
    found = cache.of(policy, (b.gpu_class(),))
    assert [each.devices for each in found.kinds] == [2000, 1000]
    assert len(found.demands) == len(found.components) == 2
    assert cache.of(msgspec.structs.replace(policy), (b.gpu_class(),)) is found
    assert cache.of(policy, ()).kinds == ()
    assert cache.of(policy, (b.gpu_class(),)) is found
    assert cache.of(Policy(levels=SPREAD, expected=policy.expected), (b.gpu_class(),)).kinds == ()


def test_from_one_pod_to_the_next_only_nodes_that_changed_are_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, fits, fitting = list[int](), ExpectedRoom.fits, ExpectedTable.fitting

    def of_nodes(self: ExpectedRoom, nodes: Amounts, by_devices: Floats) -> Floats:
        counted.append(len(nodes))
        return fits(self, nodes, by_devices)

    def of_node(self: ExpectedTable, by_devices: Sequence[int], free: Sequence[int]) -> list[int]:
        counted.append(1)
        return fitting(self, by_devices, free)

    monkeypatch.setattr(ExpectedRoom, "fits", of_nodes)
    monkeypatch.setattr(ExpectedTable, "fitting", of_node)
    full, open_ = {f"full-{at}": 4 for at in range(30)}, {f"open-{at}": 1 for at in range(5)}
    snapshot = b.snapshot(*two_nodes(None, **full, **open_), b.claim("c"), b.claim("d"))
    policy, cache = expecting(kind(count=2), kind(cpu=8)), SolverCache()
    (first,) = solve(snapshot, b.batch(b.pod("p", "c")), policy, s.PATIENT, cache).placements
    assert counted == [35]
    counted.clear()
    running = msgspec.structs.replace(snapshot, pods=(b.pod("p", "c", node_name=first.node, cpu=4),))
    assert solve(running, b.batch(b.pod("q", "d")), policy, s.PATIENT, cache).placements
    assert counted == [1]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the nodes for which what a way takes of devices is described, from now on."""
    found, describe = list[int](), solution.use_of

    def use(problem: Problem, served: ServedComponents) -> NodeUse:
        found.append(served.node)
        return describe(problem, served)

    monkeypatch.setattr(node_ways, "use_of", use)
    monkeypatch.setattr(solution, "use_of", use)
    return found


def test_what_ways_take_is_described_once_and_kept_to_the_next_pod(used: list[int]) -> None:
    """Three nodes of one group differ in what is in use, and are served in one way each."""
    snapshot = b.snapshot(*two_nodes(n1=1, n2=2, n3=3), b.claim("c"), b.claim("d"))
    policy, cache = expecting(kind(count=2)), SolverCache()
    (first,) = solve(snapshot, b.batch(b.pod("p", "c")), policy, s.PATIENT, cache).placements
    assert used == [0]
    held = b.held("c", b.result("gpu", "gpu-3", first.node), node_name=first.node)
    later = msgspec.structs.replace(snapshot, claims=(*(each for each in snapshot.claims if each.id != held.id), held))
    assert solve(later, b.batch(b.pod("q", "d")), policy, s.PATIENT, cache).placements
    assert used == [0]


def shares(*used: int) -> list[b.SnapshotObject]:
    """A node with a shareable device for each number, of which so much is in use."""
    devices = [b.device(f"gpu-{at}", capacities={"milli": 1000}, is_shareable=True) for at in range(len(used))]
    taken = [
        b.held(
            f"of-{at}",
            b.result("gpu", f"gpu-{at}", "n1", share_id=b.share_id(at), consumed={"milli": amount}),
            node_name="n1",
        )
        for at, amount in enumerate(used)
        if amount
    ]
    return [b.node("n1"), b.resource_slice("n1", *devices), *taken, b.gpu_class()]


@pytest.mark.parametrize(
    ("in_use", "count", "ways"),
    [
        ((0, 0, 0, 0), 1, 1),
        ((0, 0, 400, 400), 1, 2),
        ((0, 400, 0, 500), 1, 3),
        ((0, 0, 400, 400), 2, 3),  # both of the first, both of the last, one of each
        ((300, 0, 0, 0), 2, 2),
        ((0, 0, 0, 800), 3, 1),
    ],
)
def test_devices_that_are_alike_are_one_choice(used: list[int], in_use: tuple[int, ...], count: int, ways: int) -> None:
    claim = b.claim("c", b.request("gpu", count=count, capacity={"milli": 300}))
    for policy in (Policy(), expecting(kind(milli=500))):
        used.clear()
        problem = s.problem(*shares(*in_use), claim, pods=[b.pod("p", "c")], policy=policy)
        assert exhaustive.best(problem, s.PATIENT) is not None
        assert len(used) == ways


@pytest.mark.parametrize(
    ("kinds", "worth"),
    [
        ((kind(share=600, count=1), kind(share=100, count=3)), [20_000, 15_000]),  # 600 / 3 nodes, and 300 / 2
        ((kind(share=600, count=1), kind(share=1, count=4)), [20_000, 400]),
        ((kind(share=1, count=1), kind(share=1000, count=5)), [20_000, 1]),  # five have room nowhere
        ((kind(share=1000, count=9),), [1]),
        ((kind(share=10**30), kind(share=1)), [20_000, 1]),
    ],
)
def test_worth_is_share_and_devices_by_the_nodes_with_room(kinds: tuple[ExpectedPod, ...], worth: list[int]) -> None:
    found = s.problem(
        *two_nodes(n1=2, n2=1, n3=0, n4=4), b.claim("c"), pods=[b.pod("p", "c")], policy=expecting(*kinds)
    )
    assert list(found.requests.worth) == worth
