"""The check before the first write, as far as other pods are concerned that came in between."""

import pytest

from scheduler.cluster import Cluster
from solver.domain import EVERY_PORT, Namespace, Pod, ReasonCode
from tests.support.builders import placement
from tests.support.cluster_builders import cluster_of, gone, seen, unit
from tests.support.neighbour_builders import HOST, ZONE, neighbour, port, selector, term, zoned

NODES = (zoned("n1", "a"), zoned("n2", "a"), zoned("n3", "b"))


def objections(new: Pod, *before: Pod, since: Pod | None = None, on: str = "n1") -> list[str]:
    """Decide that `new` goes on a node, let something happen, and ask."""
    cluster = cluster_of(*NODES, Namespace(name="lab", labels=(("team", "x"),)), new, *before)
    planned = unit(placement(new, on))
    cluster.assume(planned)
    if since is not None:
        cluster.apply(seen(since))
    found = cluster.check(planned)
    assert {each.code for each in found} <= {ReasonCode.CONFLICT}
    return [each.message for each in found]


def test_nothing_is_said_where_nothing_came_in_between() -> None:
    new = neighbour("new", app="web", ports=[port(80)], anti_affinity=[term(HOST, app="web")])

    assert objections(new) == []


@pytest.mark.parametrize(
    ("taken", "is_free"),
    [(port(80), False), (port(80, "10.0.0.1"), False), (port(81), True), (port(80, protocol="UDP"), True)],
)
def test_a_port_that_was_taken_meanwhile(taken: object, *, is_free: bool) -> None:
    new = neighbour("new", ports=[port(80)])
    other = neighbour("other", on="n1", ports=[taken])  # type: ignore[list-item]

    expected = [] if is_free else ["host port 80 (TCP) of node n1 was taken by pod default/other"]
    assert objections(new, since=other) == expected
    assert objections(new, since=neighbour("other", on="n2", ports=[taken])) == []  # type: ignore[list-item]


def test_whose_ports_cannot_be_known_has_taken_each() -> None:
    other = neighbour("other", on="n1", ports=[EVERY_PORT])

    expected = ["host port 80 (TCP) of node n1 was taken by pod default/other"]
    assert objections(neighbour("new", ports=[port(80)]), since=other) == expected
    assert objections(neighbour("new"), since=other) == []


SAID = "and its anti-affinity or that of pod default/new forbids that"


@pytest.mark.parametrize("key", [HOST, ZONE])
def test_a_pod_that_came_and_that_ours_keeps_away_from(key: str) -> None:
    new = neighbour("new", anti_affinity=[term(key, app="web")])
    where = "n1" if key == HOST else "n2"

    assert objections(new, since=neighbour("other", app="web", on=where)) == [
        f"pod default/other is on node {where}, {SAID}"
    ]
    assert objections(new, since=neighbour("other", app="web", on="n3")) == []
    assert objections(new, since=neighbour("other", app="db", on=where)) == []


def test_a_pod_that_came_and_keeps_away_from_ours() -> None:
    new = neighbour("new", app="web")
    by_label = term(ZONE, namespaces=[], of=selector(team="y"), app="web")

    assert objections(new, since=neighbour("other", on="n2", anti_affinity=[term(ZONE, app="web")])) == [
        f"pod default/other is on node n2, {SAID}"
    ]
    assert objections(new, since=neighbour("other", on="n2", anti_affinity=[by_label])) == []


def test_one_that_left_again_is_no_obstacle() -> None:
    new = neighbour("new", ports=[port(80)], anti_affinity=[term(HOST, app="web")])
    other = neighbour("other", app="web", on="n1", ports=[port(80)])
    cluster: Cluster = cluster_of(*NODES, new, other)
    planned = unit(placement(new, "n1"))
    cluster.assume(planned)
    cluster.apply(gone(other))

    assert cluster.check(planned) == ()


def test_pods_of_one_unit_are_not_held_against_each_other() -> None:
    pods = [neighbour(f"p{i}", app="web", anti_affinity=[term(ZONE, app="web")]) for i in range(2)]
    cluster = cluster_of(*NODES, *pods)
    planned = unit(placement(pods[0], "n1"), placement(pods[1], "n3"))
    cluster.assume(planned)

    assert cluster.check(planned) == ()
