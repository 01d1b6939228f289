"""
Features that an installation may leave out, with the rights that each needs.

`deploy/components` has a folder of the same name for each, which grants exactly these rights; `deploy/base` grants all
others (`BASE`). `kube.discovery` asks the API server which of the features the scheduler's account has rights for.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.change import STORAGE_KINDS, Kind


class Feature(StrEnum):
    """What can be left out, by the name of its component."""

    PREEMPTION = "preemption"
    EXTENDED_RESOURCES = "extended-resources"
    VOLUMES = "volumes"
    POD_GROUPS = "pod-groups"
    KUEUE = "kueue"
    HOLDS = "holds"
    QUOTAS = "device-quotas"
    HELD_NODES = "held-nodes"
    REPAIR = "repair"

    @property
    def component(self) -> str:
        """The folder of manifests that grants the rights."""
        return f"deploy/components/{self.value}"


BY_RIGHTS: Final = frozenset({Feature.HELD_NODES})
"""Features that are on where the account has their rights, and that few need: without them nothing is wrong."""
OFF_BY_DEFAULT: Final = frozenset({Feature.KUEUE, Feature.REPAIR}) | BY_RIGHTS
"""Features that a setting or their rights switch on; else nobody misses them."""

TITLES: Final[Mapping[Feature, str]] = {
    Feature.PREEMPTION: "preemption",
    Feature.EXTENDED_RESOURCES: "extended resources",
    Feature.VOLUMES: "volumes",
    Feature.POD_GROUPS: "PodGroups",
    Feature.KUEUE: "Kueue's admission check",
    Feature.HOLDS: "DeviceHolds",
    Feature.QUOTAS: "DeviceQuotas",
    Feature.HELD_NODES: "nodes with held room",
    Feature.REPAIR: "repair",
}
"""What a feature is called in a sentence."""

CONSEQUENCES: Final[Mapping[Feature, str]] = {
    Feature.PREEMPTION: "no pod is evicted for another one",
    Feature.EXTENDED_RESOURCES: "pods whose extended resources are served by devices (DRA) wait",
    Feature.VOLUMES: "pods with PersistentVolumeClaims wait",
    Feature.POD_GROUPS: "pods that belong to a PodGroup wait",
    Feature.KUEUE: "Workloads with the admission check dovetail.dev/placement are not let in",
    Feature.HOLDS: "no room is held for pods to come, and DeviceHolds that exist hold nothing",
    Feature.QUOTAS: "no DeviceQuota is kept",
    Feature.HELD_NODES: "autoscalers may drain nodes with held room",
    Feature.REPAIR: "no RepairPlan is made or carried out",
}
"""What is different without a feature."""


class Right(NamedTuple):
    """A verb for a resource in all namespaces; `resource` may name a subresource, as in `pods/eviction`."""

    verb: str
    group: str
    resource: str
    kind: Kind | None = None
    """The kind that the server has to serve, where not every supported one does."""

    def __str__(self) -> str:
        """Write it as `kubectl auth can-i` takes it: `list podgroups.scheduling.k8s.io`."""
        resource, slash, subresource = self.resource.partition("/")
        return f"{self.verb} {resource}{f'.{self.group}' if self.group else ''}{slash}{subresource}"


def _each(verbs: str, group: str, resources: str, kind: Kind | None = None) -> Iterator[Right]:
    return (Right(verb, group, resource, kind) for resource in resources.split() for verb in verbs.split())


BASE: Final[tuple[Right, ...]] = (
    *_each("list watch", "", "namespaces nodes"),
    *_each("get list watch", "", "pods"),
    *_each("list watch", "resource.k8s.io", "deviceclasses resourceslices"),
    *_each("list watch", "resource.k8s.io", "devicetaintrules", Kind.TAINT_RULES),
    *_each("get list watch update patch", "resource.k8s.io", "resourceclaims"),
    *_each("get", "resource.k8s.io", "resourceclaimtemplates"),
    *_each("list", "", "resourcequotas"),
    *_each("update patch", "resource.k8s.io", "resourceclaims/status resourceclaims/binding"),
    *_each("create", "", "pods/binding"),
    *_each("patch", "", "pods/status"),
    *_each("create patch", "events.k8s.io", "events"),
)
"""The rights of `deploy/base` in the whole cluster; without one of them nothing is scheduled."""

RIGHTS: Final[Mapping[Feature, tuple[Right, ...]]] = {
    Feature.PREEMPTION: (
        *_each("list watch", "policy", "poddisruptionbudgets"),
        *_each("create", "", "pods/eviction"),
        *_each("delete", "", "pods"),
    ),
    Feature.EXTENDED_RESOURCES: tuple(_each("create delete", "resource.k8s.io", "resourceclaims")),
    Feature.VOLUMES: (
        *_each("get list watch patch", "", "persistentvolumeclaims persistentvolumes"),
        *_each(
            "list watch",
            "storage.k8s.io",
            "csidrivers csinodes csistoragecapacities storageclasses volumeattachments",
        ),
    ),
    Feature.POD_GROUPS: (
        *_each("list watch", "scheduling.k8s.io", "podgroups", Kind.POD_GROUPS),
        *_each("patch", "scheduling.k8s.io", "podgroups/status", Kind.POD_GROUPS),
        *_each("list watch", "scheduling.x-k8s.io", "podgroups", Kind.COSCHEDULING_GROUPS),
    ),
    Feature.KUEUE: (
        *_each("get list watch patch", "kueue.x-k8s.io", "workloads"),
        *_each("patch", "kueue.x-k8s.io", "workloads/status admissionchecks/status"),
        *_each("list watch", "kueue.x-k8s.io", "admissionchecks resourceflavors"),
        *_each("list watch", "resource.k8s.io", "resourceclaimtemplates"),
        *_each("list watch", "scheduling.k8s.io", "priorityclasses"),
    ),
    Feature.HOLDS: (
        *_each("get list watch create delete", "dovetail.dev", "deviceholds", Kind.HOLDS),
        *_each("patch", "dovetail.dev", "deviceholds/status", Kind.HOLDS),
    ),
    Feature.QUOTAS: (*_each("list watch", "dovetail.dev", "devicequotas", Kind.QUOTAS),),
    Feature.HELD_NODES: (*_each("get patch", "", "nodes"),),
    Feature.REPAIR: (
        *_each("get list create patch delete", "dovetail.dev", "repairplans"),
        *_each("patch", "dovetail.dev", "repairplans/status"),
    ),
}

STATUS_RIGHTS: Final[Mapping[Feature, tuple[Right, ...]]] = {
    Feature.QUOTAS: tuple(_each("patch", "dovetail.dev", "devicequotas/status", Kind.QUOTAS)),
}
"""Rights without which a feature works all the same, and its objects have no status."""

KINDS: Final[Mapping[Feature, frozenset[Kind]]] = {
    Feature.PREEMPTION: frozenset({Kind.BUDGETS}),
    Feature.EXTENDED_RESOURCES: frozenset(),
    Feature.VOLUMES: STORAGE_KINDS,
    Feature.POD_GROUPS: frozenset({Kind.POD_GROUPS, Kind.COSCHEDULING_GROUPS}),
    Feature.KUEUE: frozenset(),
    Feature.HOLDS: frozenset({Kind.HOLDS}),
    Feature.QUOTAS: frozenset({Kind.QUOTAS}),
    Feature.HELD_NODES: frozenset(),
    Feature.REPAIR: frozenset(),
}
"""The kinds that are not watched without a feature."""


class MissingFeature(NamedTuple):
    """A feature that is off, and the rights that the account lacks for it."""

    feature: Feature
    rights: tuple[Right, ...]

    def __str__(self) -> str:
        """Say what is missing, what follows, and what to do."""
        listed = ", ".join(map(str, self.rights))
        return (
            f"the scheduler's account may not {listed}: {CONSEQUENCES[self.feature]}; "
            f"{self.feature.component} grants it"
        )


_REFUSED: Final = re.compile(r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"')


def granted_by(refusal: str) -> str:
    """Return the manifests that grant what RBAC refuses with these words; "" where they are not RBAC's."""
    found = _REFUSED.search(refusal)
    if found is None:
        return ""
    wanted = (found["verb"], found["group"], found["resource"])
    granting = (*RIGHTS.items(), *STATUS_RIGHTS.items())
    return next(
        (each.component for each, rights in granting if any(wanted == right[:3] for right in rights)), "deploy/base"
    )
