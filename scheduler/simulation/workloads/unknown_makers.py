"""Objects of kinds that are not read here and would make pods: what to write instead."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

from scheduler.simulation.manifests.decoding import of
from scheduler.simulation.manifests.fields import Body, FieldError, mapping, metadata, spec, text

_MAKE_NONE: Final = {
    "": ("PodTemplate",),
    "apiextensions.k8s.io": ("CustomResourceDefinition",),
    "apps": ("ControllerRevision",),
    "argoproj.io": ("ClusterWorkflowTemplate", "WorkflowTemplate"),
    "extensions.agents.x-k8s.io": ("SandboxTemplate",),
    "flow.volcano.sh": ("JobTemplate",),
    "kueue.x-k8s.io": ("Workload",),
    "serving.kserve.io": ("ClusterServingRuntime", "LLMInferenceServiceConfig", "ServingRuntime"),
    "trainer.kubeflow.org": ("ClusterTrainingRuntime", "TrainingRuntime"),
}
"""Kinds that hold a pod template and make no pod, by API group."""
_MAKE_PODS: Final = {
    "apps.nvidia.com": ("NIMPipeline", "NIMService"),
    "argoproj.io": ("CronWorkflow", "Rollout", "Workflow"),
    "extensions.agents.x-k8s.io": ("SandboxClaim", "SandboxWarmPool"),
    "flink.apache.org": ("FlinkDeployment",),
    "flow.volcano.sh": ("JobFlow",),
    "kaito.sh": ("InferenceSet", "RAGEngine", "Workspace"),
    "kubevirt.io": ("VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceReplicaSet"),
    "machinelearning.seldon.io": ("SeldonDeployment",),
    "nvidia.com": ("DynamoComponentDeployment", "DynamoGraphDeployment", "DynamoGraphDeploymentRequest"),
    "serving.kserve.io": ("InferenceGraph", "InferenceService", "LLMInferenceService"),
    "sparkoperator.k8s.io": ("ScheduledSparkApplication", "SparkApplication", "SparkConnect"),
    "tekton.dev": ("PipelineRun", "TaskRun"),
}
"""Kinds that make pods without a pod template in their spec, by API group."""
_MOST_VALUES: Final = 20_000
"""The values of an object in which a pod template is looked for."""
_INSTEAD: Final = "write the Pods, or a Job, Deployment or StatefulSet like them"


def error(body: Body) -> FieldError | None:
    """Say what to write for an object that would make pods; None for one that makes none."""
    group, kind = of(body)
    if kind in _MAKE_NONE.get(group, ()):
        return None
    if (group, kind) == ("trainer.kubeflow.org", "TrainJob"):
        runtime = text(mapping(spec(body).get("runtimeRef")).get("name"))
        name = text(metadata(body).get("name")) or "NAME"
        instead = f"write the JobSet that it makes (kubectl get jobset {name} -o yaml), or the Pods"
        return FieldError("spec.runtimeRef", f"{instead}: they are those of runtime {runtime}, which is not read")
    if (group, kind) == ("ray.io", "RayCronJob"):
        return FieldError("spec.jobTemplate", "the pods are those of a RayJob: write the RayJob with this as its spec")
    where = "spec" if kind in _MAKE_PODS.get(group, ()) else _template(body)
    article = "an" if kind[:1] in "AEIOU" else "a"
    unknown = f"Dovetail does not know which pods {article} {kind} ({group}) makes"
    return FieldError(where, f"{unknown}: {_INSTEAD}") if where else None


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
