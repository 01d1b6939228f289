"""Pods that have to leave failed devices and nodes that go: where to, with whom, and which of them stay."""

import pytest
from msgspec.structs import replace

from solver.domain import Claim, Pod, RepairNote, RepairRules, Snapshot
from tests.support import builders as b
from tests.support.preemption_cases import NOW, disruption_budget
from tests.support.repair_cases import (
    broken_rules,
    fleet,
    gang,
    holder,
    leaving,
    member,
    moved,
    plan,
    targets,
)

FAILED = [("n0", "gpu-0")]


def running_gang(*, minimum: int = 3, spare_in_rack: bool = True) -> Snapshot:
    """Three members in rack a, of which m0 has the device that fails; free cards in rack b, and one in rack a."""
    racks = ["a", "a", "b", "b"]
    held = [member(f"m{number}", f"n{number // 2}", f"gpu-{number % 2}") for number in range(3)]
    if not spare_in_rack:
        held.append(holder("other", "n1", "gpu-1", owner="other", priority=9))
    own = gang("g", 3, minimum=minimum, running_count=3, label="rack")
    return replace(b.snapshot(*fleet(4, 2, *held, rack=racks)), gangs=(own,))


def test_a_failed_member_alone_is_replaced_in_its_domain() -> None:
    found = plan(running_gang(), leaving("m0", devices=FAILED))

    assert targets(found) == {"m0": "n1"}
    assert (found.least, found.is_proven, found.is_stepwise) == (1, True, True)


def test_without_room_in_its_domain_a_member_stays() -> None:
    found = plan(running_gang(spare_in_rack=False), leaving("m0", devices=FAILED))

    assert not found.is_found
    reasons = {each.pod.name: each.reason for each in found.staying}
    assert reasons["m0"] == "there is no room for its successor"
    assert reasons["other"] == "its priority 9 is above 0"


def test_a_pod_of_lower_priority_makes_room_in_the_domain() -> None:
    snapshot = running_gang(spare_in_rack=False)
    pods = tuple(replace(pod, priority=-1) if pod.id.name == "other" else pod for pod in snapshot.pods)

    found = plan(replace(snapshot, pods=pods), leaving("m0", devices=FAILED))

    assert [move.pod.name for move in found.moves] == ["other", "m0"]
    assert targets(found)["m0"] == "n1"
    assert targets(found)["other"] in {"n2", "n3"}


def test_a_member_above_the_minimum_takes_the_place_first() -> None:
    """Two of three members are enough: the failed one leaves though its successor has no room."""
    found = plan(running_gang(minimum=2, spare_in_rack=False), leaving("m0", devices=FAILED))

    assert targets(found) == {"m0": ""}


def test_only_as_many_members_are_spared_as_the_gang_has_above_its_minimum() -> None:
    snapshot = running_gang(minimum=2, spare_in_rack=False)
    found = plan(snapshot, leaving("m0", "m1", devices=[("n0", "gpu-0"), ("n0", "gpu-1")]))

    assert targets(found) == {"m0": ""}
    assert [each.pod.name for each in found.staying if "room" in each.reason] == ["m1"]


def test_a_pod_with_several_devices_may_keep_those_that_work() -> None:
    """Its successor gets what the pod has on the node and is fine, and the free device beside it."""
    found = plan(b.snapshot(*fleet(1, 3, holder("a", "n0", "gpu-0", "gpu-1"))), leaving("a", devices=FAILED))

    (move,) = found.moves
    devices = sorted(result.device.device for _, allocation in move.allocations for result in allocation.results)
    assert (move.target, devices) == ("n0", ["gpu-1", "gpu-2"])


def test_even_a_pod_that_tolerates_everything_does_not_get_the_failed_device() -> None:
    pod, claim = holder("a", "n0", "gpu-0", tolerations=(b.toleration(),))
    requests = tuple(
        replace(each, alternatives=tuple(replace(way, tolerations=(b.toleration(),)) for way in each.alternatives))
        for each in claim.requests
    )
    snapshot = b.snapshot(*fleet(2, 1, (pod, replace(claim, requests=requests))))

    assert targets(plan(snapshot, leaving("a", devices=FAILED))) == {"a": "n1"}
    assert targets(plan(snapshot, leaving("a", nodes=["n0"]))) == {"a": "n1"}


