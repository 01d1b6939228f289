"""The bound on evictions holds for any minute, whichever process has made them."""

import pytest
from structlog.testing import capture_logs

from scheduler.commit.evictions import EvictionRate
from scheduler.kube.errors import AnswerLost
from scheduler.kube.leader_election.lease import FORMAT

HUGE = f'{{"dovetail": [[{"9" * 400}, 1]]}}'
NEGATIVE = '{"dovetail": [[4990, -3]]}'


class Lease:
    """What leaders leave to each other."""

    object_name = "leases ns/dovetail"

    def __init__(self) -> None:
        self.record, self.version = "", FORMAT
        self.writes = 0
        self.error: Exception | None = None

    @property
    def earlier_record(self) -> tuple[str, str]:
        return self.record, self.version

    async def write_record(self, record: str) -> None:
        self.writes += 1
        if self.error is not None:
            raise self.error
        self.record = record


class Time:
    """Two clocks of one process, which go together; those of another process begin elsewhere."""

    def __init__(self, monotonic: float) -> None:
        self.wall = 5000.0
        self._offset = monotonic - self.wall

    def bound(self, lease: Lease | None) -> EvictionRate:
        made = EvictionRate(lease, lambda: self.wall + self._offset, lambda: self.wall)
        made.inherit()
        return made


@pytest.fixture
def lease() -> Lease:
    return Lease()


async def test_the_next_leader_knows_what_was_evicted_within_the_minute(lease: Lease) -> None:
    first, second = Time(100.0), Time(7.0)
    bound = first.bound(lease)
    bound.made(bound.spend("dovetail", 3))
    await bound.keep()

    second.wall += 20
    later = second.bound(lease)
    assert (later.left("dovetail", 5), later.left("another", 5)) == (2, 5)
    second.wall += 40
    assert later.left("dovetail", 5) == 5


async def test_an_eviction_counts_from_when_it_was_made_however_long_before_it_was_planned(lease: Lease) -> None:
    """It may wait for a nomination to be written, or for the late evictions of the leader before."""
    time = Time(100.0)
    bound = time.bound(lease)
    planned = bound.spend("dovetail", 3)
    time.wall += 50
    assert bound.left("dovetail", 5) == 2
    bound.made(planned)
    time.wall += 50
    assert bound.left("dovetail", 5) == 2
    time.wall += 11
    assert bound.left("dovetail", 5) == 5


async def test_what_the_leader_before_may_still_have_made_counts_from_the_take_over(lease: Lease) -> None:
    time = Time(100.0)
    bound = time.bound(lease)
    bound.spend("dovetail", 3)
    await bound.keep()
    time.wall += 20
    later = time.bound(lease)
    time.wall += 59
    assert later.left("dovetail", 5) == 2
    time.wall += 2
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
    assert lease.record


@pytest.mark.parametrize("text", ["", "nonsense", '{"dovetail": 3}', HUGE, NEGATIVE, '["' + "x" * 300_000 + '"]'])
def test_a_lease_that_says_nothing_readable_says_nothing_and_the_log_names_it(lease: Lease, text: str) -> None:
    lease.record = text
    with capture_logs() as lines:
        assert Time(100.0).bound(lease).left("dovetail", 5) == 5
    named = [(each["event"], each["object"], each["field"]) for each in lines]
    expected = ("state_unreadable", "leases ns/dovetail", "metadata.annotations[dovetail.dev/record]")
    assert named == [expected] * bool(text)


def test_a_record_of_a_later_version_is_not_guessed_at(lease: Lease) -> None:
    lease.record, lease.version = '{"dovetail": [[4990, 3]]}', "2"
    with capture_logs() as lines:
        assert Time(100.0).bound(lease).left("dovetail", 5) == 5
    assert lines[0]["error"] == "it has version 2 of its format, and this scheduler reads version 1"


def test_what_lies_in_the_future_counts_for_a_minute_and_no_longer(lease: Lease) -> None:
    lease.record, time = '{"dovetail": [[999999, 4]]}', Time(100.0)
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
