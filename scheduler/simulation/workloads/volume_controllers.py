"""
What controllers do about volumes before the scheduler sees a pod.

The StatefulSet controller creates a claim per pod and template, the ephemeral volume controller one per pod and volume.
The volume controller handles claims whose class does not wait for a consumer. It binds each to the smallest volume that
fits, or has one provisioned, which is assumed to be usable on every node.
"""

import copy
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from scheduler.change import Change, Kind
from scheduler.kube.decode.storage import DEFAULT_CLASS
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from scheduler.simulation.workloads.pod_templates import namespace_of
from solver import volume_fits
from solver.domain import PersistentVolume, PersistentVolumeClaim, StorageClass

_STATEFUL: Final = "StatefulSet"


def templates(workload: Body) -> dict[str, Body]:
    """Return the claim templates of a StatefulSet by the name of their volume."""
    if workload.get("kind") != _STATEFUL:
        return {}
    found = (each for _, each in entries(spec(workload).get("volumeClaimTemplates")))
    return {text(metadata(each).get("name")): each for each in found}


def add_template_volumes(pod: Body, made: Collection[str]) -> None:
    """Add the volumes of a StatefulSet's claim templates to one of its pods."""
    name, pod_spec = text(metadata(pod).get("name")), spec(pod)
    unmanaged = [each for _, each in entries(pod_spec.get("volumes")) if text(each.get("name")) not in made]
    own = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}} for each in made]
    if own:
        pod_spec["volumes"] = [*unmanaged, *own]


def claim_of_template(pod: Body, name: str, template: Body) -> Body:
    """Create the claim of a StatefulSet's pod from one of the templates."""
    return _claim(namespace_of(pod), f"{name}-{metadata(pod).get('name')}", template, [])


def ephemeral_claims(pod: Body) -> Iterator[Body]:
    """Create the claims of a pod's ephemeral volumes, owned by the pod."""
    found = metadata(pod)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": found.get("name"), "uid": found.get("uid"), "controller": True}
    for _, volume in entries(spec(pod).get("volumes")):
        template = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate"))
        if "ephemeral" in volume:
            name = f"{found.get('name')}-{volume.get('name')}"
            yield _claim(namespace_of(pod), name, template, [owner])


def _claim(namespace: str, name: str, template: Body, owners: list[Body]) -> Body:
    described = mapping(template.get("metadata"))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": copy.deepcopy(mapping(described.get("labels"))),
            "annotations": copy.deepcopy(mapping(described.get("annotations"))),
            "ownerReferences": owners,
        },
        "spec": copy.deepcopy(mapping(template.get("spec"))),
    }


def default_class(classes: Iterable[Body]) -> str:
    """Return the name of the default storage class; empty without one."""
    found = [
        text(metadata(each).get("name"))
        for each in classes
        if mapping(metadata(each).get("annotations")).get(DEFAULT_CLASS) == "true"
    ]
    return min(found, default="")


def fill_class(claim: Body, default: str) -> None:
    """Set the default class of a claim that names none; an empty name counts as named."""
    claim_spec = spec(claim)
    if default and claim_spec.get("storageClassName") is None and not claim_spec.get("volumeName"):
        claim_spec["storageClassName"] = default


def bind_volumes(
    changes: Iterable[Change], live: Collection[tuple[Kind, str]] = ()
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """
    Bind what the volume controller would have bound by now; return the changes, and notes on what was assumed.

    Objects in `live` are as the controllers of a real cluster left them: live claims are not bound to live volumes, and
    none is provisioned for them. They may be bound to an added volume.
    """
    given = tuple(changes)
    if not any(isinstance(each.value, PersistentVolume | PersistentVolumeClaim) for each in given):
        return given, ()
    classes = {each.value.name: each.value for each in given if isinstance(each.value, StorageClass)}
    found = {each.value.name: _known(each.value) for each in given if isinstance(each.value, PersistentVolume)}
    claims = {each.key: each.value for each in given if isinstance(each.value, PersistentVolumeClaim)}
    notes: list[str] = []
    for key in sorted(claims):
        if (Kind.VOLUME_CLAIMS, key) not in live:
            claims[key] = _bound(claims[key], found, classes, notes)
        elif not claims[key].is_bound and not _waits(claims[key], classes):
            added = {name: each for name, each in found.items() if (Kind.VOLUMES, name) not in live}
            claims[key] = _bound(claims[key], added, {}, notes)
            found |= added
    made = found.keys() - {each.key for each in given if each.kind is Kind.VOLUMES}
    changed = [_replaced(each, found, claims) for each in given]
    changed += [Change(kind=Kind.VOLUMES, key=name, value=found[name]) for name in sorted(made)]
    return tuple(changed), tuple(notes)


def _known(volume: PersistentVolume) -> PersistentVolume:
    """Treat a volume without a status as available."""
    return volume if volume.phase else msgspec.structs.replace(volume, phase="Available")


def _replaced(change: Change, found: dict[str, PersistentVolume], claims: dict[str, PersistentVolumeClaim]) -> Change:
    match change.value:
        case PersistentVolume(name=name):
            return msgspec.structs.replace(change, value=found[name])
        case PersistentVolumeClaim():
            return msgspec.structs.replace(change, value=claims[change.key])
    return change


def _waits(claim: PersistentVolumeClaim, classes: dict[str, StorageClass]) -> bool:
    """Whether a claim is bound only when a pod that uses it is scheduled."""
    storage_class = classes.get(claim.storage_class)
    return storage_class is not None and storage_class.waits_for_consumer


def _bound(
    claim: PersistentVolumeClaim, found: dict[str, PersistentVolume], classes: dict[str, StorageClass], notes: list[str]
) -> PersistentVolumeClaim:
    if claim.is_bound:
        return claim
    bound_volumes = [each.name for each in found.values() if each.is_bound_to(claim)]
    name = claim.volume or next(iter(sorted(bound_volumes)), "")
    storage_class = classes.get(claim.storage_class)
    if not name and not _waits(claim, classes):
        fitting = [each for each in found.values() if volume_fits(each, claim)]
        name = min(((each.capacity, each.name) for each in fitting), default=(0, ""))[1]
        if not name and storage_class is not None and storage_class.provisions:
            name = f"pvc-{claim.uid}"
            found[name] = PersistentVolume(name=name, uid=name, storage_class=claim.storage_class, phase="Available")
            notes.append(f"claim {claim.id}: its volume is assumed to be provisioned and usable on every node")
    if name in found:
        found[name] = msgspec.structs.replace(found[name], claim=claim.id, claim_uid=claim.uid, phase="Bound")
    return msgspec.structs.replace(claim, volume=name, is_bind_completed=bool(name))
