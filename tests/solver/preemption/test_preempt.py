"""Which pods are evicted so that a pod of higher priority fits."""

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import (
    Batch,
    Budget,
    Claim,
    ConsumerReference,
    Gang,
    GangId,
    NodeReservation,
    Plan,
    Pod,
    Policy,
    PreemptionRules,
    ReasonCode,
    Snapshot,
)
from solver.preemption import preempt
from solver.preemption.cluster_state import ClusterState
from solver.verify import check
from tests.support import builders as b
from tests.support import extended_builders as x
from tests.support.preemption_cases import (
    DEVICES,
    RULES,
    decide,
    disruption_budget,
    holding,
    running,
    victims,
)


def test_the_pod_of_lower_priority_is_evicted() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=3), running("mid", "n1", cpu=1, priority=5))

    plan = decide(snapshot, b.pod("high", cpu=2, priority=10))

    assert victims(plan) == ["low"]
    assert [(each.pod.name, each.node) for each in plan.preemptions[0].placements] == [("high", "n1")]
    assert plan.preemptions[0].is_proven
    assert plan.unplaced[0].reasons[0].code is ReasonCode.PREEMPTING
    assert "default/low" in plan.unplaced[0].reasons[0].message


def test_no_pod_is_evicted_without_rules_or_for_preemption_policy_never() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=3))
    high = b.pod("high", cpu=2, priority=10)

    assert victims(decide(snapshot, high, rules=replace(RULES, is_enabled=False))) == []
    assert victims(decide(snapshot, replace(high, preemption_policy="Never"))) == []
    assert victims(decide(snapshot, high)) == ["low"]


def test_no_pod_is_evicted_in_vain() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=3), running("same", "n1", cpu=1, priority=10))

    plan = decide(snapshot, b.pod("high", cpu=4, priority=10))

    assert plan.preemptions == ()
    assert plan.unplaced[0].reasons[-1].code is ReasonCode.NO_VICTIMS


def test_only_pods_of_our_profiles_are_evicted() -> None:
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


def test_the_fewest_and_then_the_youngest_pods_are_evicted() -> None:
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


def test_only_as_many_pods_are_evicted_as_devices_are_requested() -> None:
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
        "of another pod too": replace(kept, reserved_for=(*kept.reserved_for, b.consumer("other"))),
    }

    found = {name: victims(decide(b.snapshot(*base, claim), high, rules=DEVICES)) for name, claim in others.items()}

    assert found == {"freed": ["p0"]} | {name: [] for name in others if name != "freed"}


def test_all_consumers_of_a_shared_claim_are_evicted() -> None:
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


@pytest.mark.parametrize("rules", [RULES, DEVICES], ids=["devices stay", "devices are freed"])
def test_a_claim_may_be_shared_with_a_victim(rules: PreemptionRules) -> None:
    snapshot = b.snapshot(
        b.node("n1", cpu=2),
        b.gpu_slice("n1", count=1),
        b.gpu_class(),
        holding("shared", "n1", "gpu-0", consumers=("low",)),
        running("low", "n1", "shared", cpu=1),
        running("old", "n1", cpu=1, seconds=9000),
    )
    high = b.pod("high", "shared", cpu=1, priority=10)

    plan = decide(snapshot, high, rules=rules)

    assert victims(plan) == ["low"]
    assert check(snapshot, Batch(pods=(high,)), plan, Policy(preemption=rules)) == ()


def test_pods_with_devices_stay_for_their_minimum_run_time() -> None:
    snapshot = b.snapshot(*gpus(1), b.claim("one"))  # type: ignore[arg-type]
    high = b.pod("high", "one", priority=10)

    assert victims(decide(snapshot, high, rules=replace(DEVICES, minimum_run_seconds=1000))) == ["p0"]
    assert victims(decide(snapshot, high, rules=replace(DEVICES, minimum_run_seconds=1001))) == []


