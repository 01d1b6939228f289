"""Which pods were made for an object of each kind."""

import pytest
from msgspec.structs import replace

from scheduler.simulation import owned_pods
from solver.domain import Controller, Pod
from tests.support import builders as b


def made(name: str, kind: str, **labels: str) -> Pod:
    found = tuple((key.replace("__", "/").replace("_", "."), value) for key, value in labels.items())
    return replace(b.pod(name), labels=found, controller=Controller(kind=kind, uid="u"))


JOB, JOB_SET = {"batch_kubernetes_io__job-name": "train"}, {"jobset_sigs_k8s_io__jobset-name": "train"}
TIMED = {"batch_kubernetes_io__job-name": "train-29012345"}
RAY, KUBEFLOW = {"ray_io__cluster": "train"}, {"training_kubeflow_org__job-name": "train"}
CASES = {
    "Job": made("train-abcde", "Job", **JOB),
    "CronJob": made("train-29012345-abcde", "Job", **TIMED),
    "JobSet": made("train-w-0-0-abcde", "Job", **JOB_SET),
    "TrainJob": made("train-node-0-0-abcde", "Job", **JOB_SET),
    "LeaderWorkerSet": made("train-0-1", "StatefulSet", leaderworkerset_sigs_k8s_io__name="train"),
    "RayCluster": made("train-head-abcde", "RayCluster", **RAY),
    "RayJob": made("train-x1y2z-head-abcde", "RayCluster", ray_io__cluster="train-x1y2z"),
    "RayService": made("train-raycluster-x1y2z-head-abcde", "RayCluster", ray_io__cluster="train-raycluster-x1y2z"),
    "PyTorchJob": made("train-worker-0", "PyTorchJob", **KUBEFLOW),
    "Deployment": made("train-5d4f7-abcde", "ReplicaSet", **{"pod-template-hash": "5d4f7"}),
    "ReplicaSet": made("train-abcde", "ReplicaSet"),
    "ReplicationController": made("train-abcde", "ReplicationController"),
    "StatefulSet": made("train-0", "StatefulSet"),
    "DaemonSet": made("train-abcde", "DaemonSet"),
}


@pytest.mark.parametrize("kind", CASES)
def test_an_object_of_a_kind_has_its_pods_and_no_others(kind: str) -> None:
    pods = (CASES[kind], b.pod("train"), made("trains-0-abcde", "Other"), replace(CASES[kind], controller=None))
    found = owned_pods.owned(pods, kind, "default", "train")
    assert found[0] is CASES[kind]
    assert set(found) <= {CASES[kind], pods[3]}
    assert owned_pods.owned(pods, kind, "other", "train") == ()
    assert owned_pods.owned(pods, kind, "default", "trai") == ()
    if kind not in {"RayJob", "RayService", "CronJob"}:
        assert owned_pods.owned(pods, kind, "default", "train-x1y2z") == ()


def test_each_kind_has_a_case() -> None:
    assert set(owned_pods.KINDS) - set(CASES) == {"JAXJob", "MPIJob", "PaddleJob", "TFJob", "XGBoostJob"}
