"""Reclaim: a pod within its quota's guarantee has pods of its priority evicted that borrow, and no others."""

import pytest
from msgspec.structs import replace

from solver import solve
from solver.domain import FINALIZER, Batch, Budget, Claim, Plan, Pod, Policy, PreemptionRules, Snapshot
from solver.domain.gang import DISRUPT_ALL, DISRUPT_SINGLE
from solver.verify import check
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.quota_cases import devices, namespaces, quota

NOW = 100_000
RULES = PreemptionRules(
    is_enabled=True,
    frees_devices=True,
    scheduler_names=("dovetail",),
    now=NOW,
    reclaims=True,
    reclaim_minimum_run_seconds=60,
)
QUOTAS = (quota("blue", devices(guarantee=1), team="blue"), quota("red", devices(guarantee=2), team="red"))


def running(
    name: str, device: int, team: str, *, priority: int = 0, seconds: int = 1000, gang: object = None
) -> tuple[Pod, Claim]:
    """A pod that holds a GPU of the only node."""
    pod = b.pod(name, name, namespace=team, node_name="n0", priority=priority)
    held = b.held(name, b.result("r", f"gpu-{device}", "n0"), node_name="n0", namespace=team)
    held = replace(held, reserved_for=(b.consumer(name, team),), finalizers=(FINALIZER,))
    return replace(pod, started=NOW - seconds, gang=gang), held


def cluster(*pairs: tuple[Pod, Claim], count: int = 4, **more: object) -> Snapshot:
    pods, claims = zip(*pairs, strict=True)
    snapshot = b.snapshot(
        b.node("n0", cpu=64), b.gpu_slice("n0", count=count), b.gpu_class(), namespaces(), pods, claims
    )
    return replace(snapshot, quotas=QUOTAS, **more)


def decide(snapshot: Snapshot, *asked: tuple[str, str, int], rules: PreemptionRules = RULES) -> Plan:
    """Decide pods, each with a name, a team and a number of devices."""
    claims = [b.claim(name, b.request("r", count=count), namespace=team) for name, team, count in asked]
    pods = tuple(b.pod(name, name, namespace=team) for name, team, _ in asked)
    snapshot = replace(snapshot, claims=tuple(sorted((*snapshot.claims, *claims), key=lambda each: each.id)))
    batch, policy = Batch(pods=pods), Policy(preemption=rules)
    plan = solve(snapshot, batch, policy, Budget(seconds=60.0, deterministic_seconds=10.0))
    assert check(snapshot, batch, plan, policy) == ()
    return plan


def victims(plan: Plan) -> list[str]:
    return sorted(victim.pod.name for each in plan.preemptions for victim in each.victims)


def test_the_youngest_pod_that_borrows_is_reclaimed() -> None:
    blue = [running(f"blue-{index}", index, "blue", seconds=1000 + index) for index in range(4)]

    plan = decide(cluster(*blue), ("new", "red", 1))

    assert victims(plan) == ["blue-0"]
    assert "within the guarantee of its DeviceQuota" in plan.preemptions[0].victims[0].message


def test_nobody_is_reclaimed_below_its_guarantee_or_for_a_pod_beyond_its_own() -> None:
    fair = [running("blue-0", 0, "blue"), running("red-0", 1, "red"), running("red-1", 2, "red")]
    assert victims(decide(cluster(*fair, count=3), ("new", "red", 1))) == []

    one_each = [running("blue-0", 0, "blue"), running("red-0", 1, "red")]
    assert victims(decide(cluster(*one_each, count=2), ("new", "red", 1))) == []


def test_a_higher_priority_is_never_reclaimed_and_a_lower_one_goes_first() -> None:
    blue = [
        running("urgent", 0, "blue", priority=9),
        running("same", 1, "blue", seconds=100),
        running("low", 2, "blue", priority=-1, seconds=9000),
        running("old", 3, "blue", seconds=9000),
    ]
    assert victims(decide(cluster(*blue), ("new", "red", 1))) == ["low"]
    assert victims(decide(cluster(*blue), ("new", "red", 2))) == ["low", "same"]


def test_a_pod_that_has_not_run_long_enough_stays_and_without_the_setting_all_do() -> None:
    blue = [running(f"blue-{index}", index, "blue", seconds=30) for index in range(4)]
    assert victims(decide(cluster(*blue), ("new", "red", 1))) == []
    older = [running(f"blue-{index}", index, "blue") for index in range(4)]
    assert victims(decide(cluster(*older), ("new", "red", 1), rules=replace(RULES, reclaims=False))) == []