@pytest.mark.parametrize(
    ("minimum", "priority", "seconds"), [(1001, 10, 1), (1300, 10, 300), (1000, 10, None), (1001, 0, None)]
)
def test_a_plan_says_when_a_pod_may_be_evicted_that_runs_too_short_yet(
    minimum: int, priority: int, seconds: int | None
) -> None:
    snapshot = b.snapshot(*gpus(1), b.claim("one"))  # type: ignore[arg-type]

    plan = decide(
        snapshot, b.pod("high", "one", priority=priority), rules=replace(DEVICES, minimum_run_seconds=minimum)
    )

    assert plan.next_victim_seconds == seconds


def test_the_minimum_time_of_a_pod_that_has_not_started_ends_no_sooner() -> None:
    *objects, _ = gpus(1)
    young = replace(running("p0", "n1", "c0", cpu=1), started=0)
    snapshot = b.snapshot(*objects, young, b.claim("one"))  # type: ignore[arg-type]

    plan = decide(snapshot, b.pod("high", "one", priority=10), rules=replace(DEVICES, minimum_run_seconds=7))

    assert (victims(plan), plan.next_victim_seconds) == ([], 7)


def test_the_bound_on_evictions_holds() -> None:
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


def test_devices_are_held_for_a_nominated_pod_whose_claim_is_made_for_its_extended_resource() -> None:
    node, slices, _, claims, pods = gpus(8)
    some = [replace(each, is_deleting=True) for each in pods[1:]]  # type: ignore[index]
    objects = (node, slices, x.gpu_class(), claims[1:], some)  # type: ignore[index]
    snapshot = b.snapshot(*objects, b.claim("one"))  # type: ignore[arg-type]
    other = b.pod("other", "one", priority=5)

    def nominated(count: int) -> Snapshot:
        high = x.pod("high", x.container(gpu=count), priority=10)
        return replace(snapshot, nominated=(replace(high, nominated_node_name="n1"),))

    assert decide(nominated(8), other).placements == ()
    assert len(decide(nominated(9), other).placements) == 1  # the node never has as many


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


def test_of_many_nodes_those_with_the_cheapest_victims_are_searched() -> None:
    nodes = [b.node(f"n{n:02}", cpu=2) for n in range(70)]
    lows = [running(f"low-{n:02}", f"n{n:02}", cpu=2, priority=0 if n == 69 else 1) for n in range(70)]

    plan = decide(b.snapshot(nodes, lows), b.pod("high", cpu=2, priority=10))

    assert victims(plan) == ["low-69"]
    assert not plan.preemptions[0].is_proven


def test_the_nominated_pod_waits_for_devices_whose_pods_are_gone() -> None:
    node, slices, gpu_class, claims, _ = gpus(2)
    orphans = (node, slices, gpu_class, claims, b.claim("two", b.request(count=2)))
    other = [b.node("n2"), b.gpu_slice("n2", count=2)]
    low = [running(f"q{n}", "n2", f"d{n}") for n in range(2)]
    held = [holding(f"d{n}", "n2", f"gpu-{n}", consumers=(f"q{n}",)) for n in range(2)]
    snapshot = b.snapshot(*orphans, *other, held, low)  # type: ignore[arg-type]
    high = b.pod("high", "two", priority=10)
    nominated = replace(high, nominated_node_name="n1")
    policy, batch = Policy(preemption=DEVICES), Batch(pods=(nominated,))

    assert victims(decide(snapshot, high, rules=DEVICES)) == ["q0", "q1"]
    plan = decide(replace(snapshot, nominated=(nominated,)), nominated, rules=DEVICES)
    assert [(each.placements[0].node, each.victims) for each in plan.preemptions] == [("n1", ())]
    assert check(snapshot, batch, plan, policy) == ()


