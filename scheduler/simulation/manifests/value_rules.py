"""
The values that fields may have, by type and field: formats, words, ranges, sizes, and what must be there.

The OpenAPI documents have none of them. They are those of `pkg/apis/*/validation` in Kubernetes 1.37; `make reading`
holds them to the API server. Rules that relate several fields of an object are in `object_rules`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.simulation.manifests import object_rules
from scheduler.simulation.manifests.fields import Body, FieldError
from scheduler.simulation.manifests.formats import (
    Rule,
    at_most,
    between,
    driver,
    each,
    extended_resource,
    given,
    keys,
    label,
    label_key,
    label_value,
    one_of,
    pool,
    qualified,
    required,
    short,
    subdomain,
    unique,
    values,
    version,
)


def _lowered(key: object) -> str:
    return label_key(str(key).lower())


def _with_domain(value: object) -> str:
    return f"{value} lacks its domain: write <driver>/{value}" if isinstance(value, str) and "/" not in value else ""


def _budget(value: object) -> str:
    """A number of pods, or a percentage of them."""
    number = value.removesuffix("%") if isinstance(value, str) else ""
    if isinstance(value, str) and (number == value or not (number.isascii() and number.isdecimal())):
        return f"{value!r}: write a number, or a percentage such as 50%"
    if number and len(number) > 2 and int(number[:9]) > 100:  # noqa: PLR2004 - percent
        return f"is {value}: write at most 100%"
    return between(0)(value)


_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
_MODES: Final = one_of("Filesystem", "Block")

_Rules = Mapping[str, tuple[Rule, ...]]

RULES: Final[Mapping[str, _Rules]] = {
    "meta.ObjectMeta": {"labels": (keys(label_key), values(label_value)), "annotations": (keys(_lowered),)},
    "core.PodSpec": {
        "nodeName": (subdomain,),
        "nodeSelector": (keys(label_key), values(label_value)),
        "restartPolicy": (one_of("Always", "OnFailure", "Never"),),
        "dnsPolicy": (one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),),
        "priorityClassName": (subdomain,),
        "runtimeClassName": (subdomain,),
        "schedulerName": (label_key,),
        "hostname": (label,),
        "subdomain": (label,),
        "serviceAccountName": (subdomain,),
        "serviceAccount": (subdomain,),
        "containers": (unique("name"),),
        "initContainers": (unique("name"),),
        "volumes": (unique("name"),),
        "schedulingGates": (unique("name"),),
        "topologySpreadConstraints": (unique("topologyKey", "whenUnsatisfiable"),),
        "terminationGracePeriodSeconds": (between(0),),
        "activeDeadlineSeconds": (between(1, 2**31 - 1),),
    },
    "core.PodOS": {"name": (required, one_of("linux", "windows"))},
    "core.PodSchedulingGate": {"name": (required, label_key)},
    "core.PodResourceClaim": {
        "name": (required, label),
        "resourceClaimName": (subdomain,),
        "resourceClaimTemplateName": (subdomain,),
    },
    "core.PodSchedulingGroup": {"podGroupName": (required, subdomain)},
    "core.ResourceRequirements": {"claims": (unique("name", "request"),)},
    "core.ResourceClaim": {"request": (label,)},
    "core.Container": {
        "name": (label,),
        "imagePullPolicy": (one_of("Always", "IfNotPresent", "Never"),),
        "terminationMessagePolicy": (one_of("File", "FallbackToLogsOnError"),),
        "ports": (unique("name", "containerPort", "protocol"),),
    },
    "core.ContainerPort": {
        "containerPort": (required, between(1, 65535)),
        "hostPort": (between(0, 65535),),
        "protocol": (one_of("TCP", "UDP", "SCTP"),),
    },
    "core.Volume": {"name": (required, label)},
    "core.PersistentVolumeClaimVolumeSource": {"claimName": (required,)},
    "core.Toleration": {"key": (label_key,), "effect": (one_of("NoSchedule", "PreferNoSchedule", "NoExecute"),)},
    "core.TopologySpreadConstraint": {"topologyKey": (required, label_key), "matchLabelKeys": (each(label_key),)},
    "core.PodAffinityTerm": {
        "topologyKey": (required, label_key),
        "namespaces": (each(required), each(label)),
        "mismatchLabelKeys": (each(required), each(label_key)),
    },
    "core.NodeSelectorRequirement": {"key": (required,)},
    "meta.LabelSelectorRequirement": {"key": (required, label_key), "values": (each(label_value),)},
    "meta.LabelSelector": {"matchLabels": (keys(label_key), values(label_value))},
    "core.NodeSpec": {"taints": (unique("key", "effect"),)},
    "core.Taint": {
        "key": (required, label_key),
        "value": (label_value,),
        "effect": (required, one_of("NoSchedule", "PreferNoSchedule", "NoExecute")),
    },
    "core.PersistentVolumeClaimSpec": {
        "storageClassName": (subdomain,),
        "volumeAttributesClassName": (subdomain,),
        "volumeMode": (_MODES,),
    },
    "core.PersistentVolumeSpec": {
        "volumeAttributesClassName": (subdomain,),
        "storageClassName": (subdomain,),
        "persistentVolumeReclaimPolicy": (one_of("Retain", "Delete", "Recycle"),),
        "volumeMode": (_MODES,),
    },
    "core.VolumeNodeAffinity": {"required": (required,)},
    "core.PreferredSchedulingTerm": {"weight": (required, between(1, 100))},
    "core.WeightedPodAffinityTerm": {"weight": (required, between(1, 100))},
    "core.NodeSelector": {"nodeSelectorTerms": (required,)},
    "apps.DeploymentSpec": dict.fromkeys(
        ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), (between(0),)
    ),
    "apps.ReplicaSetSpec": {"minReadySeconds": (between(0),)},
    "apps.StatefulSetSpec": {
        "minReadySeconds": (between(0),),
        "podManagementPolicy": (one_of("OrderedReady", "Parallel"),),
        "serviceName": (label,),
    },
    "batch.JobSpec": {
        "completionMode": (one_of("Indexed", "NonIndexed"),),
        "podReplacementPolicy": (one_of("Failed", "TerminatingOrFailed"),),
        **dict.fromkeys(("backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds"), (between(0),)),
    },
    "batch.CronJobSpec": {
        "concurrencyPolicy": (one_of("Allow", "Forbid", "Replace"),),
        **dict.fromkeys(
            ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"), (between(0),)
        ),
    },
    "apps.DaemonSetSpec": dict.fromkeys(("minReadySeconds", "revisionHistoryLimit"), (between(0),)),
    "core.ReplicationControllerSpec": {"minReadySeconds": (between(0),)},
    "node.RuntimeClass": {"handler": (required, label)},
    "node.Scheduling": {"nodeSelector": (keys(label_key), values(label_value))},
    "storage.CSINodeSpec": {"drivers": (unique("name"),)},
    "storage.CSINodeDriver": {
        "name": (required, driver),
        "nodeID": (required,),
        "topologyKeys": (each(required), each(label_key), unique()),
    },
    "storage.VolumeNodeResources": {"count": (between(0),)},
    "storage.CSIStorageCapacity": {"storageClassName": (required, subdomain)},
    "storage.VolumeAttachment": {"spec": (required,)},
    "storage.VolumeAttachmentSpec": {
        "attacher": (required, driver),
        "nodeName": (required, subdomain),
        "source": (required,),
    },
    "storage.VolumeAttachmentSource": {"persistentVolumeName": (required, subdomain)},
    "core.CSIPersistentVolumeSource": {"driver": (required, driver), "volumeHandle": (required,)},
    "core.TopologySelectorLabelRequirement": {"key": (required, label_key), "values": (required, unique())},
    "core.TopologySelectorTerm": {"matchLabelExpressions": (required, unique("key"))},
    "storage.StorageClass": {
        "provisioner": (required, _lowered),
        "reclaimPolicy": (one_of("Delete", "Retain"),),
        "volumeBindingMode": (one_of("Immediate", "WaitForFirstConsumer"),),
        "allowedTopologies": (unique(),),
    },
    "scheduling.PriorityClass": {
        "value": (between(-(2**31), 10**9),),
        "preemptionPolicy": (given, one_of("PreemptLowerPriority", "Never")),
    },
    "policy.PodDisruptionBudgetSpec": {
        "minAvailable": (_budget,),
        "maxUnavailable": (_budget,),
        "unhealthyPodEvictionPolicy": (one_of("IfHealthyBudget", "AlwaysAllow"),),
    },
    "resource.DeviceTaintSelector": {"driver": (given, driver), "pool": (given, pool), "device": (given, label)},
    "resource.DeviceTaint": {
        "key": (required, label_key),
        "value": (label_value,),
        "effect": (required, one_of(*_EFFECTS)),
    },
    "resource.DeviceToleration": {"key": (label_key,), "value": (label_value,), "effect": (one_of(*_EFFECTS),)},
    "resource.DeviceSelector": {"cel": (required,)},
    "resource.DeviceClassSpec": {"extendedResourceName": (extended_resource,)},
    "resource.ResourceSliceSpec": {
        "driver": (required, driver),
        "nodeName": (subdomain,),
        "pool": (required,),
        "devices": (unique("name"),),
        "sharedCounters": (at_most(8), unique("name")),
        "partitionTypeAttribute": (qualified, _with_domain),
        "skipNodeOperations": (each(one_of("*", "NodePrepareResources", "NodeUnprepareResources")), unique()),
    },
    "resource.ResourcePool": {
        "name": (required, pool),
        "resourceSliceCount": (required, between(1)),
        "generation": (between(0),),
    },
    "resource.Device": {
        "name": (required, label),
        "nodeName": (subdomain,),
        "attributes": (keys(qualified),),
        "capacity": (keys(qualified),),
        "taints": (at_most(16),),
        "consumesCounters": (at_most(2), unique("counterSet")),
        "bindingConditions": (at_most(4), each(required), each(label_key), unique()),
        "bindingFailureConditions": (at_most(4), each(required), each(label_key), unique()),
    },
    "resource.DeviceAttribute": {
        "string": (short,),
        "version": (lambda value: "'': write a semantic version" if value == "" else version(value),),
        "strings": (each(short),),
        "versions": (each(version),),
    },
    "resource.CounterSet": {"name": (required, label), "counters": (required, at_most(32), keys(label))},
    "resource.DeviceCounterConsumption": {
        "counterSet": (required, label),
        "counters": (required, at_most(32), keys(label)),
        "compatibilityGroups": (each(label),),
    },
}
"""By type (group and name, the same in each version) and field; a required field is looked for where it is absent."""


def of_object(body: Body, type_name: str) -> Iterator[FieldError]:
    """Return the errors in the fields of an object of a type, of which other rules are kept by other modules."""
    group, _, rest = type_name.partition(".")
    name = f"{group}.{rest.rpartition('.')[2]}"
    for field, rules in RULES.get(name, {}).items():
        if field in body or required in rules:
            wrong = next((wrong for rule in rules if (wrong := rule(body.get(field)))), "")
            if wrong:
                yield FieldError(field, wrong)
    for check in object_rules.RULES.get(name, ()):
        yield from check(body)
