"""A preemptor without victims is told what keeps each pod of a lower priority."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from solver.domain import Plan, Pod, PodId, PreemptionRules, ReasonCode, Snapshot
from solver.preemption.kept_pods import KeptPods
from solver.preemption.pdb_index import PdbIndex
from tests.support import builders as b
from tests.support import preemption_cases as c

LEAD = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod"


def said(plan: Plan) -> str:
    """What stands behind kube-scheduler's words in the reason of the one pod that waits."""
    (waiting,) = plan.unplaced
    (reason,) = (each for each in waiting.reasons if each.code is ReasonCode.NO_VICTIMS)
    assert reason.message.startswith(LEAD)
    return reason.message.removeprefix(LEAD)


def told(victim: Pod, *others: b.SnapshotObject, rules: PreemptionRules = c.RULES, cpu: int = 8, **more: int) -> str:
    snapshot = b.snapshot(b.node("n1", cpu=8), [victim, *others])
    if "budget" in more:
        budget = c.disruption_budget("keep", more["budget"], app="kept")
        snapshot = replace(snapshot, budgets=(budget,))
    return said(c.decide(snapshot, b.pod("boss", cpu=cpu, priority=10), rules=rules))


def test_a_budget() -> None:
    assert told(c.running("low", "n1", cpu=8, labels={"app": "kept"}), budget=0) == (
        " (default/low kept by a PodDisruptionBudget)"
    )


def test_an_annotation() -> None:
    victim = replace(c.running("low", "n1", cpu=8), is_preemptible=False)
    assert told(victim) == ' (default/low kept by dovetail.dev/preemptible: "false")'


def test_another_scheduler() -> None:
    victim = replace(c.running("low", "n1", cpu=8), scheduler_name="default-scheduler")
    assert told(victim) == " (default/low placed by scheduler default-scheduler)"


def test_a_pod_that_could_go_is_not_enough() -> None:
    low, high = c.running("low", "n1", cpu=4), c.running("high", "n1", cpu=4, priority=99)
    assert told(low, high) == " (default/low could go, which is not enough)"


@pytest.mark.parametrize(
    ("rules", "cause"),
    [
        (replace(c.RULES, frees_devices=False), "kept with their devices: preemption.devices is off"),
        (replace(c.RULES, minimum_run_seconds=5000), "kept, having run for less than 5000 s (minimumRunSeconds)"),
    ],
)
def test_devices(rules: PreemptionRules, cause: str) -> None:
    slices = (b.gpu_class(), b.gpu_slice("n1", count=1), b.claim("new"))
    objects = (b.node("n1"), *slices, c.holding("old", "n1", "gpu-0", consumers=("low",)))
    snapshot = b.snapshot(*objects, [c.running("low", "n1", "old")])
    found = said(c.decide(snapshot, b.pod("boss", "new", priority=10), rules=rules))
    assert found == f" (default/low {cause})"


def test_pods_of_other_namespaces_are_counted() -> None:
    victims = [c.running(f"low-{each}", "n1", cpu=4, namespace="secret", labels={"app": "kept"}) for each in range(2)]
    victims = [replace(each, is_preemptible=False) for each in victims]
    assert told(*victims) == ' (2 of other namespaces kept by dovetail.dev/preemptible: "false")'


def test_claims_without_the_finalizer() -> None:
    old = replace(c.holding("old", "n1", "gpu-0", consumers=("low",)), finalizers=())
    objects = (b.node("n1"), b.gpu_class(), b.gpu_slice("n1", count=1), b.claim("new"), old)
    snapshot = b.snapshot(*objects, [c.running("low", "n1", "old")])
    assert said(c.decide(snapshot, b.pod("boss", "new", priority=10), rules=c.DEVICES)) == (
        f" (default/low kept, for their claims lack the finalizer {c.FINALIZER}: their devices would not be freed)"
    )


class CountedBudgets(PdbIndex):
    """Counts the pods whose budgets are asked for."""

    asked = 0

    def over(self, pod: Pod) -> tuple[int, ...]:
        self.asked += 1
        return super().over(pod)


def of_many_teams(count: int, seed: int) -> tuple[Snapshot, list[Pod]]:
    """Running and waiting pods of five namespaces and four priorities; of the running ones some are others'."""
    chance = random.Random(seed)  # noqa: S311 - cases

    def of_a_team(pod: Pod) -> Pod:
        return replace(pod, id=PodId(f"team-{chance.randrange(5)}", pod.id.name), priority=chance.randrange(4))

    running = [replace(of_a_team(c.running(f"r{number:03}", "n1")), **chance.choice(KEPT)) for number in range(count)]
    return b.snapshot(b.node("n1"), running), [of_a_team(b.pod(f"w{number}")) for number in range(40)]


KEPT: tuple[dict[str, Any], ...] = ({}, {"scheduler_name": "other"}, {"is_preemptible": False}, {"is_deleting": True})


@pytest.mark.parametrize("seed", range(10))
def test_each_preemptor_is_told_what_it_is_told_alone(seed: int) -> None:
    snapshot, waiting = of_many_teams(30, seed)
    together = KeptPods(snapshot, 1, c.RULES, PdbIndex(snapshot), highest=3)

    for pod in waiting:
        alone = KeptPods(snapshot, 1, c.RULES, PdbIndex(snapshot), highest=pod.priority)
        assert together.no_victims(pod) == alone.no_victims(pod)


def test_the_running_pods_are_read_once_for_preemptors_of_all_namespaces_and_priorities() -> None:
    snapshot, waiting = of_many_teams(100, 0)
    pdbs = CountedBudgets(snapshot)
    kept = KeptPods(snapshot, 1, c.RULES, pdbs, highest=4)

    for pod in waiting:
        kept.no_victims(pod)

    assert 0 < pdbs.asked <= len(snapshot.pods)