def test_the_nominated_pod_waits_though_no_other_pod_runs() -> None:
    """The last victim is gone, and its claim is not released yet: the devices are held for the pod meanwhile."""
    node, slices, gpu_class, claims, _ = gpus(2)
    asked = (b.claim("two", b.request(count=2)), b.claim("one"))
    high = replace(b.pod("high", "two", priority=10), nominated_node_name="n1")
    snapshot = b.snapshot(node, slices, gpu_class, claims, *asked)  # type: ignore[arg-type]
    snapshot = replace(snapshot, nominated=(high,))

    plan = decide(snapshot, high, rules=DEVICES)

    assert [(each.placements[0].node, each.victims) for each in plan.preemptions] == [("n1", ())]
    assert plan.unplaced[0].reasons[0].code is ReasonCode.PREEMPTING
    assert check(snapshot, Batch(pods=(high,)), plan, Policy(preemption=DEVICES)) == ()
    assert decide(snapshot, b.pod("low", "one"), rules=DEVICES).placements == ()


def test_devices_that_victims_leave_do_not_keep_other_ones() -> None:
    """Two devices are about to be free on the node of a pod that asks for two; the third is for others."""
    node, slices, gpu_class, claims, _ = gpus(3)
    held = claims[:2]  # type: ignore[index]
    asked = (b.claim("two", b.request(count=2)), b.claim("one"))
    high = replace(b.pod("high", "two", priority=10), nominated_node_name="n1")
    snapshot = replace(b.snapshot(node, slices, gpu_class, held, *asked), nominated=(high,))  # type: ignore[arg-type]

    assert len(decide(snapshot, b.pod("low", "one"), rules=DEVICES).placements) == 1


def test_shares_that_stay_are_counted_exactly() -> None:
    """Eight units, of which five stay: three more fit, though the five take two of the units of three."""
    devices = (
        b.device(
            f"gpu-{n}",
            capacities={"memory": b.capacity(8, default=3)},
            consumes={"card": {"slices": 2}},
            is_shareable=True,
        )
        for n in range(2)
    )
    fixed, other = shared("c1", "gpu-0", 3), shared("c2", "gpu-1", 5)
    snapshot = b.snapshot(
        b.node("n1", pods=3),
        b.resource_slice("n1", *devices, counter_sets={"card": {"slices": 4}}),
        b.gpu_class(),
        [replace(fixed, finalizers=()), other, b.claim("asked", b.request(count=2))],
        replace(running("p1", "n1", "c1"), is_preemptible=False),
        running("p2", "n1", "c2", seconds=20),
        running("p5", "n1", seconds=10),
    )

    assert victims(decide(snapshot, b.pod("high", "asked", priority=4), rules=DEVICES)) == ["p5"]


def shared(name: str, device: str, amount: int) -> Claim:
    claim = holding(name, "n1", device, consumers=(f"p{name[1:]}",))
    assert claim.allocation is not None
    result = replace(
        claim.allocation.results[0], share_id=b.share_id(amount), consumed_capacity=b.quantities({"memory": amount})
    )
    return replace(claim, allocation=replace(claim.allocation, results=(result,)))


def of_gang(count: int, need: int, *, disruption: str = "", **more: int) -> tuple[list[Pod], Gang]:
    """A gang that runs on a node of its own each, and what it needs."""
    gang = GangId("default", "g", "scheduling.k8s.io")
    pods = [replace(running(f"g-{n}", f"n{n}", cpu=2, **more), gang=gang) for n in range(count)]
    return pods, Gang(id=gang, min_count=need, member_count=count, running_count=count, disruption=disruption)


@pytest.mark.parametrize(
    ("need", "disruption", "expected"),
    [
        pytest.param(0, "", 1, id="basic policy"),
        pytest.param(3, "", 3, id="no more than it needs"),
        pytest.param(2, "", 1, id="one more than it needs"),
        pytest.param(3, "single", 1, id="disruption mode single"),
        pytest.param(0, "all", 3, id="disruption mode all"),
        pytest.param(4, "", 3, id="fewer than it needs"),
    ],
)
def test_a_gang_loses_the_pods_above_its_minimum_first(need: int, disruption: str, expected: int) -> None:
    pods, gang = of_gang(3, need, disruption=disruption)
    snapshot = replace(b.snapshot([b.node(f"n{n}", cpu=2) for n in range(3)], pods), gangs=(gang,))
    high = b.pod("high", cpu=2, priority=1)

    plan = decide(snapshot, high)

    assert len(victims(plan)) == expected
    assert plan.preemptions[0].is_proven
    assert check(snapshot, Batch(pods=(high,)), plan, Policy(preemption=RULES)) == ()


