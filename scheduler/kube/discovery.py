"""Discovery: which kinds the API server has, under which paths, and which required ones are missing."""

from typing import Final

import msgspec

from scheduler.change import Kind
from scheduler.kube import paths
from scheduler.kube.client import Client
from solver.domain import COSCHEDULING_GROUP, SCHEDULING_GROUP

_NEEDED: Final = "v1"
_POD_GROUPS: Final = "podgroups"
_OTHER_SHAPE: Final = frozenset({"v1alpha1"})
"""Versions of scheduling.k8s.io before PodGroups were objects of their own (Kubernetes 1.35)."""
_COSCHEDULING_VERSIONS: Final = frozenset({"v1alpha1"})
_TAINT_RULES: Final = ("v1", "v1beta2", "v1alpha3")
"""Versions of DeviceTaintRule with the same fields, the newest first."""


Versions = tuple[tuple[str, frozenset[str]], ...]
"""(version, resources) pairs of an API group, the server's preferred version first."""


class DiscoveredKinds(msgspec.Struct, frozen=True, kw_only=True):
    """
    The kinds to watch with their paths.

    `problem` is a sentence where required kinds are missing, else empty.
    """

    paths: tuple[tuple[Kind, str], ...] = ()
    problem: str = ""

    def path(self, kind: Kind) -> str:
        """Return the path of all objects of a kind, "" where the server does not have it."""
        return dict(self.paths).get(kind, "")

    def has(self, kind: Kind) -> bool:
        """Whether the server has the kind."""
        return any(kind is served for served, _ in self.paths)


async def discover(client: Client) -> DiscoveredKinds:
    """Ask the server. Raises KubeError."""
    versions = await client.discover(paths.RESOURCE_GROUP)
    served = served_kinds(versions)
    if not served.problem:
        groups = group_kinds(await client.discover(SCHEDULING_GROUP), await client.discover(COSCHEDULING_GROUP))
        return DiscoveredKinds(paths=(*served.paths, *groups))
    version = await client.server_version()
    return DiscoveredKinds(problem=f"the API server ({version.git}) {served.problem}")


def served_kinds(versions: tuple[tuple[str, frozenset[str]], ...]) -> DiscoveredKinds:
    """Choose the kinds to watch by the versions of resource.k8s.io."""
    by_version = dict(versions)
    resources = by_version.get(_NEEDED, frozenset())
    missing = [kind for kind in (Kind.SLICES, Kind.CLASSES, Kind.CLAIMS) if kind.value not in resources]
    if missing:
        return DiscoveredKinds(
            problem=f"does not serve {', '.join(missing)} of {paths.RESOURCE_GROUP}/{_NEEDED}: "
            "Kubernetes 1.34 or newer does, with the API enabled"
        )
    kinds = list(paths.COLLECTIONS.items())
    rules = Kind.TAINT_RULES.value
    version = next((name for name in _TAINT_RULES if rules in by_version.get(name, ())), "")
    if version:
        kinds.append((Kind.TAINT_RULES, paths.collection(paths.RESOURCE_GROUP, version, rules)))
    return DiscoveredKinds(paths=tuple(kinds))


def group_kinds(scheduling: Versions, coscheduling: Versions) -> tuple[tuple[Kind, str], ...]:
    """Choose the PodGroups to watch by the versions of both groups; the server's preferred version wins."""
    found: list[tuple[Kind, str]] = []
    own = [version for version, resources in scheduling if _POD_GROUPS in resources and version not in _OTHER_SHAPE]
    if own:
        found.append((Kind.POD_GROUPS, paths.collection(SCHEDULING_GROUP, own[0], _POD_GROUPS)))
    other = [version for version, resources in coscheduling if _POD_GROUPS in resources]
    if _COSCHEDULING_VERSIONS & set(other):
        path = paths.collection(COSCHEDULING_GROUP, "v1alpha1", _POD_GROUPS)
        found.append((Kind.COSCHEDULING_GROUPS, path))
    return tuple(found)
