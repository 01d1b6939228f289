"""Pods whose devices failed do not evict others for the next ones, for a while."""

from scheduler.commit.prebind import PreemptionBackoff
from solver.domain import Batch
from tests.support import builders as b

BATCH = Batch(pods=(b.pod("clumsy"), b.pod("other")))


def policies(batch: Batch) -> list[str]:
    return [pod.preemption_policy for pod in batch.pods]


def test_a_restrained_pod_evicts_nobody_until_the_time_is_over() -> None:
    now = 0.0
    restraint = PreemptionBackoff(300.0, lambda: now)
    assert restraint.applied(BATCH) is BATCH

    restraint.begin((BATCH.pods[0].uid,))
    now = 299.0
    assert policies(restraint.applied(BATCH)) == ["Never", "PreemptLowerPriority"]

    now = 301.0
    assert restraint.applied(BATCH) is BATCH


def test_the_time_starts_again_with_each_failure() -> None:
    now = 0.0
    restraint = PreemptionBackoff(300.0, lambda: now)
    restraint.begin((BATCH.pods[0].uid,))
    now = 200.0
    restraint.begin((BATCH.pods[0].uid,))

    now = 400.0
    assert policies(restraint.applied(BATCH)) == ["Never", "PreemptLowerPriority"]


def test_it_is_known_who_is_restrained() -> None:
    now = 0.0
    restraint = PreemptionBackoff(300.0, lambda: now)
    restraint.begin((BATCH.pods[0].uid,))

    assert [restraint.holds(pod.uid) for pod in BATCH.pods] == [True, False]
    now = 301.0
    assert not restraint.holds(BATCH.pods[0].uid)
