"""Devices and what describes them (`resource.k8s.io/v1` Device, ResourceSlice, DeviceClass, DeviceTaintRule)."""

from enum import StrEnum
from typing import Final

import msgspec

from solver.domain.ids import CounterId, DeviceId, PoolId
from solver.domain.label_selectors import NodeSelector, Taint
from solver.domain.quantity import Quantity


class AttributeKind(StrEnum):
    """The field of a DeviceAttribute that is set; plural kinds are lists (feature gate DRAListTypeAttributes)."""

    INT = "int"
    BOOL = "bool"
    STRING = "string"
    VERSION = "version"
    INTS = "ints"
    BOOLS = "bools"
    STRINGS = "strings"
    VERSIONS = "versions"

    __hash__ = str.__hash__  # Enum's own is Python code, and attribute values are hashed by the million

    @property
    def is_list(self) -> bool:
        """Whether the value is a tuple."""
        return self in {
            AttributeKind.INTS,
            AttributeKind.BOOLS,
            AttributeKind.STRINGS,
            AttributeKind.VERSIONS,
        }


_type_of_item = {
    AttributeKind.INTS: AttributeKind.INT,
    AttributeKind.BOOLS: AttributeKind.BOOL,
    AttributeKind.STRINGS: AttributeKind.STRING,
    AttributeKind.VERSIONS: AttributeKind.VERSION,
}
"""The scalar kind of each list kind."""


class AttributeValue(msgspec.Struct, frozen=True):
    """
    One attribute's value with its kind.

    `value` is an int, bool or str for scalar kinds and a tuple of them for list kinds; a version stays the text
    that the driver published (constraints compare it as text, CEL as a semantic version).
    """

    kind: AttributeKind
    value: int | bool | str | tuple[int | bool | str, ...]

    def items(self) -> tuple[tuple[AttributeKind, int | bool | str], ...]:
        """Return the scalar values, each with its scalar kind: one for a scalar, any number for a list."""
        if isinstance(self.value, tuple):
            kind = _type_of_item[self.kind]
            return tuple((kind, item) for item in self.value)
        return ((self.kind, self.value),)


class NodeScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The nodes that can use a slice's devices, or a device: exactly one field is set.

    `per_device` (perDeviceNodeSelection) is for slices only. If no field is set, the scope is of a kind that this
    version does not know, and no node can use the devices.
    """

    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device: bool = False


class ValidRange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    CapacityRequestPolicyRange.

    `counts_whole_units` says that steps are rounded to whole units, as Kubernetes 1.36 and older do; newer versions
    count thousandths (gate DRAFractionalCapacityRange).
    """

    min: Quantity
    max: Quantity | None = None
    step: Quantity | None = None
    counts_whole_units: bool = False


class RequestPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """CapacityRequestPolicy: the default, rounding and validation of requests for a consumable capacity."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: ValidRange | None = None


class Capacity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """DeviceCapacity."""

    value: Quantity
    request_policy: RequestPolicy | None = None


MAX_COMPATIBILITY_GROUPS: Final = 2
"""The most compatibility groups of one DeviceCounterConsumption."""


class CounterConsumption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    DeviceCounterConsumption: what a device consumes of one counter set of its pool.

    Devices in use that draw on one counter set must all have a compatibility group in common, or all have none
    (gate DRADeviceCompatibilityGroups).
    """

    counter_set: str
    counters: tuple[tuple[str, Quantity], ...]
    compatibility_groups: tuple[str, ...] = ()


class CounterSet(msgspec.Struct, frozen=True, kw_only=True):
    """CounterSet of a slice with `sharedCounters`."""

    name: str
    counters: tuple[tuple[str, Quantity], ...]


