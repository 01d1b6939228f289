"""Which feature gates and APIs a control plane has; a component ends at once when it does not know a gate."""

import os
from typing import Final, Literal, NamedTuple, cast, get_args

from e2e.controlplane.versions import minor

FeatureGates = Literal["on", "defaults"]
"""`on`: everything about devices and groups of pods that the version has. `defaults`: a cluster without any flag."""
VARIABLE: Final = "DOVETAIL_GATES"
"""The environment variable that says which gates a whole test run has; without it they are on."""

_NEVER: Final = 99


class Gate(NamedTuple):
    """
    The minor versions from which on a gate exists and is on without a flag, and the last one that has it.

    Before its first version, the gate named by `before` was for the same.
    """

    first: int
    on: int = _NEVER
    last: int = _NEVER
    before: str = ""

    def exists(self, kubernetes: str) -> bool:
        """Whether a version knows the gate."""
        return self.first <= minor(kubernetes) <= self.last


GATES: Final = {
    "CompositePodGroup": Gate(37),
    "DRAConsumableCapacity": Gate(34, on=36),
    "DRADerivedAttributes": Gate(37),
    "DRADeviceBindingConditions": Gate(34, on=36),
    "DRADeviceCompatibilityGroups": Gate(37),
    "DRADeviceTaintRules": Gate(35, on=37, before="DRADeviceTaints"),
    "DRADeviceTaints": Gate(34, on=36),
    "DRAExtendedResource": Gate(34, on=36),
    "DRAFractionalCapacityRange": Gate(37, on=37),
    "DRAListTypeAttributes": Gate(36),
    "DRANodeAllocatableResources": Gate(36),
    "DRAOptionalNodeOperations": Gate(37),
    "DRAPartitionableDevices": Gate(34, on=36),
    "DRAPartitionableDevicesType": Gate(37),
    "DRAResourceClaimDeviceStatus": Gate(34, on=34),
    "DRAResourceClaimGranularStatusAuthorization": Gate(36, on=36),
    "DRAResourcePoolStatus": Gate(36),
    "DRASchedulerFilterTimeout": Gate(34, on=34),
    "DRAWorkloadResourceClaims": Gate(36),
    "GangScheduling": Gate(35, last=36),
    "GenericWorkload": Gate(35),
    "NodeDeclaredFeatures": Gate(35, on=36),
    "PodGroupPreemptionPolicy": Gate(37),
    "ResourceHealthStatus": Gate(34, on=36),
    "ResourceHealthStatusMessage": Gate(36, on=36),
    "TopologyAwareWorkloadScheduling": Gate(36),
    "WorkloadAwarePreemption": Gate(36, last=36),
    "WorkloadWithJob": Gate(36),
}


def chosen() -> FeatureGates:
    """Return the gates of the environment. Raises ValueError."""
    name = os.environ.get(VARIABLE) or "on"
    if name not in get_args(FeatureGates):
        raise ValueError(f"{VARIABLE}={name} is unknown; write on or defaults")
    return cast(FeatureGates, name)


def has_gate(name: str, gates: FeatureGates, kubernetes: str) -> bool:
    """Whether a control plane has what a gate is for. Raises KeyError for one that is not in the table."""
    gate = GATES[name]
    if gate.before and minor(kubernetes) < gate.first:
        return has_gate(gate.before, gates, kubernetes)
    return gate.exists(kubernetes) and (gates == "on" or minor(kubernetes) >= gate.on)


def gate_flags(gates: FeatureGates, kubernetes: str) -> list[str]:
    """Return the flag that every component gets; none for the defaults."""
    if gates == "defaults":
        return []
    known = (name for name, gate in GATES.items() if gate.exists(kubernetes))
    return ["--feature-gates=" + ",".join(f"{name}=true" for name in known)]


def api_flags(gates: FeatureGates) -> list[str]:
    """Return the flag that serves the API versions which those gates need."""
    return [] if gates == "defaults" else ["--runtime-config=api/all=true"]
