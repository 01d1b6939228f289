import datetime as dt
from typing import Any

import msgspec
import pytest

from scheduler.kube.lease import RECORD, Election, Lease, Timing, decode_lease
from tests.support.kube_objects import encoded

NOW = dt.datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
TIMING = Timing()


def lease(holder: str = "them", *, renewed: int = 0, transitions: int = 3, duration: int = 15) -> Lease:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration,
        "renewTime": f"2026-01-01T00:00:{renewed:02d}.000000Z",
        "leaseTransitions": transitions,
    }
    return decode_lease(encoded({"metadata": {"uid": "u", "resourceVersion": "9"}, "spec": spec}))


def leading(*, started: float = 100.0, before: Lease | None = None) -> Election:
    election = Election("us", TIMING)
    election.seen(before, 0.0)
    election.took(lease("us"), started)
    return election


def test_where_there_is_no_lease_it_is_free() -> None:
    election = Election("us", TIMING)
    election.seen(None, 0.0)
    assert election.can_take(0.0)


def test_a_released_lease_is_free() -> None:
    election = Election("us", TIMING)
    election.seen(lease(""), 0.0)
    assert election.can_take(0.0)


def test_a_lease_is_free_when_it_has_not_changed_for_its_duration_before_our_eyes() -> None:
    election = Election("us", TIMING)
    for now in (0.0, 8.0, 14.9):
        election.seen(lease(), now)
        assert not election.can_take(now)
    election.seen(lease(), 15.0)
    assert election.can_take(15.0)


def test_a_lease_that_is_renewed_is_not_free() -> None:
    election = Election("us", TIMING)
    for now in range(0, 60, 10):
        election.seen(lease(renewed=now), now)
        assert not election.can_take(now)


def test_the_duration_is_what_the_holder_wrote() -> None:
    election = Election("us", TIMING)
    election.seen(lease(duration=60), 0.0)
    assert not election.can_take(59.0)
    assert election.can_take(60.0)


def test_no_write_starts_before_leading() -> None:
    assert not Election("us", TIMING).may_write(0.0)


@pytest.mark.parametrize("before", [None, lease("")], ids=["new", "released"])
def test_a_lease_without_a_holder_lets_us_write_at_once(before: Lease | None) -> None:
    assert leading(before=before).may_write(100.0)


@pytest.mark.parametrize("holder", ["them", "us"])
def test_a_lease_that_was_not_released_has_to_be_held_for_one_duration_first(holder: str) -> None:
    election = leading(before=lease(holder))
    election.renewed(lease("us"), 108.0)
    assert not election.may_write(114.9)
    assert election.may_write(115.0)
    assert election.not_before == 115.0


def test_writing_ends_with_the_renew_deadline_counted_from_before_the_renewal_was_sent() -> None:
    election = leading(started=100.0)
    assert election.may_write(110.0)
    assert not election.may_write(110.1)
    election.renewed(lease("us"), 105.0)
    assert election.may_write(115.0)
    assert not election.may_write(115.1)


def test_a_process_that_was_stopped_beyond_its_lease_may_not_write_when_it_wakes_up() -> None:
    election = leading(started=100.0)
    assert not election.may_write(100.0 + 3600)
    assert election.has_lost(100.0 + 3600)


def test_seeing_another_holder_ends_writing_at_once() -> None:
    election = leading(started=100.0)
    election.seen(lease("them"), 101.0)
    assert not election.may_write(101.0)
    assert election.has_lost(101.0)


def test_a_lease_that_was_deleted_is_lost() -> None:
    election = leading(started=100.0)
    election.seen(None, 101.0)
    assert election.has_lost(101.0)


def test_resigning_ends_writing_at_once() -> None:
    election = leading(started=100.0)
    election.resign()
    assert not election.may_write(100.0)


def test_a_new_lease_names_us_and_counts_no_transition() -> None:
    body = Election("us", TIMING).creation("ns", "name", NOW)
    assert body["metadata"] == {"namespace": "ns", "name": "name"}
    assert body["spec"] == {
        "holderIdentity": "us",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T12:00:00.123456Z",
        "renewTime": "2026-01-01T12:00:00.123456Z",
        "leaseTransitions": 0,
    }


def test_taking_a_lease_is_guarded_and_counts_a_transition() -> None:
    election = Election("us", TIMING)
    election.seen(lease(transitions=3), 0.0)
    body = election.taking(NOW)
    assert body["metadata"] == {"uid": "u", "resourceVersion": "9"}
    assert (body["spec"]["holderIdentity"], body["spec"]["leaseTransitions"]) == ("us", 4)


def test_a_renewal_is_guarded_and_changes_the_time_alone() -> None:
    body = leading().renewal(NOW)
    assert body == {
        "metadata": {"uid": "u", "resourceVersion": "9"},
        "spec": {"renewTime": "2026-01-01T12:00:00.123456Z"},
    }


def test_a_record_is_taken_with_the_lease_and_written_with_every_renewal() -> None:
    taken = lease("us")
    left = msgspec.structs.replace(taken.metadata, annotations={RECORD: "left", "other": "kept"})
    election = leading()
    election.took(msgspec.structs.replace(taken, metadata=left), 200.0)
    assert election.record == "left"
    election.record = "ours"
    assert election.renewal(NOW)["metadata"]["annotations"] == {RECORD: "ours"}


def test_a_release_has_no_holder() -> None:
    assert leading().release(NOW)["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"renew_deadline": 15.0},
        {"retry_period": 10.0},
        {"retry_period": 0.0},
    ],
    ids=["deadline not before the end", "one try before the deadline", "no pause"],
)
def test_timings_that_leave_no_room_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="renewDeadlineSeconds"):
        Timing(**fields)


def test_what_is_left_between_deadline_and_end_is_for_the_last_write() -> None:
    assert Timing().write_seconds == 5.0


def test_a_lease_without_anything_in_it_is_free() -> None:
    election = Election("us", TIMING)
    election.seen(msgspec.json.decode(b'{"metadata":{},"spec":{}}', type=Lease), 0.0)
    assert election.can_take(0.0)
