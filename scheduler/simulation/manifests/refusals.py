"""Everything in one object that kubectl or the API server refuses, and decoding alone would not explain."""

from collections.abc import Iterator
from typing import Final

from scheduler.simulation.controllers import workloads
from scheduler.simulation.manifests import claim_rules, pod_rules, shapes, spelling, volume_rules
from scheduler.simulation.manifests.fields import Body, mapping, spec
from scheduler.simulation.manifests.shapes import Wrong

MOST_PODS: Final = 150_000
"""Pods of all workloads together, as many as Kubernetes is tested with; each takes some 20 KiB here."""
_COUNTS: Final = ("replicas", "parallelism", "completions")


def of_object(body: Body) -> Iterator[Wrong]:
    """Give what is wrong with an object of a kind that is read: its shape, misspelt fields, and values."""
    yield from shapes.of_object(body)
    yield from spelling.misspelt(body)
    match body.get("kind"):
        case "Pod":
            yield from pod_rules.of_pod_spec(spec(body), "spec")
            yield from volume_rules.of_pod_spec(spec(body), "spec")
        case "PersistentVolumeClaim":
            yield from volume_rules.of_claim_spec(spec(body), "spec")
        case "PersistentVolume":
            yield from volume_rules.of_volume(body)
        case "ResourceClaim":
            yield from claim_rules.of_claim_spec(spec(body), "spec")
        case "ResourceClaimTemplate":
            yield from claim_rules.of_claim_spec(mapping(spec(body).get("spec")), "spec.spec")
        case "DeviceClass":
            yield from claim_rules.of_class_spec(spec(body))
        case "PodGroup":
            yield from claim_rules.of_group(body)
        case "PodDisruptionBudget":
            yield from pod_rules.of_selector(spec(body).get("selector"), "spec.selector")
        case kind if kind in workloads.KINDS:
            yield from _of_workload(body)


def _of_workload(body: Body) -> Iterator[Wrong]:
    workload = spec(body)
    for name in _COUNTS:
        count = workload.get(name)
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            yield Wrong(f"spec.{name}", f"expected a whole number, got {count!r}")
        elif count is not None and count < 0:
            yield Wrong(f"spec.{name}", f"is {count}: write 0 or more")
    made = workloads.count(body)
    if made > MOST_PODS:
        name = "parallelism" if body.get("kind") == "Job" else "replicas"
        yield Wrong(f"spec.{name}", f"makes {made} pods: write at most {MOST_PODS}")
    if not mapping(workload.get("template")):
        yield Wrong("spec.template", "missing: write the pods that are to be made")
    pod = mapping(mapping(workload.get("template")).get("spec"))
    yield from pod_rules.of_pod_spec(pod, "spec.template.spec")
    yield from volume_rules.of_pod_spec(pod, "spec.template.spec")
    yield from volume_rules.of_workload(workload)