def test_a_gang_that_borrows_goes_whole() -> None:
    gang = b.gang("g", 2, namespace="blue")
    members = [running(f"m-{index}", index, "blue", gang=gang.id, seconds=100) for index in range(2)]
    others = [running("blue-2", 2, "blue", seconds=900), running("blue-3", 3, "blue", seconds=900)]

    plan = decide(cluster(*members, *others, gangs=(gang,)), ("new", "red", 2))

    assert victims(plan) in (["m-0", "m-1"], ["blue-2", "blue-3"])
    assert len(victims(plan)) == 2


@pytest.mark.parametrize("group", [{"min_count": 0}, {"min_count": 4, "disruption": DISRUPT_SINGLE}])
def test_pods_of_a_group_without_a_minimum_go_one_by_one(group: dict[str, object]) -> None:
    """As those of a Job, to which Kubernetes gives a PodGroup: together they hold more than the team has borrowed."""
    job = replace(b.gang("job", 4, namespace="blue"), **group)
    members = [running(f"m-{index}", index, "blue", gang=job.id, seconds=100 + index) for index in range(4)]

    assert victims(decide(cluster(*members, gangs=(job,)), ("new", "red", 2))) == ["m-0", "m-1"]
    whole = replace(job, disruption=DISRUPT_ALL)
    assert victims(decide(cluster(*members, gangs=(whole,)), ("new", "red", 2))) == []


def test_a_pod_that_waits_for_borrowers_that_are_too_young_is_tried_again_when_one_may_go() -> None:
    blue = [running(f"blue-{index}", index, "blue", seconds=20 + index) for index in range(4)]
    assert decide(cluster(*blue), ("new", "red", 1)).next_victim_seconds == 37
    older = [running(f"blue-{index}", index, "blue", seconds=20, priority=9) for index in range(4)]
    assert decide(cluster(*older), ("new", "red", 1)).next_victim_seconds is None
    assert decide(cluster(*blue), ("new", "red", 1), rules=replace(RULES, reclaims=False)).next_victim_seconds is None


TREE = (
    quota("root", devices(guarantee=3)),
    quota("red", devices(guarantee=1), parent="root", team="red"),
    quota("green", devices(), parent="root", team="green"),
    quota("blue", devices(guarantee=1), team="blue"),
)


def test_what_a_parent_guarantees_beyond_its_children_is_for_any_of_them() -> None:
    """Root guarantees three, red one of these: green may use the two others, and no more."""
    blue = [running(f"blue-{index}", index, "blue", seconds=1000 + index) for index in range(4)]
    assert victims(decide(replace(cluster(*blue), quotas=TREE), ("new", "green", 2))) == ["blue-0", "blue-1"]
    assert victims(decide(replace(cluster(*blue), quotas=TREE), ("new", "green", 3))) == []
    assert victims(decide(replace(cluster(*blue), quotas=TREE), ("new", "red", 1))) == ["blue-0"]


def test_a_child_that_uses_its_parents_guarantee_is_not_reclaimed_by_others_and_by_a_sibling_it_is() -> None:
    """Green holds two of root's three, within its guarantee; red's own one is owed by green or by blue."""
    green = [running(f"green-{index}", index, "green", seconds=100 + index) for index in range(3)]
    blue = [running("blue-0", 3, "blue", seconds=5000)]
    fleet = replace(cluster(*green, *blue), quotas=TREE)
    assert victims(decide(fleet, ("new", "red", 1))) == ["green-0"]
    more = (*TREE[:3], quota("blue", devices(guarantee=2), team="blue"))
    assert victims(decide(replace(fleet, quotas=more), ("new", "blue", 1))) == []


def test_a_sibling_that_takes_back_its_own_opens_nothing_to_strangers() -> None:
    """`company` keeps the four that it guarantees: green takes one of blue's, and red gets none."""
    blue = [running(f"blue-{index}", index, "blue", seconds=1000 + index) for index in range(4)]
    quotas = (
        quota("company", devices(guarantee=4)),
        quota("blue", devices(), parent="company", team="blue"),
        quota("green", devices(guarantee=1), parent="company", team="green"),
        quota("red", devices(guarantee=2), team="red"),
    )
    snapshot = replace(cluster(*blue), quotas=tuple(sorted(quotas, key=lambda each: each.name)))

    assert victims(decide(snapshot, ("new", "red", 1))) == []
    plan = decide(snapshot, ("new", "red", 1), ("g", "green", 1))
    assert victims(plan) == ["blue-0"]
    assert [each.pod.name for preemption in plan.preemptions for each in preemption.placements] == ["g"]


def test_room_that_is_held_for_pods_to_come_is_not_borrowed_by_those_that_run() -> None:
    """Blue runs the one that it is guaranteed; what is held for its next pod makes nobody lose a device."""
    snapshot = cluster(running("blue-0", 0, "blue"), count=2)
    held = h.holding(snapshot, h.hold("h", h.place(h.for_pod("next", "blue"), "n0", "gpu-1", cpu=1)))

    assert victims(decide(held, ("new", "red", 1))) == []
