"""Rules that relate several fields of an object, by type, as the API server has them; paths begin below the object."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from scheduler.simulation.manifests import admission_rules, formats, resource_rules
from scheduler.simulation.manifests.fields import Body, FieldError, entries, mapping, text, texts

_NODES: Final = ("nodeName", "nodeSelector", "allNodes")
_SCOPES: Final = (*_NODES, "perDeviceNodeSelection")
_MOST_DEVICES: Final = 128
_MOST_ADVANCED: Final = 64
_MOST_NAMES: Final = 32
_MOST_VALUES: Final = 48
_MOST_INDEXED: Final = 100_000
"""Pods of an Indexed Job at a time (`maxParallelismForIndexedJob`)."""
_LISTS: Final = ("ints", "bools", "strings", "versions")
_VALUES: Final = ("int", "bool", "string", "version", *_LISTS)

_EQUAL: Final = ("In", "NotIn")
_THERE: Final = ("Exists", "DoesNotExist")
_COMPARING: Final = ("Gt", "Lt")

Check = Callable[[Body], Iterator[FieldError]]


def _pod_spec(pod: Body) -> Iterator[FieldError]:
    yield from (
        FieldError(f"resources.{field}" if field else "resources", message)
        for field, message in resource_rules.of_pod(pod)
    )
    for kind in ("initContainers", "containers"):
        for index, container in entries(pod.get(kind)):
            for field, message in resource_rules.of_container(mapping(container.get("resources"))):
                yield FieldError(f"{kind}[{index}].resources.{field}", message)
            if pod.get("hostNetwork") is True:
                yield from _host_ports(container, f"{kind}[{index}]")


def _host_ports(container: Body, at: str) -> Iterator[FieldError]:
    for index, port in entries(container.get("ports")):
        if port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
            yield FieldError(f"{at}.ports[{index}].hostPort", "with hostNetwork it is the containerPort: leave it out")


def _toleration(toleration: Body) -> Iterator[FieldError]:
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield FieldError(
            "effect", "tolerationSeconds goes with effect NoExecute only: write it, or leave the seconds out"
        )


def _slice(spec: Body) -> Iterator[FieldError]:
    chosen = [name for name in _SCOPES if spec.get(name) not in (None, False, "")]
    if not chosen:
        yield FieldError("", f"says of no node that it can use the devices: write one of {', '.join(_SCOPES)}")
    if len(chosen) > 1:
        yield FieldError(chosen[1], f"{' and '.join(chosen)} exclude each other: keep one of them")
    yield from _only_true(spec, ("allNodes", "perDeviceNodeSelection"))
    terms = mapping(spec.get("nodeSelector")).get("nodeSelectorTerms")
    if isinstance(terms, list) and len(terms) != 1:
        yield FieldError("nodeSelector.nodeSelectorTerms", f"are {len(terms)}: write exactly one term")
    if spec.get("devices") is not None and spec.get("sharedCounters") is not None:
        yield FieldError("sharedCounters", "stand in a slice of their own: leave out the devices, or them")
    devices = [device for _, device in entries(spec.get("devices"))]
    is_advanced = any(map(_is_advanced, devices))
    most = _MOST_ADVANCED if is_advanced else _MOST_DEVICES
    if len(devices) > most:
        why = " with taints, counters or lists" if is_advanced else ""
        yield FieldError("devices", f"are {len(devices)}: a slice{why} holds at most {most}")
    for index, device in enumerate(devices):
        yield from _of_nodes(device, f"devices[{index}]", per_device=spec.get("perDeviceNodeSelection") is True)
    if spec.get("partitionTypeAttribute") is not None and not any(each.get("consumesCounters") for each in devices):
        yield FieldError("partitionTypeAttribute", "goes with devices that consume counters: leave it out")
    operations = texts(spec.get("skipNodeOperations"))
    if "NodePrepareResources" in operations and not {"NodeUnprepareResources", "*"} & set(operations):
        yield FieldError("skipNodeOperations", "NodePrepareResources goes with NodeUnprepareResources: write both")


def _is_advanced(device: Body) -> bool:
    lists = (
        each for each in mapping(device.get("attributes")).values() if any(name in mapping(each) for name in _LISTS)
    )
    return bool(device.get("taints") or device.get("consumesCounters") or any(True for _ in lists))


def _of_nodes(device: Body, at: str, *, per_device: bool) -> Iterator[FieldError]:
    chosen = [name for name in _NODES if device.get(name) is not None]
    if not per_device:
        if chosen:
            yield FieldError(
                f"{at}.{chosen[0]}", "goes with spec.perDeviceNodeSelection: true: write it, or leave this out"
            )
        return
    if len(chosen) != 1:
        found = f"{' and '.join(chosen)} exclude each other" if chosen else "says of no node that it can use the device"
        yield FieldError(at, f"{found}: write one of {', '.join(_NODES)}")
    yield from (FieldError(f"{at}.{field}", message) for field, message in _only_true(device, ("allNodes",)))
    if device.get("nodeName") == "":
        yield FieldError(f"{at}.nodeName", "is empty: write a name, or leave it out")


def _only_true(holder: Body, names: tuple[str, ...]) -> Iterator[FieldError]:
    for name in names:
        if holder.get(name) is False:
            yield FieldError(name, "is false: write true, or leave it out")


def _device(device: Body) -> Iterator[FieldError]:
    attributes, capacity = mapping(device.get("attributes")), mapping(device.get("capacity"))
    if len(attributes) + len(capacity) > _MOST_NAMES:
        yield FieldError("attributes", f"and capacity are {len(attributes) + len(capacity)}: at most {_MOST_NAMES}")
    count = sum(max(1, sum(len(texts(mapping(each).get(name))) for name in _LISTS)) for each in attributes.values())
    if count > _MOST_VALUES:
        yield FieldError("attributes", f"have {count} values: at most {_MOST_VALUES} are allowed")
    conditions, failures = (texts(device.get(name)) for name in ("bindingConditions", "bindingFailureConditions"))
    if bool(conditions) != bool(failures):
        missing = "bindingFailureConditions" if conditions else "bindingConditions"
        yield FieldError(missing, "missing: bindingConditions and bindingFailureConditions go together")
    if set(conditions) & set(failures):
        yield FieldError(
            "bindingFailureConditions", "has one that is a binding condition too: leave it out of one of them"
        )
    for name, resource in mapping(device.get("nodeAllocatableResources")).items():
        yield from _node_allocatable(name, mapping(resource), capacity)


def _node_allocatable(name: str, resource: Body, capacity: Body) -> Iterator[FieldError]:
    at = f"nodeAllocatableResources[{name}]"
    if name not in {"cpu", "memory"} and not name.startswith("hugepages-"):
        yield FieldError(
            at, f"{name} is no resource that devices take from a node: write cpu, memory or hugepages-<size>"
        )
    if resource.get("mapping") is None and resource.get("overhead") is None:
        yield FieldError(at, "says nothing: write mapping or overhead")
    found = resource.get("mapping")
    if isinstance(found, dict):
        key = found.get("capacityKey")
        if (key is None) != (found.get("capacityMultiplier") is None):
            yield FieldError(f"{at}.mapping", "capacityKey and capacityMultiplier go together: write both")
        if key is not None and key not in capacity:
            yield FieldError(f"{at}.mapping.capacityKey", f"{key} is no capacity of the device")
        if key is None and found.get("deviceMultiplier") is None:
            yield FieldError(
                f"{at}.mapping", "says nothing: write capacityKey and capacityMultiplier, or deviceMultiplier"
            )
    overhead = resource.get("overhead")
    if isinstance(overhead, dict) and overhead.get("perPod") is None and overhead.get("perContainer") is None:
        yield FieldError(f"{at}.overhead", "says nothing: write perPod or perContainer")


def _attribute(attribute: Body) -> Iterator[FieldError]:
    chosen = [name for name in _VALUES if attribute.get(name) is not None]
    if len(chosen) != 1:
        found = f"has {' and '.join(chosen)}" if chosen else "has no value"
        yield FieldError("", f"{found}: write one of {', '.join(_VALUES)}")
    for name in _LISTS:
        if attribute.get(name) == []:
            yield FieldError(name, "is empty: write at least one value")


def _node_term(term: Body) -> Iterator[FieldError]:
    for index, requirement in entries(term.get("matchExpressions")):
        for field, message in _requirement(requirement):
            yield FieldError(f"matchExpressions[{index}].{field}", message)
    for index, requirement in entries(term.get("matchFields")):
        at, values = f"matchFields[{index}]", texts(requirement.get("values"))
        if requirement.get("key") != "metadata.name":
            yield FieldError(f"{at}.key", "the only field of nodes that can be asked for is metadata.name")
        if requirement.get("operator") not in _EQUAL:
            yield FieldError(f"{at}.operator", "write In or NotIn")
        if len(values) != 1:
            yield FieldError(f"{at}.values", "write exactly one name of a node")
        elif wrong := formats.subdomain(values[0]) or formats.required(values[0]):
            yield FieldError(f"{at}.values[0]", wrong)


def _requirement(requirement: Body) -> Iterator[FieldError]:
    operator, values = text(requirement.get("operator")), texts(requirement.get("values"))
    if wrong := formats.label_key(requirement.get("key")):
        yield FieldError("key", wrong)
    if operator not in (*_EQUAL, *_THERE, *_COMPARING):
        yield FieldError("operator", f"write {', '.join((*_EQUAL, *_THERE))}, {' or '.join(_COMPARING)}")
    elif operator in _EQUAL and not values:
        yield FieldError("values", f"missing: operator {operator} compares with at least one")
    elif operator in _THERE and values:
        yield FieldError("values", f"operator {operator} takes none: leave them out")
    elif operator in _COMPARING and len(values) != 1:
        yield FieldError("values", f"operator {operator} compares with one whole number")
    for index, value in enumerate(values):
        if wrong := formats.label_value(value):
            yield FieldError(f"values[{index}]", wrong)


def _selector_requirement(requirement: Body) -> Iterator[FieldError]:
    operator, values = text(requirement.get("operator")), texts(requirement.get("values"))
    if operator not in (*_EQUAL, *_THERE):
        yield FieldError("operator", f"write {', '.join((*_EQUAL, *_THERE))}")
    elif (operator in _EQUAL) != bool(values):
        yield FieldError(
            "values", f"operator {operator} {'compares with at least one' if not values else 'takes none'}"
        )


def _template(spec: Body) -> Iterator[FieldError]:
    for name in mapping(spec.get("metadata")).keys() - {"labels", "annotations"}:
        yield FieldError(
            f"metadata.{name}", "cannot be set on what is made from a template: write labels and annotations only"
        )


def _pod_group(spec: Body) -> Iterator[FieldError]:
    if spec.get("parentCompositePodGroupName") and spec.get("workloadRef") is None:
        yield FieldError("workloadRef", "missing: it goes with parentCompositePodGroupName")


def _budget(spec: Body) -> Iterator[FieldError]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield FieldError("maxUnavailable", "minAvailable and maxUnavailable exclude each other: keep one of them")


def _job(spec: Body) -> Iterator[FieldError]:
    if spec.get("completionMode") == "Indexed":
        if spec.get("completions") is None and spec.get("parallelism") is not None:  # without both, both are 1
            yield FieldError("completions", "missing: an Indexed Job says how many indexes it has")
        if wrong := formats.between(0, _MOST_INDEXED)(spec.get("parallelism")):
            yield FieldError("parallelism", f"{wrong}, as for an Indexed Job")
    policy = mapping(mapping(spec.get("template")).get("spec")).get("restartPolicy")
    if policy == "Always":
        yield FieldError("template.spec.restartPolicy", "is Always: write Never or OnFailure, a Job's pods end")


def _volume(spec: Body) -> Iterator[FieldError]:
    capacity = spec.get("capacity")
    if isinstance(capacity, dict) and capacity and set(capacity) != {"storage"}:
        yield FieldError("capacity", "a volume has storage only: leave out the rest")


def _workload(spec: Body) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if not isinstance(selector, dict):
        return
    labels = mapping(mapping(mapping(spec.get("template")).get("metadata")).get("labels"))
    wanted = mapping(selector.get("matchLabels"))
    if not wanted and not selector.get("matchExpressions"):
        yield FieldError("selector", "is empty: write the labels of the template")
    elif wrong := next((key for key, value in wanted.items() if labels.get(key) != value), ""):
        yield FieldError("template.metadata.labels", f"lack {wrong}: {wanted[wrong]} of the selector: write it")


def _attachment(spec: Body) -> Iterator[FieldError]:
    chosen = [name for name, value in mapping(spec.get("source")).items() if value is not None]
    if len(chosen) != 1:
        yield FieldError("source", "write exactly one of persistentVolumeName and inlineVolumeSpec")


RULES: Final[Mapping[str, tuple[Check, ...]]] = {
    "core.LimitRangeSpec": (admission_rules.of_limits,),
    "core.ResourceQuotaSpec": (admission_rules.of_quota,),
    "node.Overhead": (admission_rules.of_overhead,),
    "node.Scheduling": (admission_rules.of_scheduling,),
    "storage.CSIStorageCapacity": (admission_rules.of_capacity,),
    "storage.VolumeAttachmentSpec": (_attachment,),
    "core.PodSpec": (_pod_spec,),
    "core.NodeSelectorTerm": (_node_term,),
    "core.PersistentVolumeSpec": (_volume,),
    "meta.LabelSelectorRequirement": (_selector_requirement,),
    "policy.PodDisruptionBudgetSpec": (_budget,),
    "resource.ResourceClaimTemplateSpec": (_template,),
    "scheduling.PodGroupSpec": (_pod_group,),
    "apps.DeploymentSpec": (_workload,),
    "apps.ReplicaSetSpec": (_workload,),
    "apps.StatefulSetSpec": (_workload,),
    "batch.JobSpec": (_job,),
    "core.Toleration": (_toleration,),
    "resource.ResourceSliceSpec": (_slice,),
    "resource.Device": (_device,),
    "resource.DeviceAttribute": (_attribute,),
}
