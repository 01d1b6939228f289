"""Pods whose devices failed evict no other pods for a while."""

from scheduler.commit.prebind import PreemptionBackoff
from solver.domain import Batch
from tests.support import builders as b

BATCH = Batch(pods=(b.pod("clumsy"), b.pod("other")))


def policies(batch: Batch) -> list[str]:
    return [pod.preemption_policy for pod in batch.pods]


def test_a_pod_whose_devices_failed_evicts_no_pod_until_the_time_is_over() -> None:
    now = 0.0
    backoff = PreemptionBackoff(300.0, lambda: now)
    assert backoff.apply(BATCH) is BATCH

    backoff.start((BATCH.pods[0].uid,))
    now = 299.0
    assert policies(backoff.apply(BATCH)) == ["Never", "PreemptLowerPriority"]

    now = 301.0
    assert backoff.apply(BATCH) is BATCH


def test_the_time_starts_again_with_each_failure() -> None:
    now = 0.0
    backoff = PreemptionBackoff(300.0, lambda: now)
    backoff.start((BATCH.pods[0].uid,))
    now = 200.0
    backoff.start((BATCH.pods[0].uid,))

    now = 400.0
    assert policies(backoff.apply(BATCH)) == ["Never", "PreemptLowerPriority"]


def test_its_pods_are_known() -> None:
    now = 0.0
    backoff = PreemptionBackoff(300.0, lambda: now)
    backoff.start((BATCH.pods[0].uid,))

    assert [pod.uid in backoff for pod in BATCH.pods] == [True, False]
    now = 301.0
    assert BATCH.pods[0].uid not in backoff
