"""ResourceSlices, DeviceClasses (resource.k8s.io/v1) and DeviceTaintRules (v1, v1beta2, v1alpha3: the same fields)."""

import functools
import operator
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.kube.decode import node_allocatable
from scheduler.kube.decode.legible_json import LegibleJson
from scheduler.kube.decode.node_allocatable import LegacyMappingWire, NodeAllocatableWire
from scheduler.kube.decode.shared_fields import (
    ConfigWire,
    MalformedError,
    Metadata,
    NodeSelectorWire,
    SelectorWire,
    TaintWire,
    Wire,
    configs,
    node_selector,
    quantity,
    selectors,
    taint,
    taints,
)
from solver.domain import (
    AttributeKind,
    AttributeValue,
    Capacity,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    DeviceTaintRule,
    NodeScope,
    Quantity,
    QuantityError,
    RequestPolicy,
    ResourceSlice,
    ValidRange,
)


class _ClassSpec(Wire, frozen=True):
    selectors: list[SelectorWire] | None = None
    config: list[ConfigWire] | None = None
    extended_resource_name: str | None = None


class ClassWire(Wire, frozen=True):
    """DeviceClass."""

    metadata: Metadata
    spec: _ClassSpec = _ClassSpec()


class _RuleSelector(Wire, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: list[msgspec.Raw] | None = None


class _RuleSpec(Wire, frozen=True):
    taint: TaintWire
    device_selector: _RuleSelector | None = None


class RuleWire(Wire, frozen=True):
    """DeviceTaintRule."""

    metadata: Metadata
    spec: _RuleSpec


_class = msgspec.json.Decoder(ClassWire)
_rule = msgspec.json.Decoder(RuleWire)


def decode_class(raw: bytes | msgspec.Raw, made: LegibleJson | None = None) -> DeviceClass:
    """Decode a DeviceClass; `made` is set where it is a part of a text that was made legible."""
    wire = _class.decode(raw)
    return DeviceClass(
        name=wire.metadata.name,
        selectors=selectors(wire.spec.selectors, "spec.selectors"),
        config=configs(wire.spec.config, "spec.config", made),
        extended_resource_name=wire.spec.extended_resource_name or "",
        creation_timestamp=wire.metadata.creation_timestamp or "",
    )


def decode_taint_rule(raw: bytes | msgspec.Raw) -> DeviceTaintRule:
    """
    Decode a DeviceTaintRule.

    A selector by class or CEL (v1alpha3 before Kubernetes 1.35) is refused: ignoring it would taint every device.
    """
    wire = _rule.decode(raw)
    selector = wire.spec.device_selector
    if selector is not None and (selector.device_class_name or selector.selectors):
        raise MalformedError(
            "spec.deviceSelector",
            "selects by deviceClassName or selectors, which no longer exist: use driver, pool, device",
        )
    return DeviceTaintRule(
        name=wire.metadata.name,
        taint=taint(wire.spec.taint),
        driver=selector.driver if selector else None,
        pool=selector.pool if selector else None,
        device=selector.device if selector else None,
        selects_nothing=selector is None,
    )


class _Attribute(Wire, frozen=True):
    string: str | None = None
    as_int: int | None = msgspec.field(name="int", default=None)
    as_bool: bool | None = msgspec.field(name="bool", default=None)
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class _Range(Wire, frozen=True):
    min: str
    max: str | None = None
    step: str | None = None


class _Policy(Wire, frozen=True):
    default: str | None = None
    valid_values: list[str] | None = None
    valid_range: _Range | None = None


class _Capacity(Wire, frozen=True):
    value: str = "0"
    request_policy: _Policy | None = None


class _Counter(Wire, frozen=True):
    value: str = "0"


class _Consumption(Wire, frozen=True):
    counter_set: str
    counters: dict[str, _Counter] | None = None
    compatibility_groups: tuple[str, ...] | None = None


class _Device(Wire, frozen=True):
    name: str
    attributes: dict[str, _Attribute] | None = None
    capacity: dict[str, _Capacity] | None = None
    consumes_counters: list[_Consumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelectorWire | None = None
    all_nodes: bool | None = None
    taints: list[TaintWire] | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None
    node_allocatable_resource_mappings: dict[str, LegacyMappingWire] | None = None
    node_allocatable_resources: dict[str, NodeAllocatableWire] | None = None


class _CounterSet(Wire, frozen=True):
    name: str
    counters: dict[str, _Counter] | None = None


class _Pool(Wire, frozen=True):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class _Spec(Wire, frozen=True):
    driver: str
    pool: _Pool
    node_name: str | None = None
    node_selector: NodeSelectorWire | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[_Device] | None = None
    shared_counters: list[_CounterSet] | None = None
    skip_node_operations: tuple[str, ...] | None = None


class SliceWire(Wire, frozen=True):
    """ResourceSlice."""

    metadata: Metadata
    spec: _Spec


_slice = msgspec.json.Decoder(SliceWire)


def decode_slice(raw: bytes | msgspec.Raw) -> ResourceSlice:
    """Decode a ResourceSlice; one malformed device makes it unreadable, and its pool incomplete."""
    wire = _slice.decode(raw)
    spec = wire.spec
    per_device = bool(spec.per_device_node_selection)
    return ResourceSlice(
        name=wire.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        scope=_scope(spec, "spec", per_device=per_device),
        devices=tuple([_device(each, index, per_device) for index, each in enumerate(spec.devices or ())]),
        counter_sets=tuple(
            CounterSet(name=each.name, counters=_counters(each.counters, f"spec.sharedCounters[{index}].counters"))
            for index, each in enumerate(spec.shared_counters or ())
        ),
        skip_node_operations=spec.skip_node_operations or (),
    )


def with_whole_steps(each: ResourceSlice) -> ResourceSlice:
    """Return a slice whose ranges count steps in whole units, as servers mean it before Kubernetes 1.37."""
    if not any(_is_stepped(capacity) for device in each.devices for _, capacity in device.capacities):
        return each
    devices = (
        replace(device, capacities=tuple((name, _with_whole_steps(capacity)) for name, capacity in device.capacities))
        for device in each.devices
    )
    return replace(each, devices=tuple(devices))


def _is_stepped(capacity: Capacity) -> bool:
    policy = capacity.request_policy
    return policy is not None and policy.valid_range is not None and policy.valid_range.step is not None


def _with_whole_steps(capacity: Capacity) -> Capacity:
    policy = capacity.request_policy
    if policy is None or policy.valid_range is None:
        return capacity
    whole = replace(policy, valid_range=replace(policy.valid_range, counts_whole_units=True))
    return replace(capacity, request_policy=whole)


def _scope(wire: _Spec | _Device, field: str, *, per_device: bool = False) -> NodeScope:
    """Return the nodes that a slice or device is available on; at most one field may be set."""
    selector = node_selector(wire.node_selector)
    if bool(wire.node_name) + (selector is not None) + bool(wire.all_nodes) + per_device > 1:
        message = "write one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection"
        raise MalformedError(field, message)
    return NodeScope(
        node_name=wire.node_name or "",
        node_selector=selector,
        all_nodes=bool(wire.all_nodes),
        per_device=per_device,
    )


def _device(wire: _Device, index: int, per_device: bool) -> Device:  # noqa: FBT001 - private
    field = f"spec.devices[{index}]"
    return Device(
        name=wire.name,
        attributes=_attributes(wire.attributes) if wire.attributes else (),
        capacities=_capacities(wire.capacity, field) if wire.capacity else (),
        consumes_counters=tuple(
            CounterConsumption(
                counter_set=each.counter_set,
                counters=_counters(each.counters, f"{field}.consumesCounters"),
                compatibility_groups=each.compatibility_groups or (),
            )
            for each in wire.consumes_counters
        )
        if wire.consumes_counters
        else (),
        scope=_scope(wire, field) if per_device else None,
        taints=taints(wire.taints) if wire.taints else (),
        binds_to_node=bool(wire.binds_to_node),
        binding_conditions=wire.binding_conditions or (),
        binding_failure_conditions=wire.binding_failure_conditions or (),
        allow_multiple_allocations=bool(wire.allow_multiple_allocations),
        node_allocatable=node_allocatable.mappings(
            wire.node_allocatable_resources, wire.node_allocatable_resource_mappings, field
        )
        if wire.node_allocatable_resources or wire.node_allocatable_resource_mappings
        else (),
        node_overhead=node_allocatable.overheads(wire.node_allocatable_resources, field)
        if wire.node_allocatable_resources
        else (),
    )


_name: Final = operator.itemgetter(0)
_MOST_SHARED: Final = 2**15
"""Attributes and capacities that are kept for sharing; those of many devices are used again before they are dropped."""


_Scalar = int | bool | str


@functools.lru_cache(maxsize=_MOST_SHARED)
def _attribute(name: str, kind: AttributeKind, value: _Scalar) -> tuple[str, AttributeValue]:
    """Return an attribute; equal ones of thousands of devices are one object."""
    return name, AttributeValue(kind, value)


def _attributes(wire: dict[str, _Attribute]) -> tuple[tuple[str, AttributeValue], ...]:
    """Sort by name, without attributes of types that this version does not know."""
    found = []
    for name, each in wire.items():
        text = each.string
        if text is not None:
            found.append(_attribute(name, AttributeKind.STRING, text))
        elif each.as_int is not None:
            found.append(_attribute(name, AttributeKind.INT, each.as_int))
        elif each.version is not None:
            found.append(_attribute(name, AttributeKind.VERSION, each.version))
        elif each.as_bool is not None:
            found.append(_attribute(name, AttributeKind.BOOL, each.as_bool))
        elif (value := _list_attribute(each)) is not None:
            found.append((name, value))
    found.sort()  # no two names are equal, so no values are compared
    return tuple(found)


def _list_attribute(wire: _Attribute) -> AttributeValue | None:
    """Return the value of a list."""
    if wire.ints is not None:
        return AttributeValue(AttributeKind.INTS, wire.ints)
    if wire.bools is not None:
        return AttributeValue(AttributeKind.BOOLS, wire.bools)
    if wire.strings is not None:
        return AttributeValue(AttributeKind.STRINGS, wire.strings)
    if wire.versions is not None:
        return AttributeValue(AttributeKind.VERSIONS, wire.versions)
    return None


def _capacities(wire: dict[str, _Capacity], field: str) -> tuple[tuple[str, Capacity], ...]:
    found = []
    for name, each in wire.items():
        try:
            found.append(
                _plain_capacity(name, each.value)
                if each.request_policy is None
                else (name, Capacity(value=quantity(each.value), request_policy=_policy(each.request_policy)))
            )
        except QuantityError as error:
            raise MalformedError(f"{field}.capacity[{name}]", str(error)) from error
    found.sort(key=_name)
    return tuple(found)


@functools.lru_cache(maxsize=_MOST_SHARED)
def _plain_capacity(name: str, text: str) -> tuple[str, Capacity]:
    return name, Capacity(value=quantity(text))


def _policy(wire: _Policy) -> RequestPolicy:
    limits = wire.valid_range
    return RequestPolicy(
        default=_optional(wire.default),
        valid_values=tuple(quantity(text) for text in wire.valid_values or ()),
        valid_range=ValidRange(min=quantity(limits.min), max=_optional(limits.max), step=_optional(limits.step))
        if limits is not None
        else None,
    )


def _optional(text: str | None) -> Quantity | None:
    return None if text is None else quantity(text)


def _counters(wire: dict[str, _Counter] | None, field: str) -> tuple[tuple[str, Quantity], ...]:
    found = []
    for name, each in (wire or {}).items():
        try:
            found.append((name, quantity(each.value)))
        except QuantityError as error:
            raise MalformedError(f"{field}[{name}]", str(error)) from error
    found.sort(key=_name)
    return tuple(found)
