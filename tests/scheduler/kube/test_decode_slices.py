import re
from typing import Any

import pytest

from scheduler.change import Kind
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError
from solver.domain import (
    AttributeKind,
    AttributeValue,
    Capacity,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    DeviceTaintRule,
    Namespace,
    Node,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeScope,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    OpaqueConfig,
    RequestPolicy,
    ResourceSlice,
    Taint,
    ValidRange,
)
from solver.domain.quantity import parse
from tests.support.kube_objects import encoded, metadata, namespace, resource_slice

SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
SELECTED = NodeSelector(
    terms=(NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="zone", operator="Exists"),)),)
)


def slice_of(**spec: Any) -> ResourceSlice:
    found = decode(Kind.SLICES, encoded(resource_slice(**spec)))
    assert isinstance(found, ResourceSlice)
    return found


def device_of(**fields: Any) -> Device:
    (device,) = slice_of(devices=[{"name": "gpu-0", **fields}]).devices
    return device


def test_a_slice_is_read_with_its_pool() -> None:
    found = slice_of(pool={"name": "rack", "generation": 3, "resourceSliceCount": 2}, nodeName="node-7")
    assert found == ResourceSlice(
        name="slice",
        driver="gpu.example.com",
        pool="rack",
        generation=3,
        slice_count=2,
        scope=NodeScope(node_name="node-7"),
    )


@pytest.mark.parametrize(
    ("spec", "scope"),
    [
        ({"nodeName": "n"}, NodeScope(node_name="n")),
        ({"nodeSelector": SELECTOR}, NodeScope(node_selector=SELECTED)),
        ({"allNodes": True}, NodeScope(all_nodes=True)),
        ({"perDeviceNodeSelection": True}, NodeScope(per_device=True)),
        ({"allNodes": None}, NodeScope()),
    ],
    ids=["one node", "selected nodes", "all nodes", "per device", "unknown to this version"],
)
def test_a_slice_says_which_nodes_it_reaches(spec: Any, scope: NodeScope) -> None:
    assert slice_of(**spec).scope == scope


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nodeName": "n", "allNodes": True}, "spec"),
        ({"nodeSelector": SELECTOR, "allNodes": True}, "spec"),
        ({"nodeName": "n", "perDeviceNodeSelection": True}, "spec"),
        (
            {"perDeviceNodeSelection": True, "devices": [{"name": "a", "nodeName": "n", "allNodes": True}]},
            "spec.devices[0]",
        ),
    ],
    ids=["a name and all", "a selector and all", "a name and per device", "of a device"],
)
def test_what_says_twice_which_nodes_it_reaches_cannot_be_read(spec: Any, field: str) -> None:
    with pytest.raises(DecodeError, match=f" {re.escape(field)}: write one of nodeName, nodeSelector, allNodes"):
        slice_of(**spec)


def test_a_device_says_which_nodes_it_reaches_where_its_slice_leaves_that_to_it() -> None:
    devices = [{"name": "a", "nodeName": "n"}, {"name": "b", "nodeSelector": SELECTOR}, {"name": "c", "allNodes": True}]
    scopes = [device.scope for device in slice_of(perDeviceNodeSelection=True, devices=devices).devices]
    assert scopes == [NodeScope(node_name="n"), NodeScope(node_selector=SELECTED), NodeScope(all_nodes=True)]


def test_a_device_has_no_scope_of_its_own_elsewhere() -> None:
    assert device_of().scope is None


@pytest.mark.parametrize(
    ("published", "kind", "value"),
    [
        ({"string": "H100"}, AttributeKind.STRING, "H100"),
        ({"string": ""}, AttributeKind.STRING, ""),
        ({"int": 0}, AttributeKind.INT, 0),
        ({"bool": False}, AttributeKind.BOOL, False),
        ({"bool": True}, AttributeKind.BOOL, True),
        ({"version": "1.2.3"}, AttributeKind.VERSION, "1.2.3"),
        ({"ints": [1, 2]}, AttributeKind.INTS, (1, 2)),
        ({"bools": [True]}, AttributeKind.BOOLS, (True,)),
        ({"strings": ["a", "b"]}, AttributeKind.STRINGS, ("a", "b")),
        ({"versions": ["1.0.0"]}, AttributeKind.VERSIONS, ("1.0.0",)),
    ],
)
def test_attributes_keep_their_kind_and_value(published: Any, kind: AttributeKind, value: Any) -> None:
    ((name, found),) = device_of(attributes={"x": published}).attributes
    assert (name, found) == ("x", AttributeValue(kind, value))
    assert type(found.value) is type(value)


