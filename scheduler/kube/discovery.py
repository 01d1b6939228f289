"""Discovery: the version of the API server, the kinds that it serves with their paths, and what it lacks."""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.change import Change, Kind
from scheduler.kube import paths
from scheduler.kube.api_versions import (
    COSCHEDULING_VERSION,
    NEEDED_VERSION,
    POD_GROUP_VERSIONS,
    TAINT_RULE_VERSIONS,
    has_fractional_capacity,
)
from scheduler.kube.client import Client, Version
from scheduler.kube.decode.slices import with_whole_steps
from solver.domain import COSCHEDULING_GROUP, SCHEDULING_GROUP, ResourceSlice

_POD_GROUPS: Final = "podgroups"
_FIRST_ANSWERS: Final = 3
_MOST_ANSWERS: Final = 24
"""From as many old as new servers they come in a row once in millions of times; one in ten seconds: four minutes."""
_WINDOW_SECONDS: Final = 3600.0

Versions = tuple[tuple[str, frozenset[str]], ...]
"""(version, resources) pairs of an API group, the server's preferred version first."""


class DiscoveredKinds(msgspec.Struct, frozen=True, kw_only=True):
    """
    The kinds to watch with their paths, and the server's version; `minor` is 37 for Kubernetes 1.37.

    `problem` is a sentence where required kinds are missing, else empty.
    """

    paths: tuple[tuple[Kind, str], ...] = ()
    problem: str = ""
    minor: int = 0
    git_version: str = ""

    def path(self, kind: Kind) -> str:
        """Return the path of all objects of a kind, "" where the server does not have it."""
        return dict(self.paths).get(kind, "")

    def has(self, kind: Kind) -> bool:
        """Whether the server has the kind."""
        return any(kind is served for served, _ in self.paths)

    @property
    def optional(self) -> dict[str, str]:
        """The paths of the kinds that not every supported server has."""
        return {kind.value: path for kind, path in self.paths if kind not in paths.COLLECTIONS}

    def as_meant(self, changes: Sequence[Change]) -> Sequence[Change]:
        """Return decoded changes as the server's version means them: steps of request policies (KEP-5075)."""
        if has_fractional_capacity(self.minor):
            return changes
        return [
            msgspec.structs.replace(change, value=with_whole_steps(change.value))
            if isinstance(change.value, ResourceSlice)
            else change
            for change in changes
        ]

    def has_same_api(self, other: "DiscoveredKinds") -> bool:
        """Whether both are the same to a scheduler; patch versions may differ."""
        return (self.paths, self.problem, self.minor) == (other.paths, other.problem, other.minor)


async def discover(client: Client) -> DiscoveredKinds:
    """Ask the server. Raises KubeError."""
    version = await client.server_version()
    served = served_kinds(await client.discover(paths.RESOURCE_GROUP), version)
    if served.problem:
        return served
    groups = group_kinds(await client.discover(SCHEDULING_GROUP), await client.discover(COSCHEDULING_GROUP))
    return msgspec.structs.replace(served, paths=(*served.paths, *groups))


def served_kinds(versions: Versions, server: Version) -> DiscoveredKinds:
    """Choose the kinds to watch by the versions of resource.k8s.io."""
    minor = int("".join(each for each in server.minor if each.isdigit()) or 0)  # clouds write 37+
    by_version = dict(versions)
    resources = by_version.get(NEEDED_VERSION, frozenset())
    missing = [kind for kind in (Kind.SLICES, Kind.CLASSES, Kind.CLAIMS) if kind.value not in resources]
    if missing:
        return DiscoveredKinds(
            problem=f"the API server ({server.git}) does not serve {', '.join(missing)} of "
            f"{paths.RESOURCE_GROUP}/{NEEDED_VERSION}: Kubernetes 1.34 or newer does, with the API enabled",
            minor=minor,
            git_version=server.git,
        )
    kinds = list(paths.COLLECTIONS.items())
    rules = Kind.TAINT_RULES.value
    version = next((name for name in TAINT_RULE_VERSIONS if rules in by_version.get(name, ())), "")
    if version:
        kinds.append((Kind.TAINT_RULES, paths.collection(paths.RESOURCE_GROUP, version, rules)))
    return DiscoveredKinds(paths=tuple(kinds), minor=minor, git_version=server.git)


def group_kinds(scheduling: Versions, coscheduling: Versions) -> tuple[tuple[Kind, str], ...]:
    """Choose the PodGroups to watch by the versions of both groups: the newest version that can be decoded."""
    found: list[tuple[Kind, str]] = []
    served = {version for version, resources in scheduling if _POD_GROUPS in resources}
    version = next((each for each in POD_GROUP_VERSIONS if each in served), "")
    if version:
        found.append((Kind.POD_GROUPS, paths.collection(SCHEDULING_GROUP, version, _POD_GROUPS)))
    if any(version == COSCHEDULING_VERSION and _POD_GROUPS in resources for version, resources in coscheduling):
        path = paths.collection(COSCHEDULING_GROUP, COSCHEDULING_VERSION, _POD_GROUPS)
        found.append((Kind.COSCHEDULING_GROUPS, path))
    return tuple(found)


class ApiChange:
    """
    When the API server counts as upgraded or rolled back, after which the scheduler starts again in its process.

    While a rolling upgrade of several API servers lasts, a load balancer lets the old and the new ones answer in turn.
    Some answers in a row that are the same can then be chance. So each new start within the last hour doubles how many
    answers have to be the same.
    """

    def __init__(self) -> None:
        """Begin without a change."""
        self._changes: Final[deque[float]] = deque()
        self._served = self._last = DiscoveredKinds()
        self._count = 0

    def begin(self, served: DiscoveredKinds) -> None:
        """Compare with what the scheduler runs with from now on."""
        self._served = self._last = served
        self._count = 0

    def saw(self, found: DiscoveredKinds, now: float) -> bool:
        """Count an answer; return whether the server serves something else for good."""
        is_same = found.has_same_api(self._served)
        self._count = 0 if is_same else self._count + 1 if found.has_same_api(self._last) else 1
        self._last = found
        if self._count < self._answers(now):
            return False
        self._changes.append(now)
        return True

    def _answers(self, now: float) -> int:
        while self._changes and self._changes[0] <= now - _WINDOW_SECONDS:
            self._changes.popleft()
        return min(_MOST_ANSWERS, _FIRST_ANSWERS << len(self._changes))
