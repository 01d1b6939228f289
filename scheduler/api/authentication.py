"""
Finds the user of a token (TokenReview), so that unknown tokens shut out no other caller.

| token | bound |
|---|---|
| was reviewed within `KEPT_SECONDS` | none: nothing is asked |
| was accepted within `_ACCEPTED_SECONDS` | a rate of its user; service accounts of a namespace share one |
| any other | a rate and a number at once for the remote address, and larger ones for all addresses |

Callers that come through the API server's proxy have its address; the API server has authenticated them.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from scheduler.api.access_reviews import AuthenticatedUser
from scheduler.api.caller_rights import ExpiringCache, Reviews, digest
from scheduler.api.connections.acceptor import address_key
from scheduler.api.refusals import Refusal
from scheduler.api.request_limits import CallerRates
from scheduler.kube.errors import KubeError

_ACCEPTED_SECONDS: Final = 900.0
_MOST_ACCEPTED: Final = 1024
_REVIEWS_OF_ACCEPTED: Final = 1.0
"""TokenReviews per second of tokens of a user that were accepted lately; four times as many at once, as all here."""
_REVIEWS_OF_ADDRESS: Final = 5.0
"""TokenReviews per second of other tokens, of one remote address."""
_REVIEWS_OF_ALL: Final = 20.0
"""The same, of all addresses."""
_AT_ONCE_OF_ADDRESS: Final = 4
AT_ONCE: Final = 8
"""TokenReviews of such tokens under way."""


class CallerAuthentication:
    """Knows the users of tokens."""

    def __init__(self, reviews: Reviews, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviews: Final = reviews
        self._accepted: Final = ExpiringCache[bytes, str](_MOST_ACCEPTED, clock, _ACCEPTED_SECONDS)
        self._rates_of_accepted: Final = CallerRates(_REVIEWS_OF_ACCEPTED, clock)
        self._rates: Final = CallerRates(_REVIEWS_OF_ADDRESS, clock)
        self._rate: Final = CallerRates(_REVIEWS_OF_ALL, clock)
        self._under_way = Counter[str]()

    async def user(self, token: str, address: str) -> AuthenticatedUser:
        """Return the user of a token that came from a remote address. Raise `Refusal`."""
        key, known = digest(token.encode()), self._reviews.known_user(token)
        if known is None:
            with self._counted(key, address_key(address)):
                try:
                    known = (await self._reviews.user(token),)
                except KubeError as error:
                    raise Refusal(503, f"the token cannot be checked: {error}") from error
        if known[0] is None:
            raise Refusal(401, "the token is not accepted")
        self._accepted.put(key, known[0].budget)
        return known[0]

    @contextlib.contextmanager
    def _counted(self, key: bytes, address: str) -> Iterator[None]:
        """Count a review while the block runs. Raise `Refusal` where there are too many."""
        accepted = self._accepted.get(key)
        if accepted is not None:
            if seconds := self._rates_of_accepted.take(accepted[0]):
                raise Refusal(429, f"too many tokens of {accepted[0]}", retry_after=seconds)
            yield
            return
        if self._under_way[address] >= _AT_ONCE_OF_ADDRESS or self._under_way.total() >= AT_ONCE:
            raise Refusal(429, "too many requests with unknown tokens at once", retry_after=1)
        if seconds := self._rates.take(address) or self._rate.take(""):
            raise Refusal(429, "too many requests with unknown tokens", retry_after=seconds)
        self._under_way[address] += 1
        try:
            yield
        finally:
            self._under_way -= Counter((address,))  # drops an address without requests
