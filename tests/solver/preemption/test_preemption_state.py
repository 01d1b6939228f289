"""Several preemptors of one priority: common victims, and nodes such that all of them are served."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import Batch, Budget, Gang, GangId, Plan, Pod, PodId, Policy, PreemptionRules, ReasonCode, Snapshot
from solver.preemption import victim_model
from solver.preemption.preemption_delay import DelayedPreemptors
from solver.verify import check
from tests.support import builders as b
from tests.support.neighbour_builders import spread
from tests.support.preemption_cases import (
    DEVICES,
    FINALIZER,
    RULES,
    decide,
    disruption_budget,
    holding,
    running,
    victims,
)


def served(plan: Plan) -> dict[str, str]:
    return {each.pod.name: each.node for found in plan.preemptions for each in found.placements}


def decided(snapshot: Snapshot, *pods: Pod, rules: PreemptionRules = RULES) -> Plan:
    """Decide, and check the plan."""
    plan = decide(snapshot, *pods, rules=rules)
    batch = Batch(pods=tuple(sorted(pods, key=lambda pod: -pod.priority)))
    assert check(snapshot, batch, plan, Policy(preemption=rules)) == ()
    return plan


def highs(*cpus: int, priority: int = 10) -> list[Pod]:
    return [b.pod(f"high-{number}", cpu=cpu, priority=priority) for number, cpu in enumerate(cpus)]


def two_nodes() -> Snapshot:
    """On n1 a pod of four, on n2 a young one of two; alone each of two pods would rather have the young one gone."""
    return b.snapshot(
        b.node("n1", cpu=4),
        b.node("n2", cpu=4),
        running("large", "n1", cpu=4, seconds=900),
        running("young", "n2", cpu=2, seconds=10),
        running("same", "n2", cpu=2, priority=10),
    )


def test_a_victim_that_makes_room_for_two_goes_alone() -> None:
    plan = decided(two_nodes(), *highs(2, 2))

    assert victims(plan) == ["large"]
    assert served(plan) == {"high-0": "n1", "high-1": "n1"}
    assert [each.is_proven for each in plan.preemptions] == [True]
    assert "default/high-0 of priority 10 and 1 more of its priority" in plan.preemptions[0].victims[0].message
    assert {each.reasons[0].code for each in plan.unplaced} == {ReasonCode.PREEMPTING}


def test_a_second_pod_takes_what_the_only_victims_leave_on_a_node_that_was_overfull() -> None:
    """No pod is left that may be evicted for the second one."""
    pods = [running(f"g{number}", "n1", cpu=2 * (number == 0)) for number in range(3)]
    gang = [replace(each, gang=GangId("default", "g", "dovetail.dev")) for each in pods]
    same = running("same", "n1", priority=10)
    snapshot = b.snapshot(b.node("n1", cpu=2, pods=3), gang, same)

    plan = decided(snapshot, *highs(1, 1))

    assert (victims(plan), served(plan)) == (["g0", "g1", "g2"], {"high-0": "n1", "high-1": "n1"})


def test_pods_that_come_together_to_an_overfull_node_leave_as_many_as_fit_beside_them() -> None:
    """One after the other they evict `alone` first, which is cheaper than the gang, and then the gang."""
    gang = [replace(running(f"g{number}", "n1"), gang=GangId("default", "g", "dovetail.dev")) for number in range(2)]
    snapshot = b.snapshot(b.node("n1", cpu=3, pods=3), gang, running("large", "n1", cpu=3), running("alone", "n1"))

    plan = decided(snapshot, *highs(1, 1))

    assert (victims(plan), len(served(plan))) == (["g0", "g1", "large"], 2)


def test_the_first_goes_elsewhere_where_the_second_cannot() -> None:
    snapshot = b.snapshot(
        b.node("n1", labels={"zone": "a"}, cpu=2),
        b.node("n2", labels={"zone": "b"}, cpu=2),
        running("young", "n1", cpu=2, seconds=10),
        running("old", "n2", cpu=2, seconds=9000),
    )
    free = b.pod("high-0", cpu=2, priority=10)
    bound = b.pod("high-1", cpu=2, priority=10, node_selector={"zone": "a"})

    assert served(decided(snapshot, free)) == {"high-0": "n1"}
    assert served(decided(snapshot, free, bound)) == {"high-0": "n2", "high-1": "n1"}


def test_pods_on_different_nodes_are_separate_preemptions() -> None:
    snapshot = b.snapshot(
        *(b.node(f"n{n}", cpu=2) for n in range(2)), *(running(f"p{n}", f"n{n}", cpu=2) for n in (0, 1))
    )

    plan = decided(snapshot, *highs(2, 2))

    assert [len(each.victims) for each in plan.preemptions] == [1, 1]
    assert [len(each.placements) for each in plan.preemptions] == [1, 1]


def test_a_gang_that_goes_whole_is_evicted_by_one_preemption() -> None:
    """Two of the three have to stay, or none: the first preemptor alone would leave one."""
    gang = GangId("default", "g", "dovetail.dev")
    members = [replace(running(f"g-{n}", f"n{min(n, 1)}", cpu=2), gang=gang) for n in range(3)]
    snapshot = b.snapshot(b.node("n0", cpu=2), b.node("n1", cpu=4), members)
    snapshot = replace(snapshot, gangs=(Gang(id=gang, min_count=2, member_count=3, running_count=3),))

    plan = decided(snapshot, *highs(4, 2))

    assert victims(plan) == ["g-0", "g-1", "g-2"]
    assert [len(each.placements) for each in plan.preemptions] == [2]


def test_pods_whose_topology_spread_needs_each_other_are_one_preemption() -> None:
    """Zone b has one pod more already: a second one may run there only once the other preemptor runs in zone a."""
    labels = {"app": "new"}
    nodes = [b.node(f"n{zone}", cpu=2, labels={"zone": zone}) for zone in "ab"]
    same = running("same", "nb", priority=10, labels=labels)
    snapshot = b.snapshot(nodes, [running(f"p{zone}", f"n{zone}", cpu=2) for zone in "ab"], same)
    pods = [
        replace(
            b.pod(f"high-{number}", cpu=2, priority=10, labels=labels, node_selector={"zone": zone}),
            spread=(spread("zone", app="new"),),
        )
        for number, zone in enumerate("ba")
    ]

    plan = decided(snapshot, *pods)

    assert victims(plan) == ["pa", "pb"]
    assert [len(each.placements) for each in plan.preemptions] == [2]


def test_the_bound_on_evictions_and_budgets_hold_for_all_of_them() -> None:
    snapshot = b.snapshot(
        *(b.node(f"n{n}", cpu=2) for n in range(3)),
        *(running(f"p{n}", f"n{n}", cpu=2, labels={"app": "web"}) for n in range(3)),
    )
    shielded = replace(snapshot, budgets=(disruption_budget("web", 1, app="web"),))

    assert len(victims(decided(snapshot, *highs(2, 2, 2), rules=replace(RULES, most_victims=2)))) == 2
    assert len(victims(decided(shielded, *highs(2, 2, 2)))) == 1


def test_one_device_claim_that_goes_serves_two() -> None:
    snapshot = b.snapshot(
        b.node("n1"),
        b.node("n2"),
        b.gpu_slice("n1", count=2),
        b.gpu_slice("n2", count=1),
        b.gpu_class(),
        holding("pair", "n1", "gpu-0", "gpu-1"),
        holding("single", "n2", "gpu-0"),
        running("pair", "n1", "pair", seconds=5000),
        running("single", "n2", "single", seconds=10),
        b.claim("a0"),
        b.claim("a1"),
    )

    plan = decided(snapshot, *(b.pod(f"high-{n}", f"a{n}", priority=1) for n in range(2)), rules=DEVICES)

    assert victims(plan) == ["pair"]
    assert sorted(str(each.claim) for found in plan.preemptions for each in found.allocations) == [
        "default/a0",
        "default/a1",
    ]


def test_a_gang_is_served_whole_or_not_at_all_beside_others() -> None:
    gang = GangId("default", "g", "dovetail.dev")
    members = [replace(b.pod(f"m-{n}", cpu=1, priority=10), gang=gang) for n in range(3)]
    snapshot = b.snapshot(b.node("n0", cpu=2), running("young", "n0", cpu=2, seconds=10))
    batch = Batch(pods=(*members, *highs(2)), gangs=(Gang(id=gang, min_count=3),))

    plan = solve(snapshot, batch, Policy(preemption=RULES), Budget(seconds=60.0, deterministic_seconds=10.0))

    assert served(plan) == {"high-0": "n0"}  # two of the three would be more pods


@pytest.mark.parametrize("broken", ["too large", "not proven"])
def test_without_a_proof_preemptors_are_served_in_turn(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "too large":
        monkeypatch.setattr(victim_model, "_MOST_CELLS", 1)
    else:
        monkeypatch.setattr(victim_model, "most_placed", lambda *_: None)

    plan = decided(two_nodes(), *highs(2, 2))

    assert len(served(plan)) == 2
    assert victims(plan) == ["large", "young"]


@pytest.fixture
def unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided together is never known to be the best, and compared."""
    decided_together = victim_model.decide_together

    def found(*given: Any) -> victim_model.JointDecision | None:
        joint = decided_together(*given)
        return joint._replace(is_best=False) if joint is not None else None

    monkeypatch.setattr(victim_model, "decide_together", found)


