"""
Decodes a document to a `Change`, as the watches do, and reports errors in terms of the manifest.

Also: which kinds and versions are read, admission of admin access by the namespace's label, and changes of immutable
specs. Users edit a claim or template, apply it, and nothing happens, because the pod keeps the claim that it has.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.kube.api_versions import OWN_VERSION
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError
from scheduler.kube.paths import RESOURCE_GROUP
from scheduler.simulation.manifests.documents import Document, ManifestProblem
from scheduler.simulation.manifests.fields import Body, entries, mapping, metadata, spec, subject, text
from solver.domain import DOVETAIL_GROUP, Claim, Namespace, Pod

LABEL: Final = "resource.kubernetes.io/admin-access"


def wants_admin_access(claim_spec: Body) -> str:
    """Return the field of the first request with admin access; empty without one."""
    for index, request in entries(mapping(claim_spec.get("devices")).get("requests")):
        field = f"devices.requests[{index}]"
        if mapping(request.get("exactly")).get("adminAccess") is True:
            return f"{field}.exactly.adminAccess"
        if request.get("adminAccess") is True:
            return f"{field}.adminAccess"
    return ""


def objection(namespace: str, namespaces: Mapping[str, Namespace]) -> str:
    """Say why a namespace does not allow admin access; empty if it does, or is unknown."""
    known = namespaces.get(namespace)
    if known is None:
        return ""
    value = dict(known.labels).get(LABEL)
    if value == "true":
        return ""
    found = "has no such label" if value is None else f'has the value "{value}", and only "true" in lower case counts'
    return f'adminAccess needs the label {LABEL}: "true" on namespace {namespace}, which {found}'


_INSTEAD: Final = "write a new template with another name, and create the pod again"


def of_claim(claim: Claim, there: Claim | None) -> str:
    """Report a claim that was edited after its creation or allocation; empty for others."""
    if there is not None and there.uid and _spec(there) != _spec(claim):
        return f"differs from the claim in the cluster, and claims are immutable: {_INSTEAD}"
    names = {request.name for request in claim.requests}
    results = claim.allocation.results if claim.allocation is not None else ()
    strangers = sorted({each.request.partition("/")[0] for each in results} - names)
    if strangers and names:
        requests = f"request{'s' if len(strangers) > 1 else ''} {', '.join(strangers)}"
        return f"the allocation is for {requests}, which the spec does not have; claims are immutable: {_INSTEAD}"
    return ""


def claim_of(template: Document) -> Document:
    """Return the claim of a template, under the template's name."""
    body = template.body
    claim = {"kind": "ResourceClaim", "metadata": metadata(body), "spec": spec(body).get("spec", {})}
    return Document(template.source, claim)


def has_same_claim(template: Document, other: Document) -> bool:
    """Whether two templates mean the same, with the API's defaults; one that cannot be decoded is like any other."""
    found = [decoded(Kind.CLAIMS, claim_of(each))[0] for each in (template, other)]
    one, two = (each.value if each is not None else None for each in found)
    return not (isinstance(one, Claim) and isinstance(two, Claim)) or _spec(one) == _spec(two)


def of_template() -> str:
    """Report a template that was edited after its creation."""
    return "differs from the template in the cluster, and templates are immutable: give it another name"


def _spec(claim: Claim) -> tuple[object, ...]:
    config = [(each.source, each.requests, each.driver, json.loads(each.parameters or "{}")) for each in claim.config]
    return claim.requests, claim.constraints, config


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


def readable_error(text: str) -> tuple[str, str]:
    """Split a message of the decoder into the field's path and the error."""
    part = next((each for each in ("spec", "status") if text.startswith(f"{each}: ")), "")
    rest = text.removeprefix(f"{part}: ") if part else text
    message, located, path = rest.rpartition(" - at `$")  # the error may hold a user's text, the path does not
    if not located or not path.endswith("`"):
        message, located, path = rest, "", ""
    path = path.removesuffix("`").removeprefix(".")
    if not part and not located and not _MISSING.search(message):
        named = _FIELD.match(text)
        return (named["field"], _reworded(named["message"])) if named else ("", _reworded(text))
    field = ".".join(each for each in (part, path) if each)
    missing = _MISSING.search(message)
    if missing:
        return ".".join(each for each in (field, missing["name"]) if each), "missing"
    return field.replace("[...]", "[…]"), _reworded(message)