class NodeAllocatableMapping(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    What the device takes of a native resource of the node, once for each claim (KEP-5517).

    NodeAllocatableMapping: `allocation_multiplier` is its capacityMultiplier or deviceMultiplier. `is_legacy` marks a
    NodeAllocatableResourceMapping of Kubernetes 1.36: a container has to use the claim, and the pod's status has
    one field for the amounts.
    """

    resource: str
    capacity_key: str = ""
    allocation_multiplier: Quantity | None = None
    is_legacy: bool = False


class NodeAllocatableOverhead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """NodeAllocatableOverhead (KEP-5517): what each pod that uses the device takes, and each of its containers."""

    resource: str
    per_pod: Quantity | None = None
    per_container: Quantity | None = None

    def taken(self, containers: int) -> int:
        """Return the nano-units of a pod of which `containers` use the claim; amounts below zero count as 0."""
        per_pod, per_container = (max(0, each.nano) if each is not None else 0 for each in self.amounts)
        return per_pod + per_container * containers

    @property
    def amounts(self) -> tuple[Quantity | None, Quantity | None]:
        """Per pod, and per container."""
        return self.per_pod, self.per_container


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Device of a ResourceSlice.

    `attributes` and `capacities` are sorted by the name as published (`model` or `example.com/model`).
    `scope` is set only in slices with per-device node selection.
    """

    name: str
    attributes: tuple[tuple[str, AttributeValue], ...] = ()
    capacities: tuple[tuple[str, Capacity], ...] = ()
    consumes_counters: tuple[CounterConsumption, ...] = ()
    scope: NodeScope | None = None
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False
    node_allocatable: tuple[NodeAllocatableMapping, ...] = ()
    node_overhead: tuple[NodeAllocatableOverhead, ...] = ()

    @property
    def takes_node_resources(self) -> bool:
        """Whether pods that get it take more of their node than they request (KEP-5517)."""
        return bool(self.node_allocatable or self.node_overhead)


OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""The feature that a node declares whose kubelet knows `skipNodeOperations`."""


class ResourceSlice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    ResourceSlice: some devices or counter sets of one pool.

    `skip_node_operations` are the calls to the driver that the kubelet leaves out for its devices; only nodes that
    declare the feature `OPTIONAL_NODE_OPERATIONS` can use such devices.
    `invalid` is the decoding error of a slice that cannot be decoded: nothing of its pool is allocated. Its devices are
    then those of the last version that could be decoded.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    scope: NodeScope
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()
    invalid: str = ""

    @property
    def pool_id(self) -> PoolId:
        """The pool of the slice."""
        return PoolId(self.driver, self.pool)


class OpaqueConfig(msgspec.Struct, frozen=True, kw_only=True):
    """
    Opaque configuration of a class, a claim or an allocation.

    `parameters` is the JSON text exactly as the API gave it. `requests` is empty in classes; `source` is
    `FromClass` or `FromClaim` in allocations and empty elsewhere.
    """

    driver: str = ""
    parameters: str = ""
    requests: tuple[str, ...] = ()
    source: str = ""


class DeviceClass(msgspec.Struct, frozen=True, kw_only=True):
    """
    DeviceClass; `selectors` are CEL expressions in order.

    `invalid` is the decoding error of a class that could never be decoded: its requests get no devices.
    """

    name: str
    selectors: tuple[str, ...] = ()
    config: tuple[OpaqueConfig, ...] = ()
    extended_resource_name: str = ""
    creation_timestamp: str = ""
    invalid: str = ""


class DeviceTaintRule(msgspec.Struct, frozen=True, kw_only=True):
    """
    DeviceTaintRule: adds a taint to the devices that it selects.

    `selects_nothing` is a rule without a selector: by the API documentation it selects no device (kube-scheduler's
    resource slice tracker taints all devices).
    """

    name: str
    taint: Taint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    selects_nothing: bool = False


def consumed_counters(device_id: DeviceId, device: Device) -> tuple[tuple[CounterId, int], ...]:
    """
    Return what an allocated device consumes of the shared counters of its pool, in nano-units (KEP-4815).

    Amounts below zero, which the API server admits, are left out.
    """
    return tuple(
        (CounterId(device_id.driver, device_id.pool, consumption.counter_set, counter), amount.nano)
        for consumption in device.consumes_counters
        for counter, amount in consumption.counters
        if amount.nano > 0
    )
