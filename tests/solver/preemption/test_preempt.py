"""Who has to go so that a pod of higher priority fits."""

from msgspec.structs import replace

from solver import solve
from solver.domain import Batch, Budget, ConsumerReference, Gang, GangId, Pod, Policy, ReasonCode
from tests.support import builders as b
from tests.support.preemption_cases import (
    DEVICES,
    RULES,
    decide,
    disruption_budget,
    holding,
    running,
    victims,
)


def test_the_pod_of_lower_priority_goes() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=3), running("mid", "n1", cpu=1, priority=5))

    plan = decide(snapshot, b.pod("high", cpu=2, priority=10))

    assert victims(plan) == ["low"]
    assert [(each.pod.name, each.node) for each in plan.preemptions[0].placements] == [("high", "n1")]
    assert plan.preemptions[0].is_proven
    assert plan.unplaced[0].reasons[0].code is ReasonCode.PREEMPTING
    assert "default/low" in plan.unplaced[0].reasons[0].message


def test_nobody_goes_without_rules_or_for_never() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=3))
    high = b.pod("high", cpu=2, priority=10)

    assert victims(decide(snapshot, high, rules=replace(RULES, is_enabled=False))) == []
    assert victims(decide(snapshot, replace(high, preemption_policy="Never"))) == []
    assert victims(decide(snapshot, high)) == ["low"]


def test_nobody_goes_in_vain() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=3), running("same", "n1", cpu=1, priority=10))

    plan = decide(snapshot, b.pod("high", cpu=4, priority=10))

    assert plan.preemptions == ()
    assert plan.unplaced[0].reasons[-1].code is ReasonCode.NO_VICTIMS


def test_only_our_own_pods_go_that_may() -> None:
    foreign = replace(running("foreign", "n1", cpu=2), scheduler_name="default-scheduler")
    spared = replace(running("spared", "n1", cpu=2), is_preemptible=False)
    snapshot = b.snapshot(b.node("n1", cpu=6), foreign, spared, running("own", "n1", cpu=2))

    assert victims(decide(snapshot, b.pod("high", cpu=2, priority=1))) == ["own"]
    assert victims(decide(snapshot, b.pod("high", cpu=3, priority=1))) == []


def test_many_of_low_priority_rather_than_one_of_a_higher() -> None:
    snapshot = b.snapshot(
        b.node("n1", cpu=4),
        b.node("n2", cpu=4),
        running("mid", "n1", cpu=4, priority=5),
        *(running(f"low-{number}", "n2", cpu=1) for number in range(4)),
    )

    assert victims(decide(snapshot, b.pod("high", cpu=4, priority=10))) == [f"low-{n}" for n in range(4)]


def test_the_fewest_and_then_the_youngest_go() -> None:
    snapshot = b.snapshot(
        b.node("n1", cpu=4),
        running("large", "n1", cpu=2, seconds=900),
        running("young", "n1", cpu=1, seconds=10),
        running("old", "n1", cpu=1, seconds=5000),
    )

    assert victims(decide(snapshot, b.pod("high", cpu=2, priority=1))) == ["large"]
    assert victims(decide(snapshot, b.pod("high", cpu=1, priority=1))) == ["young"]


def test_a_disruption_budget_is_never_broken() -> None:
    snapshot = b.snapshot(
        b.node("n1", cpu=2),
        b.node("n2", cpu=2),
        *(running(f"web-{number}", "n1", cpu=1, labels={"app": "web"}) for number in range(2)),
        *(running(f"other-{number}", "n2", cpu=1, priority=5) for number in range(2)),
    )
    shielded = replace(snapshot, budgets=(disruption_budget("web", 1, app="web"),))
    high = b.pod("high", cpu=2, priority=10)

    assert victims(decide(snapshot, high)) == ["web-0", "web-1"]
    assert victims(decide(shielded, high)) == ["other-0", "other-1"]


