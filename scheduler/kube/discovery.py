"""What the API server has of what we read: which kinds, under which paths, and what is missing."""

from typing import Final

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths
from scheduler.kube.client import Client

_NEEDED: Final = "v1"
_TAINT_RULES: Final = ("v1", "v1beta2", "v1alpha3")
"""Versions of DeviceTaintRule that say the same, the newest first."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """
    The kinds to watch with their paths.

    `problem` is a sentence where the server cannot be scheduled on at all, else empty.
    """

    paths: tuple[tuple[Kind, str], ...] = ()
    problem: str = ""

    def has(self, kind: Kind) -> bool:
        """Whether the server has the kind."""
        return any(kind is served for served, _ in self.paths)


async def discover(client: Client) -> Served:
    """Ask the server. Raises KubeError where it does not answer."""
    versions = await client.discover(paths.RESOURCE_GROUP)
    served = served_kinds(versions)
    if not served.problem:
        return served
    version = await client.server_version()
    return Served(problem=f"the API server ({version.git}) {served.problem}")


def served_kinds(versions: tuple[tuple[str, frozenset[str]], ...]) -> Served:
    """Choose by what discovery gave for resource.k8s.io: (version, resources) pairs."""
    by_version = dict(versions)
    resources = by_version.get(_NEEDED, frozenset())
    missing = [kind for kind in (Kind.SLICES, Kind.CLASSES, Kind.CLAIMS) if kind.value not in resources]
    if missing:
        return Served(
            problem=f"does not serve {', '.join(missing)} of {paths.RESOURCE_GROUP}/{_NEEDED}: "
            "Kubernetes 1.34 or newer does, with the API enabled"
        )
    kinds = list(paths.COLLECTIONS.items())
    rules = Kind.TAINT_RULES.value
    version = next((name for name in _TAINT_RULES if rules in by_version.get(name, ())), "")
    if version:
        kinds.append((Kind.TAINT_RULES, paths.collection(paths.RESOURCE_GROUP, version, rules)))
    return Served(paths=tuple(kinds))
