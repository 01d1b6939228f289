"""Pod affinity and anti-affinity in a solve: where pods go, and the reasons of pods that wait."""

from solver import solve_greedily
from solver.domain import Batch, Namespace, Policy, ReasonCode
from solver.verify import check
from tests.support import builders as b
from tests.support.neighbour_builders import HOST, neighbour, requirement, selector, term, zoned
from tests.support.neighbour_plans import TWO, placed, said
from tests.support.solver_problems import PATIENT

WEB_APART = {"app": "web", "anti_affinity": [term(app="web")]}


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
