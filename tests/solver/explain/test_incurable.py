"""What no node can cure is said on all members of a gang, and what a node could cure is not."""

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import Budget, Node, NodeSelector, NodeSelectorTerm, Plan, Pod, Policy, ReasonCode
from solver.explain.incurable import contradiction
from tests.support import builders as b
from tests.support import volume_builders as v

COMPLETE = Policy(shapes_are_complete=True)
HAS_A, HAS_B = b.requirement("a", "Exists"), b.requirement("b", "Exists")
ZONE = "topology.kubernetes.io/zone"


def decided(*pods: Pod, minimum: int, objects: tuple[object, ...] = (), policy: Policy = Policy()) -> Plan:  # noqa: B008 -- frozen
    snapshot = b.snapshot(b.node("n1", cpu=4), b.gpu_slice("n1", count=2), b.gpu_class(), *objects)  # type: ignore[arg-type] # any object
    members = tuple(b.member(pod, "g") for pod in pods)
    return solve(
        snapshot, b.batch(*members, gangs=[b.gang("g", minimum, members=len(pods))]), policy, Budget.unbounded()
    )


def codes(plan: Plan) -> dict[str, set[ReasonCode]]:
    return {each.pod.name: {reason.code for reason in each.reasons} for each in plan.unplaced}


def test_a_member_whose_claim_is_another_pod_s_is_said_on_all_members() -> None:
    foreign = replace(b.claim("c"), owner_pod_uid="uid-of-another")
    bad = replace(b.pod("bad", cpu=1), claims=(b.entry("c", template="t"),))

    found = decided(b.pod("good", cpu=1), bad, minimum=2, objects=(foreign,))

    assert all(ReasonCode.GANG_BLOCKED in each for each in codes(found).values())
    assert ReasonCode.CLAIM_NOT_OWNED in codes(found)["bad"]
    (message,) = (
        each.message for unplaced in found.unplaced if unplaced.pod.name == "good" for each in unplaced.reasons[:1]
    )
    assert message.startswith("gang g cannot start, whatever nodes come: pod bad: ")


def test_a_member_that_lacks_room_blocks_no_one() -> None:
    """A node could come with it: the members stay Unschedulable."""
    found = decided(b.pod("good", cpu=1), b.pod("big", cpu=64), minimum=2)
    assert found.unplaced
    assert all(ReasonCode.GANG_BLOCKED not in each for each in codes(found).values())


def test_a_gang_that_does_without_the_member_is_not_blocked() -> None:
    bad = b.pod("bad", "missing", cpu=1)
    found = decided(b.pod("one", cpu=1), b.pod("two", cpu=1), bad, minimum=2)
    assert [each.pod.name for each in found.placements] == ["one", "two"]
    assert all(ReasonCode.GANG_BLOCKED not in each for each in codes(found).values())


def test_with_all_shapes_known_a_member_that_fits_on_none_blocks_its_gang() -> None:
    big = b.pod("big", cpu=64)
    found = decided(b.pod("good", cpu=1), big, minimum=2, policy=COMPLETE)
    assert ReasonCode.NO_SHAPE in codes(found)["big"]
    assert ReasonCode.GANG_BLOCKED in codes(found)["good"]


@pytest.mark.parametrize(
    ("node", "pod", "helps"),
    [
        (b.node("n2", cpu=64), b.pod("p", cpu=32), True),
        (b.node("n2", cpu=64, is_unschedulable=True), b.pod("p", cpu=32), True),
        (b.node("n2", cpu=64, taints=(b.taint("karpenter.sh/disrupted"),)), b.pod("p", cpu=32), True),
        (b.node("n2", cpu=64, taints=(b.taint("team"),)), b.pod("p", cpu=32), False),
        (b.node("n2", cpu=64, labels={"a": "x"}), b.pod("p", cpu=32, node_selector={"a": "y"}), False),
        (b.node("n2", cpu=64, labels={"a": "x"}), b.pod("p", cpu=32, node_selector={"a": "x"}), True),
    ],
)
def test_a_node_that_is_full_cordoned_or_going_shows_its_shape(node: Node, pod: Pod, helps: bool) -> None:  # noqa: FBT001
    full = b.pod("full", node_name="n2", cpu=60)
    snapshot = b.snapshot(b.node("n1", cpu=4), node, full)
    (waiting,) = solve(snapshot, b.batch(pod), COMPLETE, Budget.unbounded()).unplaced
    assert (ReasonCode.NO_SHAPE in {each.code for each in waiting.reasons}) is not helps


