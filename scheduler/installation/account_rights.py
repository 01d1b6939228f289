"""
Which rights the scheduler's account lacks, as the API server's authorizer says (SubjectAccessReview).

Asking needs the right to create these reviews, which administrators have. The scheduler itself asks at its start for
the rights of features (`scheduler.kube.discovery`).
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.change import Kind
from scheduler.features import BASE, BY_RIGHTS, CONSEQUENCES, RIGHTS, STATUS_RIGHTS, TITLES, Feature, Right
from scheduler.kube import discovery, paths
from scheduler.kube.client import Client
from scheduler.kube.errors import DecodeError, Forbidden

_REVIEWS: Final = paths.collection("authorization.k8s.io", "v1", "subjectaccessreviews")
_REVIEW_SECONDS: Final = 5.0
_AT_ONCE: Final = 16
_MOST_NAMED: Final = 3
"""Rights that a sentence names."""


class InstallationName(NamedTuple):
    """Where an installation is: the namespace of its pods, and namespace and name of its Lease."""

    namespace: str
    lease_namespace: str
    lease: str


class AccountName(NamedTuple):
    """Namespace and name of a ServiceAccount."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """The name of its user."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def groups(self) -> list[str]:
        """The groups of its user."""
        return ["system:serviceaccounts", f"system:serviceaccounts:{self.namespace}", "system:authenticated"]


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Answer(msgspec.Struct, frozen=True):
    status: _ReviewStatus


class MissingRights(NamedTuple):
    """
    Rights that the account lacks, as `kubectl auth can-i` takes them, and the manifests that grant them.

    `purpose` is what needs them; "" is scheduling itself, for which `deploy/base` grants them.
    """

    purpose: str
    rights: tuple[str, ...]
    consequence: str
    manifests: str

    @property
    def is_of_base(self) -> bool:
        """Whether nothing is scheduled without them."""
        return not self.purpose

    @property
    def message(self) -> str:
        """Say what is missing, and what follows; many rights are counted."""
        rights = ", ".join(self.rights) if len(self.rights) <= _MOST_NAMED else str(len(self.rights))
        return f"rights for {self.purpose or 'scheduling'} are missing ({rights}): {self.consequence}"

    @property
    def command(self) -> str:
        """What grants them."""
        return f"kubectl apply -k {self.manifests}"


async def missing_rights(
    client: Client, account: AccountName, name: InstallationName, features: Collection[Feature]
) -> tuple[MissingRights, ...] | None:
    """
    Return what the account lacks for scheduling, and for each of some features.

    None where the caller may not ask. Raise `KubeError`.
    """
    served = {kind for kind, _ in (await discovery.discover(client)).paths}
    needed, silent = set(features) - BY_RIGHTS, "these objects have no status"
    asked = [
        *((each, RIGHTS[each], CONSEQUENCES[each]) for each in Feature if each in needed),
        *((each, rights, silent) for each, rights in STATUS_RIGHTS.items() if each in needed),
    ]
    try:
        base = (
            *map(str, await _lacking(client, account, BASE, served)),
            *await _lacking_of_lease(client, account, name),
        )
        found = [
            MissingRights(TITLES[feature], tuple(map(str, lacking)), consequence, feature.component)
            for feature, rights, consequence in asked
            if (lacking := await _lacking(client, account, rights, served))
        ]
    except Forbidden:
        return None
    return (*([MissingRights("", base, "it schedules nothing", "deploy/base")] if base else []), *found)


async def _lacking_of_lease(client: Client, account: AccountName, name: InstallationName) -> list[str]:
    """Return what the account may not do with its Lease. Raise `Forbidden`."""
    lease = {"group": "coordination.k8s.io", "resource": "leases", "namespace": name.lease_namespace}
    asked = [{**lease, "verb": "create"}, *({**lease, "verb": each, "name": name.lease} for each in ("get", "patch"))]
    allowed = await asyncio.gather(*(_is_allowed(client, account, each) for each in asked))
    where = f"leases.coordination.k8s.io in namespace {name.lease_namespace}"
    return [f"{each['verb']} {where}" for each, is_there in zip(asked, allowed, strict=True) if not is_there]


async def _lacking(
    client: Client, account: AccountName, rights: Sequence[Right], served: set[Kind]
) -> tuple[Right, ...]:
    """Return the rights that the account lacks, of kinds that the server has. Raise `Forbidden`."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def is_allowed(right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        wanted = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource}
        async with slots:
            return await _is_allowed(client, account, wanted)

    asked = [each for each in rights if each.kind is None or each.kind in served]
    allowed = await asyncio.gather(*map(is_allowed, asked))
    return tuple(each for each, is_there in zip(asked, allowed, strict=True) if not is_there)


async def _is_allowed(client: Client, account: AccountName, attributes: dict[str, str]) -> bool:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account.user, "groups": account.groups, "resourceAttributes": attributes},
    }
    answer = await client.request("POST", _REVIEWS, body=msgspec.json.encode(body), timeout_seconds=_REVIEW_SECONDS)
    try:
        return msgspec.json.decode(answer, type=_Answer).status.allowed
    except msgspec.MsgspecError as error:
        raise DecodeError("SubjectAccessReview", _REVIEWS, "status", str(error)) from error
