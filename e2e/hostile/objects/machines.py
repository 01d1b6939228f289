"""Nodes, namespaces, device classes, taint rules, disruption budgets."""

from typing import Any, Final

from e2e.hostile.objects import selectors
from e2e.hostile.objects.draw import Draw
from e2e.hostile.objects.kinds import DRIVER, GPU_DRIVER, HELD_NODE, OWN_NODES, Manifest, Table, metadata
from scheduler.change import Kind

_MIB: Final = 2**20


def _node(draw: Draw) -> Manifest:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    made = metadata(draw, Kind.NODES, labels={"mallory.example.com/rack": draw.word(1)}, annotations={})
    return {"metadata": made, "spec": {}, "status": {"capacity": room, "allocatable": room}}


def _namespace(draw: Draw) -> Manifest:
    return {"metadata": metadata(draw, Kind.NAMESPACES, labels={}, annotations={})}


def _class(draw: Draw) -> Manifest:
    expression = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {"metadata": metadata(draw, Kind.CLASSES), "spec": {"selectors": [expression]}}


def _rule(draw: Draw) -> Manifest:
    taint = {"key": "example.com/bad", "value": "x", "effect": draw.one(("NoSchedule", "NoExecute"))}
    selector = draw.one(({"driver": DRIVER}, {"driver": GPU_DRIVER, "pool": HELD_NODE}))
    return {"metadata": metadata(draw, Kind.TAINT_RULES), "spec": {"deviceSelector": selector, "taint": taint}}


def _budget(draw: Draw) -> Manifest:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": draw.word()}}}
    return {"metadata": metadata(draw, Kind.BUDGETS), "spec": spec}


NODES: Final = Table(Kind.NODES, _node)
NAMESPACES: Final = Table(Kind.NAMESPACES, _namespace)
CLASSES: Final = Table(Kind.CLASSES, _class)
TAINT_RULES: Final = Table(Kind.TAINT_RULES, _rule)
BUDGETS: Final = Table(Kind.BUDGETS, _budget)


@NODES.twist("absurd room")
def _room(draw: Draw, node: Manifest) -> None:
    amounts = {name: draw.quantity() for name in ("cpu", "memory", "pods", "ephemeral-storage")}
    node["status"] = {"capacity": amounts, "allocatable": amounts}


@NODES.twist("many extended resources")
def _extended(draw: Draw, node: Manifest) -> None:
    amounts = {f"example.com/r{index}": str(draw.one((0, 1, 2**62))) for index in range(300)}
    node["status"] = {"capacity": amounts, "allocatable": amounts}


@NODES.twist("room that is none", is_admitted=False)
def _no_room(draw: Draw, node: Manifest) -> None:
    node["status"]["allocatable"] = draw.one(({"cpu": draw.no_quantity()}, {"cpu": "-5"}, draw.leaf()))


@NODES.twist("many taints")
def _taints(draw: Draw, node: Manifest) -> None:
    node["spec"]["taints"] = [
        {"key": f"k{index}", "value": draw.label_value(), "effect": draw.one(("NoSchedule", "PreferNoSchedule"))}
        for index in range(draw.one((1, 300)))
    ]


@NODES.twist("many labels")
def _labels(draw: Draw, node: Manifest) -> None:
    node["metadata"]["labels"] = draw.labels(1000)


@NODES.twist("many images")
def _images(draw: Draw, node: Manifest) -> None:
    node["status"]["images"] = [
        {"names": ["example.com/none", f"i{index}"], "sizeBytes": draw.one((0, 23 * _MIB, 2**62))}
        for index in range(200)
    ]


@NODES.twist("labels that are no numbers where numbers are compared")
def _numbers(draw: Draw, node: Manifest) -> None:
    node["metadata"]["labels"] = {"app": "9" * 63, "team": "1e9", "0": "0x10", "rank": draw.label_value()}


@NODES.twist("fields that are none", is_admitted=False)
def _wrong_node(draw: Draw, node: Manifest) -> None:
    leaf: Any = draw.leaf()
    draw.do(
        lambda: node["spec"].update({draw.one(("taints", "unschedulable")): leaf}),
        lambda: node["status"].update({draw.one(("images", "allocatable")): leaf}),
        lambda: node["metadata"].update({draw.one(("labels", "uid", "creationTimestamp")): leaf}),
    )


@NAMESPACES.twist("many labels and annotations")
def _namespace_labels(draw: Draw, namespace: Manifest) -> None:
    namespace["metadata"]["labels"] = draw.labels(1000)
    namespace["metadata"]["annotations"] = {"a": draw.text(100_000)}


