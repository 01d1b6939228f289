"""
The user of a bearer token, and what that user may do: TokenReview, SubjectAccessReview, TokenRequest.

The scheduler's own API asks the first two. The command line asks for a token of a service account.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from scheduler.kube import paths
from scheduler.kube.client import Client
from scheduler.kube.errors import DecodeError

AUDIENCE: Final = "dovetail.dev"
"""The audience of tokens that are valid at the scheduler's API only."""
TOKEN_SECONDS: Final = 600
"""How long a token of a service account is valid: the shortest time that the API server takes."""

_TOKEN_REVIEWS: Final = paths.collection("authentication.k8s.io", "v1", "tokenreviews")
_ACCESS_REVIEWS: Final = paths.collection("authorization.k8s.io", "v1", "subjectaccessreviews")
_SECONDS: Final = 5.0
_ACCOUNT_PARTS: Final = 4


class AuthenticatedUser(msgspec.Struct, frozen=True, rename="camel"):
    """UserInfo of `authentication.k8s.io/v1`."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}

    @property
    def namespace(self) -> str:
        """The namespace of a service account; "" of another user."""
        parts = self.username.split(":")
        return parts[2] if parts[:2] == ["system", "serviceaccount"] and len(parts) == _ACCOUNT_PARTS else ""

    @property
    def budget(self) -> str:
        """Whose limits count: service accounts of a namespace share them, as who makes one may make a thousand."""
        return self.username.rpartition(":")[0] if self.namespace else self.username


class ResourceAttributes(msgspec.Struct, frozen=True, rename="camel"):
    """ResourceAttributes of `authorization.k8s.io/v1`; namespace "" means all of them."""

    verb: str
    group: str
    resource: str
    namespace: str = ""


class NonResourceAttributes(msgspec.Struct, frozen=True):
    """NonResourceAttributes of `authorization.k8s.io/v1`: a path of HTTP, such as `/metrics`."""

    verb: str
    path: str


Attributes = ResourceAttributes | NonResourceAttributes


class _TokenReviewStatus(msgspec.Struct):
    authenticated: bool = False
    user: AuthenticatedUser = AuthenticatedUser()
    audiences: list[str] = []


class _AccessReviewStatus(msgspec.Struct):
    allowed: bool = False


class _TokenRequestStatus(msgspec.Struct):
    token: str


_Status = TypeVar("_Status", bound=msgspec.Struct)


class _Answer(msgspec.Struct, Generic[_Status]):
    """An object that the API server created, as far as it is read."""

    status: _Status


def is_for_our_audience(token: str) -> bool:
    """
    Whether a token claims to be for `AUDIENCE`.

    The token is not verified: this only chooses the audience that the API server is asked about.
    """
    try:
        body = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        return False
    return isinstance(claims, dict) and AUDIENCE in _listed(claims.get("aud"))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


async def review_token(client: Client, token: str, *, is_ours: bool) -> AuthenticatedUser | None:
    """Return the user of a token, None if the API server does not accept it for the audience. Raise `KubeError`."""
    spec = {"token": token} | ({"audiences": [AUDIENCE]} if is_ours else {})
    kind = _Kind("authentication.k8s.io/v1", "TokenReview")
    status = await _create(client, _TOKEN_REVIEWS, kind, spec, _Answer[_TokenReviewStatus])
    # An authenticator that knows no audiences leaves them out, and answers for the API server's own.
    is_accepted = status.authenticated and (not is_ours or AUDIENCE in status.audiences)
    return status.user if is_accepted else None


async def review_access(client: Client, user: AuthenticatedUser, attributes: Attributes) -> bool:
    """Whether a user may do something. Raise `KubeError`."""
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "extra": user.extra,
        "resourceAttributes" if isinstance(attributes, ResourceAttributes) else "nonResourceAttributes": attributes,
    }
    kind = _Kind("authorization.k8s.io/v1", "SubjectAccessReview")
    return (await _create(client, _ACCESS_REVIEWS, kind, spec, _Answer[_AccessReviewStatus])).allowed


async def request_token(client: Client, namespace: str, name: str) -> str:
    """Return a token of a service account for `AUDIENCE`. Raise `KubeError`."""
    path = f"{paths.CORE}/namespaces/{namespace}/serviceaccounts/{name}/token"
    spec = {"audiences": [AUDIENCE], "expirationSeconds": TOKEN_SECONDS}
    kind = _Kind("authentication.k8s.io/v1", "TokenRequest")
    return (await _create(client, path, kind, spec, _Answer[_TokenRequestStatus])).token


class _Kind(NamedTuple):
    api_version: str
    kind: str


async def _create(
    client: Client, path: str, kind: _Kind, spec: Mapping[str, object], answer: type[_Answer[_Status]]
) -> _Status:
    """Create an object and return its status."""
    body = msgspec.json.encode({"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec})
    received = await client.request("POST", path, body=body, timeout_seconds=_SECONDS)
    try:
        return msgspec.json.decode(received, type=answer).status
    except msgspec.MsgspecError as error:
        raise DecodeError(kind.kind, path, "status", str(error)) from error
