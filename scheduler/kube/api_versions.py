"""
Every difference between the supported versions of Kubernetes, 1.34 to 1.37.

To stop supporting a version is to delete its lines here. `discovery` says which line applies to a server.
"""

from typing import Final

from solver.domain.gang import DISRUPT_ALL, DISRUPT_SINGLE

OLDEST_MINOR: Final = 34
"""The oldest supported version."""
NEWEST_MINOR: Final = 37
"""The newest supported version: what manifests are meant for without a cluster."""
NEEDED_VERSION: Final = "v1"
"""The version of resource.k8s.io that every supported server has (1.34)."""
TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2", "v1alpha3")
"""Versions of DeviceTaintRule with the same fields, the newest first: 1.37, 1.36, 1.34 and 1.35."""
POD_GROUP_VERSIONS: Final = ("v1beta1", "v1alpha3", "v1alpha2")
"""Versions of PodGroup that can be decoded, the newest first: 1.37, 1.37, 1.36. Older servers have no PodGroups."""
COSCHEDULING_VERSION: Final = "v1alpha1"
"""The version of the PodGroups of the scheduler plugin Coscheduling."""
OWN_VERSION: Final = "v1alpha1"
"""The version of dovetail.dev that this version of Dovetail writes."""

_POD_GROUP_CONDITIONS: Final = {"v1alpha2": "PodGroupScheduled"}
_POD_GROUP_CONDITION: Final = "PodGroupInitiallyScheduled"
POD_GROUP_CONDITIONS: Final = frozenset({_POD_GROUP_CONDITION, *_POD_GROUP_CONDITIONS.values()})
"""Every type that `pod_group_condition` returns."""
DISRUPTION_TEXTS: Final = {"Pod": DISRUPT_SINGLE, "PodGroup": DISRUPT_ALL}
"""The texts that spec.disruptionMode of a PodGroup has in v1alpha2; later versions have an object."""
_FRACTIONAL_CAPACITY_MINOR: Final = 37


def pod_group_condition(version: str) -> str:
    """Return the condition type that says whether a PodGroup of this API version is scheduled."""
    return _POD_GROUP_CONDITIONS.get(version, _POD_GROUP_CONDITION)


def has_fractional_capacity(minor: int) -> bool:
    """Whether request policies have fractional steps (gate DRAFractionalCapacityRange, on since 1.37)."""
    return minor >= _FRACTIONAL_CAPACITY_MINOR
