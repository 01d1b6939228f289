"""
The fields and types of the API's objects, of each supported Kubernetes, as its OpenAPI documents have them.

`api_schema.json` is generated (`make api-schema`). A type is a scalar, the name of an object, `[]` in front of what a
list holds, or `{}` in front of the values of a map with free keys.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).with_suffix(".json")


class ApiSchema(msgspec.Struct, frozen=True):
    """The file: types of kinds (`resource.k8s.io/v1/ResourceSlice`), and of fields; `releases` are their sources."""

    releases: dict[str, str]
    kinds: dict[str, str]
    types: dict[str, dict[str, str]]

    def served(self, kind: str, minor: int) -> int:
        """Return the minor version that is nearest to a server's among those that have a kind (`v1/Pod`)."""
        known = [int(each.partition(".")[2]) for each in self.releases]
        with_kind = [each for each in known if self.kind(kind, each)]
        return min(with_kind or known, key=lambda each: abs(each - minor))

    def kind(self, kind: str, minor: int) -> str:
        """Return the type of a kind, "" where the version has none."""
        return in_version(self.kinds.get(kind, ""), minor)

    def field(self, type_name: str, name: str, minor: int) -> str:
        """Return the type of a field, "" where the version has none."""
        return in_version(self.types.get(type_name, {}).get(name, ""), minor)

    def fields(self, type_name: str, minor: int) -> Mapping[str, str]:
        """Return the fields of a type in a version."""
        found = {name: in_version(spans, minor) for name, spans in self.types.get(type_name, {}).items()}
        return {name: reference for name, reference in found.items() if reference}

    def minors(self, type_name: str, name: str) -> tuple[int, int]:
        """Return the first and the last minor version that have a field which not all have."""
        spans = [each.rpartition(" ")[2].split("-") for each in self.types[type_name][name].split("|")]
        return int(spans[0][0]), int(spans[-1][1])


def in_version(spans: str, minor: int) -> str:
    """Return the type of `string`, or of `string 35-36|[]string 37-37`, in a version; "" where it has none."""
    for each in spans.split("|"):
        reference, space, span = each.partition(" ")
        first, _, last = span.partition("-")
        if not space or int(first) <= minor <= int(last):
            return reference
    return ""


_COSCHEDULING: Final = {
    "coscheduling.PodGroup": {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "meta.v1.ObjectMeta",
        "spec": "coscheduling.PodGroupSpec",
        "status": "any",
    },
    "coscheduling.PodGroupSpec": {
        "minMember": "int32",
        "minResources": "{}quantity",
        "scheduleTimeoutSeconds": "int32",
    },
}
"""The types of scheduling.x-k8s.io/v1alpha1, a custom resource of the coscheduling plugin."""


@cache
def load() -> ApiSchema:
    """Read the file, once."""
    found = msgspec.json.decode(FILE.read_bytes(), type=ApiSchema)
    found.kinds["scheduling.x-k8s.io/v1alpha1/PodGroup"] = "coscheduling.PodGroup"
    found.types.update(_COSCHEDULING)
    return found
