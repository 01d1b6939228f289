"""Lists and maps of resource.k8s.io, whose validation bounds most of them (pkg/apis/resource/types.go of 1.37)."""

from typing import Any, Final

from e2e.hostile.extremes.entries import METADATA, Entries, Entry, Manifest, name, node_selector, with_prefix

_MOST_CEL: Final = 10 * 1024
_PARAMETERS: Final = 10 * 1024


def expression(index: int) -> str:
    """Make a CEL expression as long as allowed."""
    start = f'device.driver != "{name(index)}'
    return start + "x" * (_MOST_CEL - len(start) - 1) + '"'


def _selector(index: int) -> Manifest:
    return {"cel": {"expression": expression(index)}}


def config(index: int) -> Manifest:
    """Make an opaque configuration as large as allowed."""
    stem = {"driver": "a.b", "parameters": {name(index): "x" * (_PARAMETERS - 20)}}
    return {"opaque": stem}


def _toleration(_: int) -> Manifest:
    return {"operator": "Exists"}


_DERIVED: Final = Entry(lambda index: {"name": f"a.b/{name(index)}", "expression": "x" * _MOST_CEL}, most=32)
_SUB_REQUEST: Final[Entries] = {
    "selectors[]": Entry(_selector, most=32),
    "tolerations[]": Entry(_toleration, most=16),
    "capacity.requests{}": Entry(lambda index: (f"a.b/{name(index)}", "1"), most=32),
    "derivedAttributes[]": _DERIVED,
}


def _request(index: int) -> Manifest:
    exactly = {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 1}
    return {"name": name(index), "exactly": exactly}


def _alternative(index: int) -> Manifest:
    return {"name": name(index), "deviceClassName": "a", "allocationMode": "ExactCount", "count": 1}


_RESULT: Final[dict[str, Any]] = {"request": "aaaa", "driver": "a.b", "pool": "a"}
_CONSUMER: Final = Entry(lambda index: {"resource": "pods", "name": name(index), "uid": name(index)}, most=256)
_CONDITION: Final[dict[str, Any]] = {"status": "True", "reason": "A", "message": "", "lastTransitionTime": None}
_DEVICE_STATUS: Final[dict[str, Any]] = {"driver": "a.b", "pool": "a"}

CLAIM_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.devices.requests[]": Entry(_request, most=32),
    **with_prefix("spec.devices.requests[].exactly", _SUB_REQUEST),
    "spec.devices.requests[].firstAvailable[]": Entry(_alternative, most=8, holder=lambda index: {"name": name(index)}),
    **with_prefix("spec.devices.requests[].firstAvailable[]", _SUB_REQUEST),
    "spec.devices.constraints[]": Entry(lambda index: {"matchAttribute": f"a.b/{name(index)}"}, most=32),
    "spec.devices.constraints[].requests[]": Entry(name, most=32),
    "spec.devices.config[]": Entry(config, most=32),
    "spec.devices.config[].requests[]": Entry(name, most=32),
    "status.allocation.devices.results[]": Entry(lambda index: {**_RESULT, "device": name(index)}, most=32),
    "status.allocation.devices.results[].tolerations[]": Entry(_toleration, most=16),
    "status.allocation.devices.results[].bindingConditions[]": Entry(name, most=4),
    "status.allocation.devices.results[].bindingFailureConditions[]": Entry(name, most=4),
    "status.allocation.devices.results[].consumedCapacity{}": Entry(
        lambda index: (f"a.b/{name(index)}", str(index + 1)),
    ),
    "status.allocation.devices.results[].skipNodeOperations[]": Entry(name, most=4),
    "status.allocation.devices.config[]": Entry(
        lambda index: {**config(index), "source": "FromClaim"},
        most=64,
    ),
    "status.allocation.devices.config[].requests[]": Entry(name, most=32),
    **with_prefix("status.allocation.nodeSelector", node_selector(1)),
    "status.reservedFor[]": _CONSUMER,
    "status.devices[]": Entry(lambda index: {**_DEVICE_STATUS, "device": name(index)}, most=32),
    "status.devices[].conditions[]": Entry(lambda index: {**_CONDITION, "type": name(index)}, most=8),
    "status.devices[].networkData.ips[]": Entry(lambda index: f"10.0.{index}.0/24", most=16),
}

CLASS_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.selectors[]": Entry(_selector, most=32),
    "spec.config[]": Entry(config, most=32),
    "spec.config[].requests[]": Entry(name, most=32),  # as in a claim; classes have no requests
}

RULE_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.deviceSelector.selectors[]": Entry(_selector, most=32),  # v1alpha3 before Kubernetes 1.35
    "status.conditions[]": Entry(lambda index: {**_CONDITION, "type": name(index)}, most=8),
}


def _attribute(index: int) -> tuple[str, Manifest]:
    values = ({"string": "x" * 64}, {"int": index}, {"bool": True}, {"version": f"1.0.{index}"})
    return name(index), values[index % 4]


def _list(index: int) -> tuple[str, Manifest]:
    return name(index), {}


def _capacity(index: int) -> tuple[str, Manifest]:
    return name(index), {"value": str(index + 1)}


_COUNTERS: Final = Entry(lambda index: (name(index), {"value": str(index + 1)}), most=32)
_MOST_VALUES: Final = 48
"""Of all attributes of a device together, scalars and items of lists."""
_DEVICE: Final[Entries] = {
    "attributes{}": Entry(_attribute, most=32),
    "attributes{}.ints[]": Entry(lambda index: index, most=_MOST_VALUES, holder=_list),
    "attributes{}.bools[]": Entry(lambda index: index % 2 == 0, most=_MOST_VALUES, holder=_list),
    "attributes{}.strings[]": Entry(lambda index: name(index).ljust(64, "x"), most=_MOST_VALUES, holder=_list),
    "attributes{}.versions[]": Entry(lambda index: f"1.0.{index}", most=_MOST_VALUES, holder=_list),
    "capacity{}": Entry(_capacity, most=32),
    "capacity{}.requestPolicy.validValues[]": Entry(lambda index: str(index + 1), most=10),
    "consumesCounters[]": Entry(
        lambda index: {"counterSet": name(index), "counters": {"aaaa": {"value": "1"}}},
        most=2,
    ),
    "consumesCounters[].counters{}": _COUNTERS,
    "consumesCounters[].compatibilityGroups[]": Entry(name, most=2),
    **with_prefix("nodeSelector", node_selector(1)),
    "taints[]": Entry(lambda index: {"key": name(index), "effect": "NoSchedule"}, most=16),
    "bindingConditions[]": Entry(name, most=4),
    "bindingFailureConditions[]": Entry(name, most=4),
    "nodeAllocatableResourceMappings{}": Entry(
        lambda index: (f"a.b/{name(index)}", {"allocationMultiplier": "1"}),
        most=8,
    ),
    "nodeAllocatableResources{}": Entry(
        lambda index: (f"a.b/{name(index)}", {"mapping": {"deviceMultiplier": "1"}}),
        most=8,
    ),
}

SLICE_ENTRIES: Final[Entries] = {
    **METADATA,
    **with_prefix("spec.nodeSelector", node_selector(1)),
    "spec.devices[]": Entry(lambda index: {"name": name(index)}, most=128),
    **with_prefix("spec.devices[]", _DEVICE),
    "spec.sharedCounters[]": Entry(lambda index: {"name": name(index), "counters": {"aaaa": {"value": "1"}}}, most=8),
    "spec.sharedCounters[].counters{}": _COUNTERS,
    "spec.skipNodeOperations[]": Entry(name, most=4),
}
