"""One document to one change, through the decoding that the watches use.

The decoder's messages in the words of somebody who writes manifests.

Which manifests are read, and what is wrong with the versions of others.

What admission refuses that no single manifest shows: admin access outside of the namespaces that allow it.

What the API server refuses to change: the spec of a claim or of a template, once it is there.

People edit a claim, apply it, and wonder that nothing happens: the pod goes on with the claim that it has.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError
from scheduler.simulation.manifests.documents import Document, ManifestProblem
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, subject, text
from solver.domain import Claim, Namespace, Pod

LABEL: Final = "resource.kubernetes.io/admin-access"


def wants_admin_access(claim_spec: Body) -> str:
    """Give the field of the first request that asks for admin access; empty where none does."""
    for index, request in entries(mapping(claim_spec.get("devices")).get("requests")):
        field = f"devices.requests[{index}]"
        if mapping(request.get("exactly")).get("adminAccess") is True:
            return f"{field}.exactly.adminAccess"
        if request.get("adminAccess") is True:
            return f"{field}.adminAccess"
    return ""


def objection(namespace: str, namespaces: Mapping[str, Namespace]) -> str:
    """Say why a namespace allows no admin access; empty where it does, and where nothing is known of it."""
    known = namespaces.get(namespace)
    if known is None:
        return ""
    value = dict(known.labels).get(LABEL)
    if value == "true":
        return ""
    found = "has no such label" if value is None else f'has the value "{value}", and only "true" in lower case counts'
    return f'adminAccess needs the label {LABEL}: "true" on namespace {namespace}, which {found}'


_INSTEAD: Final = "write a new template with another name, and create the pod anew"


def of_claim(claim: Claim, there: Claim | None) -> str:
    """Say what is wrong with a claim that was edited after its creation, or after its allocation; empty for others."""
    if there is not None and there.uid and _spec(there) != _spec(claim):
        return f"differs from the claim in the cluster, and claims are immutable: {_INSTEAD}"
    names = {request.name for request in claim.requests}
    results = claim.allocation.results if claim.allocation is not None else ()
    strangers = sorted({each.request.partition("/")[0] for each in results} - names)
    if strangers and names:
        requests = f"request{'s' if len(strangers) > 1 else ''} {', '.join(strangers)}"
        return f"the allocation is for {requests}, which the spec does not have; claims are immutable: {_INSTEAD}"
    return ""


def of_template() -> str:
    """Say what is wrong with a template that was edited after its creation."""
    return "differs from the template in the cluster, and templates are immutable: give it another name"


def _spec(claim: Claim) -> tuple[object, ...]:
    config = [(each.source, each.requests, each.driver, json.loads(each.parameters or "{}")) for each in claim.config]
    return claim.requests, claim.constraints, config


_AT: Final = re.compile(r"^(?:(?P<part>spec|status): )?(?P<message>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<found>[^`]*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_WORDS: Final = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}
_SCALARS: Final = frozenset({"int", "float", "bool"})
_FIELD: Final = re.compile(r"^(?P<field>[A-Za-z][\w.\[\]/-]*): (?P<message>.+)$", re.DOTALL)


def in_our_words(text: str) -> tuple[str, str]:
    """Split what the decoder says into the field's path and what is wrong with it."""
    match = _AT.match(text)
    part, message, path = (match["part"], match["message"], match["path"]) if match else (None, text, None)
    if part is None and path is None and not _MISSING.search(message):
        named = _FIELD.match(text)
        return (named["field"], _told(named["message"])) if named else ("", _told(text))
    field = ".".join(each for each in (part, path) if each)
    missing = _MISSING.search(message)
    if missing:
        return ".".join(each for each in (field, missing["name"]) if each), "missing"
    return field.replace("[...]", "[…]"), _told(message)


def _told(message: str) -> str:
    expected = _EXPECTED.search(message)
    if expected is None:
        return message
    wanted, found = expected["wanted"].split(" | ")[0], expected["found"]
    told = f"expected {_WORDS.get(wanted, wanted)}, got {_WORDS.get(found, found)}"
    return f"{told}: put it in quotes" if wanted == "str" and found in _SCALARS else told


_LONGEST: Final = 200
"""Characters of what went wrong with an object that nobody foresaw."""


def key_of(body: Body) -> str:
    """Give an object's key as `Change` has it."""
    found = metadata(body)
    namespace, name = text(found.get("namespace")), text(found.get("name"))
    return f"{namespace}/{name}" if namespace else name