def test_one_and_true_stay_different_values() -> None:
    found = device_of(attributes={"a": {"int": 1}, "b": {"bool": True}, "c": {"int": 1}}).attributes
    assert [repr(value.value) for _, value in found] == ["1", "True", "1"]


def test_attributes_are_sorted_and_kinds_of_a_newer_server_left_out() -> None:
    found = device_of(attributes={"b": {"int": 1}, "new": {"float": 1.5}, "a": {"int": 2}}).attributes
    assert [name for name, _ in found] == ["a", "b"]


def test_a_device_is_read_whole() -> None:
    found = device_of(
        capacity={
            "memory": {
                "value": "81559Mi",
                "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "80Gi", "step": "1Gi"}},
            },
            "cores": {"value": "132", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
            "links": {"value": "4"},
        },
        consumesCounters=[
            {
                "counterSet": "gpu-0",
                "counters": {"slices": {"value": "2"}, "memory": {"value": "20Gi"}},
                "compatibilityGroups": ["mig", "vgpu"],
            }
        ],
        taints=[{"key": "ecc", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}],
        bindsToNode=True,
        bindingConditions=["ready"],
        bindingFailureConditions=["broken"],
        allowMultipleAllocations=True,
        nodeAllocatableResourceMappings={"memory": {"capacityKey": "memory", "allocationMultiplier": "2"}, "cpu": {}},
    )
    limits = ValidRange(min=parse("1Gi"), max=parse("80Gi"), step=parse("1Gi"))
    assert found == Device(
        name="gpu-0",
        capacities=(
            (
                "cores",
                Capacity(
                    value=parse("132"),
                    request_policy=RequestPolicy(default=parse("1"), valid_values=(parse("1"), parse("2"))),
                ),
            ),
            ("links", Capacity(value=parse("4"))),
            (
                "memory",
                Capacity(
                    value=parse("81559Mi"), request_policy=RequestPolicy(default=parse("1Gi"), valid_range=limits)
                ),
            ),
        ),
        consumes_counters=(
            CounterConsumption(
                counter_set="gpu-0",
                counters=(("memory", parse("20Gi")), ("slices", parse("2"))),
                compatibility_groups=("mig", "vgpu"),
            ),
        ),
        taints=(Taint(key="ecc", value="v", effect="NoSchedule", time_added="2026-01-01T00:00:00Z"),),
        binds_to_node=True,
        binding_conditions=("ready",),
        binding_failure_conditions=("broken",),
        allow_multiple_allocations=True,
        node_allocatable=(
            NodeAllocatableMapping(resource="cpu", is_legacy=True),
            NodeAllocatableMapping(
                resource="memory", capacity_key="memory", allocation_multiplier=parse("2"), is_legacy=True
            ),
        ),
    )


def test_what_a_device_takes_of_its_node_is_read() -> None:
    found = device_of(
        nodeAllocatableResources={
            "memory": {
                "mapping": {"capacityKey": "d/memory", "capacityMultiplier": "2"},
                "overhead": {"perPod": "100Mi", "perContainer": "10Mi"},
            },
            "cpu": {"mapping": {"deviceMultiplier": "8"}},
            "hugepages-2Mi": {"overhead": {"perContainer": "2Mi"}},
            "ephemeral-storage": {"mapping": {}, "overhead": {}},
        }
    )
    assert found.node_allocatable == (
        NodeAllocatableMapping(resource="cpu", allocation_multiplier=parse("8")),
        NodeAllocatableMapping(resource="memory", capacity_key="d/memory", allocation_multiplier=parse("2")),
    )
    assert found.node_overhead == (
        NodeAllocatableOverhead(resource="hugepages-2Mi", per_container=parse("2Mi")),
        NodeAllocatableOverhead(resource="memory", per_pod=parse("100Mi"), per_container=parse("10Mi")),
    )


def test_counter_sets_are_read() -> None:
    found = slice_of(sharedCounters=[{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}])
    assert found.counter_sets == (CounterSet(name="gpu-0", counters=(("slices", parse("7")),)),)


def test_skipped_node_operations_are_read() -> None:
    skipped = ["NodePrepareResources", "NodeUnprepareResources"]
    assert slice_of(skipNodeOperations=skipped).skip_node_operations == tuple(skipped)
    assert slice_of().skip_node_operations == ()


@pytest.mark.parametrize(
    ("device", "field", "said"),
    [
        ({"capacity": {"memory": {"value": "80 GB"}}}, "spec.devices[1].capacity[memory]", "'80 GB' is not a quantity"),
        ({"attributes": {"x": {"int": "5"}}}, "spec.devices[1].attributes[...].int", "Expected `int"),
        (
            {"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "?"}}}]},
            "spec.devices[1].consumesCounters[c]",
            "'?' is not a quantity",
        ),
    ],
    ids=["capacity", "attribute", "counter"],
)
def test_a_malformed_slice_is_named_with_its_field(device: Any, field: str, said: str) -> None:
    body = resource_slice(devices=[{"name": "good"}, {"name": "bad", **device}])
    with pytest.raises(DecodeError) as raised:
        decode(Kind.SLICES, encoded(body))
    assert (raised.value.kind, raised.value.key, raised.value.field) == ("resourceslices", "slice", field)
    assert said in raised.value.message


def test_a_class_is_read_with_selectors_and_the_exact_text_of_its_parameters() -> None:
    spec = (
        b"""{"selectors": [{"cel": {"expression": "device.driver == 'd'"}}], """
        b""""extendedResourceName": "example.com/gpu", """
        b""""config": [{"opaque": {"driver": "d", "parameters": {"b": 1.0, "a":[ ]}}}]}"""
    )
    found = decode(Kind.CLASSES, b'{"metadata": {"name": "gpu", "creationTimestamp": "t"}, "spec": ' + spec + b"}")
    assert found == DeviceClass(
        name="gpu",
        selectors=("device.driver == 'd'",),
        config=(OpaqueConfig(driver="d", parameters='{"b": 1.0, "a":[ ]}'),),
        extended_resource_name="example.com/gpu",
        creation_timestamp="t",
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selectors": [{"cel": {"expression": "true"}}, {"rego": "x"}]}, "spec.selectors[1]"),
        ({"config": [{"structured": {}}]}, "spec.config[0]"),
    ],
    ids=["selector", "configuration"],
)
def test_a_class_that_asks_for_what_this_version_does_not_know_is_refused(spec: Any, field: str) -> None:
    with pytest.raises(DecodeError) as raised:
        decode(Kind.CLASSES, encoded({"metadata": metadata("gpu"), "spec": spec}))
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, {"selects_nothing": True}),
        ({}, {}),
        ({"driver": "d", "pool": "p", "device": "x"}, {"driver": "d", "pool": "p", "device": "x"}),
    ],
    ids=["no selector", "empty selector", "full selector"],
)
def test_a_taint_rule_says_what_it_selects(selector: Any, expected: Any) -> None:
    spec = {"taint": {"key": "k", "effect": "NoExecute"}} | ({} if selector is None else {"deviceSelector": selector})
    found = decode(Kind.TAINT_RULES, encoded({"metadata": metadata("rule"), "spec": spec}))
    assert found == DeviceTaintRule(name="rule", taint=Taint(key="k", effect="NoExecute"), **expected)


