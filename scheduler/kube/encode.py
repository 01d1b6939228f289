"""
Frozen values to JSON, exactly as the API spells them: the bodies of every write.

Claims are changed by JSON patches (RFC 6902). They set the resourceVersion that they rely on, so that a stale one, or
one for a namesake, is refused with 409, and touch nothing but what changes: fields that this version does not know
stay as they are, and so does the text of opaque parameters. That matters: a strategic merge patch makes the server
write them anew (sorted, `1.0` as `1`), and then refuse its own work, because spec and allocation are immutable byte by
byte (`protobuf` has what remains).
"""

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from solver.domain import (
    Allocation,
    Claim,
    ConsumerReference,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    OpaqueConfig,
    PodGroup,
    PodId,
    Toleration,
)

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""What makes the claim controller deallocate a claim before it is deleted."""
ADOPTED: Final = "dovetail.dev/adopted"
"""Annotation of a claim: when a scheduler last took over an allocation that it had not written itself."""
NOTE_BYTES: Final = 1024
"""The longest note that an Event may have."""
_WORD_CHARACTERS: Final = 128

Json = dict[str, Any]


class ObjectReference(msgspec.Struct, frozen=True, kw_only=True):
    """core/v1 ObjectReference."""

    api_version: str = "v1"
    kind: str = "Pod"
    namespace: str = ""
    name: str
    uid: str = ""
    resource_version: str = ""


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """
    An Event of events.k8s.io/v1.

    `name` is the caller's, unique in the namespace. `count` over one makes it a series whose first event is already
    there under that name. `first_seen` and `last_seen` are aware times.
    """

    name: str
    regarding: ObjectReference
    related: ObjectReference | None = None
    type: str = "Normal"
    reason: str
    action: str
    note: str
    reporting_controller: str
    reporting_instance: str
    first_seen: dt.datetime
    last_seen: dt.datetime | None = None
    count: int = 1

    @property
    def namespace(self) -> str:
        """Where the Event is kept: with its object, or in `default` for those without a namespace."""
        return self.regarding.namespace or "default"


class GroupCondition(msgspec.Struct, frozen=True, kw_only=True):
    """What PodGroupScheduled is to say, since an aware time."""

    is_true: bool
    reason: str
    message: str
    since: dt.datetime


def timestamp(moment: dt.datetime) -> str:
    """metav1.Time: RFC 3339 in UTC, whole seconds."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: dt.datetime) -> str:
    """metav1.MicroTime."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def finalizer_patch(claim: Claim) -> bytes:
    """Add our finalizer to those that are there."""
    path, value = ("/metadata/finalizers/-", FINALIZER) if claim.finalizers else ("/metadata/finalizers", [FINALIZER])
    return msgspec.json.encode([*_guard(claim), {"op": "add", "path": path, "value": value}])


def adoption_patch(claim: Claim, moment: str) -> bytes:
    """Note when an allocation was taken over: a merge patch, since the annotations may not be there yet."""
    _guard(claim)
    metadata = {"resourceVersion": claim.resource_version, "annotations": {ADOPTED: moment}}
    return msgspec.json.encode({"metadata": metadata})


def allocation_patch(claim: Claim, allocation: Allocation, consumers: Sequence[ConsumerReference]) -> bytes:
    """Allocate and reserve in one write of the status."""
    operation = {"op": "add", "path": "/status/allocation", "value": allocation_result(allocation)}
    return msgspec.json.encode([*_guard(claim), operation, *_reservations(claim, consumers)])


def reservation_patch(claim: Claim, consumers: Sequence[ConsumerReference]) -> bytes:
    """Add consumers to those that are there."""
    return msgspec.json.encode([*_guard(claim), *_reservations(claim, consumers)])


def release_patch(claim: Claim, consumer_uids: Collection[str], *, deallocate: bool) -> bytes:
    """Remove consumers by uid, and the allocation if that is wanted; the server then drops its status.devices."""
    operations = [
        {"op": "remove", "path": f"/status/reservedFor/{index}"}
        for index, each in reversed(list(enumerate(claim.reserved_for)))
        if each.uid in consumer_uids
    ]
    if deallocate:
        operations.append({"op": "remove", "path": "/status/allocation"})
    return msgspec.json.encode([*_guard(claim), *operations])


def _reservations(claim: Claim, consumers: Sequence[ConsumerReference]) -> list[Json]:
    """Operations that append to reservedFor, which the API leaves out while it is empty."""
    entries = [consumer(each) for each in consumers]
    if claim.reserved_for:
        return [{"op": "add", "path": "/status/reservedFor/-", "value": entry} for entry in entries]
    return [{"op": "add", "path": "/status/reservedFor", "value": entries}]


def binding(pod: PodId, pod_uid: str, node: str) -> bytes:
    """core/v1 Binding: the server refuses it if the pod has another uid."""
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod_uid},
            "target": {"kind": "Node", "name": node},
        }
    )


def unscheduled(*, reason: str, message: str, since: dt.datetime, nominated_node_name: str | None) -> Json:
    """The status of a pod with PodScheduled=False; a nominated node of None is left as it is, "" takes it away."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(since),
    }
    status: Json = {"conditions": [condition]}
    if nominated_node_name is not None:
        status["nominatedNodeName"] = nominated_node_name or None
    return status


