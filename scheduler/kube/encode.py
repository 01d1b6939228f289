"""
Frozen values to JSON: the bodies of all writes.

Claims are changed by JSON patches (RFC 6902). A patch sets the resourceVersion that it relies on, so that the API
server refuses a stale one with 409. It changes nothing else: fields that this version does not know stay, and so do the
bytes of opaque parameters. With a strategic merge patch the server would encode those again (sorted, `1.0` as `1`).
Then it would refuse the write, because spec and allocation are immutable byte by byte (`protobuf` handles the remaining
cases).
"""

import datetime as dt
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from solver.domain import (
    FINALIZER,
    PLACE_ANNOTATION,
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

ADOPTED: Final = "dovetail.dev/adopted"
"""Annotation of a claim: when a scheduler last took over an allocation of an earlier attempt."""
NOTE_BYTES: Final = 1024
"""The longest note of an Event."""
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

    The caller chooses `name`, unique in the namespace. With a `count` over one it is a series that was created under
    that name. `first_seen` and `last_seen` are aware times.
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
        """The namespace of the Event: its object's, `default` for objects without one."""
        return self.regarding.namespace or "default"


class GroupCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition about the scheduling of a PodGroup; each version has its own `type`. `since` is an aware time."""

    type: str
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
    """Append the finalizer."""
    path, value = ("/metadata/finalizers/-", FINALIZER) if claim.finalizers else ("/metadata/finalizers", [FINALIZER])
    return msgspec.json.encode([*_guard(claim), {"op": "add", "path": path, "value": value}])


def adoption_patch(claim: Claim, moment: str) -> bytes:
    """Set the annotation `ADOPTED`, by a merge patch: the claim may have no annotations yet."""
    _guard(claim)
    metadata = {"resourceVersion": claim.resource_version, "annotations": {ADOPTED: moment}}
    return msgspec.json.encode({"metadata": metadata})


def allocation_patch(claim: Claim, allocation: Allocation, consumers: Sequence[ConsumerReference]) -> bytes:
    """Allocate and reserve in one write of the status."""
    operation = {"op": "add", "path": "/status/allocation", "value": allocation_result(allocation)}
    return msgspec.json.encode([*_guard(claim), operation, *_reservations(claim, consumers)])


def reservation_patch(claim: Claim, consumers: Sequence[ConsumerReference]) -> bytes:
    """Append consumers to reservedFor."""
    return msgspec.json.encode([*_guard(claim), *_reservations(claim, consumers)])


def release_patch(claim: Claim, consumer_uids: Collection[str], *, deallocate: bool) -> bytes:
    """Remove consumers by uid, and optionally the allocation, with which the server drops status.devices."""
    operations = [
        {"op": "remove", "path": f"/status/reservedFor/{index}"}
        for index, each in reversed(list(enumerate(claim.reserved_for)))
        if each.uid in consumer_uids
    ]
    if deallocate:
        operations.append({"op": "remove", "path": "/status/allocation"})
    return msgspec.json.encode([*_guard(claim), *operations])


def _reservations(claim: Claim, consumers: Sequence[ConsumerReference]) -> list[Json]:
    """Return the operations that append to reservedFor, which does not exist while it is empty."""
    entries = [consumer(each) for each in consumers]
    if claim.reserved_for:
        return [{"op": "add", "path": "/status/reservedFor/-", "value": entry} for entry in entries]
    return [{"op": "add", "path": "/status/reservedFor", "value": entries}]


def binding(pod: PodId, pod_uid: str, node: str, place: str = "") -> bytes:
    """
    core/v1 Binding; the server refuses it where the pod has another uid.

    The server copies its annotations to the pod: there the place of a hold stands that the pod uses up.
    """
    noted = {"annotations": {PLACE_ANNOTATION: place}} if place else {}
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod_uid, **noted},
            "target": {"kind": "Node", "name": node},
        }
    )


def unscheduled(
    generation: int, *, reason: str, message: str, since: dt.datetime, nominated_node_name: str | None
) -> Json:
    """
    Return the status with PodScheduled=False; a nominated node of None is not changed, "" removes it.

    `generation` is the metadata.generation of the pod that was decided.
    """
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": timestamp(since),
        "observedGeneration": generation,
    }
    status: Json = {"conditions": [condition]}
    if nominated_node_name is not None:
        status["nominatedNodeName"] = nominated_node_name or None
    return status


def group_condition_patch(group: PodGroup, condition: GroupCondition) -> bytes:
    """Set a condition of a PodGroup, guarded by its uid."""
    entry = {
        "type": condition.type,
        "status": "True" if condition.is_true else "False",
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": timestamp(condition.since),
        "observedGeneration": group.generation,
    }
    return msgspec.json.encode({"metadata": {"uid": group.uid}, "status": {"conditions": [entry]}})


def event(record: EventRecord) -> bytes:
    """Encode a new Event; texts are cut to the API's limits."""
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
    """Update the count of an Event series."""
    return msgspec.json.encode({"series": _series(record)})


def consumer(reference: ConsumerReference) -> Json:
    """ResourceClaimConsumerReference."""
    return _present(apiGroup=reference.api_group, resource=reference.resource, name=reference.name, uid=reference.uid)


def _present(**fields: object) -> Json:
    """Leave out empty values (false, "", empty lists), as the API's `omitempty` does."""
    return {name: value for name, value in fields.items() if value}


def _guard(claim: Claim) -> list[Json]:
    """Return the operation that makes the server compare the resourceVersion: another version is refused with 409."""
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
    """AllocationResult, as it is written and as `simulate` shows it."""
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
        skipNodeOperations=result.skip_node_operations,
    )


def _toleration(toleration: Toleration) -> Json:
    """DeviceToleration; tolerationSeconds 0 is not the same as none."""
    fields = _present(
        key=toleration.key, operator=toleration.operator, value=toleration.value, effect=toleration.effect
    )
    if toleration.toleration_seconds is not None:
        fields["tolerationSeconds"] = toleration.toleration_seconds
    return fields


def _config(config: OpaqueConfig) -> Json:
    """DeviceAllocationConfiguration; the parameters keep their bytes."""
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
