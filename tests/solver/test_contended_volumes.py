"""Pods that pass the limits of volumes but get none: the others are decided without them."""

import sys
from itertools import combinations

import pytest
from msgspec.structs import replace

from solver import solve, solve_greedily, verify
from solver.domain import (
    Batch,
    Budget,
    CSINode,
    LabelRequirement,
    LabelSelector,
    Plan,
    Pod,
    Policy,
    PreemptionRules,
    Snapshot,
    VolumeClaimId,
)
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.calls import counted
from tests.support.preemption_cases import decide, running
from tests.support.volume_builders import storage_class, using, volume, volume_claim, with_storage

NAMES = ("a1", "a2", "b1", "c1")
"""Four claims on three volumes; of any two shapes there are enough."""
VOLUMES = [volume(pair, labels=dict.fromkeys(pair, "y")) for pair in ("ab", "bc", "ca")]
CLAIMS = [volume_claim(name, selector={name[0]: "y"}) for name in NAMES]


def placed(world: Snapshot, batch: Batch) -> Plan:
    plan = solve(world, batch, Policy(), s.PATIENT)
    assert verify.check(world, batch, plan, Policy()) == ()
    return plan


def codes(plan: Plan) -> dict[str, str]:
    return {each.pod.name: each.reasons[0].code for each in plan.unplaced}


@pytest.mark.parametrize("solver", [solve, solve_greedily])
def test_a_pod_whose_volumes_are_too_few_keeps_no_room(solver: object) -> None:
    world = with_storage(b.snapshot(b.node("n1", cpu=8)), storage_class(), *VOLUMES, *CLAIMS)
    batch = b.batch(using(b.pod("hostile", cpu=8), *NAMES), b.pod("victim", cpu=8, namespace="other"))

    plan: Plan = solver(world, batch, Policy(), s.PATIENT)  # type: ignore[operator]  # one of the two above

    assert verify.check(world, batch, plan, Policy()) == ()
    assert (s.nodes_of(plan), codes(plan)) == ({"victim": "n1"}, {"hostile": "VolumeContended"})


