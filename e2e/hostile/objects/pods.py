"""Pods: every field that a scheduler reads of them."""

from collections.abc import Callable
from typing import Any, Final

from e2e.hostile.objects.draw import LONGEST_ANNOTATION, Draw
from e2e.hostile.objects.kinds import (
    GPU_CLASS,
    HELD_NODE,
    NAMESPACE,
    PRIORITIES,
    SCHEDULER,
    Manifest,
    Table,
    metadata,
    node_name,
)
from scheduler.change import Kind

ANNOTATIONS: Final = tuple(
    f"dovetail.dev/{word}"
    for word in (
        "adopted",
        "binding-failed",
        "gang-minimum",
        "gang-topology",
        "preemptible",
        "record",
        "reserve-node",
        "suspect",
    )
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EVERYTHING: Final[Manifest] = {}
_KEYS: Final = ("kubernetes.io/hostname", "mallory.example.com/rack", "no-such-label")


def _base(draw: Draw) -> Manifest:
    priority = draw.one((*PRIORITIES, "", ""))
    importance = {"priorityClassName": priority, "priority": PRIORITIES[priority]} if priority else {}
    resources: Manifest = {"requests": {"cpu": draw.one(("1m", "1", "8")), "memory": "64Mi"}}
    return {
        "metadata": metadata(draw, Kind.PODS, labels={"app": draw.word()}, annotations={}),
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 0,
            **importance,
            "containers": [{"name": "main", "image": "example.com/none", "resources": resources}],
        },
    }


PODS: Final = Table(Kind.PODS, _base)


def _status(pod: Manifest) -> Manifest:
    status: Manifest = pod.setdefault("status", {"phase": "Pending"})
    return status


def _requests(pod: Manifest) -> Manifest:
    requests: Manifest = pod["spec"]["containers"][0]["resources"]["requests"]
    return requests


def _selector(draw: Draw) -> Manifest:
    """Select everything, nothing, or some."""
    operator = draw.one(("In", "NotIn", "Exists", "DoesNotExist"))
    values = draw.many(1, 60, lambda _: draw.label_value()) if operator in {"In", "NotIn"} else []
    requirement = {"key": draw.label_key(), "operator": operator, **({"values": values} if values else {})}
    return draw.one((_EVERYTHING, {"matchExpressions": [requirement]}, {"matchLabels": draw.labels(40)}))


def _term(draw: Draw) -> Manifest:
    term: Manifest = {"topologyKey": draw.one(_KEYS), "labelSelector": _selector(draw)}
    if draw.chance(0.3):
        term["namespaceSelector"] = _selector(draw)
    if draw.chance(0.3):
        term["namespaces"] = draw.many(1, 30, lambda _: draw.word())
    return term


