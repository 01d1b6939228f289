"""
Discovery: the version of the API server, the kinds that it serves with their paths, and what it lacks.

`discover_permitted` leaves out what the scheduler's account has no rights for (`scheduler.features`). `until_changed`
says when all of this is out of date: another API, another cluster, or etcd restored from a backup.
"""

import asyncio
import contextlib
import re
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Self

import msgspec

from scheduler.change import Change, Kind, is_older
from scheduler.features import KINDS, RIGHTS, Feature, MissingFeature, Right
from scheduler.kube import paths
from scheduler.kube.api_versions import (
    COSCHEDULING_VERSION,
    NEEDED_VERSION,
    OWN_VERSION,
    POD_GROUP_VERSIONS,
    TAINT_RULE_VERSIONS,
    has_fractional_capacity,
)
from scheduler.kube.client import Client, Version
from scheduler.kube.decode.slices import with_whole_steps
from scheduler.kube.errors import DecodeError, Forbidden, KubeError
from solver.domain import COSCHEDULING_GROUP, DOVETAIL_GROUP, SCHEDULING_GROUP, ResourceSlice

_POD_GROUPS: Final = "podgroups"
_PERIOD_SECONDS: Final = 10.0
"""How often the server is asked whether it has changed."""
_REVIEWS: Final = paths.collection("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_REVIEW_SECONDS: Final = 5.0
_FIRST_ANSWERS: Final = 3
_MOST_ANSWERS: Final = 24
"""From as many old as new servers they come in a row once in millions of times; one in ten seconds: four minutes."""
_WINDOW_SECONDS: Final = 3600.0
_SETTLED_SECONDS: Final = _MOST_ANSWERS * _PERIOD_SECONDS
"""After so long without an answer of another version no upgrade of the API servers runs."""
_MINOR_DIGITS: Final = 6

Versions = tuple[tuple[str, frozenset[str]], ...]
"""(version, resources) pairs of an API group, the server's preferred version first."""


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status


class DiscoveredKinds(msgspec.Struct, frozen=True, kw_only=True):
    """
    The kinds to watch with their paths, and the server's version; `minor` is 37 for Kubernetes 1.37.

    `problem` is a sentence where required kinds are missing, else empty. `missing` are features that the scheduler's
    account lacks rights for (`discover_permitted`); their kinds are not among `paths`.
    """

    paths: tuple[tuple[Kind, str], ...] = ()
    problem: str = ""
    missing: tuple[MissingFeature, ...] = ()
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

    def lacks(self, feature: Feature) -> bool:
        """Whether the account lacks a right for a feature."""
        return any(each.feature is feature for each in self.missing)

    def has_same_api(self, other: "DiscoveredKinds") -> bool:
        """Whether both are the same to a scheduler; patch versions may differ."""
        return (self.paths, self.problem, self.missing, self.minor) == (
            other.paths,
            other.problem,
            other.missing,
            other.minor,
        )


async def discover(client: Client) -> DiscoveredKinds:
    """Ask the server. Raises KubeError."""
    version, resources, scheduling, coscheduling, own = await asyncio.gather(
        client.server_version(),
        client.discover(paths.RESOURCE_GROUP),
        client.discover(SCHEDULING_GROUP),
        client.discover(COSCHEDULING_GROUP),
        client.discover(DOVETAIL_GROUP),
    )
    served = served_kinds(resources, version)
    if served.problem:
        return served
    groups = group_kinds(scheduling, coscheduling)
    return msgspec.structs.replace(served, paths=(*served.paths, *groups, *own_kinds(own)))


async def discover_permitted(client: Client, asked: Collection[Feature] = tuple(Feature)) -> DiscoveredKinds:
    """
    Return what the server serves, without the kinds of features that the account lacks a right for.

    Only the rights of the features in `asked` are looked at. Raise `KubeError`.
    """
    served = await discover(client)
    found = await asyncio.gather(*(_lacking(client, served, each) for each in asked))
    missing = tuple(each for each in found if each.rights)
    unwatched = {kind for each in missing for kind in KINDS[each.feature]}
    watched = tuple(each for each in served.paths if each[0] not in unwatched)
    return msgspec.structs.replace(served, paths=watched, missing=missing)


async def _lacking(client: Client, served: DiscoveredKinds, feature: Feature) -> MissingFeature:
    rights = [each for each in RIGHTS[feature] if each.kind is None or served.has(each.kind)]
    allowed = await asyncio.gather(*(_is_allowed(client, each) for each in rights))
    return MissingFeature(feature, tuple(each for each, is_there in zip(rights, allowed, strict=True) if not is_there))


async def _is_allowed(client: Client, right: Right) -> bool:
    """Whether the account has a right. One that may not even ask counts as allowed: then the request itself says it."""
    resource, _, subresource = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await client.request("POST", _REVIEWS, body=msgspec.json.encode(body), timeout_seconds=_REVIEW_SECONDS)
        return msgspec.json.decode(answer, type=_Review).status.allowed
    except Forbidden:
        return True
    except msgspec.MsgspecError as error:
        raise DecodeError("SelfSubjectAccessReview", _REVIEWS, "status", str(error)) from error


def served_kinds(versions: Versions, server: Version) -> DiscoveredKinds:
    """Choose the kinds to watch by the versions of resource.k8s.io."""
    minor = int("".join(re.findall("[0-9]", server.minor))[:_MINOR_DIGITS] or 0)  # clouds write 37+
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


def own_kinds(versions: Versions) -> tuple[tuple[Kind, str], ...]:
    """
    Choose Dovetail's own kinds to watch, where their CRDs are installed.

    Of several versions the known one is taken, else the one that the server prefers: it is read as far as it is known.
    """
    found: list[tuple[Kind, str]] = []
    for kind in (Kind.HOLDS, Kind.QUOTAS):
        served = [version for version, resources in versions if kind.value in resources]
        if served:
            version = OWN_VERSION if OWN_VERSION in served else served[0]
            found.append((kind, paths.collection(DOVETAIL_GROUP, version, kind.value)))
    return tuple(found)


class _Metadata(msgspec.Struct):
    uid: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Objects(msgspec.Struct):
    metadata: _Metadata
    items: list[_Object] = []


_IDENTIFY_SECONDS: Final = 5.0
_LEAST_BUMP: Final = 100_000_000
"""More revisions than a cluster makes between two looks at it."""
_REVISION_DIGITS: Final = 20


class ClusterIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The uid of the namespace kube-system, which identifies the cluster, and etcd's present revision."""

    uid: str
    revision: str

    def contradiction(self, before: "ClusterIdentity") -> str:
        """Say why what was listed before says nothing about the cluster as it is now; empty where it does."""
        if self.uid and before.uid and self.uid != before.uid:
            return f"it is another cluster: the uid of kube-system is {self.uid}, and was {before.uid}"
        if _is_bumped(before.revision, self.revision):
            return f"etcd was restored: its revision went on from {before.revision} to {self.revision}"
        if is_older(self.revision, before.revision):
            return f"etcd was restored: its revision went back from {before.revision} to {self.revision}"
        return ""

    def kinds_ahead(self, newest: Mapping[Kind, str]) -> set[Kind]:
        """Return the kinds of which a version is known that this etcd has not reached."""
        return {kind for kind, version in newest.items() if is_older(self.revision, version)}

    def advanced(self, newest: Mapping[Kind, str]) -> Self:
        """Return the same identity at the newest revision that is known."""
        revision = self.revision
        for version in newest.values():
            revision = version if is_older(revision, version) else revision
        return msgspec.structs.replace(self, revision=revision)


def _is_bumped(before: str, after: str) -> bool:
    """Whether `etcdutl snapshot restore --bump-revision` (etcd advises a billion) lies between two revisions."""
    are_integers = all(each.isdecimal() and len(each) < _REVISION_DIGITS for each in (before, after))
    return are_integers and int(after) - int(before) > _LEAST_BUMP


async def identify(client: Client) -> ClusterIdentity:
    """Ask for the identity by a list, which needs no right that the watches do not need. Raises KubeError."""
    query = {"fieldSelector": "metadata.name=kube-system"}
    path = paths.COLLECTIONS[Kind.NAMESPACES]
    body = await client.request("GET", path, query=query, timeout_seconds=_IDENTIFY_SECONDS)
    try:
        found = msgspec.json.decode(body, type=_Objects)
    except msgspec.MsgspecError as error:
        raise DecodeError(Kind.NAMESPACES.value, "kube-system", "(whole answer)", str(error)) from error
    uid = found.items[0].metadata.uid if found.items else ""
    return ClusterIdentity(uid=uid, revision=found.metadata.version)


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
        self._differed_at = float("-inf")

    def begin(self, served: DiscoveredKinds) -> None:
        """Compare with what the scheduler runs with from now on."""
        self._served = self._last = served
        self._count = 0

    def saw(self, found: DiscoveredKinds, now: float) -> bool:
        """Count an answer; return whether the server serves something else for good."""
        is_same = found.has_same_api(self._served)
        self._count = 0 if is_same else self._count + 1 if found.has_same_api(self._last) else 1
        if found.git_version != self._last.git_version:
            self._differed_at = now
        self._last = found
        if self._count < self._answers(now):
            return False
        self._changes.append(now)
        return True

    def is_under_way(self, now: float) -> bool:
        """Whether servers of two versions have answered lately, patch versions included."""
        return now - self._differed_at < _SETTLED_SECONDS

    def _answers(self, now: float) -> int:
        while self._changes and self._changes[0] <= now - _WINDOW_SECONDS:
            self._changes.popleft()
        return min(_MOST_ANSWERS, _FIRST_ANSWERS << len(self._changes))


async def until_changed(client: Client, served: DiscoveredKinds, api_change: ApiChange) -> str:
    """
    Return what has changed when what was discovered before may not be used any more.

    That is other kinds, versions or rights than those `served`; see `ApiChange`.
    """
    api_change.begin(served)
    while True:
        await asyncio.sleep(_PERIOD_SECONDS)
        with contextlib.suppress(KubeError):
            found = await discover_permitted(client, [each.feature for each in served.missing])
            if api_change.saw(found, time.monotonic()):
                return _difference(served, found)


def _difference(served: DiscoveredKinds, found: DiscoveredKinds) -> str:
    if found.missing != served.missing:
        return "the scheduler's account has got rights that it lacked"
    return f"the API server is {found.git_version} now, and was {served.git_version}"
