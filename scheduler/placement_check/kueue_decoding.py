"""Objects of Kueue (kueue.x-k8s.io/v1beta2) that its admission check needs, and what its Workloads name."""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.kube.decode.shared_fields import Metadata, Wire, labels
from scheduler.placement_check.kueue_objects import (
    PARKED,
    REPLACES,
    AdmissionCheck,
    AdmissionCheckState,
    KueueWorkload,
    PodSet,
    PodSetUpdate,
    ResourceFlavor,
    WorkloadOwner,
)
from scheduler.unreadable import cut

_POD_PRIORITY: Final = "PriorityClass"
_EMPTY: Final = msgspec.Raw(b"{}")
_NO_ITEMS: Final = msgspec.Raw(b"[]")


class _Condition(Wire, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _PodSet(Wire, frozen=True):
    name: str = "main"
    count: int = 0
    template: msgspec.Raw = _EMPTY


class _PriorityClassRef(Wire, frozen=True):
    kind: str = ""


class _Spec(Wire, frozen=True):
    pod_sets: list[_PodSet] | None = None
    queue_name: str = ""
    priority: int | None = None
    priority_class_ref: _PriorityClassRef | None = None
    active: bool | None = None


class _Assignment(Wire, frozen=True):
    name: str = "main"
    flavors: dict[str, str] | None = None
    count: int | None = None


class _Admission(Wire, frozen=True):
    pod_set_assignments: list[_Assignment] | None = None


class _Update(Wire, frozen=True):
    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: msgspec.Raw = _NO_ITEMS


class _Check(Wire, frozen=True):
    name: str
    state: str = "Pending"
    message: str = ""
    pod_set_updates: list[_Update] | None = None


class _Reclaimable(Wire, frozen=True):
    name: str
    count: int = 0


class _Status(Wire, frozen=True):
    conditions: list[_Condition] | None = None
    admission: _Admission | None = None
    admission_checks: list[_Check] | None = None
    reclaimable_pods: list[_Reclaimable] | None = None


class _Workload(Wire, frozen=True):
    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _CheckSpec(Wire, frozen=True):
    controller_name: str = ""


class _CheckStatus(Wire, frozen=True):
    conditions: list[_Condition] | None = None


class _AdmissionCheck(Wire, frozen=True):
    metadata: Metadata
    spec: _CheckSpec = _CheckSpec()
    status: _CheckStatus = _CheckStatus()


class _FlavorSpec(Wire, frozen=True):
    node_labels: dict[str, str] | None = None
    tolerations: msgspec.Raw = _NO_ITEMS


class _Flavor(Wire, frozen=True):
    metadata: Metadata
    spec: _FlavorSpec = _FlavorSpec()


class _TemplateSpec(Wire, frozen=True):
    spec: msgspec.Raw = _EMPTY


class _Template(Wire, frozen=True):
    spec: _TemplateSpec = _TemplateSpec()


class _PriorityClass(Wire, frozen=True):
    value: int = 0


_workload: Final = msgspec.json.Decoder(_Workload)
_check: Final = msgspec.json.Decoder(_AdmissionCheck)
_flavor: Final = msgspec.json.Decoder(_Flavor)
_template: Final = msgspec.json.Decoder(_Template)
_priority_class: Final = msgspec.json.Decoder(_PriorityClass)


def decode_workload(raw: bytes | msgspec.Raw) -> KueueWorkload:
    """Decode a Workload."""
    wire = _workload.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    conditions = status.conditions or ()
    true = {each.type: each for each in conditions if each.status == "True"}
    kept_back = (at for at, each in enumerate(conditions) if (each.type, each.status) == ("Requeued", "False"))
    evicted, ref = true.get("Evicted"), spec.priority_class_ref
    return KueueWorkload(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        creation=metadata.creation_timestamp or "",
        priority=spec.priority or 0,
        has_pod_priority=ref is not None and ref.kind == _POD_PRIORITY,
        queue=spec.queue_name,
        pod_sets=tuple(_pod_sets(spec, status)),
        checks=tuple(
            AdmissionCheckState(
                name=each.name,
                state=each.state,
                message=cut(each.message),
                updates=tuple(_update(update) for update in each.pod_set_updates or ()),
            )
            for each in status.admission_checks or ()
        ),
        replaces=cut((metadata.annotations or {}).get(REPLACES, "")),
        owners=tuple(WorkloadOwner(each.api_version, each.kind, each.uid) for each in metadata.owner_references or ()),
        evicted=cut(evicted.reason) if evicted is not None else "",
        was_evicted=any(each.type == "Evicted" for each in conditions),
        kept_back_at=next(kept_back, None),
        parked=cut((metadata.annotations or {}).get(PARKED, "")),
        is_active=spec.active is not False,
        has_quota="QuotaReserved" in true,
        is_admitted="Admitted" in true,
        is_finished="Finished" in true,
        is_deleting=metadata.deletion_timestamp is not None,
    )


def _pod_sets(spec: _Spec, status: _Status) -> Iterator[PodSet]:
    given = status.admission.pod_set_assignments if status.admission is not None else None
    assigned = {each.name: each for each in given or ()}
    ended = {each.name: each.count for each in status.reclaimable_pods or ()}
    for each in spec.pod_sets or ():
        assignment = assigned.get(each.name)
        count = each.count if assignment is None or assignment.count is None else assignment.count
        count = max(0, min(count, each.count - ended.get(each.name, 0)))
        flavors = (assignment.flavors or {}) if assignment is not None else {}
        yield PodSet(
            name=each.name, count=count, template=bytes(each.template), flavors=tuple(sorted(set(flavors.values())))
        )


def _update(wire: _Update) -> PodSetUpdate:
    return PodSetUpdate(
        name=wire.name,
        labels=labels(wire.labels),
        annotations=labels(wire.annotations),
        node_selector=labels(wire.node_selector),
        tolerations=bytes(wire.tolerations),
    )


def decode_admission_check(raw: bytes | msgspec.Raw) -> AdmissionCheck:
    """Decode an AdmissionCheck."""
    wire = _check.decode(raw)
    active = next((each for each in wire.status.conditions or () if each.type == "Active"), None)
    return AdmissionCheck(
        name=wire.metadata.name,
        uid=wire.metadata.uid,
        resource_version=wire.metadata.resource_version,
        generation=wire.metadata.generation,
        controller=wire.spec.controller_name,
        is_active=active.status == "True" if active is not None else None,
        message=cut(active.message) if active is not None else "",
        is_deleting=wire.metadata.deletion_timestamp is not None,
    )


def decode_flavor(raw: bytes | msgspec.Raw) -> ResourceFlavor:
    """Decode a ResourceFlavor."""
    wire = _flavor.decode(raw)
    return ResourceFlavor(
        name=wire.metadata.name, node_labels=labels(wire.spec.node_labels), tolerations=bytes(wire.spec.tolerations)
    )


def decode_claim_spec(raw: bytes | msgspec.Raw) -> bytes:
    """Return the spec, in JSON, of the claims that a ResourceClaimTemplate makes."""
    return bytes(_template.decode(raw).spec.spec)


def decode_priority(raw: bytes | msgspec.Raw) -> int:
    """Return the value of a PriorityClass."""
    return _priority_class.decode(raw).value
