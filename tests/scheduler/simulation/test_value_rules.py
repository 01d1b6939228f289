"""Values that the API server refuses: each is named by its field. `make reading` holds the rules to the server."""

import copy
import itertools
from typing import Any

import pytest

from e2e.reading import judges
from e2e.reading.mutations import BASES, places
from scheduler.kube.api_versions import NEWEST_MINOR
from scheduler.simulation.manifests import api_schema, object_rules, value_rules
from scheduler.simulation.manifests.api_validation import of_object
from scheduler.simulation.manifests.formats import unique
from scheduler.simulation.manifests.value_rules import RULES
from tests.support import manifests as m


def resources(**amounts: Any) -> dict[str, Any]:
    return m.pod(containers=[{"name": "c", "image": "x", "resources": amounts}])


def of_slice(*devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    body = {"driver": "x.example.com", "nodeName": "n1", "pool": pool, "devices": list(devices), **spec}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": body}


def device(name: str = "d0", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def of_class(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": spec}


def rule(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}


AT = "spec.containers[0].resources"
TAINT = {"key": "a", "effect": "NoSchedule"}
WRONG = [
    (resources(requests={"cpu": "4"}, limits={"cpu": "2"}), f"{AT}.requests[cpu]", "above the limit of 2"),
    (resources(requests={"example.com/gpu": 1}), f"{AT}.requests[example.com/gpu]", "has no limit"),
    (
        resources(requests={"example.com/gpu": 1}, limits={"example.com/gpu": 2}),
        f"{AT}.requests[example.com/gpu]",
        "is 1, and the limit is 2: both must be equal",
    ),
    (resources(limits={"example.com/gpu": "500m"}), f"{AT}.limits[example.com/gpu]", "is a whole number"),
    (resources(limits={"gpu": 1}), f"{AT}.limits[gpu]", "a name with a domain, such as example.com/gpu"),
    (resources(requests={"hugepages-2Mi": "4Mi", "cpu": 1}), f"{AT}.requests[hugepages-2Mi]", "has no limit"),
    (resources(limits={"hugepages-2Mi": "3Mi", "cpu": 1}), f"{AT}.limits[hugepages-2Mi]", "write a multiple of 2Mi"),
    (resources(limits={"cpu": "-1"}), f"{AT}.limits[cpu]", "write 0 or more"),
    (
        m.pod(resources={"limits": {"example.com/gpu": 1}}),
        "spec.resources.limits[example.com/gpu]",
        "in its containers",
    ),
    (of_slice(device(taints=[TAINT | {"effect": "PreferNoSchedule"}])), "spec.devices[0].taints[0].effect", "or None"),
    (of_slice(device(taints=[{"effect": "NoSchedule"}])), "spec.devices[0].taints[0].key", "missing"),
    (of_slice(device(taints=[TAINT] * 17)), "spec.devices[0].taints", "are 17: at most 16"),
    (of_slice(*(device(f"d{n}") for n in range(129))), "spec.devices", "are 129: a slice holds at most 128"),
    (of_slice(*(device(f"d{n}", taints=[TAINT]) for n in range(65))), "spec.devices", "holds at most 64"),
    (of_slice(device(), device()), "spec.devices", "d0 stands twice"),
    (of_slice(device("GPU-0")), "spec.devices[0].name", "'GPU-0': write a-z"),
    (of_slice(device(attributes={"a": {"int": 1, "string": "b"}})), "spec.devices[0].attributes[a]", "int and string"),
    (of_slice(device(attributes={"a": {}})), "spec.devices[0].attributes[a]", "has no value"),
    (of_slice(device(attributes={"a": {"strings": []}})), "spec.devices[0].attributes[a].strings", "is empty"),
    (of_slice(device(attributes={"a": {"string": "x" * 65}})), "spec.devices[0].attributes[a].string", "at most 64"),
    (of_slice(device(attributes={"v": {"version": "12.2"}})), "spec.devices[0].attributes[v].version", "1.2.3"),
    (of_slice(device(attributes={"gpu-model": {"int": 1}})), "spec.devices[0].attributes", "'gpu-model': write a name"),
    (of_slice(device(attributes={f"a{n}": {"int": n} for n in range(33)})), "spec.devices[0].attributes", "at most 32"),
    (of_slice(device(bindingConditions=["a"])), "spec.devices[0].bindingFailureConditions", "go together"),
    (of_slice(device(nodeName="n1")), "spec.devices[0].nodeName", "goes with spec.perDeviceNodeSelection"),
    (of_slice(device(), allNodes=True), "spec.allNodes", "nodeName and allNodes exclude each other"),
    (of_slice(device(), sharedCounters=[]), "spec.sharedCounters", "in a slice of their own"),
    (of_slice(device(), driver="x_y"), "spec.driver", "such as gpu.example.com"),
    (of_slice(device(), pool={"name": "n1", "generation": -1}), "spec.pool.generation", "write 0 or more"),
    (
        of_slice(device(nodeAllocatableResources={"example.com/gpu": {"mapping": {"deviceMultiplier": "1"}}})),
        "spec.devices[0].nodeAllocatableResources[example.com/gpu]",
        "write cpu, memory or hugepages-<size>",
    ),
    (of_class(extendedResourceName="gpu"), "spec.extendedResourceName", "such as example.com/gpu"),
    (of_class(extendedResourceName="kubernetes.io/gpu"), "spec.extendedResourceName", "that is not kubernetes.io"),
    (of_class(extendedResourceName="requests.example.com/gpu"), "spec.extendedResourceName", "write a name"),
    (rule(taint={"key": "a", "effect": "PreferNoSchedule"}), "spec.taint.effect", "NoSchedule, NoExecute or None"),
    (rule(taint=TAINT, deviceSelector={"pool": "Pool_1"}), "spec.deviceSelector.pool", "'Pool_1': write a-z"),
    (m.node() | {"spec": {"taints": [{"key": "a", "effect": "NoSchedul"}]}}, "spec.taints[0].effect", "NoSchedul'"),
]


@pytest.mark.parametrize(("body", "field", "message"), WRONG, ids=[f"{field} {said}" for _, field, said in WRONG])
def test_what_the_server_refuses_is_named_by_its_field(body: dict[str, Any], field: str, message: str) -> None:
    found = {each.field: each.message for each in of_object(body)}
    assert message in found.get(field, ""), found


@pytest.mark.parametrize(
    "body",
    [
        resources(requests={"cpu": "1"}, limits={"cpu": "2", "example.com/gpu": "2", "kubernetes.io/gpu": 1}),
        resources(requests={"cpu": "1", "hugepages-2Mi": "4Mi"}, limits={"hugepages-2Mi": "4Mi"}),
        of_slice(
            device(attributes={"a": {"int": 0}, "x.example.com/b": {"bool": False}, "c": {"version": "1.2.3-a.1"}})
        ),
        of_slice(device(capacity={"memory": {}})),
        of_class(extendedResourceName="example.com/gpu"),
        rule(taint=TAINT | {"effect": "None"}, deviceSelector={"pool": "a/b"}),
    ],
)
def test_what_the_server_takes_is_taken(body: dict[str, Any]) -> None:
    assert list(of_object(body)) == []


def test_the_rules_are_of_types_and_fields_that_the_api_has() -> None:
    schema = api_schema.load()
    known: dict[str, set[str]] = {}
    for name, fields in schema.types.items():
        known.setdefault(f"{name.partition('.')[0]}.{name.rpartition('.')[2]}", set()).update(fields)
    unknown = {name: set(rules) - known.get(name, set()) for name, rules in RULES.items()}
    assert {name: fields for name, fields in unknown.items() if fields} == {}


class Name(str):
    """A name whose comparisons are counted."""

    __slots__ = ()
    compared = 0

    def __str__(self) -> str:
        return self

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_entries_of_a_long_list_are_not_compared_with_each_other() -> None:
    entries = [{"name": Name(f"d{number}")} for number in range(1000)]
    before = Name.compared
    assert unique("name")(entries) == ""
    assert Name.compared - before < len(entries)
    assert unique("name")([*entries, {"name": Name("d7")}]).startswith("d7 stands twice")


TYPES = sorted({*RULES, *object_rules.RULES})
VALUES: tuple[Any, ...] = (
    [],
    {},
    5,
    -1.5,
    True,
    "text",
    "",
    None,
    ["text"],
    [5, None],
    [[]],
    [{"a": {}}],
    {"a": "b"},
    {"a": [{}]},
)


@pytest.mark.parametrize("name", TYPES)
def test_a_value_of_another_type_is_no_exception(name: str) -> None:
    """Strict field validation names it; the rules see it, too."""
    group, _, kind = name.partition(".")
    types = api_schema.load().types
    versions = [each for each in types if each.partition(".")[0] == group and each.endswith(f".{kind}")]
    fields = {field for each in versions for field in types[each]}
    assert fields
    for field, value in itertools.product(fields, VALUES):
        inside = dict.fromkeys(fields, value)
        for body in ({field: value}, {field: inside}, {field: [inside]}, {field: {"a": inside}}, inside):
            list(value_rules.of_object(body, versions[0]))


@pytest.mark.parametrize("base", BASES, ids=[f"{each['kind']} {number}" for number, each in enumerate(BASES)])
def test_a_field_of_another_type_is_no_exception_of_any_reader(base: dict[str, Any]) -> None:
    for place, value in itertools.product(list(places(base)), ([], {}, 5, True, "text", [5, None], {"a": [{}]})):
        body = copy.deepcopy(base)
        holder: Any = body
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = value
        judges.of_dovetail(body, f"1.{NEWEST_MINOR}")
