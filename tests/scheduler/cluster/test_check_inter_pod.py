"""The check before the first write, as far as other pods are concerned that came in between."""

import pytest
from msgspec.structs import replace

from scheduler.cluster import Cluster
from scheduler.cluster.pod_index import MOST_RECENT_PODS, PodIndex
from solver.domain import EVERY_PORT, Namespace, Pod, ReasonCode
from solver.feasibility.selector_index import LabelMatcher, matched_labels
from tests.support.builders import placement
from tests.support.calls import counted
from tests.support.cluster_builders import cluster_of, gone, seen, unit
from tests.support.neighbour_builders import HOST, ZONE, neighbour, port, requirement, selector, term, zoned

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

    expected = [] if is_free else ["host port 80 (TCP) of node n1 is taken by pod default/other"]
    assert objections(new, since=other) == expected
    assert objections(new, since=neighbour("other", on="n2", ports=[taken])) == []  # type: ignore[list-item]


def test_whose_ports_cannot_be_known_has_taken_each() -> None:
    other = neighbour("other", on="n1", ports=[EVERY_PORT])

    expected = ["host port 80 (TCP) of node n1 is taken by pod default/other"]
    assert objections(neighbour("new", ports=[port(80)]), since=other) == expected
    assert objections(neighbour("new"), since=other) == []


def test_a_port_that_two_pods_of_one_unit_want() -> None:
    pods = [neighbour(f"p{number}", ports=[port(80)]) for number in range(2)]
    cluster = cluster_of(*NODES, *pods)
    planned = unit(*(placement(each, "n1") for each in pods))
    cluster.assume(planned)

    assert [each.message for each in cluster.check(planned)] == [
        "host port 80 (TCP) of node n1 is taken by pod default/p0"
    ]


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


# What many pods of another user may cost


def hostile(index: int, on: str) -> Pod:
    """A pod whose terms look long at pods of every namespace, and mean none of them."""
    absent = [requirement(f"none-{index}-{i}", "DoesNotExist") for i in range(7)]
    terms = [
        term(ZONE, *absent, requirement("app", "In", "web"), requirement(f"none-{index}-{i}", "Exists"), of=selector())
        for i in range(16)
    ]
    return neighbour(f"h{index}", on=on, namespace="lab", anti_affinity=terms)


@pytest.mark.parametrize(("key", "most"), [("nowhere", 0), (HOST, 50), (ZONE, 100)])
def test_terms_of_a_pod_are_put_to_pods_in_its_domains_equal_ones_once(
    key: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = requirement("app", "DoesNotExist")
    terms = [term(key, without, requirement(f"none-{i}", "DoesNotExist")) for i in range(50)]
    new = neighbour("new", anti_affinity=terms)
    cluster = cluster_of(*NODES, new, *(neighbour(f"p{i}", app="web", on="n2") for i in range(100)))
    looked = counted(monkeypatch, LabelMatcher, "holds")
    planned = unit(placement(new, "n1"))
    cluster.assume(planned)
    assert cluster.check(planned) == ()
    assert len(looked) <= most  # of 5,000; it is itself one of those that may keep it away


@pytest.mark.parametrize("on", ["n1", "n2"], ids=["on the node", "recent_pods elsewhere"])
def test_terms_that_demand_what_a_pod_lacks_are_not_looked_at(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [neighbour(f"p{i}", app="web", own=f"{i}") for i in range(5)]
    cluster = cluster_of(*NODES, Namespace(name="lab"), *pods, *(hostile(i, on) for i in range(100)))
    looked = counted(monkeypatch, LabelMatcher, "holds")
    for each in pods:
        planned = unit(placement(each, "n1"))
        cluster.assume(planned)
        assert cluster.check(planned) == ()
    assert len(looked) <= 6 * len(pods)  # of 1600: the first of a kind goes where there is nothing yet


def test_nothing_is_kept_of_pods_that_left_or_lost_their_terms() -> None:
    pod_index = PodIndex()
    old = neighbour("old", on="n1", anti_affinity=[term(ZONE, app="web"), term(HOST, app="web")])
    twin = neighbour("twin", on="n1", anti_affinity=[term(ZONE, app="web")])
    pod_index.replace(old.id, None, old, is_seen=True)
    pod_index.replace(twin.id, None, twin, is_seen=False)
    pod = matched_labels("default", (), [("app", "web")])
    assert set(pod_index.anti_affinity.pods_against("n1", {ZONE}, pod)) == {old.id, twin.id}
    assert list(pod_index.recent_anti_affinity.pods_against("n1", {ZONE}, pod)) == [old.id]

    moved = replace(old, node_name="n2")
    pod_index.replace(old.id, old, moved, is_seen=True)
    assert list(pod_index.anti_affinity.pods_against("n1", {ZONE, HOST}, pod)) == [twin.id]
    assert list(pod_index.recent_anti_affinity.pods_against("n2", {ZONE}, pod)) == [old.id]
    pod_index.replace(old.id, moved, None, is_seen=False)
    pod_index.replace(twin.id, twin, replace(twin, anti_affinity=()), is_seen=False)
    assert (*pod_index.anti_affinity.nodes, *pod_index.recent_anti_affinity.nodes) == ()


def test_the_latest_newcomers_are_remembered() -> None:
    pod_index = PodIndex()
    pods = [neighbour(f"p{i}", on=f"n{i}", anti_affinity=[term(app="web")]) for i in range(MOST_RECENT_PODS + 5)]
    for each in pods:
        pod_index.replace(each.id, None, each, is_seen=True)
    assert set(pod_index.recent_anti_affinity.nodes) == {each.node_name for each in pods[5:]}

    fresh = PodIndex()
    fresh.replace(pods[-1].id, None, pods[-1], is_seen=False)
    fresh.inherit(pod_index)
    fresh.replace(pods[-2].id, None, pods[-2], is_seen=False)
    assert set(fresh.recent_anti_affinity.nodes) == {pods[-1].node_name, pods[-2].node_name}
