"""
What kubectl or the API server refuses about one object: its shape, misspelt fields and invalid values.

The API server drops unknown fields, and kubectl refuses them. Only an unknown field whose name is close to a known one
is reported, so that fields of newer versions pass.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scheduler.simulation.manifests import claim_rules, fields, group_rules, pod_rules, slice_rules
from scheduler.simulation.manifests.fields import Body, FieldError, mapping, spec, text
from scheduler.simulation.workloads import controllers, job_controller

_CLOSE: Final = 0.8
_ANY: Final = "*"
"""In front of a type: the field maps free names to values of it."""

_WRITTEN: Final[Mapping[str, str]] = {
    "Pod": "apiVersion kind metadata:Metadata spec:PodSpec status",
    "PodSpec": "volumes initContainers:Container containers:Container ephemeralContainers restartPolicy "
    "terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount "
    "automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace securityContext "
    "imagePullSecrets hostname subdomain affinity:Affinity schedulerName tolerations:Toleration hostAliases "
    "priorityClassName priority dnsConfig readinessGates runtimeClassName enableServiceLinks preemptionPolicy overhead "
    "topologySpreadConstraints:Spread setHostnameAsFQDN os hostUsers schedulingGates:Gate resourceClaims:PodClaim "
    "resources:Resources hostnameOverride schedulingGroup:SchedulingGroup",
    "Container": "name image command args workingDir ports:Port envFrom env resources:Resources resizePolicy "
    "restartPolicy restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle "
    "terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
    "Port": "name hostPort containerPort protocol hostIP",
    "Resources": "limits requests claims:ContainerClaim",
    "ContainerClaim": "name request",
    "Gate": "name",
    "PodClaim": "name resourceClaimName resourceClaimTemplateName",
    "SchedulingGroup": "podGroupName",
    "Affinity": "nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAffinity",
    "NodeAffinity": "requiredDuringSchedulingIgnoredDuringExecution:NodeSelector "
    "preferredDuringSchedulingIgnoredDuringExecution:PreferredNodes",
    "NodeSelector": "nodeSelectorTerms:NodeTerm",
    "NodeTerm": "matchExpressions:Requirement matchFields:Requirement",
    "PreferredNodes": "weight preference:NodeTerm",
    "PodAffinity": "requiredDuringSchedulingIgnoredDuringExecution:PodTerm "
    "preferredDuringSchedulingIgnoredDuringExecution:WeightedPodTerm",
    "WeightedPodTerm": "weight podAffinityTerm:PodTerm",
    "PodTerm": "labelSelector:LabelSelector namespaces topologyKey namespaceSelector:LabelSelector matchLabelKeys "
    "mismatchLabelKeys",
    "LabelSelector": "matchLabels matchExpressions:Requirement",
    "Requirement": "key operator values",
    "Spread": "maxSkew topologyKey whenUnsatisfiable labelSelector:LabelSelector minDomains nodeAffinityPolicy "
    "nodeTaintsPolicy matchLabelKeys",
    "Toleration": "key operator value effect tolerationSeconds",
    "Taint": "key value effect timeAdded",
    "Metadata": "name generateName namespace selfLink uid resourceVersion generation creationTimestamp "
    "deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields",
    "Node": "apiVersion kind metadata:Metadata spec:NodeSpec status:NodeStatus",
    "NodeSpec": "podCIDR podCIDRs providerID unschedulable taints:Taint configSource externalID",
    "NodeStatus": "capacity allocatable phase conditions addresses daemonEndpoints nodeInfo images volumesInUse "
    "volumesAttached config runtimeHandlers features declaredFeatures",
    "ResourceClaim": "apiVersion kind metadata:Metadata spec:ClaimSpec status",
    "ResourceClaimTemplate": "apiVersion kind metadata:Metadata spec:ClaimTemplateSpec",
    "ClaimTemplateSpec": "metadata:Metadata spec:ClaimSpec",
    "ClaimSpec": "devices:DeviceClaim",
    "DeviceClaim": "requests:Request constraints:Constraint config",
    "Request": "name exactly:Exactly firstAvailable:SubRequest",
    "Exactly": "deviceClassName selectors:Selector allocationMode count adminAccess tolerations:Toleration "
    "capacity:CapacityRequests derivedAttributes:Derived",
    "Derived": "name expression",
    "SubRequest": "name deviceClassName selectors:Selector allocationMode count tolerations:Toleration "
    "capacity:CapacityRequests derivedAttributes:Derived",
    "Selector": "cel:Cel",
    "Cel": "expression",
    "CapacityRequests": "requests",
    "Constraint": "requests matchAttribute distinctAttribute",
    "DeviceClass": "apiVersion kind metadata:Metadata spec:ClassSpec",
    "ClassSpec": "selectors:Selector config extendedResourceName suitableNodes",
    "ResourceSlice": "apiVersion kind metadata:Metadata spec:SliceSpec",
    "SliceSpec": "driver pool:Pool nodeName nodeSelector:NodeSelector allNodes devices:Device perDeviceNodeSelection "
    "sharedCounters:CounterSet partitionTypeAttribute skipNodeOperations",
    "Pool": "name generation resourceSliceCount",
    "Device": "name attributes:*Attribute capacity:*Capacity consumesCounters:Consumption nodeName "
    "nodeSelector:NodeSelector allNodes taints:Taint bindsToNode bindingConditions bindingFailureConditions "
    "allowMultipleAllocations nodeAllocatableResourceMappings nodeAllocatableResources:*NodeAllocatable basic",
    "NodeAllocatable": "mapping:NodeMapping overhead:NodeOverhead",
    "NodeMapping": "capacityKey capacityMultiplier deviceMultiplier",
    "NodeOverhead": "perPod perContainer",
    "Attribute": "int bool string version ints bools strings versions",
    "Capacity": "value requestPolicy:RequestPolicy",
    "RequestPolicy": "default validValues validRange:Range",
    "Range": "min max step",
    "Consumption": "counterSet counters:*Counter compatibilityGroups",
    "CounterSet": "name counters:*Counter",
    "Counter": "value",
    "Deployment": "apiVersion kind metadata:Metadata spec:DeploymentSpec status",
    "DeploymentSpec": "replicas selector:LabelSelector template:PodTemplate strategy minReadySeconds "
    "revisionHistoryLimit paused progressDeadlineSeconds",
    "ReplicaSet": "apiVersion kind metadata:Metadata spec:ReplicaSetSpec status",
    "ReplicaSetSpec": "replicas minReadySeconds selector:LabelSelector template:PodTemplate",
    "StatefulSet": "apiVersion kind metadata:Metadata spec:StatefulSetSpec status",
    "StatefulSetSpec": "replicas selector:LabelSelector template:PodTemplate volumeClaimTemplates serviceName "
    "podManagementPolicy updateStrategy revisionHistoryLimit minReadySeconds persistentVolumeClaimRetentionPolicy "
    "ordinals",
    "Job": "apiVersion kind metadata:Metadata spec:JobSpec status",
    "JobSpec": "parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit "
    "backoffLimitPerIndex maxFailedIndexes selector manualSelector template:PodTemplate ttlSecondsAfterFinished "
    "completionMode suspend podReplacementPolicy managedBy scheduling:JobScheduling",
    "JobScheduling": "schedulingPolicy:GroupPolicy schedulingConstraints:GroupConstraints disruptionMode "
    "resourceClaims:PodClaim",
    "GroupPolicy": "basic gang:GangPolicy",
    "GangPolicy": "minCount",
    "GroupConstraints": "topology:GroupTopology",
    "GroupTopology": "key",
    "PodGroup": "apiVersion kind metadata:Metadata spec:PodGroupSpec status",
    "PodGroupSpec": "schedulingPolicy:GroupPolicy schedulingConstraints:GroupConstraints resourceClaims:PodClaim "
    "disruptionMode priorityClassName priority preemptionPolicy workloadRef:WorkloadReference podGroupTemplateRef "
    "parentCompositePodGroupName minMember minResources scheduleTimeoutSeconds",
    "WorkloadReference": "workloadName templateName",
    "Workload": "apiVersion kind metadata:Metadata spec:WorkloadSpec",
    "WorkloadSpec": "controllerRef podGroupTemplates:PodGroupTemplate compositePodGroupTemplates",
    "PodGroupTemplate": "name schedulingPolicy:GroupPolicy schedulingConstraints:GroupConstraints "
    "resourceClaims:PodClaim disruptionMode priorityClassName priority preemptionPolicy",
    "PodTemplate": "metadata:Metadata spec:PodSpec",
}
"""The fields of each type; `field:Type` if the field is checked recursively."""

_FIELDS: Final = {
    name: {field: kind for field, _, kind in (word.partition(":") for word in words.split())}
    for name, words in _WRITTEN.items()
}


def _misspelt(body: Body) -> Iterator[FieldError]:
    """Return unknown fields that are close to a known one, with the suggestion."""
    kind = text(body.get("kind"))
    if kind in _FIELDS:
        yield from _of(body, kind, "")


def _of(body: Body, kind: str, at: str) -> Iterator[FieldError]:
    known = _FIELDS[kind]
    for name, value in body.items():
        field = f"{at}.{name}" if at else name
        if name in known:
            yield from _within(value, known[name], field)
            continue
        close = _closest(name, known)
        if close:
            yield FieldError(field, f"there is no such field: did you mean {close}?")


def _within(value: Any, kind: str, at: str) -> Iterator[FieldError]:
    """Check the value of a field: an object, a list of objects, or a map of objects."""
    if not kind:
        return
    inner = kind.removeprefix(_ANY)
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _within(each, inner, f"{at}[{index}]")
    elif isinstance(value, dict) and inner != kind:
        for name, each in value.items():
            yield from _within(each, inner, f"{at}[{name}]")
    elif isinstance(value, dict):
        yield from _of(value, inner, at)


def _closest(name: Any, known: Mapping[str, str]) -> str:
    if not isinstance(name, str):
        return ""
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=_CLOSE)
    return folded[close[0]] if close else ""


MOST_PODS: Final = 150_000
"""The most pods of all workloads: as many as Kubernetes is tested with. Each takes about 20 KiB here."""
_COUNTS: Final = ("replicas", "parallelism", "completions")


def of_object(body: Body) -> Iterator[FieldError]:
    """Return the errors in an object: its shape, misspelt fields and values."""
    yield from fields.of_object(body)
    yield from _misspelt(body)
    match body.get("kind"):
        case "Pod":
            yield from pod_rules.of_pod_spec(spec(body), "spec")
            yield from pod_rules.of_volumes(spec(body), "spec")
        case "PersistentVolumeClaim":
            yield from pod_rules.of_claim_spec(spec(body), "spec")
        case "PersistentVolume":
            yield from pod_rules.of_volume(body)
        case "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice" | "DeviceClass":
            yield from _of_devices(body)
        case "PodGroup" | "Workload":
            yield from group_rules.of_object(body)
        case "PodDisruptionBudget":
            yield from pod_rules.of_selector(spec(body).get("selector"), "spec.selector")
        case kind if kind in controllers.KINDS:
            yield from _of_workload(body)


def _of_devices(body: Body) -> Iterator[FieldError]:
    match body.get("kind"):
        case "ResourceClaim":
            yield from claim_rules.of_claim_spec(spec(body), "spec")
        case "ResourceClaimTemplate":
            yield from claim_rules.of_claim_spec(mapping(spec(body).get("spec")), "spec.spec")
        case "ResourceSlice":
            yield from slice_rules.of_slice_spec(spec(body))
        case _:
            yield from claim_rules.of_class_spec(spec(body))


def _of_workload(body: Body) -> Iterator[FieldError]:
    if body.get("kind") == "CronJob":
        for where, message in _of_workload(job_controller.job_of(body)):
            yield FieldError(f"spec.jobTemplate.{where}", message)
        return
    workload = spec(body)
    for name in _COUNTS:
        count = workload.get(name)
        if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
            yield FieldError(f"spec.{name}", f"expected a whole number, got {count!r}")
        elif count is not None and count < 0:
            yield FieldError(f"spec.{name}", f"is {count}: write 0 or more")
    made = controllers.count(body)
    if made > MOST_PODS:
        name = "parallelism" if body.get("kind") == "Job" else "replicas"
        yield FieldError(f"spec.{name}", f"makes {made} pods: write at most {MOST_PODS}")
    if not mapping(workload.get("template")):
        yield FieldError("spec.template", "missing: write the pods that are to be made")
    pod = mapping(mapping(workload.get("template")).get("spec"))
    yield from pod_rules.of_pod_spec(pod, "spec.template.spec")
    yield from pod_rules.of_volumes(pod, "spec.template.spec")
    yield from pod_rules.of_workload(workload)
    if body.get("kind") == "Job":
        yield from group_rules.of_job(body)
