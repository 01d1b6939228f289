"""Invalid values of PodGroups, templates of Workloads and spec.scheduling of Jobs, as the API server validates them."""

from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.kube import api_versions
from scheduler.simulation.manifests.fields import Body, FieldError, entries, is_number, mapping, metadata, spec, text

_LARGEST_MINIMUM: Final = 2**31 - 1
_MOST_TEMPLATES: Final = 8
_PREEMPTION: Final = ("Never", "PreemptLowerPriority")
_POLICIES: Final = ("basic", "gang")
_SYSTEM: Final = "system-"
"""In front of the names of classes above the highest priority that users may define (HighestUserDefinablePriority)."""
_MODES: Final = frozenset({"single", "all"})


def of_object(body: Body) -> Iterator[FieldError]:
    """Return the errors in a Workload, or in a PodGroup of scheduling.k8s.io or scheduling.x-k8s.io."""
    if body.get("kind") == "Workload":
        yield from _of_templates(body)
    elif text(body.get("apiVersion")).startswith("scheduling.x-k8s.io/"):
        yield from _of_minimum(spec(body), "minMember", "spec")
    else:
        yield from _of_terms(spec(body), "spec", has_texts=_has_texts(body))


def _of_templates(workload: Body) -> Iterator[FieldError]:
    """Return the errors in the templates of a Workload."""
    found = list(entries(spec(workload).get("podGroupTemplates")))
    if not found and "compositePodGroupTemplates" not in spec(workload):
        yield FieldError("spec.podGroupTemplates", f"missing: write 1 to {_MOST_TEMPLATES} templates")
    if len(found) > _MOST_TEMPLATES:
        yield FieldError("spec.podGroupTemplates", f"are {len(found)}: at most {_MOST_TEMPLATES} are allowed")
    for index, each in found:
        at = f"spec.podGroupTemplates[{index}]"
        if not text(each.get("name")):
            yield FieldError(f"{at}.name", "missing: write a name")
        yield from _of_terms(each, at, has_texts=_has_texts(workload))


def of_job(job: Body) -> Iterator[FieldError]:
    """Return the errors in a Job's spec.scheduling, of which every field may be absent."""
    terms, at = mapping(spec(job).get("scheduling")), "spec.scheduling"
    if "schedulingPolicy" in terms:
        yield from _of_policy(terms, at)
    yield from _of_disruption(terms, at, has_texts=False)
    minimum = mapping(mapping(terms.get("schedulingPolicy")).get("gang")).get("minCount")
    parallelism = spec(job).get("parallelism", 1)
    if is_number(minimum) and is_number(parallelism) and minimum > parallelism:
        message = f"is {minimum}: write at most spec.parallelism, {parallelism}"
        yield FieldError(f"{at}.schedulingPolicy.gang.minCount", message)


def unmatched(workloads: Iterable[Body], groups: Iterable[Body]) -> Iterator[tuple[Body, str]]:
    """Return Workloads with a template of which there is no PodGroup, and PodGroups of a template that is not there."""
    used: dict[tuple[str, str], list[tuple[str, Body]]] = {}
    for group in groups:
        reference = mapping(spec(group).get("workloadRef"))
        key = text(metadata(group).get("namespace")), text(reference.get("workloadName"))
        used.setdefault(key, []).append((text(reference.get("templateName")), group))
    for workload in workloads:
        found = metadata(workload)
        own = used.get((text(found.get("namespace")), text(found.get("name"))), [])
        names = [text(each.get("name")) for _, each in entries(spec(workload).get("podGroupTemplates"))]
        for name in sorted(set(names) - {name for name, _ in own}):
            yield workload, f"no PodGroup is made from its template {name}, as a controller does: write it down"
        for name, group in own:
            if name not in names:
                yield group, f"spec.workloadRef.templateName: Workload {found.get('name')} has no template {name}"


def _has_texts(body: Body) -> bool:
    return text(body.get("apiVersion")).endswith("/v1alpha2")


def _of_terms(terms: Body, at: str, *, has_texts: bool) -> Iterator[FieldError]:
    """Return the errors in what a PodGroup and a template have in common."""
    yield from _of_policy(terms, at)
    gang = mapping(terms.get("schedulingPolicy")).get("gang")
    if gang is not None and "minCount" not in mapping(gang):
        yield FieldError(f"{at}.schedulingPolicy.gang.minCount", "missing: write 1 or more")
    yield from _of_disruption(terms, at, has_texts=has_texts)
    policy = terms.get("preemptionPolicy", _PREEMPTION[0])
    if policy not in _PREEMPTION:
        yield FieldError(f"{at}.preemptionPolicy", f"is {policy}: write {' or '.join(_PREEMPTION)}")
    if not has_texts and text(terms.get("priorityClassName")).startswith(_SYSTEM):
        message = "is for pods outside of groups: a PodGroup has a priority of at most 1000000000"
        yield FieldError(f"{at}.priorityClassName", message)


def _of_policy(terms: Body, at: str) -> Iterator[FieldError]:
    policy = mapping(terms.get("schedulingPolicy"))
    at = f"{at}.schedulingPolicy"
    chosen = [name for name in _POLICIES if name in policy]
    if not chosen:
        yield FieldError(at, "missing: write gang: {minCount: …}, or basic: {}")
    if len(chosen) > 1:
        yield FieldError(at, "basic and gang exclude each other: keep one of them")
    yield from _of_minimum(mapping(policy.get("gang")), "minCount", f"{at}.gang")


def _of_disruption(terms: Body, at: str, *, has_texts: bool) -> Iterator[FieldError]:
    mode = terms.get("disruptionMode")
    if has_texts and mode not in (None, *api_versions.DISRUPTION_TEXTS):
        yield FieldError(f"{at}.disruptionMode", f"write {' or '.join(api_versions.DISRUPTION_TEXTS)}")
    if not has_texts and mode is not None and len(_MODES & mapping(mode).keys()) != 1:
        yield FieldError(f"{at}.disruptionMode", "write single: {} or all: {}")


def _of_minimum(holder: Body, name: str, at: str) -> Iterator[FieldError]:
    value = holder.get(name)
    if is_number(value) and not 1 <= value <= _LARGEST_MINIMUM:
        yield FieldError(f"{at}.{name}", f"is {value}: write 1 or more, at most {_LARGEST_MINIMUM}")
