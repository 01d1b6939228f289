"""
Writes the fields and types of the API: `scheduler/simulation/manifests/api_schema.json`, part of the wheel.

`make api-schema`, after a new version or patch in `go/*.mod`. The sources are the OpenAPI documents in the Go module of
each Kubernetes (`api/openapi-spec/v3`), of which the kinds that manifests are read of are kept.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from e2e.controlplane import versions
from e2e.controlplane.build import SOURCE, BuildError, environment, go_command, release
from scheduler.simulation.manifests.api_schema import FILE

GROUPS: Final = ("", "apps", "batch", "node.k8s.io", "policy", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io")
KINDS: Final = {
    *("Pod", "Node", "Namespace", "PersistentVolume", "PersistentVolumeClaim", "ReplicationController"),
    *("LimitRange", "ResourceQuota", "RuntimeClass", "PriorityClass", "PodDisruptionBudget"),
    *("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"),
    *("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule"),
    *("PodGroup", "Workload", "CompositePodGroup"),
    *("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
}
_SCALARS: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
}
_PREFIX: Final = "#/components/schemas/"

Schemas = dict[str, dict[str, Any]]


def module_folder(kubernetes: str) -> Path:
    """Return the folder of k8s.io/kubernetes of a minor version, fetched if need be. Raise BuildError."""
    command = [*go_command(), "mod", "download", "-json", f"-modfile={SOURCE / kubernetes}.mod", "k8s.io/kubernetes"]
    done = subprocess.run(command, cwd=SOURCE, env=environment(), capture_output=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"go mod download ended with status {done.returncode}:\n{done.stderr.decode()}")
    return Path(json.loads(done.stdout)["Dir"])


def fields_of(kubernetes: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the type of each kind (`v1/Pod`), and the fields of each type, of a minor version."""
    kinds: dict[str, str] = {}
    types: dict[str, dict[str, str]] = {}
    for schemas in _documents(module_folder(kubernetes)):
        for name, schema in schemas.items():
            for each in schema.get("x-kubernetes-group-version-kind", ()):
                if each["group"] in GROUPS and each["kind"] in KINDS:
                    group = f"{each['group']}/" if each["group"] else ""
                    kinds[f"{group}{each['version']}/{each['kind']}"] = _short(name)
                    _add(name, schemas, types)
    return kinds, types


def _documents(folder: Path) -> Iterator[Schemas]:
    for group in GROUPS:
        pattern = f"apis__{group}__v*_openapi.json" if group else "api__v1_openapi.json"
        for path in sorted((folder / "api" / "openapi-spec" / "v3").glob(pattern)):
            yield json.loads(path.read_bytes())["components"]["schemas"]


def _add(name: str, schemas: Schemas, types: dict[str, dict[str, str]]) -> None:
    """Add a type and those that it leads to."""
    if _short(name) in types or name in _SCALARS:
        return
    fields = types[_short(name)] = {}
    for field, schema in schemas[name].get("properties", {}).items():
        fields[field], used = _reference(schema)
        if used:
            _add(used, schemas, types)


def _reference(schema: Mapping[str, Any]) -> tuple[str, str]:
    """Return a field's type as the file has it, and the name of the schema that it leads to ("" without one)."""
    if "allOf" in schema:
        return _reference(schema["allOf"][0])
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_PREFIX)
        return _SCALARS.get(name, _short(name)), name
    if schema["type"] == "array":
        inner, used = _reference(schema["items"])
        return f"[]{inner}", used
    if schema["type"] == "object":
        inner, used = _reference(schema["additionalProperties"])
        return f"{{}}{inner}", used
    return schema.get("format", "int64") if schema["type"] == "integer" else schema["type"], ""


def _short(name: str) -> str:
    return name.removeprefix("io.k8s.").removeprefix("api.").replace("apimachinery.pkg.apis.", "")


def generated() -> bytes:
    """Return the file: each kind and field with its type, and the minor versions that have it. Raise BuildError."""
    found = {each: fields_of(each) for each in versions.SUPPORTED}
    kinds: dict[str, dict[str, list[int]]] = {}
    types: dict[str, dict[str, dict[str, list[int]]]] = {}
    for kubernetes, (own_kinds, own_types) in found.items():
        minor = versions.minor(kubernetes)
        for kind, name in own_kinds.items():
            kinds.setdefault(kind, {}).setdefault(name, []).append(minor)
        for name, fields in own_types.items():
            for field, reference in fields.items():
                types.setdefault(name, {}).setdefault(field, {}).setdefault(reference, []).append(minor)
            types.setdefault(name, {})
    document = {
        "releases": {each: release(each) for each in versions.SUPPORTED},
        "kinds": {kind: _spans(by_type) for kind, by_type in sorted(kinds.items())},
        "types": {
            name: {field: _spans(by_type) for field, by_type in sorted(fields.items())}
            for name, fields in sorted(types.items())
        },
    }
    lines = json.dumps(document["types"], separators=(",", ":")).replace("},", "},\n")
    rest = {name: value for name, value in document.items() if name != "types"}
    return f'{json.dumps(rest, separators=(",", ":"))[:-1]},\n"types":{lines}}}\n'.encode()


def _spans(by_type: Mapping[str, list[int]]) -> str:
    """Return the types with the versions that have them: `string`, or `string 35-36|[]string 37-37`."""
    every = [versions.minor(each) for each in versions.SUPPORTED]
    if list(by_type.values()) == [every]:
        return next(iter(by_type))
    return "|".join(f"{reference} {minors[0]}-{minors[-1]}" for reference, minors in by_type.items())


def main() -> None:
    """Write the file."""
    FILE.write_bytes(generated())
    print(FILE)


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(str(error))
