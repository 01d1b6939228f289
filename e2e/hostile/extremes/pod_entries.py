"""Lists and maps of pods. Validation bounds nearly none of them."""

from typing import Final

from e2e.hostile.extremes.entries import (
    EMPTY,
    LABEL_SELECTOR,
    METADATA,
    NODE_TERM,
    Entries,
    Entry,
    Manifest,
    name,
    node_selector,
    with_prefix,
)

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_PORTS: Final = 65_535


def container(index: int) -> Manifest:
    """Make a container with the fields that the API server adds."""
    return {
        "name": name(index),
        "image": "a",
        "resources": {},
        "terminationMessagePath": "/",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }


def sidecar(index: int) -> Manifest:
    """Make an init container that runs as long as the pod."""
    return {**container(index), "name": f"i{name(index)}", "restartPolicy": "Always"}


def port(index: int) -> Manifest:
    """Make a host port; each combination of number and protocol once, then on further addresses."""
    address, rest = divmod(index, _PORTS * len(_PROTOCOLS))
    protocol, number = divmod(rest, _PORTS)
    made = {"hostPort": number + 1, "containerPort": number + 1, "protocol": _PROTOCOLS[protocol]}
    return made | ({"hostIP": f"10.0.0.{address}"} if address else {})


def _amount(index: int) -> tuple[str, str]:
    return f"a.b/{name(index)}", str(index + 1)


def _huge_pages(index: int) -> tuple[str, str]:
    return f"hugepages-{index + 1}Mi", "0"


_AMOUNTS: Final = Entry(_amount, twin="limits")
"""Extended resources: a request needs a limit, which is equal."""
_RESOURCES: Final[Entries] = {
    "requests{}": _AMOUNTS,
    "limits{}": Entry(_amount, twin="requests"),
    "claims[]": Entry(lambda index: {"name": "c", "request": name(index)}),
}
_OF_THE_POD: Final[Entries] = {
    "requests{}": Entry(_huge_pages, twin="limits"),
    "limits{}": Entry(_huge_pages, twin="requests"),
    "claims[]": Entry(lambda index: {"name": "c", "request": name(index)}),
}


def _restarted(index: int) -> Manifest:
    return {**container(index), "restartPolicy": "Never"}


_RULE: Final = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
_CONTAINER: Final[Entries] = {
    **with_prefix("resources", _RESOURCES),
    "restartPolicyRules[]": Entry(
        lambda _: _RULE, most=20, holder=lambda index: {**container(index), "restartPolicy": "Never"}
    ),
    "volumeMounts[]": Entry(lambda index: {"name": "v", "mountPath": f"/{name(index)}"}),
    "volumeMounts[].bindMountOptions[]": Entry(name),
    "ports[]": Entry(port),
    "env[]": Entry(lambda index: {"name": name(index)}),
    "envFrom[]": Entry(lambda index: {"prefix": name(index), "secretRef": {"name": "a", "optional": True}}),
    "args[]": Entry(name),
    "volumeDevices[]": Entry(lambda index: {"name": name(index), "devicePath": f"/{name(index)}"}),
}


def _term(index: int) -> Manifest:
    return {"topologyKey": name(index)}


def _selecting(index: int) -> Manifest:
    """Make a term with a selector, which keys of labels need; those of a preferred one are ignored."""
    term = {"topologyKey": name(index), "labelSelector": {}}
    return {**term, "weight": 1, "podAffinityTerm": dict(term)}


def _weighted(index: int) -> Manifest:
    return {"weight": 1 + index % 100, "podAffinityTerm": _term(index)}


_TERM: Final[Entries] = {
    **with_prefix("labelSelector", LABEL_SELECTOR),
    "namespaces[]": Entry(name),
    **with_prefix("namespaceSelector", LABEL_SELECTOR),
    "matchLabelKeys[]": Entry(name, holder=_selecting),
    "mismatchLabelKeys[]": Entry(name, holder=_selecting),
}
_POD_AFFINITY: Final[Entries] = {
    f"{_REQUIRED}[]": Entry(_term),
    **with_prefix(f"{_REQUIRED}[]", _TERM),
    f"{_PREFERRED}[]": Entry(_weighted),
    **with_prefix(f"{_PREFERRED}[].podAffinityTerm", _TERM),
}
_PREFERENCE: Final = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
_NODE_AFFINITY: Final[Entries] = {
    **with_prefix(_REQUIRED, node_selector()),
    f"{_PREFERRED}[]": Entry(lambda _: _PREFERENCE),
    **with_prefix(f"{_PREFERRED}[].preference", NODE_TERM),
}


