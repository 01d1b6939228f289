"""
Gangs: PodGroups, and the labels and annotations of pods that belong to one.

PodGroups of scheduling.k8s.io (v1alpha2 and later) and of scheduling.x-k8s.io (coscheduling, v1alpha1); our own label
and annotations for pods without a PodGroup.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.kube.api_versions import DISRUPTION_TEXTS, POD_GROUP_CONDITIONS
from scheduler.kube.decode.shared_fields import MalformedError, Metadata, Wire
from scheduler.unreadable import cut
from solver.domain import (
    COSCHEDULING_GROUP,
    DOVETAIL_GROUP,
    MINIMUM_ANNOTATION,
    SCHEDULING_GROUP,
    ClaimId,
    GangAnnotations,
    GangId,
    GangLevel,
    PodGroup,
)
from solver.domain.gang import DISRUPT_ALL, DISRUPT_SINGLE

COSCHEDULING_LABEL: Final = f"{COSCHEDULING_GROUP}/pod-group"
GANG_LABEL: Final = f"{DOVETAIL_GROUP}/gang"
TOPOLOGY_ANNOTATION: Final = f"{DOVETAIL_GROUP}/gang-topology"

MOST_PODS: Final = 100_000
"""The largest minCount: more pods than a cluster runs."""

_LONGEST_SHOWN: Final = 80
"""Characters of a user's text in a message."""
_LONGEST_LEVELS: Final = 4096
"""The longest annotation of topology levels."""
_LONGEST_CONDITION: Final = 32 * 1024
"""The API's limit of a condition's message."""
_PREFERRED: Final = "preferred:"


class _Gang(Wire, frozen=True):
    min_count: int = 0


class _Policy(Wire, frozen=True):
    gang: _Gang | None = None


class _Topology(Wire, frozen=True):
    key: str


class _Constraints(Wire, frozen=True):
    topology: list[_Topology] | None = None


