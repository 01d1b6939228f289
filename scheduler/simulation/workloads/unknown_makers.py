"""Objects of kinds that are not read here and would make pods: what to write instead."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

from scheduler.simulation.manifests.decoding import of
from scheduler.simulation.manifests.fields import Body, FieldError, mapping, spec, text

_MAKE_NONE: Final = frozenset(
    {
        ("", "PodTemplate"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apps", "ControllerRevision"),
        ("kueue.x-k8s.io", "Workload"),
        ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
        ("trainer.kubeflow.org", "TrainingRuntime"),
    }
)
"""Kinds that hold a pod template and make no pod."""
_MAKE_PODS: Final = {
    ("argoproj.io", "CronWorkflow"): "spec",
    ("argoproj.io", "Workflow"): "spec",
    ("serving.kserve.io", "InferenceService"): "spec.predictor",
    ("serving.kserve.io", "LLMInferenceService"): "spec",
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"): "spec",
    ("sparkoperator.k8s.io", "SparkApplication"): "spec",
}
"""Kinds that make pods without a pod template in their spec."""
_MOST_VALUES: Final = 20_000
"""The values of an object in which a pod template is looked for."""
_INSTEAD: Final = "write the Pods, or a Job, Deployment or StatefulSet like them"


def error(body: Body) -> FieldError | None:
    """Say what to write for an object that would make pods; None for one that makes none."""
    route = of(body)
    if route in _MAKE_NONE:
        return None
    if route == ("trainer.kubeflow.org", "TrainJob"):
        runtime = text(mapping(spec(body).get("runtimeRef")).get("name"))
        message = f"the pods are those of runtime {runtime}, which is not read: {_INSTEAD}"
        return FieldError("spec.runtimeRef", f"{message}, or the JobSet that kubectl get jobset shows")
    where = _MAKE_PODS.get(route) or _template(body)
    return FieldError(where, f"a {route[1]} makes pods, and which is not known here: {_INSTEAD}") if where else None


def _template(body: Body) -> str:
    """Return the path of the first pod template, or of containers; empty if there is none."""
    for path, value in itertools.islice(_walk(body), _MOST_VALUES):
        if isinstance(value, dict) and _has_containers(value):
            return path.removesuffix(".spec") or "spec"
    return ""


def _walk(body: Body) -> Iterator[tuple[str, Any]]:
    """Return all values below spec with their paths, the upper ones first."""
    level: list[tuple[str, Any]] = [("spec", body.get("spec"))]
    while level:
        yield from level
        below: list[tuple[str, Any]] = []
        for path, value in level:
            if isinstance(value, dict):
                below += ((f"{path}.{name}", each) for name, each in value.items())
            elif isinstance(value, list):
                below += ((f"{path}[{index}]", each) for index, each in enumerate(value))
        level = below


def _has_containers(value: Body) -> bool:
    found = value.get("containers")
    return isinstance(found, list) and any(isinstance(each, dict) and "image" in each for each in found)
