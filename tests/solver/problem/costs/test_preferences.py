"""Soft preferences decide between places that are all allowed, and go before packing."""

from collections import Counter

from msgspec.structs import replace

from solver import verify
from solver.domain import Plan, Pod, Policy, Weights
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support import tastes as t

GPU = b.gpu_class()
NODES = [b.node("n1"), b.node("n2"), b.node("n3")]
ZONED = [b.node(f"n{i}", labels={t.ZONE: "ab"[i % 2]}) for i in range(4)]


def nodes_of(*objects: s.Objects, pods: list[Pod], policy: Policy | None = None) -> dict[str, str]:
    found = planned(*objects, pods=pods, policy=policy)
    return {each.pod.name: each.node for each in found.placements}


def planned(*objects: s.Objects, pods: list[Pod], policy: Policy | None = None) -> Plan:
    found = s.plan(*objects, pods=pods, policy=policy)
    assert verify.check(b.snapshot(*objects), b.batch(*pods), found, policy or Policy()) == ()
    return found


def value(plan: Plan, name: str) -> int:
    return next(level.value for level in plan.report.levels if level.name == name)


def test_a_preferred_node_is_taken_although_another_packs_better() -> None:
    machines = [b.node("full"), b.node("liked", labels={"disk": "ssd"})]
    slices = [b.gpu_slice("full", count=1), b.gpu_slice("liked", count=8)]
    pod = t.liking(b.pod("p", "c"), (10, t.labelled("disk", "ssd")))
    assert nodes_of(machines, slices, GPU, b.claim("c"), pods=[pod]) == {"p": "liked"}
    assert nodes_of(machines, slices, GPU, b.claim("c"), pods=[b.pod("p", "c")]) == {"p": "full"}


def test_a_heavier_preference_wins() -> None:
    machines = [b.node("a", labels={"x": "1"}), b.node("b", labels={"x": "2"})]
    pod = t.liking(b.pod("p"), (10, t.labelled("x", "1")), (60, t.labelled("x", "2")))
    assert nodes_of(machines, pods=[pod]) == {"p": "b"}


def test_a_preference_never_keeps_a_pod_waiting() -> None:
    pod = t.liking(b.pod("p"), (10, t.labelled("x", "nowhere")))
    assert len(nodes_of(b.node("n"), pods=[pod])) == 1


def test_an_earlier_alternative_goes_before_a_preference() -> None:
    wanted = b.first_available("r", b.alternative("two", count=2), b.alternative("one"))
    machines = [b.node("n1", labels={"x": "1"}), b.node("n2")]
    slices = [b.gpu_slice("n1", count=1), b.gpu_slice("n2", count=8)]
    pod = t.liking(b.pod("p", "c"), (100, t.labelled("x", "1")))
    assert nodes_of(machines, slices, GPU, b.claim("c", wanted), pods=[pod]) == {"p": "n2"}


def test_nodes_that_ask_to_be_left_alone_are_taken_last() -> None:
    machines = [b.node("a", taints=[b.taint("k", effect="PreferNoSchedule")]), b.node("b", cpu=2)]
    pods = [b.pod(f"p{i}", cpu=1) for i in range(3)]
    assert Counter(nodes_of(machines, pods=pods).values()) == {"b": 2, "a": 1}


def test_a_toleration_covers_such_a_taint() -> None:
    machines = [b.node("a", taints=[b.taint("k", effect="PreferNoSchedule")]), b.node("b", cpu=2)]
    pods = [b.pod(f"p{i}", cpu=1, tolerations=[b.toleration("k")]) for i in range(3)]
    assert Counter(nodes_of(machines, pods=pods).values())["a"] > 1


def test_pods_of_a_batch_spread_softly_over_zones() -> None:
    pods = [t.spread(b.pod(f"p{i}", labels={"app": "w"}), "w", t.ZONE) for i in range(4)]
    found = nodes_of(ZONED, pods=pods)
    assert Counter(int(node[1]) % 2 for node in found.values()) == {0: 2, 1: 2}


def test_soft_spread_counts_pods_that_run() -> None:
    running = [replace(b.pod(f"r{i}", labels={"app": "w"}), node_name="n0") for i in range(2)]
    pods = [t.spread(b.pod(f"p{i}", labels={"app": "w"}), "w", t.ZONE) for i in range(2)]
    assert {int(node[1]) % 2 for node in nodes_of(ZONED, running, pods=pods).values()} == {1}


def test_soft_spread_outranks_packing_of_devices() -> None:
    machines = [b.node("n1"), b.node("n2")]
    slices = [b.gpu_slice(each.name, count=4) for each in machines]
    claims = [b.claim(f"c{i}") for i in range(2)]
    pods = [t.spread(b.pod(f"p{i}", f"c{i}", labels={"app": "w"}), "w") for i in range(2)]
    assert sorted(nodes_of(machines, slices, GPU, claims, pods=pods).values()) == ["n1", "n2"]