def _node_requirement(draw: Draw) -> Manifest:
    operator = draw.one(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values: list[str] = []
    if operator in {"Gt", "Lt"}:
        values = [draw.one((draw.digits(), "-" + draw.digits(), draw.text(300), "9223372036854775808"))]
    elif operator in {"In", "NotIn"}:
        values = draw.many(1, 60, lambda _: draw.label_value())
    return {"key": draw.label_key(), "operator": operator, **({"values": values} if values else {})}


def _node_term(draw: Draw) -> Manifest:
    if draw.chance(0.2):
        field = {"key": "metadata.name", "operator": draw.one(("In", "NotIn")), "values": [node_name(draw)]}
        return {"matchFields": [field]}
    return {"matchExpressions": draw.many(1, 8, lambda _: _node_requirement(draw))}


def with_claim(pod: Manifest, name: str, entry: Manifest) -> None:
    """Let a pod refer to a claim and its first container use it."""
    pod["spec"].setdefault("resourceClaims", []).append({"name": name, **entry})
    pod["spec"]["containers"][0]["resources"].setdefault("claims", []).append({"name": name})


@PODS.twist("an annotation of ours with digits")
def _digits(draw: Draw, pod: Manifest) -> None:
    pod["metadata"]["annotations"][draw.one(ANNOTATIONS)] = draw.digits()
    pod["metadata"]["labels"]["dovetail.dev/gang"] = draw.word()


@PODS.twist("an annotation of ours with any text")
def _annotation(draw: Draw, pod: Manifest) -> None:
    text = draw.one((draw.text(), draw.text(LONGEST_ANNOTATION), node_name(draw), "label:a,preferred:device:a/b"))
    pod["metadata"]["annotations"][draw.one(ANNOTATIONS)] = text


@PODS.twist("a gang whose topology has very many levels")
def _topology(draw: Draw, pod: Manifest) -> None:
    pod["metadata"]["labels"]["dovetail.dev/gang"] = draw.word()
    level = draw.one(("label:a", "device:a/b", "preferred:label:x", ",", "label:"))
    pod["metadata"]["annotations"] |= {"dovetail.dev/gang-topology": ",".join([level] * 9000)}


@PODS.twist("a gang of one")
def _gang(draw: Draw, pod: Manifest) -> None:
    label = draw.one(("dovetail.dev/gang", "scheduling.x-k8s.io/pod-group"))
    pod["metadata"]["labels"][label] = f"gang-{draw.below(4)}"
    minimum = draw.one(("1", "2", "0", "-1", "1e3", "2147483648", "0x1", " 1", "١"))
    pod["metadata"]["annotations"]["dovetail.dev/gang-minimum"] = minimum


@PODS.twist("annotations as large as allowed")
def _large(draw: Draw, pod: Manifest) -> None:
    pod["metadata"]["annotations"]["example.com/large"] = draw.one(("x", "[", "\\", "é")) * (LONGEST_ANNOTATION // 2)


@PODS.twist("hundreds of labels and annotations")
def _labels(draw: Draw, pod: Manifest) -> None:
    pod["metadata"]["labels"] |= {draw.label_key(): "x"} | {f"label-{index}": "9" * 63 for index in range(500)}
    pod["metadata"]["annotations"] |= {f"annotation-{index}": draw.text(100) for index in range(300)}


@PODS.twist("requests of absurd size")
def _absurd(draw: Draw, pod: Manifest) -> None:
    names = ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "example.com/thing", "hugepages-2Mi")
    for name in draw.some(names, 6):
        is_whole = "/" in name or name.startswith("huge")
        amount = str(draw.one((0, 1, 2**31, 2**62))) if is_whole else draw.quantity()
        _requests(pod)[name] = amount
        pod["spec"]["containers"][0]["resources"].setdefault("limits", {})[name] = amount


@PODS.twist("requests that are no quantities", is_admitted=False)
def _no_requests(draw: Draw, pod: Manifest) -> None:
    _requests(pod)[draw.one(("cpu", "memory", "pods", ""))] = draw.no_quantity()


@PODS.twist("resources of the whole pod")
def _pod_level(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["resources"] = {"requests": {"cpu": draw.one(("100", "9E")), "memory": draw.one(("1Ei", "64Gi"))}}


@PODS.twist("hundreds of containers")
def _containers(draw: Draw, pod: Manifest) -> None:
    requests = {"cpu": draw.quantity()}
    more = [{"name": f"c{index}", "image": "x", "resources": {"requests": requests}} for index in range(200)]
    if draw.chance(0.5):
        pod["spec"]["containers"] += more
    else:
        pod["spec"]["initContainers"] = [{**each, "restartPolicy": "Always"} for each in more]


@PODS.twist("images of very long names")
def _images(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["containers"][0]["image"] = draw.one(("a" * 100_000, "💥", "@sha256:", "a/b:c" * 500))


@PODS.twist("required node affinity of many terms")
def _node_affinity(draw: Draw, pod: Manifest) -> None:
    terms = draw.many(1, 30, lambda _: _node_term(draw))
    pod["spec"]["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}


@PODS.twist("preferred node affinity of many terms")
def _preferred_nodes(draw: Draw, pod: Manifest) -> None:
    terms = draw.many(1, 30, lambda _: {"weight": draw.one((1, 100)), "preference": _node_term(draw)})
    pod["spec"]["affinity"] = {"nodeAffinity": {_PREFERRED: terms}}


@PODS.twist("affinity to pods by many terms")
def _affinity(draw: Draw, pod: Manifest) -> None:
    terms = draw.many(1, draw.one((2, 120)), lambda _: _term(draw))
    pod["spec"]["affinity"] = {draw.one(("podAffinity", "podAntiAffinity")): {_REQUIRED: terms}}


@PODS.twist("preferred affinity to pods by many terms")
def _preferred(draw: Draw, pod: Manifest) -> None:
    terms = draw.many(1, 120, lambda _: {"weight": 100, "podAffinityTerm": _term(draw)})
    pod["spec"]["affinity"] = {draw.one(("podAffinity", "podAntiAffinity")): {_PREFERRED: terms}}


@PODS.twist("anti-affinity against everything, on a node")
def _against_all(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["nodeName"] = draw.one((HELD_NODE, "no-such-node"))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}}
    pod["spec"]["affinity"] = {"podAntiAffinity": {_REQUIRED: [term]}}


@PODS.twist("topology spread by many constraints")
def _spread(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "topologyKey": f"{draw.one(_KEYS)}-{index}" if index else _KEYS[0],
            "maxSkew": draw.one((1, 2**31 - 1)),
            "whenUnsatisfiable": draw.one(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": _selector(draw),
        }
        for index in range(draw.one((1, 10, 60)))
    ]


@PODS.twist("hundreds of tolerations")
def _tolerations(draw: Draw, pod: Manifest) -> None:
    def toleration(index: int) -> Manifest:
        made: Manifest = {"key": f"k{index}", "operator": draw.one(("Exists", "Equal"))}
        return made | draw.one(({}, {"effect": "NoExecute", "tolerationSeconds": draw.integer()}))

    pod["spec"]["tolerations"] = [{"operator": "Exists"}, *draw.many(1, 400, toleration)]


@PODS.twist("hundreds of host ports")
def _ports(draw: Draw, pod: Manifest) -> None:
    address = draw.one(({}, {"hostIP": "::1"}, {"hostIP": "127.0.0.1"}))
    pod["spec"]["containers"][0]["ports"] = [
        {"containerPort": port, "hostPort": port, "protocol": draw.one(("TCP", "UDP", "SCTP")), **address}
        for port in range(65_535 - draw.one((1, 300)), 65_535)
    ]


@PODS.twist("many volumes")
def _volumes(draw: Draw, pod: Manifest) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    sources: tuple[Callable[[int], Manifest], ...] = (
        lambda index: {"persistentVolumeClaim": {"claimName": f"mallory-{index}"}},
        lambda _: {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        lambda _: {"gcePersistentDisk": {"pdName": draw.word()}},
        lambda _: {"rbd": {"monitors": ["x"] * 100, "image": draw.word(), "pool": "rbd"}},
        lambda _: {"iscsi": {"iqn": "iqn.2001-04.com.example:x", "targetPortal": "10.0.0.1", "lun": 0}},
    )
    pod["spec"]["volumes"] = draw.many(
        1, 100, lambda index: {"name": f"v{index}", **draw.one(sources)(draw.below(50_000))}
    )


@PODS.twist("many gates")
def _gates(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["schedulingGates"] = draw.many(1, 200, lambda index: {"name": f"example.com/gate-{index}"})


@PODS.twist("a group that is not there")
def _group(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["schedulingGroup"] = {"podGroupName": f"mallory-{draw.below(50_000)}"}


@PODS.twist("a node of its own choice")
def _node(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["nodeName"] = node_name(draw)


@PODS.twist("a node selector of many labels")
def _node_selector(draw: Draw, pod: Manifest) -> None:
    pod["spec"]["nodeSelector"] = draw.labels(300)


@PODS.twist("many owners")
def _owners(draw: Draw, pod: Manifest) -> None:
    kinds = ("ReplicaSet", "Job", "Pod", "Node", "x" * 200)
    pod["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": draw.one(kinds),
            "name": draw.word(),
            "uid": f"owner-{index}",
            "controller": index == 0,
        }
        for index in range(draw.one((1, 100)))
    ]


@PODS.twist("many finalizers")
def _finalizers(draw: Draw, pod: Manifest) -> None:
    pod["metadata"]["finalizers"] = draw.many(1, 63, lambda index: f"example.com/{index}")


@PODS.twist("claims that are missing, shared, or another's")
def _claims(draw: Draw, pod: Manifest) -> None:
    for index in range(draw.one((1, 2, 32))):
        number = max(0, draw.number - draw.below(40))
        entry = draw.one(({"resourceClaimName": f"mallory-{number}"}, {"resourceClaimTemplateName": draw.word()}))
        with_claim(pod, f"c{index}", entry)


@PODS.twist("a claim by an extended resource")
def _extended(draw: Draw, pod: Manifest) -> None:
    name = draw.one(("nvidia.com/gpu", f"deviceclass.resource.kubernetes.io/{GPU_CLASS}", "mallory.example.com/x"))
    amount = draw.one(("1", "64", "129"))
    _requests(pod)[name] = amount
    pod["spec"]["containers"][0]["resources"]["limits"] = {name: amount}


@PODS.twist("a status with a nomination and conditions")
def _nominated(draw: Draw, pod: Manifest) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": draw.word(), "message": draw.text(5000)}
    _status(pod).update({"nominatedNodeName": node_name(draw), "conditions": [condition]})


@PODS.twist("a status of another pod's claims")
def _claim_status(draw: Draw, pod: Manifest) -> None:
    with_claim(pod, "own", {"resourceClaimTemplateName": "one"})
    made = draw.one(("good-0", f"mallory-{draw.below(50_000)}", "x" * 253))
    _status(pod)["resourceClaimStatuses"] = [{"name": "own", "resourceClaimName": made}]


@PODS.twist("a status of containers with amounts", is_admitted=False)
def _container_status(draw: Draw, pod: Manifest) -> None:
    health = {"resourceID": draw.text(300), "health": draw.one(("Unhealthy", "x"))}
    _status(pod)["containerStatuses"] = [
        {
            "name": draw.one(("main", "other")),
            "allocatedResources": {"cpu": draw.one((draw.quantity(), draw.no_quantity()))},
            "allocatedResourcesStatus": [{"name": "claim:own/x", "resources": [health] * draw.one((1, 300))}],
        }
    ]


@PODS.twist("times that are none", is_admitted=False)
def _times(draw: Draw, pod: Manifest) -> None:
    text = draw.one(("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", draw.text(200)))
    _status(pod)["startTime"] = text
    pod["metadata"]["creationTimestamp"] = text


@PODS.twist("a name or namespace that is none", is_admitted=False)
def _names(draw: Draw, pod: Manifest) -> None:
    pod["metadata"][draw.one(("name", "namespace"))] = draw.one((draw.text(), "a/b", "A", NAMESPACE + "/"))


@PODS.twist("fields that must not be set", is_admitted=False)
def _fields(draw: Draw, pod: Manifest) -> None:
    leaf: Any = draw.leaf()
    field = draw.one(("priority", "overhead", "schedulerName", "resources", "affinity", "preemptionPolicy"))
    pod["spec"][field] = leaf