def _reworded(message: str) -> str:
    expected = _EXPECTED.search(message)
    if expected is None:
        return message
    wanted, found = expected["wanted"].split(" | ")[0], expected["found"]
    message = f"expected {_WORDS.get(wanted, wanted)}, got {_WORDS.get(found, found)}"
    return f"{message}: put it in quotes" if wanted == "str" and found in _SCALARS else message


_LONGEST: Final = 200
"""Characters of an unexpected error that are shown."""


def key_of(body: Body) -> str:
    """Return the key of an object as in `Change`."""
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
    """Decode an object; return also field and message of the error."""
    try:
        value = decode(kind, msgspec.json.encode(body))
    except DecodeError as error:
        field, message = readable_error(error.message)
        outer = "" if error.field.startswith("(") else error.field
        return None, ".".join(each for each in (outer, field) if each), message
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        return None, "", f"cannot be read ({type(error).__name__}: {str(error)[:_LONGEST]}): write it as the API has it"
    if isinstance(value, Pod | Claim) and value.invalid:
        return value, *readable_error(value.invalid)
    return value, "", ""


_STORAGE: Final = "storage.k8s.io"
_CURRENT: Final = frozenset({"v1", "v1beta2"})
"""Versions of resource.k8s.io with the shape of v1."""

KINDS: Final[Mapping[tuple[str, str], Kind]] = {
    ("", "Node"): Kind.NODES,
    ("", "Pod"): Kind.PODS,
    ("", "Namespace"): Kind.NAMESPACES,
    (RESOURCE_GROUP, "ResourceSlice"): Kind.SLICES,
    (RESOURCE_GROUP, "DeviceClass"): Kind.CLASSES,
    (RESOURCE_GROUP, "ResourceClaim"): Kind.CLAIMS,
    (RESOURCE_GROUP, "DeviceTaintRule"): Kind.TAINT_RULES,
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
    (DOVETAIL_GROUP, "DeviceHold"): Kind.HOLDS,
    ("dovetail.dev", "DeviceQuota"): Kind.QUOTAS,
}
WORKLOADS: Final = frozenset(
    {
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "CronJob"),
        ("batch", "Job"),
    }
)
WARNINGS: Final[Mapping[tuple[str, str], str]] = {
    ("scheduling.k8s.io", "CompositePodGroup"): "its PodGroups are gangs of their own: they are not decided together",
}
"""Kinds that matter and are not read, with what that means."""
TEMPLATE: Final = (RESOURCE_GROUP, "ResourceClaimTemplate")
READ_BY_ADMISSION: Final = frozenset(
    {
        ("", "LimitRange"),
        ("", "ResourceQuota"),
        ("node.k8s.io", "RuntimeClass"),
        ("scheduling.k8s.io", "PriorityClass"),
    }
)
GROUP_TEMPLATES: Final = ("scheduling.k8s.io", "Workload")

_OURS: Final = {kind: group for group, kind in (*KINDS, *WORKLOADS, *READ_BY_ADMISSION, TEMPLATE)}


def of(body: Body) -> tuple[str, str]:
    """Return an object's API group and kind."""
    group, _, version = text(body.get("apiVersion")).rpartition("/")
    del version
    return group, text(body.get("kind"))


def wrong_version(body: Body) -> str:
    """Report a wrong apiVersion; empty if it is right, or the kind is unknown."""
    api_version, (group, kind) = text(body.get("apiVersion")), of(body)
    expected = group if (group, kind) in KINDS else _OURS.get(kind)
    if expected is None:
        return ""
    version = api_version.rpartition("/")[2]
    newest = f"{expected}/{OWN_VERSION if expected == DOVETAIL_GROUP else 'v1'}" if expected else "v1"
    if group != expected:
        return f"{api_version} has no {kind}: write {newest}" if _is_near(group, expected) else ""
    if group != RESOURCE_GROUP or version in _CURRENT or (kind == "DeviceTaintRule" and version == "v1alpha3"):
        return ""
    return (
        f"{api_version} is an older version with another shape: write {newest}, where a request holds `exactly` "
        "and a device its attributes and capacity without `basic`"
    )


def _is_near(group: str, expected: str) -> bool:
    """Whether an API group is a misspelt group of Kubernetes; other groups may have kinds of the same name."""
    return "." not in group or group.endswith(".k8s.io") or bool(expected and group.endswith(expected))