@pytest.mark.parametrize(
    ("of_pods", "of_group", "expected"),
    [(0, None, 1), (0, 5, 0), (5, 0, 1), (5, None, 0), (0, 9, 0)],
)
def test_a_victim_has_the_priority_of_its_group(of_pods: int, of_group: int | None, expected: int) -> None:
    pods, gang = of_gang(1, 0, priority=of_pods)
    snapshot = replace(b.snapshot([b.node("n0", cpu=2)], pods), gangs=(replace(gang, priority=of_group),))
    high = b.pod("high", cpu=2, priority=5)

    plan = decide(snapshot, high)

    assert len(victims(plan)) == expected
    assert check(snapshot, Batch(pods=(high,)), plan, Policy(preemption=RULES)) == ()


@pytest.mark.parametrize(
    ("of_group", "expected"), [pytest.param(None, "g-0", id="of the pod"), pytest.param(7, "other", id="of the group")]
)
def test_a_victim_costs_the_priority_of_its_group(of_group: int | None, expected: str) -> None:
    pods, gang = of_gang(1, 0, priority=1)
    nodes = [b.node(f"n{n}", cpu=2) for n in range(2)]
    other = running("other", "n1", cpu=2, priority=5)
    snapshot = replace(b.snapshot(nodes, pods, other), gangs=(replace(gang, priority=of_group),))

    assert victims(decide(snapshot, b.pod("high", cpu=2, priority=9))) == [expected]


def test_beyond_what_a_gang_can_spare_it_goes_whole() -> None:
    pods, gang = of_gang(4, 3)
    snapshot = replace(b.snapshot([b.node(f"n{n}", cpu=2) for n in range(4)], pods), gangs=(gang,))

    plan = decide(snapshot, *(b.pod(f"high-{n}", cpu=2, priority=1) for n in range(2)))

    assert victims(plan) == [pod.id.name for pod in pods]
    assert sorted(each.pod.name for found in plan.preemptions for each in found.placements) == ["high-0", "high-1"]


def test_a_gang_with_a_protected_member_spares_what_it_can() -> None:
    pods, gang = of_gang(3, 2)
    pods[0] = replace(pods[0], is_preemptible=False)
    snapshot = replace(b.snapshot([b.node(f"n{n}", cpu=2) for n in range(3)], pods), gangs=(gang,))
    batch = [b.pod(f"high-{n}", cpu=2, priority=1) for n in range(2)]

    assert len(victims(decide(snapshot, *batch))) == 1
    assert victims(decide(replace(snapshot, gangs=()), *batch)) == []


def test_a_part_of_the_cluster_decides_as_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [b.node(f"n{n:03}", cpu=8) for n in range(100)]
    slices = [b.gpu_slice(f"n{n:03}", count=4) for n in range(100)]
    claims = [holding(f"c{n:03}-{k}", f"n{n:03}", f"gpu-{k}") for n in range(100) for k in range(4)]
    pods = [
        running(f"c{n:03}-{k}", f"n{n:03}", f"c{n:03}-{k}", cpu=2, priority=(n * 7 + k * 3) % 5, seconds=n)
        for n in range(100)
        for k in range(4)
    ]
    pods = [each for each in pods if each.id.name != "c000-3"]  # its device is held, but not by a running pod
    asked = [b.claim(f"asked-{n}", b.request(count=2 + n)) for n in range(2)]
    snapshot = b.snapshot(nodes, slices, b.gpu_class(), claims, asked, pods)
    highs = [b.pod(f"high-{n}", f"asked-{n}", cpu=3, priority=10) for n in range(2)]
    policy = Policy(preemption=DEVICES)

    plan = decide(snapshot, *highs, rules=DEVICES)
    monkeypatch.setattr(ClusterState, "is_local", lambda *_: False)
    whole = decide(snapshot, *highs, rules=DEVICES)

    assert plan.preemptions == whole.preemptions
    assert len(plan.preemptions) == 2
    assert check(snapshot, Batch(pods=tuple(highs)), plan, policy) == ()


