"""The fewest pods to move so that others fit."""

from msgspec.structs import replace

from solver.domain import Batch, Budget, Claim, Controller, GangId, Pod, Policy, Relocation, RepairGoal, Snapshot
from solver.repair import planner
from tests.support import builders as b
from tests.support.preemption_cases import RULES, disruption_budget, holding, running

POLICY = Policy(preemption=RULES)


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
