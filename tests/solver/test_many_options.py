"""Claims with more options than are kept: the only devices that are left are found all the same."""

import pytest

from solver.domain import Claim, DeviceClass, Pod
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "x.io/root"


def kind(number: int) -> str:
    return f"k{number}"


def driver(number: int) -> str:
    return f"k{number}.example.com"


def devices(node: str, counts: list[int], roots: int) -> list[b.SnapshotObject]:
    return [
        b.resource_slice(
            node,
            *(b.device(f"d{each}", attributes={ROOT: f"r{each % roots}"}) for each in range(count)),
            driver=driver(number),
        )
        for number, count in enumerate(counts)
    ]


def taken(node: str, number: int, count: int) -> list[Claim]:
    results = [b.result("gpu", f"d{each}", node, driver=driver(number)) for each in range(count)]
    return [b.held(f"{node}-{number}-{i}", each, node_name=node) for i, each in enumerate(results)]


def asking(requests: int, kinds: int) -> tuple[list[DeviceClass], Claim, Pod]:
    """Each request takes one device of any kind, and all have one root."""
    rows = [
        b.first_available(f"r{each}", *(b.alternative(kind(number), kind(number)) for number in range(kinds)))
        for each in range(requests)
    ]
    classes = [b.device_class(kind(number), driver=driver(number)) for number in range(kinds)]
    return classes, b.claim("c", *rows, constraints=(b.match(ROOT),)), b.pod("p", "c")


@pytest.mark.parametrize(("requests", "kinds", "roots"), [(5, 6, 1), (6, 3, 8), (8, 8, 1)])
def test_only_the_last_alternatives_are_left(requests: int, kinds: int, roots: int) -> None:
    classes, claim, pod = asking(requests, kinds)
    count = requests * roots
    slices = devices("n1", [count] * kinds, roots)
    held = [each for number in range(kinds - 1) for each in taken("n1", number, count)]
    assert s.nodes_of(s.plan(b.node("n1"), slices, classes, held, claim, pods=[pod])) == {"p": "n1"}


def test_the_node_has_enough_devices_of_the_last_alternative_only() -> None:
    classes, claim, pod = asking(5, 6)
    slices = devices("n1", [1, 1, 1, 1, 0, 5], roots=1)
    held = [each for number in range(4) for each in taken("n1", number, 1)]
    assert s.nodes_of(s.plan(b.node("n1"), slices, classes, held, claim, pods=[pod])) == {"p": "n1"}


def test_one_device_of_each_alternative_is_left() -> None:
    classes, claim, pod = asking(6, 6)
    slices = devices("n1", [6] * 6, roots=1)
    held = [each for number in range(6) for each in taken("n1", number, 5)]
    assert s.nodes_of(s.plan(b.node("n1"), slices, classes, held, claim, pods=[pod])) == {"p": "n1"}


def test_one_of_many_nodes_has_devices_left() -> None:
    classes, claim, pod = asking(5, 6)
    nodes = [b.node(f"n{each}") for each in range(30)]
    slices = [each for node in nodes for each in devices(node.name, [5] * 6, roots=1)]
    held = [
        each
        for place, node in enumerate(nodes)
        for number in range(6)
        for each in taken(node.name, number, 5 if number < 5 else 0 if place == 29 else 1 + place % 5)
    ]
    assert s.nodes_of(s.plan(nodes, slices, classes, held, claim, pods=[pod])) == {"p": "n29"}