def group_condition_patch(group: PodGroup, condition: GroupCondition) -> bytes:
    """PodGroupScheduled of a PodGroup; its uid guards against a namesake."""
    entry = {
        "type": "PodGroupScheduled",
        "status": "True" if condition.is_true else "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": timestamp(condition.since),
        "observedGeneration": group.generation,
    }
    return msgspec.json.encode({"metadata": {"uid": group.uid}, "status": {"conditions": [entry]}})


def event(record: EventRecord) -> bytes:
    """Encode a new Event; texts are cut to what the API allows."""
    body: Json = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": record.name, "namespace": record.namespace},
        "eventTime": micro_timestamp(record.first_seen),
        "type": record.type,
        "reason": record.reason[:_WORD_CHARACTERS],
        "action": record.action[:_WORD_CHARACTERS],
        "note": record.note.encode()[:NOTE_BYTES].decode(errors="ignore"),
        "reportingController": record.reporting_controller,
        "reportingInstance": record.reporting_instance[:_WORD_CHARACTERS],
        "regarding": _reference(record.regarding),
    }
    if record.related is not None:
        body["related"] = _reference(record.related)
    if record.count > 1:
        body["series"] = _series(record)
    return msgspec.json.encode(body)


def series_patch(record: EventRecord) -> bytes:
    """Count one more of an Event that is there."""
    return msgspec.json.encode({"series": _series(record)})


def consumer(reference: ConsumerReference) -> Json:
    """ResourceClaimConsumerReference."""
    return _present(apiGroup=reference.api_group, resource=reference.resource, name=reference.name, uid=reference.uid)


def _present(**fields: object) -> Json:
    """Leave out what is empty: false, an empty text or list is not sent, as the API's `omitempty` has it."""
    return {name: value for name, value in fields.items() if value}


def _guard(claim: Claim) -> list[Json]:
    """Make the server compare: an object of another version is not patched, it answers 409."""
    if not claim.resource_version:
        raise ValueError(f"claim {claim.id} has no resourceVersion: a write of it would not be guarded")
    if claim.invalid:
        raise ValueError(f"claim {claim.id} could not be read whole ({claim.invalid}): it must not be written")
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": claim.resource_version},
    ]


def _series(record: EventRecord) -> Json:
    return {
        "count": record.count,
        "lastObservedTime": micro_timestamp(record.last_seen or record.first_seen),
    }


def _reference(reference: ObjectReference) -> Json:
    return _present(
        apiVersion=reference.api_version,
        kind=reference.kind,
        namespace=reference.namespace,
        name=reference.name,
        uid=reference.uid,
        resourceVersion=reference.resource_version,
    )


def allocation_result(allocation: Allocation) -> Json:
    """AllocationResult, as it is written and as simulations show it."""
    return _present(
        devices=_present(
            results=[_result(each) for each in allocation.results],
            config=[_config(each) for each in allocation.config],
        ),
        nodeSelector=_node_selector(allocation.node_selector) if allocation.node_selector is not None else None,
        allocationTimestamp=allocation.allocation_timestamp,
    )


def _result(result: DeviceResult) -> Json:
    """DeviceRequestAllocationResult."""
    return _present(
        request=result.request,
        driver=result.device.driver,
        pool=result.device.pool,
        device=result.device.device,
        adminAccess=result.admin_access,
        tolerations=[_toleration(each) for each in result.tolerations],
        bindingConditions=result.binding_conditions,
        bindingFailureConditions=result.binding_failure_conditions,
        shareID=result.share_id,
        consumedCapacity={name: amount.text for name, amount in result.consumed_capacity},
    )


def _toleration(toleration: Toleration) -> Json:
    """DeviceToleration; zero seconds are not the same as none."""
    fields = _present(
        key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect
    )
    if toleration.toleration_seconds is not None:
        fields["tolerationSeconds"] = toleration.toleration_seconds
    return fields


def _config(config: OpaqueConfig) -> Json:
    """DeviceAllocationConfiguration; the parameters go out as the text they came as."""
    return _present(
        source=config.source,
        requests=config.requests,
        opaque={"driver": config.driver, "parameters": msgspec.Raw(config.parameters.encode())},
    )


def _node_selector(selector: NodeSelector) -> Json:
    """core/v1 NodeSelector."""
    terms = [
        _present(
            matchExpressions=[_requirement(each) for each in term.match_expressions],
            matchFields=[_requirement(each) for each in term.match_fields],
        )
        for term in selector.terms
    ]
    return {"nodeSelectorTerms": terms}


def _requirement(requirement: NodeSelectorRequirement) -> Json:
    return _present(key=requirement.key, operator=requirement.operator, values=requirement.values)
