r"""
Objects as the API server serves them: with its metadata and managed fields, as Go writes JSON.

Go escapes `<`, `>`, `&`, U+2028 and U+2029 as six characters, so that a text may be six times as long as its bytes in
etcd. Parts that no Python value can hold (nested too deep, lone surrogates) stand in manifests as `msgspec.Raw`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

Manifest = dict[str, Any]
_TIME: Final = "2026-01-01T00:00:00Z"
_ESCAPED: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("containers", "initContainers", "ephemeralContainers", "env", "volumes"), ("name",)),
    **dict.fromkeys(("resourceClaims", "claims", "schedulingGates", "imagePullSecrets", "drivers"), ("name",)),
    "resourceClaimStatuses": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "reservedFor": ("uid",),
    "hostAliases": ("ip",),
}
"""Lists of which managed fields track each entry, by their keys."""
_ATOMIC: Final = frozenset({"ownerReferences", "imagePullSecrets"})
"""Lists of which each entry is tracked, and none of its fields."""
_LONG: Final = 1_000
_DROPPED: Final = frozenset({"env", "volumeMounts", "volumes", "schedulingGates", "conditions", "requests", "limits"})
"""Of longer ones Kubernetes 1.37 keeps no managed fields; found by asking it."""
_SETS: Final = frozenset({"finalizers"})
_WHOLE: Final = frozenset({"nodeSelector", "labelSelector", "selector", "namespaceSelector", "nodeTopology"})
"""Mappings that managed fields track as one."""
_SERVERS_OWN: Final = frozenset({"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"})


def served(manifest: Mapping[str, Any], version: int = 1) -> Manifest:
    """Add what the API server adds to metadata; managed fields only where the manifest has none."""
    metadata = dict(manifest["metadata"])
    metadata = {
        "name": metadata.pop("name"),
        **({"namespace": metadata.pop("namespace")} if "namespace" in metadata else {}),
        "uid": "4b1f0c1e-0000-4000-8000-000000000000",
        "resourceVersion": str(version),
        "generation": metadata.pop("generation", 1),
        "creationTimestamp": _TIME,
        **metadata,
    }
    if "managedFields" not in metadata:
        metadata["managedFields"] = [managed(tracked(manifest))]
    return {**manifest, "metadata": metadata}


def managed(fields: object) -> Manifest:
    """Make an entry of managed fields."""
    return {
        "manager": "a",
        "operation": "Update",
        "apiVersion": "v1",
        "time": _TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def tracked(manifest: Mapping[str, Any]) -> Manifest:
    """Return the fields that the API server tracks of a manifest."""
    found: Manifest = {}
    for name, value in manifest.items():
        if name in ("apiVersion", "kind"):
            continue
        own = {each: item for each, item in value.items() if each not in _SERVERS_OWN} if name == "metadata" else value
        found[f"f:{name}"] = _tracked(own, name)
    return found


def _tracked(value: Any, name: str) -> Manifest:
    if name in _DROPPED and len(value) > _LONG:
        return {}
    if isinstance(value, Mapping) and name not in _WHOLE:
        return {f"f:{key}": _tracked(each, key) for key, each in value.items()}
    if isinstance(value, list) and name in _SETS:
        return {".": {}, **{f"v:{json.dumps(each)}": {} for each in value}}
    if isinstance(value, list) and name in _KEYS and all(isinstance(each, Mapping) for each in value):
        if name in _ATOMIC:
            return {".": {}, **{_key(each, _KEYS[name]): {} for each in value}}
        return {".": {}, **{_key(each, _KEYS[name]): {".": {}, **_tracked(each, "")} for each in value}}
    return {}


def _key(entry: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return "k:" + json.dumps({each: entry.get(each) for each in keys}, separators=(",", ":"))


def written(manifest: Mapping[str, Any]) -> bytes:
    """Write JSON as Go does."""
    text = msgspec.json.encode(manifest)
    for plain, escaped in _ESCAPED:
        text = text.replace(plain, escaped)
    return text


def event(manifest: Mapping[str, Any], kind: str = "MODIFIED") -> bytes:
    """Write a line of a watch."""
    return b'{"type":"' + kind.encode() + b'","object":' + written(manifest) + b"}\n"


def page(items: list[bytes]) -> bytes:
    """Write a page of a list."""
    return b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[' + b",".join(items) + b"]}\n"
