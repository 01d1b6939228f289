"""Looking into manifests that anybody may have written: what is not of the expected type counts as absent.

What the API server would refuse and our decoding alone would not explain: shapes of older versions, mostly.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

Body = dict[str, Any]


def mapping(value: Any) -> Body:
    """Give a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> Iterator[tuple[int, Body]]:
    """Give the mappings of a list with their places in it; nothing for what is no list."""
    for index, each in enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, dict):
            yield index, each


def metadata(body: Body) -> Body:
    """Give an object's metadata."""
    return mapping(body.get("metadata"))


def spec(body: Body) -> Body:
    """Give an object's spec."""
    return mapping(body.get("spec"))


def text(value: Any) -> str:
    """Give a text as it is, anything else as an empty one."""
    return value if isinstance(value, str) else ""


def subject(body: Body) -> str:
    """Name an object as messages do: `Pod ml/trainer`."""
    found = metadata(body)
    name = text(found.get("name")) or text(found.get("generateName")) or "without a name"
    namespace = text(found.get("namespace"))
    return f"{text(body.get('kind')) or 'object'} {namespace + '/' if namespace else ''}{name}"


def without_nulls(body: Body) -> Body:
    """Leave out what is null, which to the API server is the same as absent; opaque parameters stay as they are."""
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


class Wrong(NamedTuple):
    """A field and what to write instead."""

    field: str
    message: str


def of_object(body: Body) -> Iterator[Wrong]:
    """Give what is wrong with the shape of an object of a kind that is read."""
    if not text(metadata(body).get("name")):
        yield Wrong("metadata.name", "missing: write a name")
    match body.get("kind"):
        case "ResourceClaim":
            yield from _of_claim_spec(spec(body), "spec")
        case "ResourceClaimTemplate":
            yield from _of_template(body)
        case "ResourceSlice":
            yield from _of_slice(spec(body))


def _of_template(body: Body) -> Iterator[Wrong]:
    outer = spec(body)
    if "spec" not in outer:
        yield Wrong("spec.spec", "missing: a template holds the claim's spec one level deeper, as spec.spec.devices")
        return
    yield from _of_claim_spec(mapping(outer["spec"]), "spec.spec")


def _of_claim_spec(claim: Body, field: str) -> Iterator[Wrong]:
    """Give what is wrong with a claim's spec that stands at a field."""
    if "requests" in claim:
        yield Wrong(f"{field}.requests", f"requests stand below devices: write {field}.devices.requests")
    for index, request in entries(mapping(claim.get("devices")).get("requests")):
        yield from _of_request(request, f"{field}.devices.requests[{index}]")


def _of_request(request: Body, field: str) -> Iterator[Wrong]:
    if "exactly" in request and "firstAvailable" in request:
        yield Wrong(field, "exactly and firstAvailable exclude each other: keep one of them")
    if "exactly" in request or "firstAvailable" in request:
        return
    flat = [name for name in _FLAT if name in request]
    if not flat:
        yield Wrong(field, "neither exactly nor firstAvailable: write exactly: {deviceClassName: …}")
        return
    name = request.get("deviceClassName", "…")
    yield Wrong(
        f"{field}.{flat[0]}",
        f"stands below `exactly` in resource.k8s.io/v1: write exactly: {{deviceClassName: {name}}}, "
        "with selectors and count inside it too",
    )


def _of_slice(slice_spec: Body) -> Iterator[Wrong]:
    if "pool" not in slice_spec:
        name = text(slice_spec.get("nodeName")) or "…"
        yield Wrong("spec.pool", f"missing: write pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}")
    if not any(slice_spec.get(name) for name in _SCOPES) and "sharedCounters" not in slice_spec:
        yield Wrong("spec", f"says of no node that it can use the devices: write one of {', '.join(_SCOPES)}")
    for index, device in entries(slice_spec.get("devices")):
        yield from _of_device(device, f"spec.devices[{index}]")


def _of_device(device: Body, field: str) -> Iterator[Wrong]:
    if "basic" in device:
        message = "resource.k8s.io/v1 has no `basic`: write attributes and capacity on the device itself"
        yield Wrong(f"{field}.basic", message)
    for name, value in mapping(device.get("attributes")).items():
        kind = _TYPES.get(type(value))
        if kind:
            shown = str(value).lower() if isinstance(value, bool) else value
            yield Wrong(f"{field}.attributes[{name}]", f"a bare value: write {name}: {{{kind}: {shown}}}")
    for name, value in mapping(device.get("capacity")).items():
        if isinstance(value, str | int | float):
            yield Wrong(f"{field}.capacity[{name}]", f"a bare quantity: write {name}: {{value: {value}}}")
