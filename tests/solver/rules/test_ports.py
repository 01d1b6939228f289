"""Host ports in a solve: where pods go, and the reasons of pods that wait."""

import pytest

from solver.domain import EVERY_PORT, ReasonCode
from solver.rules.ports import batch as ports_batch
from tests.support import builders as b
from tests.support.neighbour_builders import neighbour, port, zoned
from tests.support.neighbour_plans import TWO, placed, said


def test_a_host_port_goes_to_one_pod_of_a_node() -> None:
    pods = [neighbour(f"p{i}", ports=[port(80)]) for i in range(3)]

    assert sorted(placed(b.snapshot(TWO), *pods).values()) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("running", "asked", "fits"),
    [
        pytest.param(port(80), port(80), False, id="same"),
        pytest.param(port(80), port(81), True, id="other number"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="other protocol"),
        pytest.param(port(80, "10.0.0.1"), port(80), False, id="every address asked"),
        pytest.param(port(80), port(80, "10.0.0.1"), False, id="every address taken"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), True, id="other address"),
    ],
)
def test_a_host_port_that_a_running_pod_has(running: object, asked: object, *, fits: bool) -> None:
    one = b.snapshot(zoned("n1"), neighbour("old", on="n1", ports=[running]))  # type: ignore[list-item]
    new = neighbour("new", ports=[asked])  # type: ignore[list-item]

    assert bool(placed(one, new)) == fits
    if not fits:
        message = "node(s) didn't have free ports for the requested pod ports"
        assert said(one, new) == {"new": [(ReasonCode.NODE_PORTS, message, 1)]}


def test_beside_a_pod_whose_ports_cannot_be_known_no_port_is_had() -> None:
    one = b.snapshot(zoned("n1"), neighbour("old", on="n1", ports=[EVERY_PORT]))

    assert placed(one, neighbour("new", ports=[port(80)])) == {}
    assert placed(one, neighbour("new")) == {"new": "n1"}


def test_ports_that_the_same_pods_take_are_looked_at_once() -> None:
    many = tuple(port(number) for number in range(1, 201))
    asked = [(0, many), (1, many), (2, (port(300),)), (3, (port(1, protocol="UDP"),))]
    found = list(ports_batch.limits(asked, dict.fromkeys(range(4), 1), 2))

    assert [each.takes for each in found] == [{0: 1, 1: 1}]
    assert found[0].left == (1, 1)


def test_two_pods_of_one_class_keep_apart_by_their_ports() -> None:
    found = list(ports_batch.limits([(0, (port(1), port(2)))], {0: 2}, 2))

    assert [each.takes for each in found] == [{0: 1}]


def test_a_port_on_every_address_keeps_off_all_others_and_those_share_a_node() -> None:
    pods = [
        neighbour("every", ports=[port(80)]),
        neighbour("one", ports=[port(80, "10.0.0.1")]),
        neighbour("two", ports=[port(80, "10.0.0.2")]),
    ]

    found = placed(b.snapshot(TWO), *pods)

    assert len(found) == 3
    assert found["one"] == found["two"] != found["every"]