def test_a_node_is_emptied_and_nobody_comes_back() -> None:
    held = [holder("a", "n0", "gpu-0"), holder("c", "n0", "gpu-1"), holder("d", "n1", "gpu-0")]

    found = plan(b.snapshot(*fleet(3, 2, *held)), leaving("a", "c", nodes=["n0"]))

    assert moved(found) == ["a", "c"]
    assert set(targets(found).values()) <= {"n1", "n2"}


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("controller", None, "it has no controller that would make it anew"),
        ("is_preemptible", False, 'its annotation dovetail.dev/preemptible is "false"'),
        (
            "repair_note",
            RepairNote(kept_by="karpenter.sh/do-not-disrupt"),
            "its annotation karpenter.sh/do-not-disrupt forbids it",
        ),
        ("scheduler_name", "default-scheduler", "another scheduler placed it: default-scheduler"),
        ("started", NOW - 10, "it has not run for 60 s yet"),
        ("labels", (("app", "web"),), "PodDisruptionBudget web allows no disruption now"),
    ],
)
def test_what_protects_a_pod_keeps_it_there(field: str, value: object, reason: str) -> None:
    pod, claim = holder("a", "n0", "gpu-0")
    snapshot = b.snapshot(*fleet(2, 1, (replace(pod, **{field: value}), claim)))
    snapshot = replace(snapshot, budgets=(disruption_budget("web", 0, app="web"),))

    found = plan(snapshot, leaving("a", devices=FAILED), RepairRules(now=NOW, minimum_run_seconds=60))

    assert not found.is_found
    assert [each.reason for each in found.staying] == [reason]


def test_those_that_cannot_leave_keep_nobody_else() -> None:
    stays, its_claim = holder("a", "n0", "gpu-0")
    held = [(replace(stays, controller=None), its_claim), holder("c", "n0", "gpu-1")]

    found = plan(b.snapshot(*fleet(2, 2, *held)), leaving("a", "c", nodes=["n0"]))

    assert targets(found) == {"c": "n1"}
    assert [each.pod.name for each in found.staying] == ["a"]


def of_jobset(held: tuple[Pod, Claim], **changes: object) -> tuple[Pod, Claim]:
    return replace(held[0], labels=(("jobset.sigs.k8s.io/jobset-name", "train"),), **changes), held[1]


def test_pods_that_restart_together_move_together_or_stay() -> None:
    """The other member goes in the same step; it may come back to its own devices."""
    held = [of_jobset(holder(f"j{n}", f"n{n}", "gpu-0")) for n in range(2)]

    found = plan(b.snapshot(*fleet(3, 1, *held)), leaving("j0", devices=FAILED))
    full = plan(b.snapshot(*fleet(3, 1, *held, holder("x", "n2", "gpu-0", priority=9))), leaving("j0", devices=FAILED))

    assert [(move.pod.name, move.step) for move in found.moves] == [("j0", 1), ("j1", 1)]
    assert sorted(targets(found).values()) == ["n1", "n2"]
    assert not full.is_found
    assert {each.reason for each in full.staying if each.pod.name[0] == "j"} == {"its set finds no room as a whole"}


def test_a_set_stays_where_one_of_its_pods_may_not_go() -> None:
    held = [of_jobset(holder(f"j{n}", f"n{n}", "gpu-0")) for n in range(2)]
    kept = replace(held[1][0], is_preemptible=False), held[1][1]

    found = plan(b.snapshot(*fleet(3, 1, held[0], kept)), leaving("j0", devices=FAILED))

    assert not found.is_found
    assert [each.pod.name for each in found.staying] == ["j1"]


def test_a_pod_may_say_that_it_restarts_alone() -> None:
    held = [of_jobset(holder(f"j{n}", f"n{n}", "gpu-0"), repair_note=RepairNote(restarts="pod")) for n in range(2)]

    assert moved(plan(b.snapshot(*fleet(3, 1, *held)), leaving("j0", devices=FAILED))) == ["j0"]


