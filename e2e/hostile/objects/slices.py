"""ResourceSlices, as a driver that is broken or hostile publishes them."""

from collections.abc import Callable
from typing import Any, Final

from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.kinds import DRIVER, GPU_DRIVER, HELD_NODE, OWN_NODES, Manifest, Table, metadata, node_name
from scheduler.change import Kind

MOST_DEVICES: Final = 128
LONGEST_TEXT: Final = 64
_EXTREMES: Final[tuple[Callable[[Draw], Manifest], ...]] = (
    lambda draw: {"int": draw.integer()},
    lambda _: {"string": "é" * (LONGEST_TEXT // 2)},
    lambda draw: {"string": draw.text(LONGEST_TEXT) or "x"},
    lambda _: {"version": "1.2." + "9" * 18},
    lambda _: {"version": "1.2.3-" + "a." * 20 + "0"},
    lambda draw: {"bool": draw.chance(0.5)},
)


def _base(draw: Draw) -> Manifest:
    devices = [{"name": f"d{index}", "attributes": {"type": {"string": "x"}}} for index in range(draw.one((1, 4)))]
    return {
        "metadata": metadata(draw, Kind.SLICES),
        "spec": {
            "driver": DRIVER,
            "nodeName": draw.one(OWN_NODES),
            "pool": {"name": f"pool-{draw.below(6)}", "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


SLICES: Final = Table(Kind.SLICES, _base)


@SLICES.twist("as many devices as allowed")
def _many(draw: Draw, slice_: Manifest) -> None:
    slice_["spec"]["devices"] = [{"name": f"d{index}"} for index in range(draw.one((2, MOST_DEVICES)))]


@SLICES.twist("extreme attributes")
def _attributes(draw: Draw, slice_: Manifest) -> None:
    for device in slice_["spec"]["devices"]:
        device["attributes"] = {f"a{index}": draw.one(_EXTREMES)(draw) for index in range(32)}


@SLICES.twist("attributes that are lists")
def _lists(draw: Draw, slice_: Manifest) -> None:
    lists: tuple[Manifest, ...] = ({"ints": [draw.integer()] * 40}, {"strings": ["x"] * 40}, {"bools": [True] * 40})
    slice_["spec"]["devices"][0]["attributes"] = {"a": draw.one(lists)}


@SLICES.twist("extreme capacities")
def _capacities(draw: Draw, slice_: Manifest) -> None:
    for device in slice_["spec"]["devices"]:
        device["capacity"] = {f"c{index}": {"value": draw.published()} for index in range(30)}


@SLICES.twist("policies of capacities")
def _policies(draw: Draw, slice_: Manifest) -> None:
    least, most = draw.one((("1", "9E"), ("1n", "1"), ("0", "0"), ("1Ki", "8Ei"), ("-1", "1"), ("-5Gi", "-1")))
    policy: Manifest = {"default": least, "validRange": {"min": least, "max": most, "step": draw.one((least, "1n"))}}
    for device in slice_["spec"]["devices"]:
        device["allowMultipleAllocations"] = True
        device["capacity"] = {"memory": {"value": most, "requestPolicy": policy}}


@SLICES.twist("counters of extreme size")
def _counters(draw: Draw, slice_: Manifest) -> None:
    extreme = {f"c{index}": {"value": draw.published()} for index in range(32)}
    plain = {f"c{index}": {"value": draw.one(("0", "1", "9E"))} for index in range(32)}
    counters = draw.one((extreme, plain))
    if draw.chance(0.5):
        del slice_["spec"]["devices"]
        slice_["spec"]["sharedCounters"] = [{"name": f"s{index}", "counters": counters} for index in range(8)]
    else:
        drawn = [{"counterSet": f"s{index}", "counters": counters} for index in range(2)]
        for device in slice_["spec"]["devices"]:
            groups = {"compatibilityGroups": draw.one((["a"], ["b"], ["a", "b"], ["b", "c"], ["c", "a"]))}
            device["consumesCounters"] = [{**each, **groups} for each in drawn] if draw.chance(0.5) else drawn
            device["allowMultipleAllocations"] = draw.chance(0.3)
    slice_["spec"]["pool"] = {"name": f"counted-{draw.below(2)}", "generation": 1, "resourceSliceCount": 2}


@SLICES.twist("many taints")
def _taints(draw: Draw, slice_: Manifest) -> None:
    taints = [
        {"key": f"k{index}", "value": draw.label_value(), "effect": draw.one(("NoSchedule", "NoExecute", "None"))}
        for index in range(16)
    ]
    for device in slice_["spec"]["devices"]:
        device["taints"] = taints


@SLICES.twist("a generation beyond everything")
def _generation(draw: Draw, slice_: Manifest) -> None:
    slice_["spec"]["pool"]["generation"] = draw.one((0, 2**31, 2**62, 2**63 - 1))


@SLICES.twist("a pool of slices that are missing")
def _count(draw: Draw, slice_: Manifest) -> None:
    slice_["spec"]["pool"]["resourceSliceCount"] = draw.one((2, 2**31, 2**62))


@SLICES.twist("the pool and devices of another driver's slice")
def _pool(draw: Draw, slice_: Manifest) -> None:
    slice_["spec"] |= {"driver": GPU_DRIVER, "nodeName": HELD_NODE}
    slice_["spec"]["pool"] = {"name": HELD_NODE, "generation": draw.one((0, 1, 2)), "resourceSliceCount": 1}
    slice_["spec"]["devices"] = [{"name": f"gpu-{index}"} for index in range(draw.one((1, 8)))]


@SLICES.twist("devices that call themselves GPUs, on all nodes")
def _impostor(draw: Draw, slice_: Manifest) -> None:
    del slice_["spec"]["nodeName"]
    slice_["spec"] |= {"driver": GPU_DRIVER, "allNodes": True}
    slice_["spec"]["pool"]["name"] = f"mallory-{draw.number}"
    for device in slice_["spec"]["devices"]:
        device["attributes"] = {"type": {"string": "gpu"}, "uuid": {"string": "x"}}


@SLICES.twist("nodes by a selector")
def _selector(draw: Draw, slice_: Manifest) -> None:
    del slice_["spec"]["nodeName"]
    values = [draw.one(("9" * 400, "-1", draw.label_value(), "9223372036854775808"))]
    operator = draw.one(("Gt", "Lt", "In", "NotIn"))
    requirement = {"key": draw.label_key(), "operator": operator, "values": values}
    slice_["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [requirement] * draw.one((1, 100))}]}


@SLICES.twist("nodes by device")
def _per_device(draw: Draw, slice_: Manifest) -> None:
    del slice_["spec"]["nodeName"]
    slice_["spec"]["perDeviceNodeSelection"] = True
    for device in slice_["spec"]["devices"]:
        device.update(draw.one(({"allNodes": True}, {"nodeName": node_name(draw)})))


@SLICES.twist("conditions to wait for")
def _conditions(draw: Draw, slice_: Manifest) -> None:
    for device in slice_["spec"]["devices"]:
        device["bindsToNode"] = draw.chance(0.5)
        device["bindingConditions"] = [f"example.com/{draw.word()}" for _ in range(4)]
        device["bindingFailureConditions"] = [f"example.com/{draw.word()}" for _ in range(4)]


@SLICES.twist("amounts of the node that devices are worth")
def _mappings(draw: Draw, slice_: Manifest) -> None:
    for device in slice_["spec"]["devices"]:
        device["capacity"] = {"memory": {"value": draw.published()}}
        mapping = {"capacityKey": "memory", "allocationMultiplier": draw.quantity()}
        device["nodeAllocatableResourceMappings"] = {draw.one(("cpu", "memory")): mapping}
        by_capacity = {"capacityKey": "memory", "capacityMultiplier": draw.quantity()}
        overhead = {"perPod": draw.quantity(), "perContainer": draw.quantity()}
        device["nodeAllocatableResources"] = {"memory": {"mapping": by_capacity, "overhead": overhead}}


@SLICES.twist("devices of one name", is_admitted=False)
def _namesakes(draw: Draw, slice_: Manifest) -> None:
    slice_["spec"]["devices"] = [{"name": draw.one(("d0", "", "A"))} for _ in range(4)]


@SLICES.twist("fields that are none", is_admitted=False)
def _wrong(draw: Draw, slice_: Manifest) -> None:
    leaf: Any = draw.leaf()
    device = {"name": "d0", draw.one(("attributes", "capacity", "taints", "consumesCounters", "bindsToNode")): leaf}
    draw.do(
        lambda: slice_["spec"].update(devices=[device]),
        lambda: slice_["spec"]["pool"].update({draw.one(("name", "generation", "resourceSliceCount")): leaf}),
        lambda: slice_["spec"].update({draw.one(("driver", "nodeName", "nodeSelector", "devices")): leaf}),
    )


@SLICES.twist("amounts that are none", is_admitted=False)
def _no_amounts(draw: Draw, slice_: Manifest) -> None:
    for device in slice_["spec"]["devices"]:
        device["capacity"] = {"c": {"value": draw.no_quantity()}}


@SLICES.twist("versions of many digits", is_admitted=False)
def _versions(draw: Draw, slice_: Manifest) -> None:
    for device in slice_["spec"]["devices"]:
        device["attributes"] = {"v": {"version": f"1.2.{draw.digits()}"}}
