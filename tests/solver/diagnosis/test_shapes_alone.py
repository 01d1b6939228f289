"""Shapes that differ in their price alone are tried once, and each where it could be better than the others."""

import pytest

from solver.diagnosis.added_nodes import nodes_to_add
from solver.domain import Batch, Budget, NodeLimit, NodeShape, Policy
from solver.model import node_prices
from solver.problem.problem import Problem
from tests.support import builders as b


def shape(name: str, price: int, *, devices: int = 4, cpu: int = 32, most: int | None = None) -> NodeShape:
    node = b.node(f"of-{name}", cpu=cpu, labels={"zone": name})
    return NodeShape(name=name, node=node, slices=(b.gpu_slice(f"of-{name}", count=devices),), price=price, most=most)


def tried(
    monkeypatch: pytest.MonkeyPatch, *shapes: NodeShape, zone: str = "", limits: tuple[NodeLimit, ...] = ()
) -> list[str]:
    """Ask for six pods of two devices, and return the shapes that are tried alone."""
    found: list[list[int]] = []
    worth_alone = node_prices.worth_alone

    def noting(problem: Problem, count: int) -> list[int]:
        found.append(worth_alone(problem, count))
        return found[-1]

    monkeypatch.setattr(node_prices, "worth_alone", noting)
    claims = [b.claim(f"c{number}", b.request(count=2)) for number in range(6)]
    chosen = [{"zone": zone} if zone else {}, *[{}] * 5]
    pods = [b.pod(f"p{number}", f"c{number}", cpu=2, node_selector=chosen[number]) for number in range(6)]
    snapshot, budget = b.snapshot(claims, b.gpu_class()), Budget(seconds=60.0, deterministic_seconds=4.0)
    nodes_to_add(snapshot, Batch(pods=tuple(pods)), Policy(), shapes, budget, limits=limits)
    return [shapes[number].name for number in found[0]]


def test_of_equal_shapes_the_cheapest_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, shape("a", 3), shape("b", 2), shape("c", 2)) == ["b"]


def test_shapes_with_other_devices_or_room_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, shape("a", 3), shape("b", 2, devices=8), shape("c", 2, cpu=16)) == ["a", "b", "c"]


def test_a_dearer_shape_of_which_more_can_be_had_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, shape("a", 3), shape("b", 2, most=1)) == ["a", "b"]


def test_shapes_between_which_a_pod_chooses_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried(monkeypatch, shape("a", 3), shape("b", 2), shape("c", 4), zone="a") == ["a", "b"]


def test_shapes_with_limits_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = NodeLimit(owner="p", resource="nodes", limit="1", left=1, sizes=(("b", 1),))
    assert tried(monkeypatch, shape("a", 3), shape("b", 2), limits=(limit,)) == ["a", "b"]
