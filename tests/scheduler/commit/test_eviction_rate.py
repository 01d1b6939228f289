"""The bound on evictions holds for any minute, whichever process has made them."""

import pytest

from scheduler.commit.evictions import EvictionRate
from scheduler.kube.errors import AnswerLost

HUGE = f'{{"dovetail": [[{"9" * 400}, 1]]}}'
NEGATIVE = '{"dovetail": [[4990, -3]]}'


class Lease:
    """What leaders leave to each other."""

    def __init__(self) -> None:
        self.inherited = ""
        self.writes = 0
        self.error: Exception | None = None

    async def hand_down(self, record: str) -> None:
        self.writes += 1
        if self.error is not None:
            raise self.error
        self.inherited = record


class Time:
    """Two clocks of one process, which go together; those of another process begin elsewhere."""

    def __init__(self, monotonic: float) -> None:
        self.wall = 5000.0
        self._offset = monotonic - self.wall

    def bound(self, lease: Lease | None) -> EvictionRate:
        return EvictionRate(lease, lambda: self.wall + self._offset, lambda: self.wall)


@pytest.fixture
def lease() -> Lease:
    return Lease()


async def test_the_next_leader_knows_what_was_evicted_within_the_minute(lease: Lease) -> None:
    first, second = Time(100.0), Time(7.0)
    bound = first.bound(lease)
    bound.spend("dovetail", 3)
    await bound.keep()

    second.wall += 20
    later = second.bound(lease)
    assert (later.left("dovetail", 5), later.left("another", 5)) == (2, 5)
    second.wall += 40
    assert later.left("dovetail", 5) == 5


async def test_a_third_leader_knows_what_the_first_did(lease: Lease) -> None:
    time = Time(100.0)
    bound = time.bound(lease)
    bound.spend("dovetail", 1)
    await bound.keep()
    time.wall += 20
    bound = time.bound(lease)
    bound.spend("dovetail", 2)
    await bound.keep()
    time.wall += 20
    assert time.bound(lease).left("dovetail", 5) == 2


async def test_what_is_recorded_already_is_not_written_again(lease: Lease) -> None:
    bound = Time(100.0).bound(lease)
    bound.spend("dovetail", 1)
    bound.spend("dovetail", 1)
    await bound.keep()
    await bound.keep()
    assert lease.writes == 1


async def test_what_could_not_be_recorded_is_said_and_tried_again(lease: Lease) -> None:
    bound = Time(100.0).bound(lease)
    bound.spend("dovetail", 1)
    lease.error = AnswerLost("no answer")
    with pytest.raises(AnswerLost):
        await bound.keep()
    lease.error = None
    await bound.keep()
    assert lease.inherited


@pytest.mark.parametrize("text", ["", "nonsense", '{"dovetail": 3}', HUGE, NEGATIVE, '["' + "x" * 300_000 + '"]'])
def test_a_lease_that_says_nothing_readable_says_nothing(lease: Lease, text: str) -> None:
    lease.inherited = text
    assert Time(100.0).bound(lease).left("dovetail", 5) == 5


def test_what_lies_in_the_future_counts_for_a_minute_and_no_longer(lease: Lease) -> None:
    lease.inherited, time = '{"dovetail": [[999999, 4]]}', Time(100.0)
    bound = time.bound(lease)
    assert bound.left("dovetail", 5) == 1
    time.wall += 61
    assert bound.left("dovetail", 5) == 5


async def test_without_a_lease_nothing_is_handed_down() -> None:
    time = Time(100.0)
    bound = time.bound(None)
    bound.spend("dovetail", 1)
    await bound.keep()
    assert (bound.left("dovetail", 5), time.bound(None).left("dovetail", 5)) == (4, 5)