def test_when_the_time_is_up_preemption_is_tried_again() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=2), running("low", "n1", cpu=2))
    batch = Batch(pods=(b.pod("high", cpu=2, priority=1),))
    moments = iter(range(10_000))
    budget = Budget(seconds=1.0, started=0.0, clock=lambda: next(moments) * 10.0)

    plan = solve(snapshot, batch, Policy(preemption=RULES), budget)

    assert plan.preemptions == ()
    assert plan.unplaced[0].reasons[-1].code is ReasonCode.BUDGET


def test_without_pods_of_lower_priority_nothing_is_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("no victims are searched")

    monkeypatch.setattr(ClusterState, "of", never)
    snapshot = b.snapshot(b.node("n1", cpu=2), running("low", "n1", cpu=2))

    assert victims(decide(snapshot, b.pod("same", cpu=2))) == []
    assert victims(decide(snapshot, replace(b.pod("high", cpu=2, priority=1), preemption_policy="Never"))) == []
    with pytest.raises(AssertionError):
        decide(snapshot, b.pod("high", cpu=2, priority=1))


def test_no_pod_is_started_in_the_room_that_a_preemptor_needs() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=3))
    high, late = b.pod("high", cpu=4, priority=10), b.pod("late", cpu=1)

    plan = decide(snapshot, high, late)

    assert plan.placements == ()
    assert victims(plan) == ["low"]
    assert [each.pod.name for each in plan.unplaced] == ["high", "late"]
    assert plan.unplaced[1].reasons[0].code is ReasonCode.BUDGET, "it is tried again, with the room held"
    assert check(snapshot, Batch(pods=(high, late)), plan, Policy(preemption=RULES)) == ()


def test_pods_below_are_started_where_victims_would_not_help() -> None:
    snapshot = b.snapshot(b.node("n1", cpu=4), running("low", "n1", cpu=1))
    high, late = b.pod("high", cpu=5, priority=10), b.pod("late", cpu=1)

    plan = decide(snapshot, high, late)

    assert [each.pod.name for each in plan.placements] == ["late"]
    assert victims(plan) == []


def test_pods_that_the_plan_places_are_no_victims() -> None:
    lows = [running("low-0", "n1", cpu=3), running("low-1", "n1", cpu=1)]
    snapshot = b.snapshot(b.node("n1", cpu=5), lows)
    high, late = b.pod("high", cpu=2, priority=10), b.pod("late", cpu=1)

    plan = decide(snapshot, high, late)

    assert [each.pod.name for each in plan.placements] == ["late"]
    assert victims(plan) == ["low-0"]
    assert check(snapshot, Batch(pods=(high, late)), plan, Policy(preemption=RULES)) == ()


@pytest.mark.parametrize("memory", [2**62, 10**30], ids=["4Ei", "1e30"])
def test_a_victim_that_asks_for_more_than_numbers_hold_is_evicted_like_any_other(memory: int) -> None:
    """Any user may bind such a pod; it ended the decision about all pods that looked for victims there."""
    hog = replace(running("hog", "n1", priority=-1), requests=(("memory", memory),))
    others = [running(f"other-{number}", "n1", priority=-1, cpu=1) for number in range(3)]
    wanted = b.pod("wanted", priority=1, cpu=1)
    plan = decide(b.snapshot(b.node("n1", cpu=64), hog, *others), replace(wanted, requests=(("memory", 2**30),)))
    assert victims(plan) == ["hog"]