def test_pods_that_push_their_own_kind_away_stand_apart() -> None:
    pods = [t.apart(b.pod(f"p{i}", labels={"app": "w"}), "w") for i in range(3)]
    assert len(set(nodes_of(NODES, pods=pods).values())) == 3


def test_pods_that_push_away_stand_together_where_there_is_no_other_place() -> None:
    pods = [t.apart(b.pod(f"p{i}", labels={"app": "w"}), "w") for i in range(5)]
    assert sorted(Counter(nodes_of(NODES, pods=pods).values()).values()) == [1, 2, 2]


def test_a_pod_goes_to_those_it_likes() -> None:
    running = replace(b.pod("db", labels={"app": "db"}), node_name="n2")
    assert nodes_of(NODES, running, pods=[t.near(b.pod("p"), "db")]) == {"p": "n2"}


def test_a_pod_avoids_those_it_dislikes() -> None:
    running = [replace(b.pod(f"db{i}", labels={"app": "db"}), node_name=f"n{i}") for i in (1, 3)]
    assert nodes_of(NODES, running, pods=[t.apart(b.pod("p"), "db")]) == {"p": "n2"}


def test_a_running_pod_that_dislikes_newcomers_is_left_alone() -> None:
    running = [t.apart(replace(b.pod(f"x{i}"), node_name=f"n{i}"), "w") for i in (1, 2)]
    assert nodes_of(NODES, running, pods=[b.pod("p", labels={"app": "w"})]) == {"p": "n3"}


def test_pods_of_a_batch_find_each_other() -> None:
    small = [b.node(f"n{i}", cpu=2) for i in range(3)]
    pods = [b.pod("big", cpu=2), b.pod("db", labels={"app": "db"}, cpu=1), t.near(b.pod("web", cpu=1), "db")]
    found = nodes_of(small, pods=pods)
    assert found["web"] == found["db"] != found["big"]


def test_what_weighs_nothing_is_not_looked_at() -> None:
    machines = [b.node("a", labels={"x": "1"}), b.node("b", cpu=128, memory="512Gi")]
    pod = t.liking(b.pod("p"), (10, t.labelled("x", "1")))
    policy = Policy(weights=Weights(node_affinity=0))
    assert nodes_of(machines, pods=[pod]) == {"p": "a"}
    assert nodes_of(machines, pods=[replace(pod, requests=(("cpu", 1000),))], policy=policy) == {"p": "b"}


def test_a_batch_without_preferences_has_no_such_level() -> None:
    found = planned(NODES, b.gpu_slice("n1"), GPU, b.claim("c"), pods=[b.pod("p", "c")])
    assert "preferences" not in {level.name for level in found.report.levels}


def test_preferences_that_are_met_are_proven() -> None:
    machines = [b.node("a", labels={"x": "1"}), b.node("b")]
    found = planned(machines, pods=[t.liking(b.pod("p"), (10, t.labelled("x", "1")))])
    level = next(each for each in found.report.levels if each.name == "preferences")
    assert (level.value, level.proven) == (0, True)


def test_pods_with_other_labels_are_not_equal_to_a_preference() -> None:
    running = t.apart(replace(b.pod("x"), node_name="n1"), "w")
    pods = [b.pod("p", labels={"app": "w"}, cpu=1), b.pod("q", labels={"app": "v"}, cpu=1)]
    small = [b.node("n1", cpu=1), b.node("n2", cpu=1)]
    assert nodes_of(small, running, pods=pods) == {"p": "n2", "q": "n1"}


def test_a_mate_on_one_of_several_equal_nodes_counts_in_its_own_domain() -> None:
    nodes = [
        b.node("n0", cpu=1, labels={"disk": "ssd", t.ZONE: "a"}, taints=[b.taint("soft", effect="PreferNoSchedule")]),
        b.node("n1", cpu=1, labels={"disk": "ssd", t.ZONE: "b"}, taints=[b.taint("soft", effect="PreferNoSchedule")]),
        b.node("n2", cpu=1, labels={"disk": "hdd", t.ZONE: "a"}),
    ]
    equal = [t.liking(b.pod(f"p{i}", cpu=1, labels={"app": "w"}), (1, t.labelled("disk", "ssd"))) for i in range(3)]
    last = t.near(b.pod("last", cpu=1, labels={"app": "w"}), "w", t.ZONE)
    assert value(planned(nodes, pods=[*equal, last]), "preferences") == -600
    assert value(planned(nodes, pods=[last, *equal]), "preferences") == -600