@pytest.mark.usefixtures("unsure")
def test_the_joint_decision_counts_where_it_is_cheaper() -> None:
    more = b.pod("also", cpu=2, priority=4)

    plan = decided(two_nodes(), *highs(2, 2), more)

    assert victims(plan) == ["large", "young"]
    assert served(plan) == {"high-0": "n1", "high-1": "n1", "also": "n2"}


@pytest.mark.usefixtures("unsure")
def test_serving_in_turn_counts_where_the_joint_decision_is_no_cheaper() -> None:
    snapshot = b.snapshot(
        *(b.node(f"n{n}", cpu=2) for n in (0, 1)), *(running(f"p{n}", f"n{n}", cpu=2) for n in (0, 1))
    )

    plan = decided(snapshot, *highs(2, 2), b.pod("also", cpu=2, priority=4))

    assert victims(plan) == ["p0", "p1"]
    assert served(plan).keys() == {"high-0", "high-1"}


def test_no_more_preemptors_are_decided_together_than_one_plan_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_model, "MOST_PREEMPTORS", 2)

    plan = decided(two_nodes(), *highs(2, 2, 2))

    assert len(served(plan)) == 2
    assert victims(plan) == ["large"]
    assert ReasonCode.BUDGET in {reason.code for each in plan.unplaced for reason in each.reasons}