def test_pods_of_sets_make_no_room() -> None:
    held = [of_jobset(holder("j0", "n0", "gpu-0")), holder("a", "n1", "gpu-0", "gpu-1")]

    found = plan(b.snapshot(*fleet(2, 2, *held)), leaving("a", devices=[("n1", "gpu-0")]))

    assert not found.is_found
    assert "all pods of its set restart when one is moved" in {each.reason for each in found.staying}


def test_a_checkpoint_makes_a_move_cheap_and_its_age_is_capped() -> None:
    """Either pod could make room; the declared ages decide, but nobody is protected by an old checkpoint."""
    fresh = holder("fresh", "n0", "gpu-0", owner="a", seconds=9000, repair_note=RepairNote(checkpointed=NOW - 60))
    young = holder("young", "n1", "gpu-0", owner="b", seconds=600)
    full = holder("full", "n2", "gpu-0", "gpu-1", owner="c")
    snapshot = b.snapshot(*fleet(3, 2, fresh, young, full))
    goal = leaving("full", devices=[("n2", "gpu-0")])

    assert moved(plan(snapshot, goal)) == ["fresh", "full"]
    old = replace(fresh[0], repair_note=RepairNote(checkpointed=NOW - 8000)), fresh[1]
    rules = RepairRules(now=NOW, most_checkpoint_seconds=500)
    assert moved(plan(b.snapshot(*fleet(3, 2, old, young, full)), goal, rules)) == ["fresh", "full"]
    assert moved(plan(b.snapshot(*fleet(3, 2, old, young, full)), goal)) == ["full", "young"]


def test_what_was_moved_a_short_time_ago_makes_no_room_and_still_leaves() -> None:
    a, c, full = (
        holder("a", "n0", "gpu-0", owner="a"),
        holder("c", "n1", "gpu-0"),
        holder("full", "n2", "gpu-0", "gpu-1"),
    )
    snapshot = b.snapshot(*fleet(3, 2, a, c, full))
    settled = RepairRules(now=NOW, settled=(a[0].uid,))

    assert moved(plan(snapshot, leaving("full", devices=[("n2", "gpu-0")]), settled)) == ["c", "full"]
    assert moved(plan(snapshot, leaving("a", devices=FAILED), replace(settled, resting=("a",)))) == ["a"]
    resting = RepairRules(now=NOW, resting=("a", "rs"))
    assert not plan(snapshot, leaving("full", devices=[("n2", "gpu-0")]), resting).is_found


def test_the_check_finds_what_is_wrong_with_a_plan() -> None:
    """Each wrong plan breaks the rule that it breaks."""
    held = [holder("a", "n0", "gpu-0"), holder("c", "n1", "gpu-0")]
    snapshot = b.snapshot(*fleet(3, 1, *held))
    goal = leaving("a", devices=FAILED)
    found = plan(snapshot, goal)
    (move,) = found.moves

    def broken(**changes: object) -> list[str]:
        return broken_rules(snapshot, goal, replace(found, moves=(replace(move, **changes),)))

    own = replace(move.allocations[0][1], results=(b.result("gpu", "gpu-0", "n0"),), node_selector=b.on_node("n0"))
    taken = replace(own, results=(b.result("gpu", "gpu-0", "n1"),), node_selector=b.on_node("n1"))
    claim = move.allocations[0][0]
    assert broken() == []
    assert broken(pod_uid="other") == ["MoveUnknown"]
    assert broken(source="n1") == ["MoveUnknown"]
    assert broken(target="") == ["MoveRoom"]
    assert "MoveTarget" in broken(target="n0", allocations=((claim, own),))
    assert broken(target="n1", allocations=((claim, taken),)) == ["DeviceTwice"]
    kept = replace(snapshot, pods=tuple(replace(pod, is_preemptible=False) for pod in snapshot.pods))
    assert broken_rules(kept, goal, found) == ["MoveProtected"]
    budgets = (disruption_budget("all", 0),)
    assert broken_rules(replace(snapshot, budgets=budgets), goal, found) == ["MoveBudget"]
    assert broken_rules(snapshot, replace(goal, nodes=("n2",)), found) == ["MoveTarget"]
