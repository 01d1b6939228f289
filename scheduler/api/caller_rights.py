"""
The rights of a caller: what it may see.

The API server decides both: a TokenReview for the bearer token, SubjectAccessReviews for the rights. The answers are
kept for a few seconds. A caller sees what `kubectl list` would show:

    pods of a namespace              list pods
    devices of pods and claims       list resourceclaims (resource.k8s.io)
    all devices of the cluster       list resourceslices (resource.k8s.io)
"""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.api import access_reviews
from scheduler.api.access_reviews import Attributes, AuthenticatedUser, ResourceAttributes
from scheduler.kube.client import Client
from scheduler.visibility import VisibleNamespaces

KEPT_SECONDS: Final = 10.0
_MOST_TOKENS: Final = 1024
_MOST_REVIEWS: Final = 8192
MOST_NAMESPACES: Final = 100
"""Namespaces that one request asks about, if the caller may not see all; those named first."""

K = TypeVar("K")
V = TypeVar("V")


class Listed(Enum):
    """What callers may list."""

    NODES = ("", "nodes")
    PODS = ("", "pods")
    CLAIMS = ("resource.k8s.io", "resourceclaims")
    SLICES = ("resource.k8s.io", "resourceslices")
    QUOTAS = ("dovetail.dev", "devicequotas")
    REPAIRS = ("dovetail.dev", "repairplans")


class ExpiringCache(Generic[K, V]):
    """A cache of limited size whose values expire; the oldest go first."""

    def __init__(self, most: int, clock: Callable[[], float], seconds: float = KEPT_SECONDS) -> None:
        self._most: Final = most
        self._clock: Final = clock
        self._seconds: Final = seconds
        self._found: Final[OrderedDict[K, tuple[float, V]]] = OrderedDict()

    def get(self, key: K) -> tuple[V] | None:
        """Return a value in a tuple; None where there is none."""
        found = self._found.get(key)
        return (found[1],) if found is not None and found[0] > self._clock() else None

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        self._found.pop(key, None)
        self._found[key] = (self._clock() + self._seconds, value)
        while len(self._found) > self._most:
            self._found.popitem(last=False)


class Reviews:
    """Asks the API server about tokens and rights. With `requires_audience` only tokens for Dovetail are accepted."""

    def __init__(self, client: Client, *, requires_audience: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._client: Final = client
        self._requires_audience: Final = requires_audience
        self._users: Final = ExpiringCache[bytes, AuthenticatedUser | None](_MOST_TOKENS, clock)
        self._rights: Final = ExpiringCache[tuple[bytes, Attributes], bool](_MOST_REVIEWS, clock)

    def known_user(self, token: str) -> tuple[AuthenticatedUser | None] | None:
        """Return what was found for a token lately, in a tuple; None where it has to be asked."""
        return self._users.get(digest(token.encode()))

    async def user(self, token: str) -> AuthenticatedUser | None:
        """Return the user of a token; None if it is not accepted. Raise `KubeError`."""
        is_ours = access_reviews.is_for_our_audience(token)
        user = None
        if is_ours or not self._requires_audience:
            user = await access_reviews.review_token(self._client, token, is_ours=is_ours)
        self._users.put(digest(token.encode()), user)
        return user

    async def may(self, user: AuthenticatedUser, attributes: Attributes) -> bool:
        """Whether a user may do something. Raise `KubeError`."""
        key = digest(msgspec.json.encode(user)), attributes
        known = self._rights.get(key)
        if known is not None:
            return known[0]
        found = await access_reviews.review_access(self._client, user, attributes)
        self._rights.put(key, found)
        return found

    def rights_of(self, user: AuthenticatedUser, token: str = "") -> "CallerRights":
        """Return the rights of a user, who came with a token."""

        async def may_list(listed: Listed, namespace: str) -> bool:
            group, resource = listed.value
            return await self.may(user, ResourceAttributes("list", group, resource, namespace))

        return CallerRights(user, may_list, token)


class CallerRights:
    """What one caller may list. Raises `KubeError` where the API server does not say it."""

    def __init__(
        self, user: AuthenticatedUser, may_list: Callable[[Listed, str], Awaitable[bool]], token: str = ""
    ) -> None:
        """
        `may_list` says whether the caller may list objects of a namespace (""; of all of them).

        `token` is the caller's own, for a question to another server of ours.
        """
        self.caller: Final = user.username
        self.budget: Final = user.budget
        self.own_namespace: Final = user.namespace
        self.token: Final = token
        self._may_list: Final = may_list
        self.used: Final[set[tuple[Listed, str]]] = set()
        """What it was asked for and has."""

    async def sees(self, listed: Listed, namespace: str = "") -> bool:
        """Whether the caller may list objects of a namespace (""; of all of them)."""
        found = await self._may_list(listed, namespace)
        if found:
            self.used.add((listed, namespace))
        return found

    async def namespaces(self, listed: Listed, among: Iterable[str]) -> VisibleNamespaces:
        """Return in which of some namespaces the caller may list objects."""
        if await self.sees(listed):
            return VisibleNamespaces(everything=True)
        asked = tuple(dict.fromkeys(among))[:MOST_NAMESPACES]
        found = await asyncio.gather(*(self.sees(listed, each) for each in asked))
        return VisibleNamespaces(frozenset(each for each, may in zip(asked, found, strict=True) if may))

    async def include(self, earlier: "CallerRights") -> bool:
        """Whether each right still holds by which an answer was made."""
        return all(await asyncio.gather(*(self.sees(*each) for each in frozenset(earlier.used))))


def digest(content: bytes) -> bytes:
    """What stands for a token or a user in memory: no token is kept."""
    return hashlib.sha256(content).digest()
