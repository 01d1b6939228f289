"""Reasons against a node, in kube-scheduler's words."""

import pytest
from msgspec.structs import replace

from solver.domain import Node, NodeSelector, Pod, ReasonCode
from solver.rules.node_fit import values as node_fit
from tests.support import builders as b

ELSEWHERE = (
    "node(s) cannot use a claim that is allocated elsewhere; hint: all consumers of a claim run where its devices are, "
    "and a resourceClaimTemplateName gives each pod its own claim"
)
AFFINITY_MESSAGE = "node(s) didn't match Pod's node affinity/selector"
CORDONED = b.node("n1", is_unschedulable=True)
TAINTED = b.node("n1", taints=(b.taint("soft", effect="PreferNoSchedule"), b.taint("gpu", "only")))
IN_A = b.node("n1", labels={"zone": "a"})


def objection(pod: Pod, node: Node, *claim_selectors: NodeSelector) -> tuple[ReasonCode, str, int] | None:
    claims = [
        b.claim(f"c{index}", allocation=b.allocation(selector=each)) for index, each in enumerate(claim_selectors)
    ]
    using = replace(pod, claims=b.pod("p", *(each.id.name for each in claims)).claims)
    demand = node_fit.demand_of(using, {each.id: each for each in claims})
    found = node_fit.objection(demand, node, dict(node.labels))
    return None if found is None else (found.code, found.message, found.node_count)


REFUSED: tuple[tuple[str, Pod, Node, tuple[NodeSelector, ...], ReasonCode, str], ...] = (
    ("a cordon", b.pod("p"), CORDONED, (), ReasonCode.NODE_UNSCHEDULABLE, "node(s) were unschedulable"),
    ("a taint", b.pod("p"), TAINTED, (), ReasonCode.NODE_TAINT, "node(s) had untolerated taint {gpu: only}"),
    (
        "a nodeSelector",
        b.pod("p", node_selector={"zone": "b"}),
        IN_A,
        (),
        ReasonCode.NODE_AFFINITY,
        AFFINITY_MESSAGE,
    ),
    (
        "a required affinity",
        b.pod("p", affinity=b.node_selector(zone="b")),
        IN_A,
        (),
        ReasonCode.NODE_AFFINITY,
        AFFINITY_MESSAGE,
    ),
    (
        "an affinity without terms",
        b.pod("p", affinity=NodeSelector()),
        IN_A,
        (),
        ReasonCode.NODE_AFFINITY,
        AFFINITY_MESSAGE,
    ),
    (
        "a feature that it does not declare",
        replace(b.pod("p"), required_features=("One", "Two")),
        replace(b.node("n1"), declared_features=("Two",)),
        (),
        ReasonCode.NODE_FEATURES,
        "node(s) didn't match Pod's required features",
    ),
    (
        "a claim that is allocated elsewhere",
        b.pod("p"),
        IN_A,
        (b.on_node("n1"), b.on_node("n2")),
        ReasonCode.CLAIM_ELSEWHERE,
        ELSEWHERE,
    ),
)


@pytest.mark.parametrize(
    ("pod", "node", "selectors", "code", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_node_is_refused(
    pod: Pod, node: Node, selectors: tuple[NodeSelector, ...], code: ReasonCode, message: str
) -> None:
    assert objection(pod, node, *selectors) == (code, message, 1)


FITTING: tuple[tuple[str, Pod, Node, tuple[NodeSelector, ...]], ...] = (
    ("a plain node", b.pod("p"), IN_A, ()),
    (
        "a cordon that is tolerated",
        b.pod("p", tolerations=(b.toleration("node.kubernetes.io/unschedulable"),)),
        CORDONED,
        (),
    ),
    ("a cordon under a toleration of everything", b.pod("p", tolerations=(b.toleration(),)), CORDONED, ()),
    ("a taint that is tolerated", b.pod("p", tolerations=(b.toleration("gpu", "Equal", "only"),)), TAINTED, ()),
    ("a nodeSelector that holds", b.pod("p", node_selector={"zone": "a"}), IN_A, ()),
    ("an affinity by name", b.pod("p", affinity=b.on_node("n1")), IN_A, ()),
    ("claims that can be used here", b.pod("p"), IN_A, (b.on_node("n1"), b.node_selector(zone="a"))),
)


@pytest.mark.parametrize(("pod", "node", "selectors"), [row[1:] for row in FITTING], ids=[row[0] for row in FITTING])
def test_a_node_is_accepted(pod: Pod, node: Node, selectors: tuple[NodeSelector, ...]) -> None:
    assert objection(pod, node, *selectors) is None


def test_the_first_hurdle_is_the_reason() -> None:
    node = b.node("n1", is_unschedulable=True, taints=(b.taint("gpu"),))
    found = objection(b.pod("p", node_selector={"zone": "b"}), node)
    assert found is not None
    assert found[0] is ReasonCode.NODE_UNSCHEDULABLE


@pytest.mark.parametrize(
    ("resource", "message"),
    [("cpu", "Insufficient cpu"), ("example.com/gpu", "Insufficient example.com/gpu"), ("pods", "Too many pods")],
)
def test_what_runs_out_is_named(resource: str, message: str) -> None:
    assert node_fit.insufficient(resource).message == message


def test_equal_pods_make_equal_demands() -> None:
    first, second = (b.pod(name, node_selector={"zone": "a"}, cpu=cpu) for name, cpu in (("a", 1), ("b", 2)))
    assert node_fit.demand_of(first, {}) == node_fit.demand_of(second, {})
