"""
Safe access to manifests of any content: a value of an unexpected type counts as absent.

Also reports shapes that the API server refuses and that the decoder would not explain, mostly those of older versions.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeGuard

from solver.domain import MAX_COMPATIBILITY_GROUPS

Body = dict[str, Any]


def mapping(value: Any) -> Body:
    """Return a mapping unchanged, anything else as an empty mapping."""
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> Iterator[tuple[int, Body]]:
    """Return the mappings in a list with their positions; nothing if it is not a list."""
    for index, each in enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, dict):
            yield index, each


def texts(value: Any) -> list[str]:
    """Return the items of a list as texts, none of anything else; where they are none, strict validation says so."""
    return [str(each) for each in value] if isinstance(value, list) else []


def metadata(body: Body) -> Body:
    """Return an object's metadata."""
    return mapping(body.get("metadata"))


def spec(body: Body) -> Body:
    """Return an object's spec."""
    return mapping(body.get("spec"))


def text(value: Any) -> str:
    """Return a string unchanged, anything else as an empty string."""
    return value if isinstance(value, str) else ""


def is_number(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def subject(body: Body) -> str:
    """Name an object as messages do: `Pod ml/trainer`."""
    found = metadata(body)
    name = text(found.get("name")) or text(found.get("generateName")) or "without a name"
    namespace = text(found.get("namespace"))
    return f"{text(body.get('kind')) or 'object'} {namespace + '/' if namespace else ''}{name}"


def without_nulls(body: Body) -> Body:
    """Remove null values, which the API server treats as absent; opaque parameters stay unchanged."""
    found: Body = {}
    for key, value in body.items():
        if isinstance(value, dict) and key != "parameters":
            found[key] = without_nulls(value)
        elif isinstance(value, list):
            found[key] = [without_nulls(each) if isinstance(each, dict) else each for each in value]
        elif value is not None:
            found[key] = value
    return found


_FLAT: Final = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations")
_SCOPES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_TYPES: Final = {bool: "bool", int: "int", str: "string"}


_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_NAME: Final = re.compile(_LABEL)
_SUBDOMAIN_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_LABEL, _LONGEST_NAME = 63, 253
_SHOWN: Final = 80
"""Characters of a wrong name that are shown."""


_OF_CLUSTERS: Final = frozenset(
    {
        *("DeviceClass", "DeviceTaintRule", "PersistentVolume", "PriorityClass", "ResourceSlice", "StorageClass"),
        *("CSINode", "CSIDriver", "VolumeAttachment", "RuntimeClass", "Namespace", "DeviceHold"),
    }
)
"""Kinds whose namespace the API server does not look at."""


class FieldError(NamedTuple):
    """A field and what to write instead."""

    field: str
    message: str


def of_object(body: Body) -> Iterator[FieldError]:
    """Return the errors in the shape of an object."""
    name, namespace = (text(metadata(body).get(each)) for each in ("name", "namespace"))
    if not name:
        yield FieldError("metadata.name", "missing: write a name")
    elif body.get("kind") == "Namespace":
        yield from _of_label(name, "metadata.name")
    elif body.get("kind") == "PodDisruptionBudget":
        if "/" in name or "%" in name:  # any other name is taken
            yield FieldError("metadata.name", f"{name[:_SHOWN]!r}: leave out / and %")
    elif len(name) > _LONGEST_NAME or _SUBDOMAIN_NAME.fullmatch(name) is None:
        yield FieldError("metadata.name", _no_name(name, _LONGEST_NAME, "a-z, 0-9, - and ."))
    if namespace and body.get("kind") not in _OF_CLUSTERS:
        yield from _of_label(namespace, "metadata.namespace")
    match body.get("kind"):
        case "ResourceClaim":
            yield from _of_claim_spec(spec(body), "spec")
        case "ResourceClaimTemplate":
            yield from _of_template(body)
        case "ResourceSlice":
            yield from _of_slice(spec(body))


def _of_label(name: str, field: str) -> Iterator[FieldError]:
    """Return the error of a name that cannot be that of a namespace."""
    if len(name) > _LONGEST_LABEL or _LABEL_NAME.fullmatch(name) is None:
        yield FieldError(field, _no_name(name, _LONGEST_LABEL, "a-z, 0-9 and -"))


def _no_name(name: str, longest: int, characters: str) -> str:
    if len(name) > longest:
        return f"has {len(name)} characters: write at most {longest}"
    return f"{name[:_SHOWN]!r}: write only {characters}, with a letter or digit at both ends"


def _of_template(body: Body) -> Iterator[FieldError]:
    outer = spec(body)
    if "spec" not in outer:
        yield FieldError(
            "spec.spec", "missing: a template holds the claim's spec one level deeper, as spec.spec.devices"
        )
        return
    yield from _of_claim_spec(mapping(outer["spec"]), "spec.spec")


def _of_claim_spec(claim: Body, field: str) -> Iterator[FieldError]:
    """Return the errors in the shape of a claim's spec; `field` is its path."""
    if "requests" in claim:
        yield FieldError(f"{field}.requests", f"requests stand below devices: write {field}.devices.requests")
    for index, request in entries(mapping(claim.get("devices")).get("requests")):
        yield from _of_request(request, f"{field}.devices.requests[{index}]")


def _of_request(request: Body, field: str) -> Iterator[FieldError]:
    if "exactly" in request and "firstAvailable" in request:
        yield FieldError(field, "exactly and firstAvailable exclude each other: keep one of them")
    if "exactly" in request or "firstAvailable" in request:
        return
    flat = [name for name in _FLAT if name in request]
    if not flat:
        yield FieldError(field, "neither exactly nor firstAvailable: write exactly: {deviceClassName: …}")
        return
    name = request.get("deviceClassName", "…")
    yield FieldError(
        f"{field}.{flat[0]}",
        f"stands below `exactly` in resource.k8s.io/v1: write exactly: {{deviceClassName: {name}}}, "
        "with selectors and count inside it too",
    )


def _of_slice(slice_spec: Body) -> Iterator[FieldError]:
    if "pool" not in slice_spec:
        name = text(slice_spec.get("nodeName")) or "…"
        yield FieldError("spec.pool", f"missing: write pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}")
    if not any(slice_spec.get(name) for name in _SCOPES) and "sharedCounters" not in slice_spec:
        yield FieldError("spec", f"says of no node that it can use the devices: write one of {', '.join(_SCOPES)}")
    for index, device in entries(slice_spec.get("devices")):
        yield from _of_device(device, f"spec.devices[{index}]")


def _of_device(device: Body, field: str) -> Iterator[FieldError]:
    if "basic" in device:
        message = "resource.k8s.io/v1 has no `basic`: write attributes and capacity on the device itself"
        yield FieldError(f"{field}.basic", message)
    for name, value in mapping(device.get("attributes")).items():
        kind = _TYPES.get(type(value))
        if kind:
            shown = str(value).lower() if isinstance(value, bool) else value
            yield FieldError(f"{field}.attributes[{name}]", f"a bare value: write {name}: {{{kind}: {shown}}}")
    for name, value in mapping(device.get("capacity")).items():
        if isinstance(value, str | int | float):
            yield FieldError(f"{field}.capacity[{name}]", f"a bare quantity: write {name}: {{value: {value}}}")
    for index, drawn in entries(device.get("consumesCounters")):
        groups = drawn.get("compatibilityGroups")
        if isinstance(groups, list) and (
            len(groups) > MAX_COMPATIBILITY_GROUPS or len(set(map(str, groups))) < len(groups)
        ):
            message = f"at most {MAX_COMPATIBILITY_GROUPS} groups, each named once"
            yield FieldError(f"{field}.consumesCounters[{index}].compatibilityGroups", message)
