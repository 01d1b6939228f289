"""Preemptors of one priority share a decision: as many as possible, at the least cost, no worse than in turn."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver.domain import Batch, Plan, Pod, Policy, PreemptionRules, Snapshot
from solver.preemption import victim_model
from solver.verify import check
from tests.properties.test_preemption import Scene, scenes, shares_as_published
from tests.support import builders as b
from tests.support.bruteforce import best
from tests.support.preemption_cases import decide, harm_of, least_harm_for_most

PROPERTY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=100)


@st.composite
def scenes_of_several(draw: st.DrawFn) -> tuple[Snapshot, tuple[Pod, ...], PreemptionRules]:
    """A scene in which two or three pods of the same priority want in: mostly they need cpu, and none is free."""
    scene: Scene = draw(scenes())
    least = draw(st.sampled_from((0, 1, 1, 1)))
    pods, claims = [_asking(scene.pod, draw(st.integers(least, 4)))], []
    for number in range(draw(st.integers(1, 2))):
        names: tuple[str, ...] = ()
        if draw(st.booleans()):
            claims.append(b.claim(f"asked-{number}", b.request("gpu", count=draw(st.integers(1, 2)))))
            names = (f"asked-{number}",)
        pods.append(b.pod(f"high-{number}", *names, cpu=draw(st.integers(least, 4)), priority=4))
    snapshot = shares_as_published(scene.snapshot)
    snapshot = _full(snapshot) if least else snapshot
    snapshot = replace(snapshot, claims=tuple(sorted((*snapshot.claims, *claims), key=lambda claim: claim.id)))
    return snapshot, tuple(pods), scene.rules


def _asking(pod: Pod, cpu: int) -> Pod:
    return replace(pod, requests=(("cpu", 1000 * cpu),) if cpu else ())


def _full(snapshot: Snapshot) -> Snapshot:
    """Leave the nodes no more cpu than their pods have."""
    used = Counter[str]()
    for pod in snapshot.pods:
        used[pod.node_name] += dict(pod.requests).get("cpu", 0)
    nodes = (
        replace(node, allocatable=tuple(sorted({**dict(node.allocatable), "cpu": used[node.name]}.items())))
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=tuple(nodes))


def served(plan: Plan) -> int:
    return sum(len(each.placements) for each in plan.preemptions)


@contextmanager
def in_turn() -> Iterator[None]:
    """Nothing is decided together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(victim_model, "decide_together", lambda *_: None)
        yield


@PROPERTY
@given(scene=scenes_of_several())
def test_as_many_pods_as_possible_are_served_at_the_least_cost(
    scene: tuple[Snapshot, tuple[Pod, ...], PreemptionRules],
) -> None:
    snapshot, pods, rules = scene
    assume(best(snapshot, Batch(pods=pods)).counts == (0,))

    plan = decide(snapshot, *pods, rules=rules)

    assert check(snapshot, Batch(pods=pods), plan, Policy(preemption=rules)) == ()
    assert (served(plan), harm_of(snapshot, plan)) == least_harm_for_most(snapshot, pods, rules)


@PROPERTY
@given(scene=scenes_of_several())
def test_together_is_never_worse_than_in_turn(scene: tuple[Snapshot, tuple[Pod, ...], PreemptionRules]) -> None:
    snapshot, pods, rules = scene

    plan = decide(snapshot, *pods, rules=rules)
    with in_turn():
        one_by_one = decide(snapshot, *pods, rules=rules)

    assert check(snapshot, Batch(pods=pods), plan, Policy(preemption=rules)) == ()
    assert plan.placements == one_by_one.placements
    assert (-served(plan), harm_of(snapshot, plan)) <= (-served(one_by_one), harm_of(snapshot, one_by_one))