@NAMESPACES.twist("labels that are none", is_admitted=False)
def _no_labels(draw: Draw, namespace: Manifest) -> None:
    namespace["metadata"]["labels"] = draw.one(({"a": draw.leaf()}, draw.leaf(), {draw.text(): "x"}))


@CLASSES.twist("hostile selectors")
def _class_selectors(draw: Draw, class_: Manifest) -> None:
    expressions = [selectors.selector(draw)[1] for _ in range(draw.one((1, 6)))]
    class_["spec"]["selectors"] = [{"cel": {"expression": each}} for each in expressions]


@CLASSES.twist("a selector that does not compile", is_admitted=False)
def _class_wrong(draw: Draw, class_: Manifest) -> None:
    class_["spec"]["selectors"] = [{"cel": {"expression": selectors.selector(draw, is_admitted=False)[1]}}]


@CLASSES.twist("the extended resource of another class")
def _resource(draw: Draw, class_: Manifest) -> None:
    class_["spec"]["extendedResourceName"] = draw.one(("nvidia.com/gpu", "mallory.example.com/x"))


@CLASSES.twist("deep configuration")
def _class_config(draw: Draw, class_: Manifest) -> None:
    opaque = {"driver": DRIVER, "parameters": {"deep": draw.nested(draw.one(("[", "{")))}}
    class_["spec"]["config"] = [{"opaque": opaque}] * draw.one((1, 32))


@CLASSES.twist("fields that are none", is_admitted=False)
def _class_fields(draw: Draw, class_: Manifest) -> None:
    class_["spec"][draw.one(("selectors", "config", "extendedResourceName"))] = draw.leaf()


@TAINT_RULES.twist("a device that is not there")
def _nowhere(draw: Draw, rule: Manifest) -> None:
    rule["spec"]["deviceSelector"] = {"driver": DRIVER, "pool": "no-such-pool", "device": draw.word()}


@TAINT_RULES.twist("a selector or taint that is none", is_admitted=False)
def _wrong_rule(draw: Draw, rule: Manifest) -> None:
    own = {"driver": DRIVER}
    draw.do(
        lambda: rule["spec"].update(deviceSelector={**own, "device": draw.leaf()}),
        lambda: rule["spec"].update(deviceSelector={**own, "selectors": [{"cel": {"expression": "true"}}]}),
        lambda: rule["spec"]["taint"].update({draw.one(("key", "effect", "value", "timeAdded")): draw.leaf()}),
    )


@BUDGETS.twist("a budget for everything")
def _everything(draw: Draw, budget: Manifest) -> None:
    budget["spec"] = {"selector": {}, draw.one(("minAvailable", "maxUnavailable")): draw.one(("100%", 0, 2**31 - 1))}


@BUDGETS.twist("a budget for nothing")
def _nothing(_: Draw, budget: Manifest) -> None:
    budget["spec"] = {"minAvailable": "50%"}


@BUDGETS.twist("a selector that excludes")
def _negative(draw: Draw, budget: Manifest) -> None:
    requirement = {"key": "app", "operator": draw.one(("DoesNotExist", "NotIn"))}
    values = {"values": ["a"] * 1} if requirement["operator"] == "NotIn" else {}
    budget["spec"]["selector"] = {"matchExpressions": [{**requirement, **values}] * draw.one((1, 300))}


@BUDGETS.twist("a status of extreme numbers")
def _budget_status(draw: Draw, budget: Manifest) -> None:
    disrupted = {f"p{index}": "2026-01-01T00:00:00Z" for index in range(draw.one((1, 1000)))}
    numbers = {"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "disruptionsAllowed": 2**31 - 1}
    budget["status"] = {**numbers, "observedGeneration": draw.one((0, 2**62)), "disruptedPods": disrupted}


@BUDGETS.twist("fields that are none", is_admitted=False)
def _wrong_budget(draw: Draw, budget: Manifest) -> None:
    draw.do(
        lambda: budget["spec"].update(selector=draw.leaf()),
        lambda: budget.update(status={"disruptionsAllowed": draw.leaf()}),
        lambda: budget.update(status={"disruptedPods": draw.leaf()}),
    )


def own_nodes() -> list[Manifest]:
    """Make the nodes of their own that hostile pods and slices name."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"mallory.example.com/rack": "r"}},
            "status": {"capacity": room, "allocatable": room},
        }
        for name in OWN_NODES
    ]