def decoded(kind: Kind, document: Document) -> tuple[Change | None, ManifestProblem | None]:
    """
    Decode a document.

    A claim that cannot be read whole comes with its problem, as the watches give it; other kinds do not come then.
    """
    value, field, message = _value(kind, document.body)
    problem = ManifestProblem(document.source, subject(document.body), field, message) if message else None
    if value is None or (problem is not None and not isinstance(value, Claim)):
        return None, problem
    return Change(kind=kind, key=key_of(document.body), value=value), problem


def _value(kind: Kind, body: Body) -> tuple[Object | None, str, str]:
    """The object, and the field and message of what is wrong with it."""
    try:
        value = decode(kind, msgspec.json.encode(body))
    except DecodeError as error:
        field, message = in_our_words(error.message)
        outer = "" if error.field.startswith("(") else error.field
        return None, ".".join(each for each in (outer, field) if each), message
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        return None, "", f"cannot be read ({type(error).__name__}: {str(error)[:_LONGEST]}): write it as the API has it"
    if isinstance(value, Pod | Claim) and value.invalid:
        return value, *in_our_words(value.invalid)
    return value, "", ""


_RESOURCE: Final = "resource.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_CURRENT: Final = frozenset({"v1", "v1beta2"})
"""Versions of resource.k8s.io that have today's shape."""

KINDS: Final[Mapping[tuple[str, str], Kind]] = {
    ("", "Node"): Kind.NODES,
    ("", "Pod"): Kind.PODS,
    ("", "Namespace"): Kind.NAMESPACES,
    (_RESOURCE, "ResourceSlice"): Kind.SLICES,
    (_RESOURCE, "DeviceClass"): Kind.CLASSES,
    (_RESOURCE, "ResourceClaim"): Kind.CLAIMS,
    (_RESOURCE, "DeviceTaintRule"): Kind.TAINT_RULES,
    ("", "PersistentVolume"): Kind.VOLUMES,
    ("", "PersistentVolumeClaim"): Kind.VOLUME_CLAIMS,
    (_STORAGE, "StorageClass"): Kind.STORAGE_CLASSES,
    (_STORAGE, "CSINode"): Kind.NODE_DRIVERS,
    (_STORAGE, "CSIStorageCapacity"): Kind.STORAGE_CAPACITIES,
    (_STORAGE, "CSIDriver"): Kind.STORAGE_DRIVERS,
    (_STORAGE, "VolumeAttachment"): Kind.ATTACHMENTS,
    ("policy", "PodDisruptionBudget"): Kind.BUDGETS,
    ("scheduling.k8s.io", "PodGroup"): Kind.POD_GROUPS,
    ("scheduling.x-k8s.io", "PodGroup"): Kind.COSCHEDULING_GROUPS,
}
WORKLOADS: Final = frozenset(
    {("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("batch", "Job")}
)
UNSTAMPED: Final = frozenset({("apps", "DaemonSet"), ("batch", "CronJob"), ("", "ReplicationController")})
"""What makes pods and is not read: which ones depends on nodes or on time."""
TEMPLATE: Final = (_RESOURCE, "ResourceClaimTemplate")
PRIORITY_CLASS: Final = ("scheduling.k8s.io", "PriorityClass")

_OURS: Final = {kind: group for group, kind in (*KINDS, *WORKLOADS, TEMPLATE)}


def of(body: Body) -> tuple[str, str]:
    """Give an object's API group and kind."""
    group, _, version = text(body.get("apiVersion")).rpartition("/")
    del version
    return group, text(body.get("kind"))


def wrong_version(body: Body) -> str:
    """Say what is wrong with an object's apiVersion; empty where nothing is, or where the kind is nobody we know."""
    api_version, (group, kind) = text(body.get("apiVersion")), of(body)
    expected = group if (group, kind) in KINDS else _OURS.get(kind)
    if expected is None:
        return ""
    version = api_version.rpartition("/")[2]
    newest = f"{expected}/v1" if expected else "v1"
    if group != expected:
        return f"{api_version} has no {kind}: write {newest}" if _is_near(group, expected) else ""
    if group != _RESOURCE or version in _CURRENT or (kind == "DeviceTaintRule" and version == "v1alpha3"):
        return ""
    return (
        f"{api_version} is an older version with another shape: write {newest}, where a request holds `exactly` "
        "and a device its attributes and capacity without `basic`"
    )


def _is_near(group: str, expected: str) -> bool:
    """Whether a group is meant to be one of Kubernetes' own; others may well have kinds of the same name."""
    return "." not in group or group.endswith(".k8s.io") or bool(expected and group.endswith(expected))
