"""Which minor versions of Kubernetes the control plane can be built as, and which one is meant."""

import os
from typing import Final

SUPPORTED: Final = ("1.34", "1.35", "1.36", "1.37")
"""Each has `go/VERSION.mod` and `go/VERSION.sum` with the newest patch that the module proxy serves."""
OLDEST: Final = SUPPORTED[0]
DEFAULT: Final = SUPPORTED[-1]
VARIABLE: Final = "DOVETAIL_KUBERNETES"
"""The environment variable that chooses a version for a whole test run; without it the default is meant."""

POD_GROUPS: Final = {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}
"""The apiVersion of PodGroups; older versions have no such kind."""
TAINT_RULES: Final = {
    "1.34": "resource.k8s.io/v1alpha3",
    "1.35": "resource.k8s.io/v1alpha3",
    "1.36": "resource.k8s.io/v1beta2",
    "1.37": "resource.k8s.io/v1",
}
"""The apiVersion of DeviceTaintRules."""


class UnknownVersionError(ValueError):
    """No control plane of this version can be built; the message lists those that can."""


def chosen(kubernetes: str | None = None) -> str:
    """Return the version that is named, else that of the environment, else the default. Raises UnknownVersionError."""
    name = kubernetes or os.environ.get(VARIABLE) or DEFAULT
    if name not in SUPPORTED:
        raise UnknownVersionError(f"Kubernetes {name} cannot be built; choose one of {', '.join(SUPPORTED)}")
    return name


def pod_groups(kubernetes: str | None = None) -> str:
    """Return the apiVersion of PodGroups, the oldest one for a version that has no such kind."""
    return POD_GROUPS.get(chosen(kubernetes), next(iter(POD_GROUPS.values())))


def taint_rules(kubernetes: str | None = None) -> str:
    """Return the apiVersion of DeviceTaintRules."""
    return TAINT_RULES[chosen(kubernetes)]


def minor(kubernetes: str) -> int:
    """Return the minor number: 37 of "1.37" and of "1.37.2"."""
    return int(kubernetes.split(".")[1])
