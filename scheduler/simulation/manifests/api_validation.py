"""
What kubectl or the API server refuses about one object: its shape, unknown fields, wrong types and invalid values.

Rules that know what users mistake say so in their own words; strict field validation finds the rest.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.kube.api_versions import NEWEST_MINOR
from scheduler.simulation.manifests import claim_rules, fields, group_rules, pod_rules, slice_rules, strict_fields
from scheduler.simulation.manifests.fields import Body, FieldError, mapping, spec
from scheduler.simulation.workloads import controllers, job_controller

MOST_PODS: Final = 150_000
"""The most pods of all workloads: as many as Kubernetes is tested with. Each takes about 20 KiB here."""
_COUNTS: Final = ("replicas", "parallelism", "completions")


def of_object(body: Body, minor: int = NEWEST_MINOR) -> Iterator[FieldError]:
    """Return the errors in an object, by the API of a minor version: shape, fields, types and values; one a field."""
    shapes, values = list(fields.of_object(body)), list(_of_values(body))
    said = {error.field for error in (*shapes, *values)}
    strict = (error for error in strict_fields.of_object(body, minor) if error.field not in said)
    yield from (*shapes, *strict, *values)


def _of_values(body: Body) -> Iterator[FieldError]:
    match body.get("kind"):
        case "Pod":
            yield from pod_rules.of_pod_spec(spec(body), "spec")
            yield from pod_rules.of_volumes(spec(body), "spec")
        case "PersistentVolumeClaim":
            yield from pod_rules.of_claim_spec(spec(body), "spec")
        case "PersistentVolume":
            yield from pod_rules.of_volume(body)
        case "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice" | "DeviceClass":
            yield from _of_devices(body)
        case "PodGroup" | "Workload":
            yield from group_rules.of_object(body)
        case "PodDisruptionBudget":
            yield from pod_rules.of_selector(spec(body).get("selector"), "spec.selector")
        case kind if kind in controllers.KINDS:
            yield from _of_workload(body)


def _of_devices(body: Body) -> Iterator[FieldError]:
    match body.get("kind"):
        case "ResourceClaim":
            yield from claim_rules.of_claim_spec(spec(body), "spec")
        case "ResourceClaimTemplate":
            yield from claim_rules.of_claim_spec(mapping(spec(body).get("spec")), "spec.spec")
        case "ResourceSlice":
            yield from slice_rules.of_slice_spec(spec(body))
        case _:
            yield from claim_rules.of_class_spec(spec(body))


def _of_workload(body: Body) -> Iterator[FieldError]:
    if body.get("kind") == "CronJob":
        for where, message in _of_workload(job_controller.job_of(body)):
            yield FieldError(f"spec.jobTemplate.{where}", message)
        return
    workload = spec(body)
    for name in _COUNTS:
        count = workload.get(name)
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            yield FieldError(f"spec.{name}", f"expected a whole number, got {count!r}")
        elif count is not None and count < 0:
            yield FieldError(f"spec.{name}", f"is {count}: write 0 or more")
    made = controllers.count(body)
    if made > MOST_PODS:
        name = "parallelism" if body.get("kind") == "Job" else "replicas"
        yield FieldError(f"spec.{name}", f"makes {made} pods: write at most {MOST_PODS}")
    if not mapping(workload.get("template")):
        yield FieldError("spec.template", "missing: write the pods that are to be made")
    pod = mapping(mapping(workload.get("template")).get("spec"))
    yield from pod_rules.of_pod_spec(pod, "spec.template.spec")
    yield from pod_rules.of_volumes(pod, "spec.template.spec")
    yield from pod_rules.of_workload(workload)
    if body.get("kind") == "Job":
        yield from group_rules.of_job(body)
