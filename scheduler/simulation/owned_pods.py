"""The pods that a controller made for an object, such as a Job, told by labels, names and owners."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # completion and wrong arguments need the kinds alone
    from solver.domain import Pod

_LABELS: Final = {
    "Job": "batch.kubernetes.io/job-name",
    "JobSet": "jobset.sigs.k8s.io/jobset-name",
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name",
    "RayCluster": "ray.io/cluster",
    "TrainJob": "jobset.sigs.k8s.io/jobset-name",
}
"""The label of pods that has the name of the object. A TrainJob makes a JobSet of its name."""
_TIME: Final = re.compile(r"-[0-9]+")
_CLUSTER: Final = re.compile(r"-(?:raycluster-)?[a-z0-9]{5}")
_MADE_NAMES: Final = {
    "CronJob": ("batch.kubernetes.io/job-name", _TIME),
    "RayJob": ("ray.io/cluster", _CLUSTER),
    "RayService": ("ray.io/cluster", _CLUSTER),
}
"""The label that has the name of what the object makes, and what that name has more than its own."""
_KUBEFLOW: Final = "training.kubeflow.org/job-name"
_KUBEFLOW_KINDS: Final = frozenset({"JAXJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"})
_NAMING: Final = frozenset({"DaemonSet", "ReplicaSet", "ReplicationController", "StatefulSet"})
"""Controllers that name pods by their own name and one more part."""
_TEMPLATE_HASH: Final = "pod-template-hash"
KINDS: Final = (*_LABELS, *_MADE_NAMES, "Deployment", *sorted(_NAMING), *sorted(_KUBEFLOW_KINDS))


def owned(pods: "Iterable[Pod]", kind: str, namespace: str, name: str) -> "tuple[Pod, ...]":
    """Return the pods of an object; none for a kind that is not among `KINDS`."""
    return tuple(pod for pod in pods if pod.id.namespace == namespace and _is_owned(pod, kind, name))


def _is_owned(pod: "Pod", kind: str, name: str) -> bool:
    labels, made_by = dict(pod.labels), pod.controller.kind if pod.controller is not None else ""
    if kind in _LABELS:
        return labels.get(_LABELS[kind]) == name
    if kind in _MADE_NAMES:
        label, ending = _MADE_NAMES[kind]
        made = labels.get(label, "")
        return made.startswith(name) and ending.fullmatch(made[len(name) :]) is not None
    if kind == "Deployment":
        template = labels.get(_TEMPLATE_HASH)
        return made_by == "ReplicaSet" and pod.id.name.rpartition("-")[0] == f"{name}-{template}"
    if kind in _KUBEFLOW_KINDS:
        return made_by == kind and labels.get(_KUBEFLOW) == name
    return kind in _NAMING and made_by == kind and pod.id.name.rpartition("-")[0] == name
