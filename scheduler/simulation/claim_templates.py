"""
Creates claims from templates as the resource claim controller does, owned by the pod or PodGroup.

The random part of a generated name is derived from the pod's uid, so that the same input gives the same names.
"""

import copy
import difflib
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, text
from solver.domain import Pod, PodId

RESOURCE: Final = "resourceclaimtemplates"
"""The resource name of the kind."""
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE: Final = 58
"""Characters of a generated name before the five random ones (names.SimpleNameGenerator)."""
_ENTRY: Final = "resource.kubernetes.io/pod-claim-name"
_ENDED: Final = frozenset({"Succeeded", "Failed"})

Key = tuple[str, str]
"""Namespace and name."""


class TemplateEntry(NamedTuple):
    """An entry of spec.resourceClaims whose claim does not exist yet."""

    field: str
    entry: str
    template: str


def entries_without_claim(pod: Body) -> Iterator[TemplateEntry]:
    """Return the entries of a pod that need a claim from a template and have none."""
    status = mapping(pod.get("status"))
    if status.get("phase") in _ENDED:
        return
    noted = {text(each.get("name")) for _, each in entries(status.get("resourceClaimStatuses"))}
    for index, entry in entries(spec(pod).get("resourceClaims")):
        template, name = text(entry.get("resourceClaimTemplateName")), text(entry.get("name"))
        if template and name not in noted:
            yield TemplateEntry(f"spec.resourceClaims[{index}].resourceClaimTemplateName", name, template)


def absent(key: Key, templates: Collection[Key]) -> str:
    """Say that there is no such template, and which one may be meant."""
    close = difflib.get_close_matches(key[1], [name for namespace, name in templates if namespace == key[0]], 1, 0.5)
    elsewhere = [namespace for namespace, name in templates if name == key[1]]
    message = f"there is no ResourceClaimTemplate {key[1]} in namespace {key[0]}, so its claim is never made"
    if elsewhere:
        return f"{message}; there is one in namespace {elsewhere[0]}"
    return f"{message}: did you mean {close[0]}?" if close else message


def checked(
    pods: Iterable[Pod], templates: Collection[Key] | None, refusals: Mapping[tuple[PodId, str], str]
) -> Iterator[Pod]:
    """
    Mark the entries of pods whose claim does not exist: the template does not either, or the API server refuses it.

    `templates` are all that there are, None if they are not known; `refusals` are by pod or PodGroup, and entry.
    """
    known = frozenset(templates or ())
    for pod in pods:
        group = PodId(pod.id.namespace, pod.pod_group)
        names = {each.template for each in pod.claims}
        there = names if templates is None else {each for each in names if (pod.id.namespace, each) in known}
        found = [refusals.get((pod.id, each.entry)) or refusals.get((group, each.entry), "") for each in pod.claims]
        entries_of = (each.checked(there) for each in pod.claims)
        claims = tuple(replace(each, refusal=refusal) for each, refusal in zip(entries_of, found, strict=True))
        yield replace(pod, claims=claims) if pod.claims else pod


def create_claim(pod: Body, each: TemplateEntry, template: Body, taken: Collection[Key]) -> Body:
    """Create the claim of an entry under an unused name, and list it in the pod's status."""
    owner = metadata(pod)
    wrapped = spec(template)
    base = f"{owner['name']}-{each.entry}-"[:_LONGEST_BASE]
    name = base + _suffix(text(owner["uid"]), each.entry)
    while (text(owner["namespace"]), name) in taken:  # that it is a text is checked when the pod is decoded
        name = base + _suffix(name, each.entry)
    add_claim_status(pod, each.entry, name)
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": owner["namespace"],
            "name": name,
            "labels": mapping(metadata(wrapped).get("labels")),
            "annotations": {**mapping(metadata(wrapped).get("annotations")), _ENTRY: each.entry},
            "ownerReferences": [
                {
                    "apiVersion": text(pod.get("apiVersion")) or "v1",
                    "kind": text(pod.get("kind")) or "Pod",
                    "name": owner["name"],
                    "uid": owner["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": copy.deepcopy(wrapped.get("spec", {})),
    }


def existing_claims(claims: Mapping[Key, Body]) -> dict[tuple[str, str], str]:
    """Index the claims that the controller has created already, by the uid of their pod and the entry."""
    found = {}
    for (_, name), claim in claims.items():
        entry = mapping(metadata(claim).get("annotations")).get(_ENTRY)
        if isinstance(entry, str):
            for _, reference in entries(metadata(claim).get("ownerReferences")):
                found[text(reference.get("uid")), entry] = name
    return found


def add_group_claims(pod: Body, groups: Mapping[Key, Body]) -> None:
    """List in a pod's status the claims of its PodGroup, for entries that pod and group have in common."""
    name = text(mapping(spec(pod).get("schedulingGroup")).get("podGroupName"))
    group = groups.get((text(metadata(pod).get("namespace")), name))
    if group is None:
        return
    own = [entry for _, entry in entries(spec(group).get("resourceClaims"))]
    for _, noted in entries(mapping(group.get("status")).get("resourceClaimStatuses")):
        entry = text(noted.get("name"))
        if any(each in own for _, each in entries(spec(pod).get("resourceClaims")) if each.get("name") == entry):
            add_claim_status(pod, entry, text(noted.get("resourceClaimName")))


def add_claim_status(pod: Body, entry: str, claim: str) -> None:
    """List the claim of an entry in a pod's status."""
    status = pod.setdefault("status", {})
    if isinstance(status, dict):
        noted = status.setdefault("resourceClaimStatuses", [])
        if isinstance(noted, list):
            noted.append({"name": entry, "resourceClaimName": claim})


def generated(base: str, *seed: str) -> str:
    """Complete a generateName as the API server does, but deterministically."""
    return base[:_LONGEST_BASE] + _suffix(*seed)


def _suffix(*seed: str) -> str:
    digest = hashlib.sha256("/".join(seed).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5])