def test_half_of_the_time_is_left_to_serve_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Budget] = []
    monkeypatch.setattr(victim_model, "decide_together", lambda tried, *_: seen.append(tried.budget))

    plan = decided(two_nodes(), *highs(2, 2))

    (budget,) = seen
    assert 20.0 < budget.seconds - (budget.clock() - budget.started) < 31.0
    assert len(served(plan)) == 2


def in_turn_badly() -> tuple[Snapshot, list[Pod]]:
    """The first of three takes the room of the second, which can be nowhere else; the third goes elsewhere."""
    snapshot = two_nodes()
    nodes = tuple(replace(node, labels=(*node.labels, ("zone", node.name))) for node in snapshot.nodes)
    first, third = highs(2, 2)
    tied = b.pod("high-0-tied", cpu=2, priority=10, node_selector={"zone": "n2"})
    return replace(snapshot, nodes=nodes), [first, tied, third]


def test_the_bound_on_units_holds_over_all_priorities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_model, "MOST_PREEMPTORS", 3)
    snapshot, pods = in_turn_badly()
    more = b.snapshot(b.node("n0", labels={"zone": "a"}, cpu=1), running("first", "n0", cpu=1))
    snapshot = replace(snapshot, nodes=(*more.nodes, *snapshot.nodes), pods=(*more.pods, *snapshot.pods))
    top = b.pod("top", cpu=1, priority=20, node_selector={"zone": "a"})

    assert len(served(decided(snapshot, *pods))) == 3
    assert served(decided(snapshot, top, *pods)) == {"top": "n0", "high-0": "n1", "high-1": "n1"}


def test_no_victims_is_said_only_of_the_state_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(victim_model, "MOST_PREEMPTORS", 2)
    snapshot, pods = in_turn_badly()

    plan = decided(snapshot, *pods)

    assert victims(plan) == ["large"]
    (waiting,) = (each for each in plan.unplaced if each.pod == pods[1].id)
    assert ReasonCode.BUDGET in {reason.code for reason in waiting.reasons}
    assert ReasonCode.NO_VICTIMS not in {reason.code for reason in waiting.reasons}


def wide_device(*more: Any) -> Snapshot:
    """Two nodes full of pods that may go, and one device that both reach."""
    return b.snapshot(
        *(b.node(f"n{n}", labels={"zone": f"n{n}"}, cpu=2) for n in (0, 1)),
        b.resource_slice("wide", b.device("gpu-0"), at=b.scope(all_nodes=True)),
        b.gpu_class(),
        *more,
    )


def test_preemptors_that_share_a_new_claim_are_one_preemption() -> None:
    lows = [running(f"p{n}", f"n{n}", cpu=2) for n in (0, 1)]
    pods = [b.pod(f"high-{n}", "shared", cpu=2, priority=10) for n in (0, 1)]

    plan = decided(wide_device(*lows, b.claim("shared")), *pods, rules=DEVICES)

    (found,) = plan.preemptions
    assert {each.node for each in found.placements} == {"n0", "n1"}
    assert [str(each.claim) for each in found.allocations] == ["default/shared"]
    assert len(found.victims) == 2


def test_preemptors_are_one_preemption_where_a_victim_holds_a_device_that_several_nodes_reach() -> None:
    held = replace(b.held("held", b.result("gpu", "gpu-0", "wide")), reserved_for=(b.consumer("low"),))
    low = running("low", "n0", "held", cpu=2)
    here = b.pod("here", cpu=2, priority=10, node_selector={"zone": "n0"})
    there = b.pod("there", "asked", priority=10, node_selector={"zone": "n1"})
    finalizers = (FINALIZER,)

    plan = decided(wide_device(low, replace(held, finalizers=finalizers), b.claim("asked")), here, there, rules=DEVICES)

    (found,) = plan.preemptions
    assert {each.pod.name for each in found.placements} == {"here", "there"}


class _Turns(AbstractSet[PodId]):
    """A set of one pod that counts how often it is read as a whole."""

    count = 0
    pod = PodId("default", "other")

    def __contains__(self, key: object) -> bool:
        return key == self.pod

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[PodId]:
        self.count += 1
        return iter((self.pod,))


@pytest.mark.parametrize("pods", [2, 20])
def test_pods_that_are_delayed_are_looked_at_once_for_all_preemptors(
    pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed = _Turns()
    monkeypatch.setattr(DelayedPreemptors, "pods", property(lambda _: delayed))
    plan = decided(two_nodes(), *highs(*([4] * pods)))
    assert len(plan.unplaced) == pods
    assert delayed.count == 1
