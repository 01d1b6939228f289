"""The fewest pods to move so that others fit."""

from typing import Any

import pytest
from msgspec.structs import replace

from solver.domain import Batch, Budget, Claim, Controller, Gang, GangId, Pod, Policy, Relocation, RepairGoal, Snapshot
from solver.domain.gang import DISRUPT_ALL, DISRUPT_SINGLE
from solver.repair import planner
from tests.support import builders as b
from tests.support.preemption_cases import RULES, disruption_budget, holding, running

POLICY = Policy(preemption=RULES)
JOB_LABEL = "batch.kubernetes.io/job-name"


def fewest(snapshot: Snapshot, *pods: Pod) -> Relocation:
    budget = Budget(seconds=60.0, deterministic_seconds=10.0)
    return planner.plan_moves(snapshot, RepairGoal(wanted=Batch(pods=pods)), POLICY, budget)


def controlled(pod: Pod) -> Pod:
    return replace(pod, controller=Controller(kind="ReplicaSet", uid="rs"))


def names(found: Relocation) -> list[str]:
    return sorted(move.pod.name for move in found.moves)


def fragmented(nodes: int = 2, *, cards: int = 4, held: int = 2) -> tuple[list[object], list[Pod], list[Claim]]:
    """Nodes with some cards each, of which single pods hold some."""
    objects: list[object] = [b.gpu_class(), b.claim("whole", b.request(count=cards))]
    pods, claims = [], []
    for node in range(nodes):
        objects += [b.node(f"n{node}"), b.gpu_slice(f"n{node}", count=cards)]
        for number in range(held):
            name = f"p{node}{number}"
            pods.append(controlled(running(name, f"n{node}", cpu=1)))
            pods[-1] = replace(pods[-1], claims=(b.entry(f"c{name}", template="one"),))
            claim = holding(f"c{name}", f"n{node}", f"gpu-{number}", consumers=(name,))
            claims.append(replace(claim, owner_pod_uid=pods[-1].uid))
    return objects, pods, claims


def cluster(objects: list[object], pods: list[Pod], claims: list[Claim]) -> Snapshot:
    return b.snapshot(*objects, pods, claims)  # type: ignore[arg-type]


def test_the_emptier_node_is_cleared() -> None:
    objects, pods, claims = fragmented(held=2)
    snapshot = cluster(objects, pods[:3], claims[:3])

    found = fewest(snapshot, b.pod("large", "whole"))

    assert found.is_found
    assert names(found) == ["p10"]
    assert (found.moves[0].source, found.moves[0].target) == ("n1", "n0")
    assert (found.least, found.is_proven, found.is_stepwise) == (1, True, True)
    assert found.placements[0].node == "n1"


def test_nothing_is_moved_where_the_pod_fits() -> None:
    objects, pods, claims = fragmented()
    found = fewest(cluster(objects, pods[:2], claims[:2]), b.pod("large", "whole"))

    assert (found.is_found, found.moves, found.is_proven) == (True, (), True)


def test_without_room_elsewhere_there_are_no_moves() -> None:
    found = fewest(cluster(*fragmented(held=3)), b.pod("large", "whole"))

    assert (found.is_found, found.moves) == (False, ())
    assert found.is_proven
    assert found.reason == "no moves make enough room"


def test_only_pods_move_that_come_back_to_us() -> None:
    objects, pods, claims = fragmented()
    base = cluster(objects, pods[:3], claims[:3])
    last = base.pods[2]
    changes = {
        "no controller": replace(last, controller=None),
        "another scheduler": replace(last, scheduler_name="default-scheduler"),
        "not to be evicted": replace(last, is_preemptible=False),
        "a gang's": replace(last, gang=GangId("default", "g", "dovetail.dev")),
        "more important": replace(last, priority=1),
    }

    found = {
        name: names(fewest(replace(base, pods=(*base.pods[:2], pod)), b.pod("large", "whole")))
        for name, pod in changes.items()
    }

    assert found == {name: ["p00", "p01"] for name in changes}
    shielded = replace(last, labels=(("app", "web"),))
    budgets = (disruption_budget("web", 0, app="web"),)
    guarded = replace(base, pods=(*base.pods[:2], shielded), budgets=budgets)
    assert names(fewest(guarded, b.pod("large", "whole"))) == ["p00", "p01"]


def two_jobs(*groups: Gang, grouped: bool = True) -> Snapshot:
    """Two nodes of eight cards; four single-card pods on each, in a group for each node."""
    objects, pods, claims = fragmented(cards=8, held=4)
    if grouped:
        pods = [b.member(replace(pod, labels=((JOB_LABEL, pod.node_name),)), pod.node_name) for pod in pods]
    return replace(cluster(objects, pods, claims), gangs=groups)


def test_pods_of_a_group_that_ties_nothing_move_as_pods_without_one() -> None:
    loose = two_jobs(b.gang("n0", 0), replace(b.gang("n1", 0), disruption=DISRUPT_SINGLE))

    alone, grouped = (fewest(each, b.pod("large", "whole")) for each in (two_jobs(grouped=False), loose))

    assert len(grouped.moves) == 4
    assert (grouped.is_proven, names(grouped)) == (alone.is_proven, names(alone))
    assert grouped.placements == alone.placements


@pytest.mark.parametrize(
    "tie",
    [
        {"min_count": 4},
        {"min_count": 4, "disruption": DISRUPT_SINGLE},
        {"disruption": DISRUPT_ALL},
        {"levels": (b.by_label("rack"),)},
        {"claims": (("shared", None, "one"),)},
        {"is_absent": True},
        {"invalid": "its pods contradict each other"},
    ],
    ids=["minimum", "minimum, evicted singly", "all or none", "topology", "claim", "absent", "invalid"],
)
def test_whatever_ties_pods_together_keeps_them_from_making_room(tie: dict[str, Any]) -> None:
    groups = [replace(b.gang(name, 0), **tie) for name in ("n0", "n1")]

    found = fewest(two_jobs(*groups), b.pod("large", "whole"))

    assert (found.is_found, found.is_proven) == (False, True)
    assert {each.reason for each in found.staying} == {
        "it belongs to gang default/n0 of Job n0",
        "it belongs to gang default/n1 of Job n1",
    }


def test_moves_come_in_an_order_that_can_be_taken() -> None:
    snapshot = b.snapshot(
        b.node("n0", cpu=4),
        b.node("n1", cpu=4),
        b.node("n2", cpu=4),
        controlled(running("three", "n0", cpu=3, node_selector={"kubernetes.io/hostname": "n0"})),
        controlled(running("two", "n1", cpu=2)),
        controlled(running("one", "n2", cpu=2)),
    )

    found = fewest(snapshot, b.pod("large", cpu=4))

    assert len(found.moves) == 1
    assert found.is_stepwise