def test_a_pod_of_two_budgets_or_a_stale_one_stays() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=2), running("web", "n1", cpu=2, labels={"app": "web"}))
    one = disruption_budget("one", 5, app="web")
    high = b.pod("high", cpu=2, priority=10)

    assert victims(decide(replace(snapshot, budgets=(one,)), high)) == ["web"]
    assert victims(decide(replace(snapshot, budgets=(one, disruption_budget("two", 5, app="web"))), high)) == []
    assert victims(decide(replace(snapshot, budgets=(replace(one, is_stale=True),)), high)) == []


def test_a_gang_goes_whole() -> None:
    gang = GangId("default", "g", "dovetail.dev")
    members = [replace(running(f"g-{n}", f"n{n + 1}", cpu=2), gang=gang) for n in range(2)]
    snapshot = b.snapshot(b.node("n1", cpu=2), b.node("n2", cpu=2), *members)

    plan = decide(snapshot, b.pod("high", cpu=2, priority=1))

    assert victims(plan) == ["g-0", "g-1"]
    assert "gang" in plan.preemptions[0].victims[0].message


def test_a_single_pod_rather_than_a_gang() -> None:
    members = [replace(running(f"g-{n}", "n1", cpu=1), gang=GangId("default", "g", "dovetail.dev")) for n in range(2)]
    singles = [running(f"s-{n}", "n2", cpu=1, seconds=90_000) for n in range(2)]
    snapshot = b.snapshot(b.node("n1", cpu=2), b.node("n2", cpu=2), *members, *singles)

    assert victims(decide(snapshot, b.pod("high", cpu=1, priority=1))) == ["s-0"]
    assert victims(decide(snapshot, b.pod("high", cpu=2, priority=1))) == ["g-0", "g-1"]


def test_a_gang_with_a_member_that_may_not_go_stays() -> None:
    gang = GangId("default", "g", "dovetail.dev")
    members = [replace(running(f"g-{n}", f"n{n + 1}", cpu=2, priority=n * 5), gang=gang) for n in range(2)]
    snapshot = b.snapshot(b.node("n1", cpu=2), b.node("n2", cpu=2), *members)

    assert victims(decide(snapshot, b.pod("high", cpu=2, priority=5))) == []
    assert victims(decide(snapshot, b.pod("high", cpu=2, priority=6))) == ["g-0", "g-1"]


def gpus(count: int, **more: object) -> tuple[object, ...]:
    claims = [holding(f"c{n}", "n1", f"gpu-{n}", consumers=(f"p{n}",), **more) for n in range(count)]
    pods = [running(f"p{n}", "n1", f"c{n}", cpu=1) for n in range(count)]
    return b.node("n1"), b.gpu_slice("n1", count=count), b.gpu_class(), claims, pods


def test_devices_are_freed_only_where_the_rules_say_so() -> None:
    snapshot = b.snapshot(*gpus(8), b.claim("eight", b.request(count=8)))  # type: ignore[arg-type]
    high = b.pod("high", "eight", priority=10)

    assert victims(decide(snapshot, high)) == []
    plan = decide(snapshot, high, rules=DEVICES)
    assert victims(plan) == [f"p{n}" for n in range(8)]
    assert len(plan.preemptions[0].allocations[0].allocation.results) == 8


def test_only_as_many_go_as_devices_are_wanted() -> None:
    snapshot = b.snapshot(*gpus(8), b.claim("three", b.request(count=3)))  # type: ignore[arg-type]

    assert len(victims(decide(snapshot, b.pod("high", "three", priority=10), rules=DEVICES))) == 3


def test_devices_of_one_pcie_root_make_way_together() -> None:
    constraint = b.match("resource.kubernetes.io/pcieRoot")
    claim = b.claim("four", b.request(count=4), constraints=[constraint])
    node, slices, gpu_class, claims, pods = gpus(8)
    pods[1] = replace(pods[1], priority=5)  # type: ignore[index]  # on the first root
    snapshot = b.snapshot(node, slices, gpu_class, claims, pods, claim)  # type: ignore[arg-type]

    assert victims(decide(snapshot, b.pod("high", "four", priority=10), rules=DEVICES)) == ["p4", "p5", "p6", "p7"]