def of_one_attachment() -> tuple[Snapshot, list[Pod]]:
    """Four pods that share two volumes of a driver of which the node can have one more attached."""
    claims = [replace(volume_claim(name, storage="csi"), volume=f"v-{name}", is_bind_completed=True) for name in "xy"]
    volumes = [volume(f"v-{each.id.name}", claim=each, driver="csi", storage="csi") for each in claims]
    gang = [b.member(using(b.pod(f"h{number}", cpu=2), "xy"[number // 2]), "g") for number in range(4)]
    limits = CSINode(node="n1", limits=(("csi", 1),))
    return with_storage(b.snapshot(b.node("n1", cpu=8)), storage_class("csi", "csi"), limits, *volumes, *claims), gang


def test_a_gang_whose_attachments_are_too_few_keeps_no_room() -> None:
    world, gang = of_one_attachment()
    batch = b.batch(*gang, b.pod("victim", cpu=8, namespace="other"), gangs=[b.gang("g", 4, members=4)])

    plan = placed(world, batch)

    assert s.nodes_of(plan) == {"victim": "n1"}
    assert codes(plan) == dict.fromkeys(("h0", "h1", "h2", "h3"), "VolumeContended")


def test_where_time_has_ended_the_others_keep_their_places() -> None:
    world = with_storage(b.snapshot(b.node("n1", cpu=8)), storage_class(), *VOLUMES, *CLAIMS)
    batch = b.batch(using(b.pod("hostile", cpu=7), *NAMES), b.pod("victim", cpu=1, namespace="other"))

    plan = solve(world, batch, Policy(), Budget(seconds=1.0, clock=lambda: 2.0, started=0.0))

    assert (s.nodes_of(plan), codes(plan)) == ({"victim": "n1"}, {"hostile": "VolumeContended"})


@pytest.mark.parametrize("nodes", [1, 2])
def test_no_pod_is_evicted_for_a_pod_whose_volumes_are_too_few(nodes: int) -> None:
    low = [running(f"low{number}", f"n{number}", cpu=4, priority=-1) for number in range(nodes)]
    machines = [b.node(f"n{number}", cpu=4) for number in range(nodes)]
    world = with_storage(b.snapshot(machines, low), storage_class(), *VOLUMES, *CLAIMS)
    pods = using(b.pod("hostile", cpu=4), *NAMES), b.pod("victim", cpu=4, namespace="other")
    rules = PreemptionRules(is_enabled=True, scheduler_names=("dovetail",), now=100_000)

    plan = decide(world, *pods, rules=rules)

    assert verify.check(world, b.batch(*pods), plan, Policy(preemption=rules)) == ()
    assert [[each.pod.name for each in found.placements] for found in plan.preemptions] == [["victim"]]
    assert len(plan.preemptions[0].victims) == 1


@pytest.mark.parametrize("is_allowed", [False, True])
def test_shapes_of_one_namespace_take_no_limits_from_another(*, is_allowed: bool) -> None:
    """A hundred shapes are more than there are limits for."""
    names = [f"n{number}" for number in range(10)]
    volumes = [volume(f"l-{name}", nodes=[name], labels={"host": name}) for name in names]
    own = [replace(volume_claim(f"own-{n}"), id=VolumeClaimId("other", f"own-{n}")) for n in range(3)]
    gang = [b.member(using(b.pod(f"v{n}", cpu=1, namespace="other"), f"own-{n}"), "g") for n in range(3)]
    subsets = [some for size in (2, 3) for some in combinations(names, size)][:100]
    claims, hostile = [], []
    for row in range(4):
        asked = [f"h{row}-{number}" for number in range(100)]
        for name, some in zip(asked, subsets, strict=True):
            only = LabelSelector(requirements=(LabelRequirement(key="host", operator="In", values=some),))
            claims.append(replace(volume_claim(name), selector=only))
        hostile.append(using(b.pod(f"h{row}", cpu=1 if is_allowed else 65), *asked))
    world = with_storage(b.snapshot(map(b.node, names)), storage_class(), *volumes, *own, *claims)

    plan = placed(world, b.batch(*gang, *hostile, gangs=[b.gang("g", 3, namespace="other", members=3)]))

    assert {f"v{n}" for n in range(3)} <= s.nodes_of(plan).keys()


def test_pods_that_get_no_volumes_are_not_tried_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    On one node each would take the place of the one before; their priorities make each of them a class of its own.

    The first round finds that h7 gets no volumes, the second that h6 gets none either; the third leaves all out.
    """
    claims = [volume_claim(f"{name}-{n}", selector={name[0]: "y"}) for n in range(8) for name in NAMES]
    hostile = [using(b.pod(f"h{n}", cpu=8, priority=n), *(f"{name}-{n}" for name in NAMES)) for n in range(8)]
    world = with_storage(b.snapshot(b.node("n1", cpu=8)), storage_class(), *VOLUMES, *claims)
    prepared = counted(monkeypatch, sys.modules["solver.decide"], "prepare")

    plan = placed(world, b.batch(*hostile, b.pod("victim", cpu=8, namespace="other")))

    assert s.nodes_of(plan) == {"victim": "n1"}
    assert len(prepared) == 3


def test_a_pod_that_never_gets_its_volumes_holds_up_no_other_pod_of_its_namespace() -> None:
    """Where the pods that wait beside it were left out too, they would be in every batch."""
    own = volume("v-own", nodes=["n1"], labels={"own": "y"})
    claims = [*CLAIMS, volume_claim("own", selector={"own": "y"})]
    world = with_storage(b.snapshot(b.node("n1", cpu=8)), storage_class(), *VOLUMES, own, *claims)
    never = using(b.pod("never", cpu=8), *NAMES)
    sibling = using(b.pod("sibling", cpu=8), "own")

    plan = placed(world, b.batch(never, sibling))

    assert (s.nodes_of(plan), codes(plan)) == ({"sibling": "n1"}, {"never": "VolumeContended"})
