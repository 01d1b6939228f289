"""Which feature gates and APIs a control plane has; a component ends at once when it does not know a gate."""

from typing import Final, Literal

from e2e.controlplane.versions import minor

FeatureGates = Literal["on", "defaults"]
"""`on`: everything about devices and groups of pods that the version has. `defaults`: a cluster without any flag."""

_NEWEST: Final = 99
GATES: Final = {
    "CompositePodGroup": (37, _NEWEST),
    "DRAConsumableCapacity": (34, _NEWEST),
    "DRADerivedAttributes": (37, _NEWEST),
    "DRADeviceBindingConditions": (34, _NEWEST),
    "DRADeviceCompatibilityGroups": (37, _NEWEST),
    "DRADeviceTaintRules": (35, _NEWEST),
    "DRADeviceTaints": (34, _NEWEST),
    "DRAExtendedResource": (34, _NEWEST),
    "DRAFractionalCapacityRange": (37, _NEWEST),
    "DRAListTypeAttributes": (36, _NEWEST),
    "DRANodeAllocatableResources": (36, _NEWEST),
    "DRAOptionalNodeOperations": (37, _NEWEST),
    "DRAPartitionableDevices": (34, _NEWEST),
    "DRAPartitionableDevicesType": (37, _NEWEST),
    "DRAResourceClaimDeviceStatus": (34, _NEWEST),
    "DRAResourceClaimGranularStatusAuthorization": (36, _NEWEST),
    "DRAResourcePoolStatus": (36, _NEWEST),
    "DRASchedulerFilterTimeout": (34, _NEWEST),
    "DRAWorkloadResourceClaims": (36, _NEWEST),
    "GangScheduling": (35, 36),
    "GenericWorkload": (35, _NEWEST),
    "NodeDeclaredFeatures": (35, _NEWEST),
    "PodGroupPreemptionPolicy": (37, _NEWEST),
    "ResourceHealthStatus": (34, _NEWEST),
    "ResourceHealthStatusMessage": (36, _NEWEST),
    "TopologyAwareWorkloadScheduling": (36, _NEWEST),
    "WorkloadAwarePreemption": (36, 36),
    "WorkloadWithJob": (36, _NEWEST),
}
"""Gate: the first and the last minor version that has it."""


def gate_flags(gates: FeatureGates, kubernetes: str) -> list[str]:
    """Return the flag that every component gets; none for the defaults."""
    if gates == "defaults":
        return []
    known = [name for name, (first, last) in GATES.items() if first <= minor(kubernetes) <= last]
    return ["--feature-gates=" + ",".join(f"{name}=true" for name in known)]


def api_flags(gates: FeatureGates) -> list[str]:
    """Return the flag that serves the API versions which those gates need."""
    return [] if gates == "defaults" else ["--runtime-config=api/all=true"]
