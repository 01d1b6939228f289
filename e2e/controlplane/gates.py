"""Which feature gates and APIs a control plane has, by the names of Kubernetes 1.36; an unknown one ends it at once."""

from typing import Literal

FeatureGates = Literal["on", "defaults"]
"""`on`: everything about devices and groups of pods that 1.36 has. `defaults`: what a cluster has without any flag."""

OFF_BY_DEFAULT = (
    "DRADeviceTaintRules",  # beta, but its API group version is off
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAResourcePoolStatus",
    "DRAWorkloadResourceClaims",
    "GangScheduling",
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
    "WorkloadWithJob",
)
ON_BY_DEFAULT = (  # named all the same: a newer Kubernetes without one of them should fail here
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
    "DRAResourceClaimDeviceStatus",
    "DRAResourceClaimGranularStatusAuthorization",
    "DRASchedulerFilterTimeout",
    "ResourceHealthStatus",
    "ResourceHealthStatusMessage",
)


def gate_flags(gates: FeatureGates) -> list[str]:
    """Return the flag that every component gets; none for the defaults."""
    if gates == "defaults":
        return []
    return ["--feature-gates=" + ",".join(f"{name}=true" for name in OFF_BY_DEFAULT + ON_BY_DEFAULT)]


def api_flags(gates: FeatureGates) -> list[str]:
    """Return the flag that serves the API versions which those gates need."""
    return [] if gates == "defaults" else ["--runtime-config=api/all=true"]
