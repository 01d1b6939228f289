"""Objects that make pods and have none: whether they are suspended, and who resumes them."""

import io
from typing import Any

import pytest

from scheduler.simulation import owned_pods
from scheduler.simulation.workloads import podless_makers
from scheduler.simulation.workloads.maker_reading import GROUPS, PodMaker
from scheduler.simulation.workloads.podless_makers import Podless, of_maker

QUEUED = {"kueue.x-k8s.io/queue-name": "user-queue"}
QUOTA = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "gpus: 2 more needed"}


def job(kind: str = "Job", *, labels: dict[str, str] | None = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "ml", "name": "train", "uid": "u", "labels": labels or {}}
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}


def workload(*conditions: dict[str, str], active: bool = True, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "job-train-1a2b3"},
        "spec": {"queueName": "user-queue", "active": active},
        "status": {"conditions": list(conditions), **status},
    }


def true(kind: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": kind, "message": ""}


CHECKS = [{"name": "placement", "state": "Pending", "message": "no room"}, {"name": "other", "state": "Ready"}]


@pytest.mark.parametrize(
    ("queued", "said"),
    [
        pytest.param(workload(QUOTA), ("has quota.", "QuotaReserved=False (Pending): gpus: 2 more needed"), id="quota"),
        pytest.param(
            workload(true("QuotaReserved"), admissionChecks=CHECKS),
            ("once all admission checks are Ready:", "admission check placement is Pending: no room"),
            id="a check",
        ),
        pytest.param(
            workload(true("QuotaReserved"), true("Admitted")), ("has admitted its", "and resumes it."), id="admitted"
        ),
        pytest.param(
            workload({**true("Evicted"), "message": "by a person"}, active=False),
            ("set spec.active: true to queue it", "Evicted=True (Evicted): by a person"),
            id="not active",
        ),
    ],
)
def test_a_suspended_job_says_what_its_workload_waits_for(queued: dict[str, Any], said: tuple[str, ...]) -> None:
    found = of_maker("Job ml/train", PodMaker(job(suspend=True, labels=QUEUED), queued))
    assert found.said[0].startswith("Job ml/train is suspended, so it has no pods. ")
    text = " ".join(found.said)
    assert "Workload job-train-1a2b3 of queue user-queue" in text
    assert all(each in text for each in said)
    assert "other" not in text, "a check that is Ready"
    assert (found.waits, found.is_suspended, found.workload) == (True, True, "job-train-1a2b3")
    assert found.commands == (
        "kubectl get job train -n ml -o yaml | dovetail fit -f - says where its pods would start",
    )


def test_what_dovetail_has_parked_is_said_to_be_parked() -> None:
    parked = workload(active=False)
    parked["metadata"]["annotations"] = {"dovetail.dev/parked": "2026-01-01T00:00:00Z"}
    found = of_maker("Job ml/train", PodMaker(job(suspend=True), parked))
    assert "(Dovetail has parked it, and activates it once it fits)" in found.said[0]


@pytest.mark.parametrize(
    ("maker", "said"),
    [
        pytest.param(
            PodMaker(job(suspend=True)),
            "It has no queue of Kueue: whoever has set spec.suspend",
            id="a person",
        ),
        pytest.param(
            PodMaker(job(suspend=True, labels=QUEUED)), "names queue user-queue of Kueue, which has no", id="no Kueue"
        ),
        pytest.param(
            PodMaker(job(suspend=True, labels=QUEUED), forbidden=("workloads.kueue.x-k8s.io",)),
            "Kueue resumes it from queue user-queue: you may not list workloads.kueue.x-k8s.io.",
            id="rights",
        ),
        pytest.param(
            PodMaker(job("PyTorchJob", runPolicy={"suspend": True})), "is suspended, so it has no pods", id="Kubeflow"
        ),
        pytest.param(PodMaker(job("Deployment", replicas=0)), "has no pods: spec.replicas is 0", id="no replica"),
        pytest.param(
            PodMaker(job(status={"conditions": [true("Complete")]})),
            "it has ended (Complete)",
            id="over",
        ),
        pytest.param(PodMaker(job("CronJob", schedule="0 3 * * *")), "at its next time (0 3 * * *)", id="not due"),
        pytest.param(PodMaker(job(parallelism=1)), "its controller has made none yet", id="new"),
    ],
)
def test_why_there_are_no_pods(maker: PodMaker, said: str) -> None:
    found = of_maker("Job ml/train", maker)
    assert said in " ".join(found.said)
    assert found.waits == (found.is_suspended or bool(found.commands))


def test_a_job_of_a_suspended_job_set_names_the_job_set() -> None:
    body = job(suspend=True)
    body["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "llm", "controller": True}]
    assert "dovetail explain jobset/llm -n ml" in of_maker("Job ml/train", PodMaker(body)).said[0]


def test_what_a_controller_fails_at_is_said() -> None:
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
    found = of_maker("ReplicaSet ml/train", PodMaker(job("ReplicaSet", replicas=1, status={"conditions": [failed]})))
    assert found.said[1] == "ReplicaFailure=True (FailedCreate): exceeded quota"
    assert found.commands == ("kubectl describe replicaset train -n ml has its events",)


def test_the_text_is_escaped_and_wrapped() -> None:
    to = io.StringIO()
    message = "couldn't assign flavors to pod set main: insufficient unused quota for \x1b gpus, 2 more are needed"
    said = ("Job ml/train is suspended.", message)
    podless_makers.show(Podless("Job ml/train", is_suspended=True, waits=True, said=said, commands=("ask",)), to)
    assert to.getvalue() == (
        "Job ml/train is suspended.\n"
        "  couldn't assign flavors to pod set main: insufficient unused quota for \\x1b gpus,\n"
        "    2 more are needed\n"
        "  → ask\n"
    )


def test_every_kind_whose_pods_are_found_can_be_read() -> None:
    assert set(GROUPS) == set(owned_pods.KINDS)