def test_what_preemption_raises_costs_the_preemption_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def extended(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(preempt, preempt.add_preemptions.__name__, extended)
    snapshot = b.snapshot(b.node("n1", cpu=4))
    forgiving = Budget(seconds=60.0, deterministic_seconds=1.0, is_forgiving=True)
    batch = Batch(pods=(b.pod("small", cpu=1), b.pod("large", cpu=10)))
    plan = solve(snapshot, batch, Policy(preemption=RULES), forgiving)
    assert [each.pod.name for each in plan.placements] == ["small"]
    assert ["ZeroDivisionError" in each for each in plan.report.defects] == [True]


@pytest.mark.parametrize(
    ("minimum", "there", "expected"),
    [
        pytest.param(0, 0, 2, id="the basic policy"),
        pytest.param(1, 1, 2, id="enough run"),
        pytest.param(1, 0, 1, id="one has to run first"),
        pytest.param(2, 0, 2, id="two have to run together"),
        pytest.param(3, 1, 2, id="two more have to run together"),
        pytest.param(3, 0, 0, id="all have to run together"),
    ],
)
def test_pods_that_a_gang_can_do_without_do_not_hold_up_the_others(minimum: int, there: int, expected: int) -> None:
    gang = GangId("default", "g", "scheduling.k8s.io")
    nodes = [b.node(f"n{n}", cpu=2) for n in range(4)]
    lows = [running(f"low-{n}", f"n{n}", cpu=2, priority=1 if n < 2 else 99) for n in range(3)]
    members = [replace(running(f"m-{n}", "n3", cpu=2, priority=10), gang=gang) for n in range(there)]
    waiting = tuple(replace(b.pod(f"high-{n}", cpu=2, priority=10), gang=gang) for n in range(3))
    batch = Batch(pods=waiting, gangs=(Gang(id=gang, min_count=minimum, member_count=3 + there),))
    snapshot = b.snapshot(nodes[: 3 + there], lows, members)

    plan = solve(snapshot, batch, Policy(preemption=RULES), Budget(seconds=60.0))

    assert victims(plan) == [f"low-{n}" for n in range(expected)]
    assert sum(len(each.placements) for each in plan.preemptions) == expected
    assert len(plan.unplaced) == 3


def reserved_for(pod: Pod, *nodes: str) -> NodeReservation:
    return NodeReservation(pod=pod.id, uids=(pod.uid,), priority=pod.priority, nodes=nodes)


def with_a_reserved_node(snapshot: Snapshot, pod: Pod, long: Pod) -> Plan:
    """Decide about a pod while n1 is reserved for another one that has waited for long; the checker agrees."""
    batch = Batch(pods=(pod,), node_reservations=(reserved_for(long, "n1"),))
    policy = Policy(preemption=DEVICES)
    plan = solve(snapshot, batch, policy, Budget(seconds=60.0, deterministic_seconds=10.0))
    assert check(snapshot, batch, plan, policy) == ()
    return plan


LONG = b.pod("long", "two", priority=10)


@pytest.mark.parametrize(("priority", "evicts"), [(5, False), (11, True)])
def test_nobody_is_evicted_from_a_node_that_is_reserved_for_another_pod(priority: int, evicts: bool) -> None:  # noqa: FBT001 - a case
    node, slices, gpu_class, claims, pods = gpus(2)
    asked = (b.claim("two", b.request(count=2)), b.claim("one"))
    snapshot = b.snapshot(node, slices, gpu_class, claims, pods, *asked)  # type: ignore[arg-type]

    plan = with_a_reserved_node(snapshot, b.pod("high", "one", priority=priority), LONG)

    assert bool(victims(plan)) == evicts


def test_a_nominated_pod_does_not_wait_for_victims_on_a_node_that_is_reserved_for_another_pod() -> None:
    """A device is free there, and nobody leaves: the pod waits for the reservation."""
    node, slices, gpu_class, claims, pods = gpus(2)
    objects = (node, slices, gpu_class, claims[:1], pods[:1])  # type: ignore[index]
    asked = (b.claim("two", b.request(count=2)), b.claim("one"))
    nominated = replace(b.pod("high", "one", priority=5), nominated_node_name="n1")
    snapshot = replace(b.snapshot(*objects, *asked), nominated=(nominated,))  # type: ignore[arg-type]

    plan = with_a_reserved_node(snapshot, nominated, LONG)

    assert plan.preemptions == ()
    assert ReasonCode.PREEMPTING not in {each.code for each in plan.unplaced[0].reasons}