def test_a_taint_rule_by_class_is_refused_because_it_would_taint_every_device() -> None:
    spec = {"taint": {"key": "k", "effect": "NoExecute"}, "deviceSelector": {"deviceClassName": "gpu"}}
    with pytest.raises(DecodeError, match=r"spec.deviceSelector: .* use driver, pool, device"):
        decode(Kind.TAINT_RULES, encoded({"metadata": metadata("rule"), "spec": spec}))


def test_a_node_is_read_with_cpu_in_millicores_and_the_rest_in_units() -> None:
    body = {
        "metadata": metadata("node-1", labels={"zone": "z", "arch": "arm64"}),
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute", "value": "v"}]},
        "status": {
            "allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "110", "example.com/gpu": "8"},
            "declaredFeatures": ["Two", "One"],
            "images": [
                {"names": ["busybox:1"], "sizeBytes": 1},
                {"names": ["web@sha256:0", "web:1"], "sizeBytes": 90_000_000},
                {"sizeBytes": 90_000_000},
            ],
        },
    }
    assert decode(Kind.NODES, encoded(body)) == Node(
        name="node-1",
        uid="uid-node-1",
        labels=(("arch", "arm64"), ("zone", "z")),
        taints=(Taint(key="k", value="v", effect="NoExecute"),),
        is_unschedulable=True,
        allocatable=(("cpu", 3920), ("example.com/gpu", 8), ("memory", 16 * 2**30), ("pods", 110)),
        images=(("web:1", 90_000_000), ("web@sha256:0", 90_000_000)),
        declared_features=("One", "Two"),
    )


def test_a_node_with_a_bad_amount_is_named_with_its_field() -> None:
    body = {"metadata": metadata("node-1"), "spec": {}, "status": {"allocatable": {"cpu": "four"}}}
    with pytest.raises(DecodeError, match=r"^nodes node-1: status.allocatable\[cpu\]: 'four' is not a quantity"):
        decode(Kind.NODES, encoded(body))


def test_a_namespace_is_read_with_its_labels() -> None:
    found = decode(Kind.NAMESPACES, encoded(namespace("ml", team="a")))
    assert found == Namespace(name="ml", labels=(("team", "a"),))