class _GroupClaim(Wire, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _Condition(Wire, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class _AllDisruptionMode(Wire, frozen=True):
    pass


class _DisruptionMode(Wire, frozen=True):
    all: _AllDisruptionMode | None = None


class _GroupSpec(Wire, frozen=True):
    scheduling_policy: _Policy = _Policy()
    scheduling_constraints: _Constraints | None = None
    resource_claims: list[_GroupClaim] | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None
    disruption_mode: str | _DisruptionMode | None = None


class _GroupStatus(Wire, frozen=True):
    conditions: list[_Condition] | None = None
    resource_claim_statuses: list[_GroupClaim] | None = None


class PodGroupWire(Wire, frozen=True):
    """PodGroup (scheduling.k8s.io)."""

    metadata: Metadata
    spec: _GroupSpec = _GroupSpec()
    status: _GroupStatus = _GroupStatus()


class _CoschedulingSpec(Wire, frozen=True):
    min_member: int = 0


class CoschedulingWire(Wire, frozen=True):
    """PodGroup (scheduling.x-k8s.io/v1alpha1)."""

    metadata: Metadata
    spec: _CoschedulingSpec = _CoschedulingSpec()


_group = msgspec.json.Decoder(PodGroupWire)
_coscheduling = msgspec.json.Decoder(CoschedulingWire)


def decode_pod_group(raw: bytes | msgspec.Raw) -> PodGroup:
    """
    Decode a PodGroup of scheduling.k8s.io; levels of our annotation come after its own topology constraints.

    Its priority and preemption policy bind its pods, but not in Kubernetes 1.36 (where disruptionMode is a text), nor
    below a CompositePodGroup, whose own bind them.
    """
    wire = _group.decode(raw)
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    topology = spec.scheduling_constraints.topology if spec.scheduling_constraints is not None else None
    levels, invalid = _annotated_levels(metadata.annotations)
    made = {each.name: each.resource_claim_name for each in status.resource_claim_statuses or ()}
    policy = spec.scheduling_policy.gang
    demanded = policy.min_count if policy is not None else 0
    minimum, wrong = _demanded(demanded, "spec.schedulingPolicy.gang.minCount")
    is_binding = not (isinstance(spec.disruption_mode, str) or spec.parent_composite_pod_group_name)
    return PodGroup(
        id=GangId(metadata.namespace, metadata.name, SCHEDULING_GROUP),
        uid=metadata.uid,
        min_count=minimum,
        levels=(*(GangLevel(node_label=each.key) for each in topology or ()), *levels),
        claims=tuple(_claim(metadata.namespace, each, made) for each in spec.resource_claims or ()),
        priority=spec.priority if is_binding else None,
        preemption_policy=(spec.preemption_policy or "") if is_binding else "",
        parent=spec.parent_composite_pod_group_name or "",
        creation=metadata.creation_timestamp or "",
        generation=metadata.generation,
        conditions=tuple(_condition(each) for each in status.conditions or () if each.type in POD_GROUP_CONDITIONS),
        invalid=wrong or invalid,
        disruption=_disruption(spec.disruption_mode),
    )


def decode_coscheduling_group(raw: bytes | msgspec.Raw) -> PodGroup:
    """Decode a PodGroup of coscheduling, of its spec only minMember."""
    wire = _coscheduling.decode(raw)
    levels, invalid = _annotated_levels(wire.metadata.annotations)
    minimum, wrong = _demanded(wire.spec.min_member, "spec.minMember")
    return PodGroup(
        id=GangId(wire.metadata.namespace, wire.metadata.name, COSCHEDULING_GROUP),
        uid=wire.metadata.uid,
        min_count=minimum,
        levels=levels,
        creation=wire.metadata.creation_timestamp or "",
        invalid=wrong or invalid,
    )


def gang_of(namespace: str, pod_group: str, labels: Mapping[str, str] | None) -> GangId | None:
    """Return the gang of a pod: by its PodGroup, else by coscheduling's label, else by ours."""
    if pod_group:
        return GangId(namespace, pod_group, SCHEDULING_GROUP)
    for label, source in ((COSCHEDULING_LABEL, COSCHEDULING_GROUP), (GANG_LABEL, DOVETAIL_GROUP)):
        name = (labels or {}).get(label)
        if name:
            return GangId(namespace, name, source)
    return None


def gang_note(annotations: Mapping[str, str] | None) -> GangAnnotations | None:
    """Return the gang fields of a pod's annotations, None where there are none."""
    text = (annotations or {}).get(MINIMUM_ANNOTATION)
    levels, invalid = _annotated_levels(annotations)
    if text is None and not levels and not invalid:
        return None
    minimum = _count(text) if text is not None else 0
    if text is not None and minimum < 1:
        invalid = f"{MINIMUM_ANNOTATION}: {cut(text, _LONGEST_SHOWN)!r} is not a number of pods: write 1 to {MOST_PODS}"
    return GangAnnotations(min_count=0 if invalid else minimum, levels=levels, invalid=invalid)


def _count(text: str) -> int:
    """Read a number of pods, 0 where it is none. Python refuses to convert very long texts: check the length first."""
    if len(text) > len(str(MOST_PODS)) or not (text.isascii() and text.isdecimal()):
        return 0
    return int(text) if int(text) <= MOST_PODS else 0


def _demanded(count: int, field: str) -> tuple[int, str]:
    """Check a number of pods, and return an error text: the object may have no schema."""
    if 0 <= count <= MOST_PODS:
        return count, ""
    return 0, f"{field}: it is not a number of pods: write 1 to {MOST_PODS}"


def levels_of(text: str) -> tuple[GangLevel, ...]:
    """
    Read levels: `label:KEY` and `device:DOMAIN/NAME`, separated by commas, with `preferred:` in front where wanted.

    >>> [str(each) for each in levels_of("label:example.com/block, preferred:device:gpu.example.com/clique")]
    ['label example.com/block', 'device attribute gpu.example.com/clique']

    Raises MalformedError.
    """
    return tuple(_level(each.strip()) for each in text.split(","))


def _level(text: str) -> GangLevel:
    is_required = not text.startswith(_PREFERRED)
    kind, _, key = text.removeprefix(_PREFERRED).partition(":")
    if kind == "label" and key:
        return GangLevel(node_label=key, is_required=is_required)
    if kind == "device" and "/" in key.strip("/"):
        return GangLevel(device_attribute=key, is_required=is_required)
    message = (
        f"{cut(text, _LONGEST_SHOWN)!r} is neither label:KEY nor device:DOMAIN/NAME (with preferred: in front or not)"
    )
    raise MalformedError(TOPOLOGY_ANNOTATION, message)


def _annotated_levels(annotations: Mapping[str, str] | None) -> tuple[tuple[GangLevel, ...], str]:
    text = (annotations or {}).get(TOPOLOGY_ANNOTATION, "")
    if not text:
        return (), ""
    if len(text) > _LONGEST_LEVELS:
        return (), f"{TOPOLOGY_ANNOTATION}: it has {len(text)} characters: write at most {_LONGEST_LEVELS}"
    try:
        return levels_of(text), ""
    except MalformedError as error:
        return (), str(error)


def _claim(namespace: str, wire: _GroupClaim, made: Mapping[str, str | None]) -> tuple[str, ClaimId | None, str]:
    name = wire.resource_claim_name or made.get(wire.name)
    return (wire.name, ClaimId(namespace, name) if name else None, wire.resource_claim_template_name or "")


def _disruption(mode: str | _DisruptionMode | None) -> str:
    """Return the mode of a PodGroup: one field of an object, or the text of Kubernetes 1.36."""
    if isinstance(mode, _DisruptionMode):
        return DISRUPT_ALL if mode.all is not None else DISRUPT_SINGLE
    return DISRUPTION_TEXTS.get(mode or "", "")


def _condition(condition: _Condition) -> tuple[str, str, str, str]:
    return (condition.type, condition.status, cut(condition.reason), cut(condition.message, _LONGEST_CONDITION))