@pytest.mark.parametrize(
    ("selector", "affinity", "label"),
    [
        ({"a": "x"}, b.node_selector(a="y"), "a"),
        ({"a": "x"}, b.node_selector(a="x"), ""),
        (
            {},
            NodeSelector(terms=(b.expressions(b.requirement("a", "Exists"), b.requirement("a", "DoesNotExist")),)),
            "a",
        ),
        ({"a": "x"}, NodeSelector(terms=(b.expressions(b.requirement("a", "NotIn", "x")),)), "a"),
        ({"a": "x"}, NodeSelector(terms=(b.expressions(b.requirement("a", "NotIn", "z")),)), ""),
        (
            {"a": "x"},
            NodeSelector(
                terms=(b.expressions(b.requirement("a", "In", "y")), b.expressions(b.requirement("b", "Exists")))
            ),
            "",
        ),
        ({"a": "x"}, NodeSelector(terms=(NodeSelectorTerm(),)), ""),
    ],
)
def test_a_contradiction_is_one_only_where_no_label_can_do(
    selector: dict[str, str], affinity: NodeSelector, label: str
) -> None:
    found = contradiction(b.pod("p", node_selector=selector, affinity=affinity), b.snapshot())
    assert (f"label {label} " in found) if label else not found


def test_a_volume_in_another_zone_than_the_pod_selects_is_a_contradiction() -> None:
    claim = v.volume_claim("data", bound="pv")
    volume = replace(v.volume("pv", claim=claim), node_affinity=v.on_nodes("a", key=ZONE))
    snapshot = v.with_storage(b.snapshot(), claim, volume)
    pod = v.using(b.pod("p", node_selector={ZONE: "b"}), "data")
    assert f"label {ZONE} " in contradiction(pod, snapshot)
    assert not contradiction(v.using(b.pod("p", node_selector={ZONE: "a"}), "data"), snapshot)


def test_a_gang_that_fits_in_no_domain_says_so() -> None:
    nodes = [b.node(f"n{rack}", cpu=2, labels={"rack": rack}) for rack in "xyz"]
    pods = [b.member(b.pod(f"p{number}", cpu=2), "g") for number in range(2)]
    gang = b.gang("g", 2, b.by_label("rack"), members=2)
    (first, _) = solve(b.snapshot(nodes), b.batch(*pods, gangs=[gang]), Policy(), Budget.unbounded()).unplaced
    told = "they fit, and not in one label rack: a new node helps there only, which autoscalers do not look at"
    assert told in first.reasons[0].message


def test_a_class_that_is_missing_blocks_the_whole_gang_and_no_member_is_only_unschedulable() -> None:
    found = decided(
        b.pod("good", cpu=1), b.pod("bad", "c"), minimum=2, objects=(b.claim("c", b.request("r", "absent")),)
    )
    assert all(ReasonCode.GANG_BLOCKED in each for each in codes(found).values())


def test_what_one_member_has_of_another_does_not_count_twice() -> None:
    """One of four has a volume that is gone; two of the others lack room: three are enough, so that nodes help."""
    claim = v.volume_claim("data", bound="gone")
    pods = [v.using(b.pod("lost", cpu=1), "data"), *(b.pod(f"p{number}", cpu=3) for number in range(3))]
    members = [b.member(pod, "g") for pod in pods]
    snapshot = v.with_storage(b.snapshot(b.node("n1", cpu=4)), claim)
    plan = solve(snapshot, b.batch(*members, gangs=[b.gang("g", 3, members=4)]), Policy(), Budget.unbounded())
    assert len(plan.unplaced) == 4
    assert all(ReasonCode.GANG_BLOCKED not in each for each in codes(plan).values())
