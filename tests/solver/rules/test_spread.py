"""Topology spread in a solve: where pods go, and the reasons of pods that wait."""

from solver.domain import Pod, ReasonCode
from tests.support import builders as b
from tests.support.neighbour_builders import HOST, neighbour, spread, zoned
from tests.support.neighbour_plans import TWO, placed, said


def test_pods_spread_over_zones_at_the_end_of_a_plan() -> None:
    cluster = b.snapshot(zoned("n1", "a"), zoned("n2", "a"), zoned("n3", "b"))
    pods = [neighbour(f"p{i}", app="web", spread=[spread(app="web")]) for i in range(7)]

    found = placed(cluster, *pods)

    in_b = sum(node == "n3" for node in found.values())
    assert len(found) == 7
    assert in_b in {3, 4}


def test_a_full_zone_holds_the_others_back() -> None:
    cluster = b.snapshot(zoned("n1", "a", cpu=1), zoned("n2", "b"))
    pods = [neighbour(f"p{i}", app="web", cpu=1, spread=[spread(app="web")]) for i in range(6)]

    found = placed(cluster, *pods)

    assert sorted(found.values()) == ["n1", "n2", "n2"]
    told = said(cluster, *pods)["p5"]
    assert (ReasonCode.TOPOLOGY_SPREAD, "node(s) didn't match pod topology spread constraints", 1) in told


def test_running_pods_count_and_those_that_are_leaving_do_not() -> None:
    old = [neighbour(f"old-{i}", app="web", on="n1", is_deleting=i > 0) for i in range(5)]
    pods = [neighbour(f"p{i}", app="web", spread=[spread(app="web")]) for i in range(3)]

    found = placed(b.snapshot(TWO, old), *pods)

    assert sorted(found.values()) == ["n1", "n2", "n2"]


def test_too_few_domains_count_as_an_empty_one() -> None:
    cluster = b.snapshot(TWO)
    pods = [neighbour(f"p{i}", app="web", spread=[spread(app="web", domains=3)]) for i in range(4)]

    assert sorted(placed(cluster, *pods).values()) == ["n1", "n2"]


def test_nodes_that_the_pod_cannot_use_are_no_domains_unless_affinity_is_ignored() -> None:
    cluster = b.snapshot(zoned("n1", "a", disk="ssd"), zoned("n2", "b"))
    ssd = {"disk": "ssd"}

    def pods(*, honours: bool) -> list[Pod]:
        rule = [spread(app="web", honours_affinity=honours)]
        return [neighbour(f"p{i}", app="web", node_selector=ssd, spread=rule) for i in range(3)]

    assert len(placed(cluster, *pods(honours=True))) == 3
    assert len(placed(cluster, *pods(honours=False))) == 1


def test_tainted_nodes_are_domains_unless_taints_are_honoured() -> None:
    tainted = b.node("n2", labels={"zone": "b", HOST: "n2"}, taints=[b.taint("gone")])
    cluster = b.snapshot(zoned("n1", "a"), tainted)

    def pods(*, honours: bool) -> list[Pod]:
        return [neighbour(f"p{i}", app="web", spread=[spread(app="web", honours_taints=honours)]) for i in range(3)]

    assert len(placed(cluster, *pods(honours=False))) == 1
    assert len(placed(cluster, *pods(honours=True))) == 3


def test_a_node_without_one_of_the_labels_is_refused_and_counts_nowhere() -> None:
    cluster = b.snapshot(zoned("n1", "a", rack="1"), zoned("n2", "b"))
    rules = [spread(app="web"), spread("rack", 5, app="web")]
    pods = [neighbour(f"p{i}", app="web", spread=rules) for i in range(3)]

    assert placed(cluster, *pods) == dict.fromkeys(("p0", "p1", "p2"), "n1")
    message = "node(s) didn't match pod topology spread constraints (missing required label)"
    causes = [f"topology spread over {key}: no node has a label {key}" for key in ("zone", "rack")]
    reasons = [(ReasonCode.TOPOLOGY_LABEL, message, 1), *((ReasonCode.TOPOLOGY_LABEL, each, 0) for each in causes)]
    assert said(b.snapshot(zoned("n1")), pods[0]) == {"p0": reasons}


def test_other_pods_of_the_batch_count_and_do_not_break_what_was_placed() -> None:
    cluster = b.snapshot(zoned("n1", "a"), zoned("n2", "b", cpu=1))
    bound = neighbour("bound", app="web", cpu=1, spread=[spread(app="web")], node_selector={"zone": "a"})
    free = [neighbour(f"free-{i}", app="web", cpu=1) for i in range(3)]
    constraint = spread(app="web", honours_affinity=False)
    bound = neighbour("bound", app="web", cpu=1, spread=[constraint], node_selector={"zone": "a"})

    found = placed(cluster, bound, *free)

    assert len(found) == 3  # a third in zone a would leave `bound` in a domain with two more than zone b can have


def test_a_selector_without_requirements_counts_no_pod_as_upstream_has_it() -> None:
    pods = [neighbour(f"p{i}", app="web", spread=[spread()], node_selector={"zone": "a"}) for i in range(3)]

    assert len(placed(b.snapshot(TWO), *pods)) == 3
