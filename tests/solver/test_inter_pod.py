"""Rules between pods in a solve: where pods go, and the reasons of pods that wait."""

import pytest

from solver import solve, solve_greedily
from solver.domain import EVERY_PORT, Batch, Namespace, Pod, Policy, ReasonCode, Snapshot
from solver.rules.ports import batch as ports_batch
from solver.verify import check
from tests.support import builders as b
from tests.support.neighbour_builders import HOST, neighbour, port, requirement, selector, spread, term, zoned
from tests.support.solver_problems import PATIENT


def placed(snapshot: Snapshot, *pods: Pod) -> dict[str, str]:
    """Solve, check, and give the node of every pod that was placed."""
    batch = Batch(pods=pods)
    plan = solve(snapshot, batch, Policy(), PATIENT)
    assert check(snapshot, batch, plan) == ()
    return {each.pod.name: each.node for each in plan.placements}


def said(snapshot: Snapshot, *pods: Pod) -> dict[str, list[tuple[ReasonCode, str, int]]]:
    plan = solve(snapshot, Batch(pods=pods), Policy(), PATIENT)
    return {
        each.pod.name: [(reason.code, reason.message, reason.node_count) for reason in each.reasons]
        for each in plan.unplaced
    }


TWO = (zoned("n1", "a"), zoned("n2", "b"))
WEB_APART = {"app": "web", "anti_affinity": [term(app="web")]}


# Host ports


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


# Anti-affinity


def test_replicas_that_keep_apart_get_a_node_each() -> None:
    pods = [neighbour(f"web-{i}", **WEB_APART) for i in range(3)]  # type: ignore[arg-type]

    assert sorted(placed(b.snapshot(TWO), *pods).values()) == ["n1", "n2"]


def test_a_running_pod_keeps_others_away_by_its_own_terms() -> None:
    old = neighbour("old", app="db", on="n1", anti_affinity=[term("zone", app="web")])
    cluster = b.snapshot(TWO, zoned("n3", "a"), old)

    assert placed(cluster, neighbour("new", app="web")) == {"new": "n2"}
    assert set(placed(cluster, *(neighbour(f"w{i}", app="web") for i in range(5))).values()) == {"n2"}


def test_a_new_pod_keeps_away_from_running_ones() -> None:
    cluster = b.snapshot(TWO, neighbour("old", app="web", on="n1"))
    new = neighbour("new", anti_affinity=[term("zone", app="web")])

    assert placed(cluster, new) == {"new": "n2"}


def test_pods_of_one_batch_keep_apart_when_only_one_side_asks() -> None:
    loud = [neighbour(f"loud-{i}", app="loud") for i in range(3)]
    shy = neighbour("shy", app="shy", anti_affinity=[term("zone", app="loud")], priority=1)

    found = placed(b.snapshot(TWO), shy, *loud)

    assert len(found) == 4
    assert found["shy"] not in {found[each.id.name] for each in loud}


def test_nodes_without_the_label_have_no_domain_to_be_apart_in() -> None:
    pods = [neighbour(f"web-{i}", app="web", anti_affinity=[term("rack", app="web")]) for i in range(3)]

    assert len(placed(b.snapshot(zoned("n1")), *pods)) == 3


def test_a_term_is_about_its_own_namespaces_only() -> None:
    cluster = b.snapshot(
        zoned("n1"),
        Namespace(name="lab", labels=(("team", "x"),)),
        neighbour("old", app="web", on="n1", namespace="lab"),
    )

    assert placed(cluster, neighbour("own", anti_affinity=[term(app="web")]))
    assert not placed(cluster, neighbour("named", anti_affinity=[term(app="web", namespaces=["lab"])]))
    by_label = term(app="web", namespaces=[], of=selector(team="x"))
    assert not placed(cluster, neighbour("selected", anti_affinity=[by_label]))
    other = term(app="web", namespaces=[], of=selector(team="y"))
    assert placed(cluster, neighbour("not-selected", anti_affinity=[other]))
    everywhere = term(app="web", namespaces=[], of=selector())
    assert not placed(cluster, neighbour("everywhere", anti_affinity=[everywhere]))


def test_a_pod_that_keeps_apart_says_from_which_pods() -> None:
    old = neighbour("old", app="web", on="n1", anti_affinity=[term(app="db")])
    cluster = b.snapshot(zoned("n1"), zoned("n2"), old, neighbour("busy", app="db", on="n2"))
    new = neighbour("new", app="db", anti_affinity=[term(app="db")])

    assert sorted(said(cluster, new)["new"]) == [
        (ReasonCode.POD_ANTI_AFFINITY, "node(s) didn't match pod anti-affinity rules", 1),
        (ReasonCode.POD_ANTI_AFFINITY, "node(s) didn't satisfy existing pods anti-affinity rules", 1),
    ]


