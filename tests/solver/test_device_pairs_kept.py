"""Pods that need a GPU alone leave those beside network cards to pods that need both, behind one PCIe root."""

from typing import Any

import pytest

from solver import verify
from solver.domain import SPREAD, Plan, Pod, Policy
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "resource.kubernetes.io/pcieRoot"
CARD_DRIVER = "nic.example.com"
CLASSES = [b.gpu_class(), b.device_class("card", driver=CARD_DRIVER)]


def node(name: str, gpus: str, cards: str) -> list[Any]:
    """Make a node with a GPU or a card behind the root of each letter, named in this order."""
    return [
        b.node(name),
        b.resource_slice(name, *(b.device(f"g{i}", attributes={ROOT: root}) for i, root in enumerate(gpus))),
        b.resource_slice(
            name, *(b.device(f"c{i}", attributes={ROOT: root}) for i, root in enumerate(cards)), driver=CARD_DRIVER
        ),
    ]


def single(name: str) -> list[Any]:
    return [b.claim(name, b.request())]


def pair(name: str) -> list[Any]:
    return [b.claim(name, b.request("gpu"), b.request("card", "card"), constraints=(b.match(ROOT),))]


def planned(*objects: Any, pods: list[Pod], policy: Policy | None = None) -> Plan:
    found = s.plan(*objects, pods=pods, policy=policy or Policy())
    assert verify.check(b.snapshot(*objects), b.batch(*pods), found, policy or Policy()) == ()
    return found


def given(plan: Plan) -> list[str]:
    return sorted(
        f"{each.device.pool}/{each.device.device}" for made in plan.allocations for each in made.allocation.results
    )


@pytest.mark.parametrize("policy", [Policy(), Policy(name="spread", levels=SPREAD)], ids=["pack", "spread"])
def test_a_gpu_alone_is_taken_where_no_card_is(policy: Policy) -> None:
    assert given(planned(CLASSES, node("n", "abc", "ab"), single("x"), pods=[b.pod("p", "x")], policy=policy)) == [
        "n/g2"
    ]


def test_a_card_alone_is_taken_where_no_gpu_is() -> None:
    alone = b.claim("x", b.request("card", "card"))
    assert given(planned(CLASSES, node("n", "ab", "abc"), alone, pods=[b.pod("p", "x")])) == ["n/c2"]


def test_one_gpu_of_each_root_is_taken_before_the_last_of_one() -> None:
    claims, pods = [*single("x"), *single("y")], [b.pod("p", "x"), b.pod("q", "y")]
    assert given(planned(CLASSES, node("n", "aabb", "ab"), claims, pods=pods)) == ["n/g0", "n/g2"]


def test_the_gpu_whose_card_is_taken_goes_first() -> None:
    used = b.held("h", b.result("r", "c1", "n", driver=CARD_DRIVER), node_name="n")
    assert given(planned(CLASSES, node("n", "ab", "ab"), used, single("x"), pods=[b.pod("p", "x")])) == ["n/g1"]


def test_a_batch_of_single_gpus_leaves_every_pair_that_it_can() -> None:
    """Two nodes have to be opened for six GPUs: three of each leave all four cards a GPU, four and two only three."""
    claims = [each for i in range(6) for each in single(f"x{i}")]
    nodes = [*node("n", "aabbc", "ab"), *node("m", "aabbc", "ab")]
    plan = planned(CLASSES, nodes, claims, pods=[b.pod(f"p{i}", f"x{i}") for i in range(6)])
    held = b.held("h", *(result for made in plan.allocations for result in made.allocation.results), node_name="n")
    pairs = [each for i in range(4) for each in pair(f"y{i}")]
    after = planned(CLASSES, nodes, held, pairs, pods=[b.pod(f"q{i}", f"y{i}") for i in range(4)])
    assert len(after.placements) == 4


def test_a_pair_is_not_kept_from_opening_fewer_nodes() -> None:
    """What is left of a node in use goes first, though a card stays without a GPU."""
    used = b.held("h", b.result("r", "g1", "n"), node_name="n")
    nodes = [*node("n", "ab", "a"), *node("m", "ab", "a")]
    assert given(planned(CLASSES, nodes, used, single("x"), pods=[b.pod("p", "x")])) == ["n/g0"]