def test_a_claim_that_stays_frees_nothing() -> None:
    high, asked = b.pod("high", "one", priority=10), b.claim("one")
    base = (b.node("n1"), b.gpu_slice("n1", count=1), b.gpu_class(), asked, running("p0", "n1", "c0"))
    group = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="g", uid="g")
    kept = holding("c0", "n1", "gpu-0", consumers=("p0",))
    others = {
        "freed": kept,
        "without a finalizer": replace(kept, finalizers=()),
        "of a group": replace(kept, reserved_for=(*kept.reserved_for, group)),
        "of somebody else too": replace(kept, reserved_for=(*kept.reserved_for, b.consumer("other"))),
    }

    found = {name: victims(decide(b.snapshot(*base, claim), high, rules=DEVICES)) for name, claim in others.items()}

    assert found == {"freed": ["p0"]} | {name: [] for name in others if name != "freed"}


def test_all_consumers_of_a_shared_claim_go() -> None:
    snapshot = b.snapshot(
        b.node("n1"),
        b.gpu_slice("n1", count=2),
        b.gpu_class(),
        holding("shared", "n1", "gpu-0", consumers=("p0", "p1")),
        holding("c2", "n1", "gpu-1", consumers=("p2",)),
        running("p0", "n1", "shared", seconds=1),
        running("p1", "n1", "shared", seconds=1),
        running("p2", "n1", "c2", seconds=9999),
        b.claim("one"),
        b.claim("two", b.request(count=2)),
    )

    assert victims(decide(snapshot, b.pod("high", "one", priority=1), rules=DEVICES)) == ["p2"]
    assert victims(decide(snapshot, b.pod("high", "two", priority=1), rules=DEVICES)) == ["p0", "p1", "p2"]


def test_pods_with_devices_stay_for_their_minimum_run_time() -> None:
    snapshot = b.snapshot(*gpus(1), b.claim("one"))  # type: ignore[arg-type]
    high = b.pod("high", "one", priority=10)

    assert victims(decide(snapshot, high, rules=replace(DEVICES, minimum_run_seconds=1000))) == ["p0"]
    assert victims(decide(snapshot, high, rules=replace(DEVICES, minimum_run_seconds=1001))) == []


def test_no_more_go_than_may() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=2), running("a", "n1", cpu=1), running("b", "n1", cpu=1))
    high = b.pod("high", cpu=2, priority=1)

    plan = decide(snapshot, high, rules=replace(RULES, most_victims=1, ceiling=2))

    assert plan.preemptions == ()
    assert plan.unplaced[0].reasons[-1].code is ReasonCode.BUDGET
    assert "2 pods would have to be evicted" in plan.unplaced[0].reasons[-1].message
    never = decide(snapshot, high, rules=replace(RULES, most_victims=1, ceiling=1))
    assert never.unplaced[0].reasons[-1].code is ReasonCode.NO_VICTIMS


def test_what_leaves_already_is_waited_for() -> None:
    leaving = replace(running("leaving", "n1", cpu=2), is_deleting=True)
    snapshot = b.snapshot(b.node("n1", cpu=2), b.node("n2", cpu=2), leaving, running("low", "n2", cpu=2))

    plan = decide(snapshot, b.pod("high", cpu=2, priority=1))

    assert victims(plan) == []
    assert plan.preemptions[0].placements[0].node == "n1"
    planned = replace(snapshot, leaving=(snapshot.pods[1].id,))
    assert decide(planned, b.pod("high", cpu=2, priority=1)).preemptions[0].victims == ()


def test_several_pods_get_victims_of_their_own() -> None:
    nodes = [b.node(f"n{n}", cpu=2) for n in range(3)]
    snapshot = b.snapshot(nodes, [running(f"low-{n}", f"n{n}", cpu=2, priority=n) for n in range(3)])
    pods = [b.pod(f"high-{n}", cpu=2, priority=10) for n in range(2)]

    plan = decide(snapshot, *pods)

    assert victims(plan) == ["low-0", "low-1"]
    assert sorted(each.placements[0].node for each in plan.preemptions) == ["n0", "n1"]


