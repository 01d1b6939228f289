"""Unknown tokens: how many of them are reviewed, and which clients they shut out."""

import asyncio
from collections import Counter

import pytest

from scheduler.api.access_reviews import AuthenticatedUser
from scheduler.api.authentication import CallerAuthentication
from scheduler.api.refusals import Refusal
from tests.support.shell_clock import VirtualClock

HERE, THERE = "10.0.0.1", "10.0.0.2"


class TokenReviews:
    """Accepts tokens that begin with `good`; `held` ones are answered when `may_go_on` is set."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_go_on = asyncio.Event()

    def known_user(self, _: str) -> None:
        """Nothing is kept: every request needs a review."""

    async def user(self, token: str) -> AuthenticatedUser | None:
        self.asked += 1
        if token.startswith("held"):
            await self.may_go_on.wait()
        return AuthenticatedUser(token) if token.startswith("good") else None


class Door:
    """Counts the answers to callers."""

    def __init__(self) -> None:
        self.reviews, self.clock = TokenReviews(), VirtualClock()
        self.authentication = CallerAuthentication(self.reviews, self.clock)  # type: ignore[arg-type] # as much of it

    async def status(self, token: str, address: str = HERE) -> int:
        try:
            await self.authentication.user(token, address)
        except Refusal as refusal:
            return refusal.status
        return 200

    async def flood(self, count: int, address: str) -> Counter[int]:
        return Counter([await self.status(f"junk-{number}", address) for number in range(count)])


async def test_unknown_tokens_of_one_address_leave_room_for_others() -> None:
    at = Door()

    assert await at.flood(500, HERE) == {401: 20, 429: 480}
    assert await at.status("good", HERE) == 429
    assert await at.status("good", THERE) == 200


async def test_unknown_tokens_of_all_addresses_have_a_rate() -> None:
    at = Door()

    found = [await at.flood(50, f"10.0.1.{number}") for number in range(10)]

    assert sum(found, Counter()) == {401: 80, 429: 420}


async def test_a_token_that_was_accepted_does_not_share_that_rate() -> None:
    at = Door()
    first = await at.status("good")
    await at.flood(500, HERE)
    await at.flood(500, THERE)

    assert (first, await at.status("good")) == (200, 200)


async def test_a_token_that_was_accepted_has_a_rate_too() -> None:
    at = Door()

    found = Counter([await at.status("good") for _ in range(100)])

    assert found == {200: 5, 429: 95}


async def test_it_is_forgotten_after_a_while() -> None:
    at = Door()
    await at.status("good")
    at.clock.advance(901)
    await at.flood(500, HERE)

    assert await at.status("good") == 429


@pytest.mark.parametrize(("addresses", "allowed"), [((HERE,), 4), ((HERE, THERE, "10.0.0.3"), 8)])
async def test_reviews_under_way_are_bounded(addresses: tuple[str, ...], allowed: int) -> None:
    at = Door()
    await at.status("good", HERE)
    waiting = [
        asyncio.create_task(at.status(f"held-{number}-{address}", address))
        for number in range(6)
        for address in addresses
    ]
    await asyncio.sleep(0)

    assert at.reviews.asked == 1 + allowed
    assert await at.status("good", HERE) == 200
    at.reviews.may_go_on.set()
    assert Counter(await asyncio.gather(*waiting)) == {401: allowed, 429: 6 * len(addresses) - allowed}
    assert await at.status("junk", HERE) == 401