# Affinity


def test_a_pod_goes_where_its_company_runs() -> None:
    cluster = b.snapshot(TWO, zoned("n3", "b"), neighbour("db", app="db", on="n2"))
    pods = [neighbour(f"p{i}", affinity=[term("zone", app="db")]) for i in range(4)]

    assert set(placed(cluster, *pods).values()) <= {"n2", "n3"}
    assert len(placed(cluster, *pods)) == 4


def test_company_may_come_with_the_same_batch_and_later_in_the_queue() -> None:
    client = neighbour("client", affinity=[term("zone", app="db")])
    server = neighbour("server", app="db")

    found = placed(b.snapshot(TWO), client, server)

    assert found["client"] == found["server"]


def test_the_first_of_pods_that_want_each_other_goes_anywhere_and_the_rest_to_it() -> None:
    pods = [neighbour(f"p{i}", app="web", cpu=30, affinity=[term("zone", app="web")]) for i in range(6)]
    cluster = b.snapshot(zoned("n1", "a"), zoned("n2", "b"), zoned("n3", "b"))

    found = placed(cluster, *pods)

    assert set(found.values()) == {"n2", "n3"}
    assert len(found) == 4


def test_there_is_no_first_one_where_company_runs_already() -> None:
    cluster = b.snapshot(zoned("n1", "a", cpu=1), zoned("n2", "b"), neighbour("old", app="web", on="n1", cpu=1))
    new = neighbour("new", app="web", cpu=1, affinity=[term("zone", app="web")])

    assert placed(cluster, new) == {}
    assert (ReasonCode.POD_AFFINITY, "node(s) didn't match pod affinity rules", 1) in said(cluster, new)["new"]


def test_a_node_without_the_label_is_no_place_for_affinity() -> None:
    new = neighbour("new", app="web", affinity=[term("zone", app="web")])

    assert placed(b.snapshot(zoned("n1")), new) == {}
    message = "node(s) didn't match pod affinity rules"
    cause = "pod affinity over zone: no node has a label zone"
    reasons = [(ReasonCode.POD_AFFINITY, message, 1), (ReasonCode.POD_AFFINITY, cause, 0)]
    assert said(b.snapshot(zoned("n1")), new) == {"new": reasons}


def test_one_pod_has_to_be_what_all_terms_are_about() -> None:
    cluster = b.snapshot(
        TWO,
        neighbour("db", app="db", on="n1"),
        neighbour("fast", tier="fast", on="n1"),
        neighbour("both", app="db", tier="fast", on="n2"),
    )
    new = neighbour("new", affinity=[term("zone", app="db"), term("zone", tier="fast")])

    assert placed(cluster, new) == {"new": "n2"}


def test_affinity_to_a_pod_that_never_comes_says_so() -> None:
    new = neighbour("new", affinity=[term("zone", app="db")])

    message = "node(s) didn't match pod affinity rules"
    missing = "pod affinity app=db: no pod that it selects runs in namespace default, none has a label app"
    assert said(b.snapshot(TWO), new) == {
        "new": [(ReasonCode.POD_AFFINITY, message, 2), (ReasonCode.POD_AFFINITY, missing, 0)]
    }


def test_affinity_to_pods_that_found_no_room_says_so() -> None:
    server = neighbour("server", app="db", cpu=100)
    client = neighbour("client", affinity=[term("zone", app="db")])

    told = said(b.snapshot(TWO), server, client)["client"]

    assert (ReasonCode.POD_AFFINITY, "node(s) didn't match pod affinity rules", 2) in told
    assert ReasonCode.OUTRANKED not in {code for code, _, _ in told}


# Spread


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


# Classes


def test_pods_that_no_rule_tells_apart_stay_one_class_and_others_do_not() -> None:
    apart = neighbour("apart", app="web", anti_affinity=[term(HOST, requirement("job", "Exists"))])
    pods = [neighbour(f"p{i}", index=str(i)) for i in range(3)] + [neighbour("job", job="x")]

    found = placed(b.snapshot(TWO), apart, *pods)

    assert found["apart"] != found["job"]


def test_the_greedy_comes_back_to_those_whose_company_was_not_there_yet() -> None:
    chain = [neighbour(f"p{i}", app=f"a{i}", affinity=[term("zone", app=f"a{i + 1}")]) for i in range(3)]
    batch = Batch(pods=(*chain, neighbour("last", app="a3")))
    cluster = b.snapshot(TWO)

    plan = solve_greedily(cluster, batch, Policy(), PATIENT)

    assert len(plan.placements) == 4
    assert check(cluster, batch, plan) == ()
