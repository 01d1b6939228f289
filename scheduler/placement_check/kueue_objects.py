"""Objects of Kueue (kueue.x-k8s.io/v1beta2) as far as the admission check reads them: frozen values, without I/O."""

from collections.abc import Container, Mapping
from typing import Final, NamedTuple

import msgspec

GROUP: Final = "kueue.x-k8s.io"
VERSION: Final = "v1beta2"
CONTROLLER: Final = "dovetail.dev/placement"
"""`spec.controllerName` of the AdmissionChecks that this scheduler answers."""
PARKED: Final = "dovetail.dev/parked"
"""Annotation of a Workload that the check has rejected: its quota is free until a decision says that it fits."""
REJECTED_BY_CHECK: Final = "DeactivatedDueToAdmissionCheck"
"""Kueue's reason of the condition Evicted where a check was Rejected; a person's deactivation has another one."""

REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
"""Kueue's annotation of a Workload that replaces another one of its Job, which runs with fewer pods (elastic Jobs)."""

PENDING: Final = "Pending"
READY: Final = "Ready"
REJECTED: Final = "Rejected"
RETRY: Final = "Retry"


class PodSetUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What a check adds to the pods of a podset. `tolerations` are those of the API, in JSON."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: bytes = b"[]"


class AdmissionCheckState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one admission check of a Workload."""

    name: str
    state: str = PENDING
    message: str = ""
    updates: tuple[PodSetUpdate, ...] = ()


class PodSet(msgspec.Struct, frozen=True, kw_only=True):
    """
    Equal pods of a Workload. `template` is their PodTemplateSpec in JSON.

    With quota, `count` and `flavors` (names of ResourceFlavors) are those of the admission, which partial admission
    makes smaller than the spec's; what has ended already (status.reclaimablePods) is left out.
    """

    name: str
    count: int
    template: bytes
    flavors: tuple[str, ...] = ()


class WorkloadOwner(NamedTuple):
    """An object that a Workload stands for: a Job, or a pod of a group."""

    api_version: str
    kind: str
    uid: str


class KueueWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """
    A Workload: what its pods are, what quota it has, and what the checks say.

    `replaces` is the key of the Workload that this one takes the place of, as its Job grew, "" where there is none.
    `priority` is spec.priority; `has_pod_priority` says that it is that of a PriorityClass of pods. `evicted` is the
    reason of the condition Evicted while that is True; `was_evicted` says that it was True once, which stopped the Job.
    `kept_back_at` is the place of the condition Requeued in status.conditions while that is False: Kueue lets no such
    Workload into its queue. `parked` is our annotation.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    creation: str = ""
    priority: int = 0
    has_pod_priority: bool = False
    queue: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    checks: tuple[AdmissionCheckState, ...] = ()
    owners: tuple[WorkloadOwner, ...] = ()
    replaces: str = ""
    evicted: str = ""
    was_evicted: bool = False
    kept_back_at: int | None = None
    parked: str = ""
    is_active: bool = True
    has_quota: bool = False
    is_admitted: bool = False
    is_finished: bool = False
    is_deleting: bool = False

    @property
    def key(self) -> str:
        """The key of a Change: `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def check(self, names: frozenset[str]) -> AdmissionCheckState | None:
        """Return the state of the first of these checks that the Workload has."""
        return next((each for each in self.checks if each.name in names), None)


def grows_beside_running_pods(
    workload: KueueWorkload, workloads: Mapping[str, KueueWorkload], were_admitted: Container[str] = ()
) -> bool:
    """
    Whether a Workload is the growth of an elastic Job of which pods run.

    Then one of those that it replaces, one after the other, was let in, and none was evicted since: Kueue stops the
    whole Job with a Workload that it evicts. Kueue 0.19 takes the gate off the further pods when the growth has quota,
    whatever a check says, and stops the running ones where one is Rejected. A former one that is gone was let in where
    `were_admitted` has its key: Kueue deletes what has finished (`objectRetentionPolicies`), as it has by the growth.
    """
    seen = {workload.key}
    while workload.replaces not in seen and not workload.was_evicted:
        seen.add(workload.replaces)
        former = workloads.get(workload.replaces)
        if former is None or former.is_admitted:
            return former is not None or workload.replaces in were_admitted
        workload = former
    return False


class AdmissionCheck(msgspec.Struct, frozen=True, kw_only=True):
    """An AdmissionCheck; `is_active` is its condition Active, None where it has none."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    controller: str = ""
    is_active: bool | None = None
    message: str = ""
    is_deleting: bool = False


class ResourceFlavor(msgspec.Struct, frozen=True, kw_only=True):
    """What Kueue adds to pods that have a flavor: labels of their nodes, and tolerations of the API in JSON."""

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: bytes = b"[]"
