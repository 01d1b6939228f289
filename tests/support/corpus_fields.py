"""
Which objects of the corpus are decoded, as what, and which of their fields are not read, with the reason.

A field of a new Kubernetes is in none of these tables: the test fails until the decoder reads it or a table names it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.change import Kind
from scheduler.kube.decode.objects import read
from scheduler.kube.leader_election.lease import decode_lease
from tests.support.corpus import Json

Edits = Mapping[str, Any]

_RESOURCE: Final = "resource.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_SCHEDULING: Final = "scheduling.k8s.io"

KINDS: Final[dict[tuple[str, str], Kind]] = {
    ("v1", "Namespace"): Kind.NAMESPACES,
    ("v1", "Node"): Kind.NODES,
    ("v1", "PersistentVolume"): Kind.VOLUMES,
    ("v1", "PersistentVolumeClaim"): Kind.VOLUME_CLAIMS,
    ("v1", "Pod"): Kind.PODS,
    ("policy/v1", "PodDisruptionBudget"): Kind.BUDGETS,
    (f"{_RESOURCE}/v1", "DeviceClass"): Kind.CLASSES,
    (f"{_RESOURCE}/v1", "DeviceTaintRule"): Kind.TAINT_RULES,
    (f"{_RESOURCE}/v1beta2", "DeviceTaintRule"): Kind.TAINT_RULES,
    (f"{_RESOURCE}/v1alpha3", "DeviceTaintRule"): Kind.TAINT_RULES,
    (f"{_RESOURCE}/v1", "ResourceClaim"): Kind.CLAIMS,
    (f"{_RESOURCE}/v1", "ResourceSlice"): Kind.SLICES,
    (f"{_RESOURCE}/v1beta2", "DeviceClass"): Kind.CLASSES,
    (f"{_RESOURCE}/v1beta2", "ResourceClaim"): Kind.CLAIMS,
    (f"{_RESOURCE}/v1beta2", "ResourceSlice"): Kind.SLICES,
    (f"{_SCHEDULING}/v1alpha2", "PodGroup"): Kind.POD_GROUPS,
    (f"{_SCHEDULING}/v1alpha3", "PodGroup"): Kind.POD_GROUPS,
    (f"{_SCHEDULING}/v1beta1", "PodGroup"): Kind.POD_GROUPS,
    (f"{_STORAGE}/v1", "CSIDriver"): Kind.STORAGE_DRIVERS,
    (f"{_STORAGE}/v1", "CSINode"): Kind.NODE_DRIVERS,
    (f"{_STORAGE}/v1", "CSIStorageCapacity"): Kind.STORAGE_CAPACITIES,
    (f"{_STORAGE}/v1", "StorageClass"): Kind.STORAGE_CLASSES,
    (f"{_STORAGE}/v1", "VolumeAttachment"): Kind.ATTACHMENTS,
}
"""The objects that the watches and manifests decode, by apiVersion and kind."""

LEASE: Final = ("coordination.k8s.io/v1", "Lease")

NOT_DECODED: Final[dict[tuple[str, str], str]] = {
    ("v1", "Binding"): "it is only written",
    ("events.k8s.io/v1", "Event"): "it is only written",
    ("policy/v1", "Eviction"): "it is only written",
    ("batch/v1", "Job"): "its controller makes pods and PodGroups of it; `simulate` expands its pod template",
    (f"{_RESOURCE}/v1", "ResourceClaimTemplate"): "its controller makes claims of it; `simulate` expands it",
    (f"{_SCHEDULING}/v1alpha1", "Workload"): "alpha of Kubernetes 1.35 alone, where a gang has no object of its own",
    (f"{_SCHEDULING}/v1alpha2", "Workload"): "its controller copies what counts into PodGroups",
    (f"{_SCHEDULING}/v1alpha3", "Workload"): "its controller copies what counts into PodGroups",
    (f"{_SCHEDULING}/v1beta1", "Workload"): "its controller copies what counts into PodGroups",
    (f"{_SCHEDULING}/v1alpha3", "CompositePodGroup"): "its children are gangs of their own",
}
OLD_VERSIONS: Final = frozenset(
    {
        "coordination.k8s.io/v1beta1",
        "events.k8s.io/v1beta1",
        "policy/v1beta1",
        f"{_RESOURCE}/v1beta1",
        f"{_RESOURCE}/v1beta2",
        f"{_STORAGE}/v1alpha1",
        f"{_STORAGE}/v1beta1",
    }
)
"""Versions of kinds that every supported Kubernetes also serves as v1."""


def decoded(key: tuple[str, str], value: Json) -> object:
    """Decode an object of an apiVersion and kind; an error is the result."""
    raw = msgspec.json.encode(value)
    if key == LEASE:
        return decode_lease(raw)
    found = read(KINDS[key], raw)
    return found.value if found.problem is None else str(found.problem)


_SOURCES: Final = ("persistentVolumeClaim", "ephemeral", "gcePersistentDisk", "awsElasticBlockStore", "iscsi")
_TYPES: Final = ("string", "int", "version", "bool", "ints", "bools", "strings")
_ATTRIBUTE: Final = "spec.devices[].attributes.*"
_SCOPES: Final = ("nodeName", "nodeSelector", "allNodes")


def _without(base: str, names: tuple[str, ...]) -> dict[str, Any]:
    return {f"{base}.{name}": None for name in names}


def _first_of(base: str, names: tuple[str, ...]) -> list[Edits]:
    """Return a view for each of some fields of which a decoder takes the first one that is there."""
    return [_without(base, names[:count]) for count in range(len(names) + 1)]


def _slice_views() -> list[Edits]:
    """Return views with one scope of the slice or device each, and with one type of attribute each."""
    scopes: list[Edits] = []
    for kept in _SCOPES:
        others = tuple(name for name in _SCOPES if name != kept)
        scopes.append({**_without("spec", others), "spec.perDeviceNodeSelection": None})
        scopes.append({**_without("spec", _SCOPES), **_without("spec.devices[]", others)})
    types = _first_of(_ATTRIBUTE, _TYPES)
    by_device: Edits = {**scopes[0], "spec.devices[].nodeAllocatableResources.cpu.mapping.capacityKey": None}
    by_capacity: Edits = {**scopes[0], "spec.devices[].nodeAllocatableResources": None}
    return [*({**scopes[index % len(scopes)], **edits} for index, edits in enumerate(types)), by_device, by_capacity]


_CPU: Final = {"cpu": "1000"}
"""More than any other amount of the corpus."""
_LABEL: Final = ["key"]
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_KEYS: Final[dict[str, Any]] = {
    f"spec.affinity.{kind}.{term}.{name}": _LABEL
    for kind in ("podAffinity", "podAntiAffinity")
    for term in (f"{_REQUIRED}[]", f"{_PREFERRED}[].podAffinityTerm")
    for name in ("matchLabelKeys", "mismatchLabelKeys")
}
_KEYS["spec.topologySpreadConstraints[].matchLabelKeys"] = _LABEL
_OWN_KEYS: Final[dict[str, Any]] = {
    **_KEYS,
    **{path.rpartition(".")[0] + ".labelSelector.matchLabels": None for path in _KEYS},
    **{path.rpartition(".")[0] + ".labelSelector.matchExpressions": None for path in _KEYS},
}
"""Keys of labels count where the pod has the label, and the selector does not name it."""
_INIT: Final[dict[str, Any]] = {
    "spec.initContainers[].name": "init",
    "status.initContainerStatuses[].name": "init",
    "spec.resources": None,
}
_CONDITION: Final = "status.conditions[].type"

VIEWS: Final[dict[str, list[Edits]]] = {
    "DeviceTaintRule": [
        {"spec.deviceSelector.deviceClassName": None, "spec.deviceSelector.selectors": None},
    ],
    "Node": [{"status.images[].sizeBytes": 2**30}],
    "PersistentVolume": [{}, *_first_of("spec", ("csi", "awsElasticBlockStore", "azureDisk"))],
    "PersistentVolumeClaim": [{}, {"status.phase": "Lost"}],
    "Pod": [
        {},
        {"spec.nodeName": None},
        {"spec.topologySpreadConstraints[].whenUnsatisfiable": "ScheduleAnyway", "spec.hostUsers": False},
        {"spec.topologySpreadConstraints[].nodeAffinityPolicy": "Ignore"},
        _OWN_KEYS,
        *_first_of("spec.volumes[]", _SOURCES),
        {"spec.resourceClaims[].resourceClaimName": None},
        {"spec.initContainers": None, "spec.resources": None},
        {"spec.containers": None, "spec.resources": None},
        {**_INIT, "status.containerStatuses[].resources.requests": _CPU},
        {**_INIT, "status.containerStatuses[].allocatedResources": _CPU},
        {**_INIT, "status.initContainerStatuses[].resources.requests": _CPU},
        {**_INIT, "status.initContainerStatuses[].allocatedResources": _CPU},
        {"status.resources.requests": _CPU},
        {"status.allocatedResources": _CPU},
        {
            "status.containerStatuses[].allocatedResourcesStatus[].name": "claim:name",
            "status.initContainerStatuses[].allocatedResourcesStatus[].name": "claim:name",
        },
        {"status.extendedResourceClaimStatus.requestMappings[].resourceName": "cpu"},
        {_CONDITION: "dovetail.dev/node-reserved", "status.nominatedNodeName": None},
        {_CONDITION: "DisruptionTarget", "status.phase": "Failed"},
        {_CONDITION: "DisruptionTarget", "status.phase": "Failed", "status.conditions[].status": "False"},
        {
            **_INIT,
            _CONDITION: "PodResizePending",
            "status.conditions[].reason": "Infeasible",
            "spec.containers[].resources.requests": _CPU,
        },
    ],
    "PodDisruptionBudget": [{"metadata.generation": 5, "status.observedGeneration": 5}],
    "PodGroup": [
        {_CONDITION: "PodGroupScheduled"},
        {_CONDITION: "PodGroupInitiallyScheduled", "spec.parentCompositePodGroupName": None},
        {"spec.resourceClaims[].resourceClaimName": None},
        {"spec.disruptionMode.all": None},
    ],
    "ResourceClaim": [
        {},
        {"spec.devices.requests[].exactly": None},
        {"spec.devices.constraints[].matchAttribute": None},  # beside it distinctAttribute counts for nothing
    ],
    "ResourceSlice": _slice_views(),
}
"""
Changes of objects of a kind, so that each field counts in one of them: a decoder takes one member of a union, and some
fields count beside certain others.
"""

_EXECUTION: Final = "it is the kubelet's: it says how containers run, not where"
_BYSTANDERS: Final = "reported to people and to other controllers"
_VOLUME_SOURCE: Final = "a source of a volume that neither limits nor excludes nodes"
_MOUNTED: Final = "how the volume is mounted, not where"
_KEEPS: Final = "the API server's own bookkeeping"

COMMON: Final[dict[str, str]] = {
    "apiVersion": "the path of the watch says it",
    "kind": "the path of the watch says it",
    "metadata.annotations": "those with names of Dovetail and Kubernetes are read, others are users' own",
    "metadata.creationTimestamp": "age counts for pods, PodGroups and classes only",
    "metadata.deletionGracePeriodSeconds": "the kubelet's",
    "metadata.deletionTimestamp": "an object that is being deleted counts until it is gone",
    "metadata.finalizers": "other controllers' holds; claims keep them",
    "metadata.generateName": "the object has its name",
    "metadata.generation": "read where a condition has to name it",
    "metadata.labels": "no selector of the scheduler selects this kind",
    "metadata.managedFields": _KEEPS,
    "metadata.namespace": "the kind has no namespace",
    "metadata.ownerReferences": "owners count for pods and claims, there the controller",
    "metadata.resourceVersion": "read where a write is guarded by it",
    "metadata.selfLink": _KEEPS,
    "metadata.uid": "the name identifies the object",
}
"""Fields of all kinds; a kind may read them nevertheless."""

_CONTAINER: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            *("args", "command", "env", "envFrom", "imagePullPolicy", "lifecycle", "livenessProbe", "readinessProbe"),
            *("securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath", "tty", "workingDir"),
            *("terminationMessagePolicy", "volumeDevices", "ports[].containerPort", "ports[].name", "resizePolicy"),
            *("restartPolicyRules[].exitCodes",),
        ),
        _EXECUTION,
    ),
    **dict.fromkeys(
        (
            *("volumeMounts[].mountPath", "volumeMounts[].mountPropagation", "volumeMounts[].name"),
            *("volumeMounts[].readOnly", "volumeMounts[].recursiveReadOnly", "volumeMounts[].subPath"),
            "volumeMounts[].subPathExpr",
        ),
        _MOUNTED,
    ),
    "resources.claims[].request": "a container that uses one request of a claim needs the claim",
}
_CONTAINER_STATUS: Final = dict.fromkeys(
    (
        *("allocatedResourcesStatus[].resources[].message", "containerID", "image", "imageID", "lastState", "ready"),
        *("resources.claims", "resources.limits", "restartCount", "started", "state", "stopSignal", "user"),
        "volumeMounts",
    ),
    _BYSTANDERS,
)


def _all(base: str, names: tuple[str, ...], reason: str) -> dict[str, str]:
    return {f"{base}.{name}": reason for name in names}


NOT_READ: Final[dict[str, dict[str, str]]] = {
    "CSIDriver": {
        **_all("spec", ("attachRequired", "fsGroupPolicy", "podInfoOnMount", "requiresRepublish"), _MOUNTED),
        **_all("spec", ("seLinuxMount", "serviceAccountTokenInSecrets", "tokenRequests"), _MOUNTED),
        "spec.nodeAllocatableUpdatePeriodSeconds": "how often the kubelet updates the limits of CSINode",
        "spec.volumeLifecycleModes": "inline volumes of drivers need no decision",
    },
    "CSINode": {
        "spec.drivers[].nodeID": "the driver's own name of the node",
        "status": "health of storage, reported to people",
    },
    "CSIStorageCapacity": {"capacity": "maximumVolumeSize counts where it is set"},
    "DeviceClass": {},
    "DeviceTaintRule": {
        "spec.deviceSelector.deviceClassName": "of Kubernetes 1.34 alone: such a rule is refused",
        "spec.deviceSelector.selectors": "of Kubernetes 1.34 alone: such a rule is refused",
        "status": _BYSTANDERS,
    },
    "Lease": {
        "metadata.name": "the path of the request says it",
        "spec.preferredHolder": "coordinated leader election, which Dovetail does not take part in",
        "spec.strategy": "coordinated leader election, which Dovetail does not take part in",
    },
    "Namespace": {"spec": _KEEPS, "status": "the API server refuses new pods of a namespace that ends"},
    "Node": {
        **_all("spec", ("configSource", "externalID", "podCIDR", "podCIDRs", "providerID"), _EXECUTION),
        "spec.podPreemptionPolicy": "about preemption for resizes, which Dovetail does not do",
        "status.capacity": "allocatable is what pods can have of it",
        "status.conditions": "the node controller turns them into taints",
        **_all("status", ("addresses", "config", "daemonEndpoints", "features", "nodeInfo"), _BYSTANDERS),
        **_all("status", ("phase", "runtimeHandlers"), _BYSTANDERS),
        "status.volumesAttached": "VolumeAttachments say it earlier",
        "status.volumesInUse": "VolumeAttachments say it earlier",
    },
    "PersistentVolume": {
        **_all("spec.claimRef", ("apiVersion", "fieldPath", "kind", "resourceVersion"), "namespace, name, uid do"),
        **_all("spec.csi", ("controllerExpandSecretRef", "controllerPublishSecretRef", "fsType"), _MOUNTED),
        **_all("spec.csi", ("nodeExpandSecretRef", "nodePublishSecretRef", "nodeStageSecretRef"), _MOUNTED),
        **_all("spec.csi", ("readOnly", "volumeAttributes"), _MOUNTED),
        **_all("spec", ("azureFile", "cephfs", "fc", "flexVolume", "flocker", "gcePersistentDisk"), _VOLUME_SOURCE),
        **_all("spec", ("glusterfs", "hostPath", "iscsi", "local", "nfs", "portworxVolume"), _VOLUME_SOURCE),
        **_all("spec", ("photonPersistentDisk", "quobyte", "rbd", "scaleIO", "storageos"), _VOLUME_SOURCE),
        "spec.vsphereVolume": _VOLUME_SOURCE,
        **_all("spec.awsElasticBlockStore", ("fsType", "partition", "readOnly"), _MOUNTED),
        **_all("spec.azureDisk", ("cachingMode", "diskName", "fsType", "kind", "readOnly"), _MOUNTED),
        **_all("spec.cinder", ("fsType", "readOnly", "secretRef"), _MOUNTED),
        "spec.mountOptions": _MOUNTED,
        "spec.persistentVolumeReclaimPolicy": "what happens after its claim is deleted",
        **_all("status", ("lastPhaseTransitionTime", "message", "reason"), _BYSTANDERS),
    },
    "PersistentVolumeClaim": {
        "spec.dataSource": "the provisioner's",
        "spec.dataSourceRef": "the provisioner's",
        "spec.resources.limits": "the volume controller matches requests alone",
        **_all("status", ("accessModes", "allocatedResourceStatuses", "allocatedResources", "capacity"), _BYSTANDERS),
        **_all("status", ("conditions", "currentVolumeAttributesClassName", "modifyVolumeStatus"), _BYSTANDERS),
        "status.healthStatus": _BYSTANDERS,
    },
    "Pod": {
        **{f"spec.containers[].{path}": reason for path, reason in _CONTAINER.items()},
        **{f"spec.initContainers[].{path}": reason for path, reason in _CONTAINER.items()},
        "spec.initContainers[].resources.limits": "only containers are compared with the limits of the pod",
        "spec.containers[].restartPolicy": _EXECUTION,
        **{f"status.containerStatuses[].{path}": reason for path, reason in _CONTAINER_STATUS.items()},
        **{f"status.initContainerStatuses[].{path}": reason for path, reason in _CONTAINER_STATUS.items()},
        "spec.ephemeralContainers": "they get no resources of their own",
        "status.ephemeralContainerStatuses": "they get no resources of their own",
        **_all("spec", ("activeDeadlineSeconds", "automountServiceAccountToken", "dnsConfig", "dnsPolicy"), _EXECUTION),
        **_all("spec", ("enableServiceLinks", "hostAliases", "hostIPC", "hostPID", "hostname"), _EXECUTION),
        **_all("spec", ("hostnameOverride", "imagePullSecrets", "readinessGates", "restartPolicy"), _EXECUTION),
        **_all("spec", ("runtimeClassName", "securityContext", "serviceAccount", "serviceAccountName"), _EXECUTION),
        **_all("spec", ("setHostnameAsFQDN", "shareProcessNamespace", "subdomain"), _EXECUTION),
        "spec.terminationGracePeriodSeconds": _EXECUTION,
        "spec.evictionResponders": "about EvictionRequest, which Dovetail leaves alone",
        "spec.os": "the node label kubernetes.io/os decides, as for kube-scheduler",
        "spec.priorityClassName": "the API server copies its value into the priority",
        "spec.resources.claims": "the API server refuses it",
        "spec.workloadRef": "alpha of Kubernetes 1.35 alone, where a gang has no object of its own",
        **_all("spec.volumes[]", ("azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi"), _VOLUME_SOURCE),
        **_all("spec.volumes[]", ("downwardAPI", "emptyDir", "fc", "flexVolume", "flocker", "gitRepo"), _VOLUME_SOURCE),
        **_all("spec.volumes[]", ("glusterfs", "hostPath", "image", "nfs", "photonPersistentDisk"), _VOLUME_SOURCE),
        **_all("spec.volumes[]", ("portworxVolume", "projected", "quobyte", "scaleIO", "secret"), _VOLUME_SOURCE),
        **_all("spec.volumes[]", ("storageos", "vsphereVolume"), _VOLUME_SOURCE),
        **_all("spec.volumes[].awsElasticBlockStore", ("fsType", "partition", "readOnly"), _MOUNTED),
        "spec.volumes[].ephemeral.volumeClaimTemplate": "its controller makes a claim of it, which is read",
        **_all("spec.volumes[].gcePersistentDisk", ("fsType", "partition"), _MOUNTED),
        **_all("spec.volumes[].iscsi", ("chapAuthDiscovery", "chapAuthSession", "fsType", "initiatorName"), _MOUNTED),
        **_all("spec.volumes[].iscsi", ("iscsiInterface", "lun", "portals", "secretRef", "targetPortal"), _MOUNTED),
        "spec.volumes[].persistentVolumeClaim.readOnly": _MOUNTED,
        **_all("spec.volumes[].rbd", ("fsType", "keyring", "secretRef", "user"), _MOUNTED),
        **_all("status", ("hostIP", "hostIPs", "podIP", "podIPs", "qosClass", "volumeHealth"), _BYSTANDERS),
        **_all("status", ("message", "observedGeneration", "reason", "resize"), _BYSTANDERS),
        **_all("status.conditions[]", ("lastProbeTime", "observedGeneration"), _BYSTANDERS),
        "status.conditions[].lastTransitionTime": "read of waiting pods, by `pod_writes.read_unschedulable_pods`",
        **_all("status.extendedResourceClaimStatus", ("resourceClaimName",), "read by its writer"),
        **_all(
            "status.extendedResourceClaimStatus.requestMappings[]", ("containerName", "requestName"), "the kubelet's"
        ),
        **_all(
            "status.nodeAllocatableResourceClaimStatuses[]", ("containers", "resourceClaimName"), "the amounts count"
        ),
        **_all("status.resources", ("claims", "limits"), _BYSTANDERS),
    },
    "PodDisruptionBudget": {
        **_all("spec", ("maxUnavailable", "minAvailable"), "its controller computes disruptionsAllowed of them"),
        "spec.unhealthyPodEvictionPolicy": "the API server's, at an eviction",
        "status.disruptedPods": "disruptionsAllowed excludes these pods already",
        **_all("status", ("conditions", "currentHealthy", "desiredHealthy", "expectedPods"), _BYSTANDERS),
    },
    "PodGroup": {
        "spec.podGroupTemplateRef": "where its Workload's controller has it from",
        "spec.workloadRef": "where its Workload's controller has it from",
        "spec.disruptionMode.single": "the default",
        "spec.priority": "in 1.36 it does not bind the pods of the group",
        "spec.priorityClassName": "the API server copies its value into the priority",
        "spec.schedulingPolicy.basic": "no gang, as without a policy",
        **_all("status.conditions[]", ("lastTransitionTime", "observedGeneration"), _BYSTANDERS),
    },
    "ResourceClaim": {
        **_all("status.devices[].conditions[]", ("lastTransitionTime", "message", "reason"), _BYSTANDERS),
        "status.devices[].conditions[].observedGeneration": _BYSTANDERS,
        **_all("status.devices[]", ("data", "networkData"), "the driver's report to others"),
    },
    "ResourceSlice": {"spec.partitionTypeAttribute": "for displays; kube-scheduler's allocator does not read it"},
    "StorageClass": {
        **dict.fromkeys(("allowVolumeExpansion", "mountOptions", "parameters", "reclaimPolicy"), "the provisioner's"),
    },
    "VolumeAttachment": {
        "spec.source.inlineVolumeSpec": "of migrated inline volumes; kube-scheduler counts PersistentVolumes too",
        "status": "a volume counts from when its attachment is asked for",
    },
}
"""By kind and path: why a field and its parts are not read."""