def test_room_is_held_for_a_nominated_pod() -> None:
    leaving = replace(running("leaving", "n1", cpu=2), is_deleting=True)
    nominated = replace(b.pod("high", cpu=3, priority=10), nominated_node_name="n1")
    snapshot = replace(b.snapshot(b.node("n1", cpu=4), leaving), nominated=(nominated,))

    assert decide(snapshot, b.pod("other", cpu=1, priority=10)).placements == ()
    assert len(decide(snapshot, b.pod("other", cpu=1, priority=11)).placements) == 1
    assert len(decide(replace(snapshot, nominated=()), b.pod("other", cpu=1, priority=10)).placements) == 1


def test_devices_are_held_for_a_nominated_pod() -> None:
    node, slices, gpu_class, claims, pods = gpus(8)
    some = [replace(each, is_deleting=True) for each in pods[1:]]  # type: ignore[index]
    objects = (node, slices, gpu_class, claims[1:], some)  # type: ignore[index]
    asked = b.claim("eight", b.request(count=8))
    nominated = replace(b.pod("high", "eight", priority=10), nominated_node_name="n1")
    snapshot = b.snapshot(*objects, asked, b.claim("one"))  # type: ignore[arg-type]
    other = b.pod("other", "one", priority=5)

    assert len(decide(snapshot, other).placements) == 1
    assert decide(replace(snapshot, nominated=(nominated,)), other).placements == ()


def test_what_a_nominated_pod_does_not_need_is_not_held() -> None:
    node, slices, gpu_class, claims, pods = gpus(8)
    objects = (node, slices, gpu_class, claims[:6], [replace(each, is_deleting=True) for each in pods[:6]])  # type: ignore[index]
    nominated = replace(b.pod("high", "seven", priority=10), nominated_node_name="n1")
    asked = (b.claim("seven", b.request(count=7)), b.claim("one"), b.claim("two", b.request(count=2)))
    snapshot = replace(b.snapshot(*objects, *asked), nominated=(nominated,))  # type: ignore[arg-type]

    assert len(decide(snapshot, b.pod("other", "one", priority=5)).placements) == 1
    assert decide(snapshot, b.pod("other", "two", priority=5)).placements == ()


def test_a_budget_is_spent_by_one_after_the_other() -> None:
    nodes = [b.node(f"n{n}", cpu=2) for n in range(2)]
    webs = [running(f"web-{n}", f"n{n}", cpu=2, labels={"app": "web"}) for n in range(2)]
    snapshot = replace(b.snapshot(nodes, webs), budgets=(disruption_budget("web", 1, app="web"),))

    plan = decide(snapshot, *(b.pod(f"high-{n}", cpu=2, priority=10) for n in range(2)))

    assert len(victims(plan)) == 1


def test_a_gang_makes_room_for_all_its_pods_or_none() -> None:
    gang = GangId("default", "g", "dovetail.dev")
    members = tuple(replace(b.pod(f"g-{n}", cpu=4, priority=5), gang=gang) for n in range(2))
    batch = Batch(pods=members, gangs=(Gang(id=gang, min_count=2, member_count=2, priority=5),))
    nodes = [b.node(f"n{n}", cpu=4) for n in range(2)]
    lows = [running(f"low-{n}", f"n{n}", cpu=1) for n in range(2)]
    equal = [lows[0], running("equal", "n1", cpu=1, priority=5)]

    def found(running_pods: list[Pod]) -> list[str]:
        snapshot = b.snapshot(nodes, running_pods)
        return victims(solve(snapshot, batch, Policy(preemption=RULES), Budget(seconds=60.0)))

    assert found(lows) == ["low-0", "low-1"]
    assert found(equal) == []


def test_of_many_nodes_those_are_looked_at_that_promise_the_least_harm() -> None:
    nodes = [b.node(f"n{n:02}", cpu=2) for n in range(70)]
    lows = [running(f"low-{n:02}", f"n{n:02}", cpu=2, priority=0 if n == 69 else 1) for n in range(70)]

    plan = decide(b.snapshot(nodes, lows), b.pod("high", cpu=2, priority=10))

    assert victims(plan) == ["low-69"]
    assert not plan.preemptions[0].is_proven