def _constraint(index: int) -> Manifest:
    return {"maxSkew": 1, "topologyKey": name(index), "whenUnsatisfiable": "DoNotSchedule"}


def _mounted(index: int) -> Manifest:
    return {"name": name(index), "persistentVolumeClaim": {"claimName": "a"}}


def _condition(index: int) -> Manifest:
    return {"type": name(index), "status": "True", "lastProbeTime": None, "lastTransitionTime": None}


def _container_status(index: int) -> Manifest:
    return {
        "name": name(index),
        "state": {},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }


def _device_report(index: int) -> Manifest:
    return {"name": f"claim:{name(index)}", "resources": [{"resourceID": "a", "health": "Unhealthy"}]}


_STATUS: Final[Entries] = {
    **with_prefix("resources", _RESOURCES),
    "allocatedResourcesStatus[]": Entry(_device_report),
    "allocatedResourcesStatus[].resources[]": Entry(
        lambda index: {"resourceID": name(index), "health": "Unhealthy"},
    ),
    "allocatedResources{}": Entry(_amount),
}
_NODE_ALLOCATABLE: Final[Entries] = {
    "containers[]": Entry(name),
    "resources{}": Entry(_amount),
    "mapping[]": Entry(lambda index: {"name": f"a.b/{name(index)}", "quantity": "1"}),
    "overhead[]": Entry(lambda index: {"name": f"a.b/{name(index)}", "perPod": "1", "perContainer": "1"}),
}

POD_ENTRIES: Final[Entries] = {
    **METADATA,
    "spec.containers[]": Entry(container),
    **with_prefix("spec.containers[]", _CONTAINER),
    "spec.initContainers[]": Entry(sidecar),
    **with_prefix("spec.initContainers[]", _CONTAINER),
    "spec.ephemeralContainers[]": Entry(container),
    "spec.ephemeralContainers[].env[]": Entry(lambda index: {"name": name(index)}),
    "spec.overhead{}": Entry(_amount),
    **with_prefix("spec.resources", _OF_THE_POD),
    "spec.nodeSelector{}": EMPTY,
    **with_prefix("spec.affinity.nodeAffinity", _NODE_AFFINITY),
    **with_prefix("spec.affinity.podAffinity", _POD_AFFINITY),
    **with_prefix("spec.affinity.podAntiAffinity", _POD_AFFINITY),
    "spec.tolerations[]": Entry(lambda _: {"operator": "Exists"}),
    "spec.resourceClaims[]": Entry(lambda index: {"name": name(index), "resourceClaimName": "a"}),
    "spec.schedulingGates[]": Entry(lambda index: {"name": name(index)}),
    "spec.topologySpreadConstraints[]": Entry(_constraint),
    **with_prefix("spec.topologySpreadConstraints[].labelSelector", LABEL_SELECTOR),
    "spec.topologySpreadConstraints[].matchLabelKeys[]": Entry(
        name, holder=lambda index: {**_constraint(index), "labelSelector": {}}
    ),
    "spec.volumes[]": Entry(_mounted),
    "spec.volumes[].rbd.monitors[]": Entry(name, holder=lambda index: {"name": name(index), "rbd": {"image": "a"}}),
    "spec.imagePullSecrets[]": Entry(lambda index: {"name": name(index)}),
    "spec.hostAliases[]": Entry(lambda index: {"ip": "10.0.0.1", "hostnames": [name(index)]}),
    "spec.readinessGates[]": Entry(lambda index: {"conditionType": name(index)}),
    "status.conditions[]": Entry(_condition),
    "status.containerStatuses[]": Entry(_container_status),
    **with_prefix("status.containerStatuses[]", _STATUS),
    "status.initContainerStatuses[]": Entry(_container_status),
    **with_prefix("status.initContainerStatuses[]", _STATUS),
    **with_prefix("status.resources", _RESOURCES),
    "status.allocatedResources{}": Entry(_amount),
    "status.resourceClaimStatuses[]": Entry(lambda index: {"name": name(index), "resourceClaimName": "a"}),
    "status.nodeAllocatableResourceClaimStatuses[]": Entry(lambda index: {"resourceClaimName": name(index)}),
    **with_prefix("status.nodeAllocatableResourceClaimStatuses[]", _NODE_ALLOCATABLE),
    "status.extendedResourceClaimStatus.requestMappings[]": Entry(
        lambda index: {"containerName": "a", "resourceName": f"a.b/{name(index)}", "requestName": "a"},
    ),
}
