"""
The pods that the Job controller makes of a Job, its PodGroup (KEP-5547), and the Job of a CronJob's next run.

A suspended Job, and a CronJob, are decided as if they were resumed, or due; the caller says so.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.simulation.manifests.fields import Body, mapping, metadata, spec, text
from scheduler.simulation.workloads.pod_templates import (
    NameOf,
    has_ended,
    is_over,
    namespace_of,
    number,
    owner_of,
    phase_of,
    pod_of,
    reference,
)

_JOB_NAME: Final = ("job-name", "batch.kubernetes.io/job-name")
_LONGEST_LABEL: Final = 63
_CONTROLLER_UID: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_FINISHED: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
_MANAGER: Final = "kubernetes.io/job-controller"
_MANY: Final = 2**31


def count(job: Body) -> int:
    """Return the most pods of a Job at a time."""
    terms = spec(job)
    return min(number(terms.get("parallelism")), number(terms.get("completions"), _MANY))


def last_index(job: Body) -> int:
    """Return the highest completion index of a Job."""
    terms = spec(job)
    return max(0, number(terms.get("completions"), number(terms.get("parallelism"))) - 1)


def job_of(cron_job: Body) -> Body:
    """Return the Job that a CronJob makes at its next time; it has the number 0 instead of a time in its name."""
    template = mapping(spec(cron_job).get("jobTemplate"))
    described, found = mapping(template.get("metadata")), metadata(cron_job)
    name = f"{text(found.get('name'))}-0"
    return {
        "apiVersion": cron_job.get("apiVersion"),
        "kind": "Job",
        "metadata": {
            "namespace": namespace_of(cron_job),
            "name": name,
            "uid": f"{found.get('uid')}-0",
            "labels": copy.deepcopy(described.get("labels", {})),
            "annotations": copy.deepcopy(described.get("annotations", {})),
            "ownerReferences": [reference(cron_job)],
        },
        "spec": copy.deepcopy(template.get("spec", {})),
    }


def note(workload: Body) -> str:
    """Say what a decision about a Job's or CronJob's pods assumes; empty where they are made now."""
    kind, terms = workload.get("kind"), spec(workload)
    suspended = "spec.suspend: is true: its pods are decided as if it were resumed"
    if kind == "CronJob":
        due = "its pods are decided as if it were due now"
        return f"spec.suspend: is true: {due} and not suspended" if terms.get("suspend") is True else due
    if kind != "Job":
        return ""
    manager = text(terms.get("managedBy"))
    if manager not in ("", _MANAGER):
        return f"spec.managedBy: {manager} makes its pods: they are decided as the Job controller would"
    if terms.get("suspend") is not True:
        return ""
    labels = mapping(metadata(workload).get("labels"))
    return f"{suspended} (by Kueue)" if "kueue.x-k8s.io/queue-name" in labels else suspended


def pods(job: Body, own: Sequence[Body], name_of: NameOf) -> Iterator[Body]:
    """
    Return the pods that a Job starts now; `own` are those that it has, `name_of` gives a name.

    With spec.completionMode Indexed each pod has an index, as a label, an annotation and in its hostname.
    """
    if is_over(job, _FINISHED):
        return
    terms, status, title = spec(job), mapping(job.get("status")), text(metadata(job).get("name"))
    active = [pod for pod in own if not has_ended(pod)]
    succeeded = max(number(status.get("succeeded"), 0), sum(1 for pod in own if phase_of(pod) == "Succeeded"))
    left = min(number(terms.get("parallelism")), max(0, number(terms.get("completions"), _MANY) - succeeded))
    missing = max(0, left - len(active))
    labels = {} if terms.get("manualSelector") is True else _labels(job)
    group = group_of_job(job)
    for index in _indexes(job, own, missing):
        is_indexed = terms.get("completionMode") == "Indexed"
        indexed = {_INDEX: str(index)} if is_indexed else {}
        pod = pod_of(job, name_of(f"{title}-", index), reference(job), indexed)
        found = pod["metadata"]
        found["labels"] = {**labels, **mapping(found["labels"])}
        if is_indexed:
            mapping(found["annotations"]).update(indexed)
            spec(pod)["hostname"] = f"{title}-{index}"
        if group is not None:
            spec(pod)["schedulingGroup"] = {"podGroupName": group["metadata"]["name"]}
        yield pod


def _labels(job: Body) -> dict[str, str]:
    """Return the labels that the API server adds to a Job's template (generateSelector)."""
    name, uid = (text(metadata(job).get(each)) for each in ("name", "uid"))
    return dict.fromkeys(_JOB_NAME, name) | dict.fromkeys(_CONTROLLER_UID, uid[:_LONGEST_LABEL])


def _indexes(job: Body, own: Sequence[Body], missing: int) -> Iterator[int]:
    """Return the completion indexes of the next pods; numbers in order for a Job without indexes."""
    known = {mapping(metadata(each).get("labels")).get(_INDEX) for each in own if phase_of(each) != "Failed"}
    done = [_range(each) for each in text(mapping(job.get("status")).get("completedIndexes")).split(",") if each]
    index = 0
    while missing:
        if str(index) not in known and not any(index in each for each in done):
            missing -= 1
            yield index
        index += 1


def _range(words: str) -> range:
    """Read an interval of status.completedIndexes: `3`, or `5-7`."""
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1) if first.isdecimal() and (last or first).isdecimal() else range(0)


def group_of_job(job: Body) -> Body | None:
    """
    Create the PodGroup of a Job by its spec.scheduling; None without that field.

    A Job whose template names a PodGroup, or that another controller owns, gets none. Without a policy the group has
    the basic one; without a minimum a gang needs `parallelism` pods.
    """
    terms, found = mapping(spec(job).get("scheduling")), metadata(job)
    pod = mapping(mapping(spec(job).get("template")).get("spec"))
    if job.get("kind") != "Job" or not terms or owner_of(job) is not None or "schedulingGroup" in pod:
        return None
    group = {"schedulingPolicy": {"basic": {}}, **copy.deepcopy(terms)}
    if "gang" in group["schedulingPolicy"]:
        least = max(1, number(spec(job).get("parallelism")))
        group["schedulingPolicy"] = {"gang": {"minCount": least, **mapping(group["schedulingPolicy"]["gang"])}}
    if "priorityClassName" in pod:
        group["priorityClassName"] = pod["priorityClassName"]
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"namespace": namespace_of(job), "name": f"{found.get('name')}-pgt-0"},
        "spec": group,
    }
