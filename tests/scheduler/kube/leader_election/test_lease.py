import datetime as dt
from typing import Any

import msgspec
import pytest

from scheduler.kube.leader_election.lease import (
    DRAINED,
    FORMAT,
    RECORD,
    RECORD_VERSION,
    REPORT,
    Election,
    Lease,
    Timing,
    decode_lease,
)
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


RELEASED = lease("", duration=1)


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
    election.seen(lease(), 0.0)
    election.seen(RELEASED, 1.0)
    assert election.can_take(1.0)


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


@pytest.mark.parametrize(("written", "counted"), [(2**31 - 1, 3600.0), (2**62, 3600.0), (0, 15.0), (-7, 15.0)])
def test_a_duration_that_no_replica_has_is_bounded(written: int, counted: float) -> None:
    election = Election("us", TIMING)
    election.seen(lease(duration=written), 0.0)
    assert election.seconds_until_free(0.0) == counted


@pytest.mark.parametrize(("written", "counted"), [(3, 4), (2**31 - 2, 2**31 - 1), (2**31 - 1, 2**31 - 1), (-5, 1)])
def test_the_transitions_of_a_lease_stay_within_what_the_api_server_accepts(written: int, counted: int) -> None:
    election = Election("us", TIMING)
    election.seen(lease("", transitions=written), 0.0)
    assert election.taking(NOW)["spec"]["leaseTransitions"] == counted


def test_no_write_starts_before_leading() -> None:
    assert not Election("us", TIMING).may_write(0.0)


@pytest.mark.parametrize("before", [None, RELEASED], ids=["new", "released"])
def test_a_lease_without_a_holder_lets_us_write_at_once(before: Lease | None) -> None:
    assert leading(before=before).may_write(100.0)


@pytest.mark.parametrize("holder", ["them", "us"])
def test_a_lease_that_was_not_released_is_not_clean(holder: str) -> None:
    assert not leading(before=lease(holder)).is_clean
    assert leading(before=RELEASED).is_clean
    assert leading().is_clean


def test_the_api_server_has_ended_a_write_that_starts_late_before_the_lease_ends() -> None:
    election = leading(started=100.0)
    assert [election.write_seconds(now) for now in (100.0, 105.0, 110.0)] == [7.5, 5.0, 2.5]
    assert election.write_seconds(110.1) == 0.0
    for now in (100.0, 105.0, 110.0):
        received, allowed = now + election.write_seconds(now), election.write_seconds(now)
        assert received + allowed <= 100.0 + TIMING.lease_duration


@pytest.mark.parametrize("after", [None, lease("")], ids=["deleted", "without its holder"])
def test_a_lease_that_another_client_takes_from_its_holder_is_free_no_sooner(after: Lease | None) -> None:
    election = Election("us", TIMING)
    election.seen(lease(), 0.0)
    election.seen(after, 5.0)
    assert not election.can_take(19.9)
    assert election.can_take(20.0)
    election.took(lease("us"), 20.0)
    assert not election.is_clean


def test_a_lease_without_its_holder_is_free_no_sooner_to_a_replica_that_never_saw_the_holder() -> None:
    """A replica that starts just after another client removed the holder, which may still write."""
    election = Election("us", TIMING)
    for now in (0.0, 14.9):
        election.seen(lease(""), now)
        assert not election.can_take(now)
    election.seen(lease(""), 15.0)
    assert election.can_take(15.0)
    election.took(lease("us"), 15.0)
    assert not election.is_clean


def test_a_lease_that_is_not_there_is_free_no_sooner_where_a_leader_has_worked() -> None:
    """A replica that starts just after the Lease was deleted under its holder, which may still write."""
    election = Election("us", TIMING)
    for now in (0.0, 14.9):
        election.seen(None, now, was_led=True)
        assert not election.can_take(now)
    election.seen(None, 15.0, was_led=True)
    assert election.can_take(15.0)
    election.took(lease("us"), 15.0)
    assert not election.is_clean


@pytest.mark.parametrize("after", [None, lease("")], ids=["deleted", "without its holder"])
def test_a_standby_that_could_not_read_counts_from_what_it_notices(after: Lease | None) -> None:
    """The holder may have renewed the lease just before another client took it away."""
    election = Election("us", TIMING)
    election.seen(lease(), 0.0)
    election.seen(after, 20.0)
    assert not election.can_take(34.9)
    assert election.can_take(35.0)


def test_the_duration_in_the_lease_is_never_shorter_than_ours() -> None:
    timing = Timing(lease_duration=2.4, renew_deadline=1.5, retry_period=0.5)
    assert Election("us", timing).creation("n", "dovetail", NOW)["spec"]["leaseDurationSeconds"] == 3


def test_a_lease_that_another_one_takes_from_its_holder_is_held_by_that_one() -> None:
    election = Election("us", TIMING)
    election.seen(lease("them"), 0.0)
    election.seen(lease("others"), 5.0)
    assert not election.can_take(19.9)
    assert election.can_take(20.0)
    assert election.seconds_until_free(18.0) == 2.0


def test_a_drained_lease_says_so_and_has_its_holder_until_that_gives_it_up() -> None:
    election, found = leading(), lease("us")
    drained = msgspec.structs.replace(found.metadata, annotations={DRAINED: "2026-01-01T12:00:00.123456Z"})
    states = [(election.is_drained, election.is_leader)]
    election.seen(msgspec.structs.replace(found, metadata=drained), 101.0)
    states.append((election.is_drained, election.is_leader))
    assert states == [(False, True), (True, True)]
    assert election.drain(NOW, is_drained=False)["metadata"]["annotations"] == {DRAINED: None}


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
    assert election.renewal(NOW)["metadata"]["annotations"] == {RECORD: "ours", RECORD_VERSION: FORMAT}


def test_a_record_of_another_version_is_not_written_as_one_of_ours() -> None:
    taken, election = lease("us"), leading()
    later = msgspec.structs.replace(taken.metadata, annotations={RECORD: "left", RECORD_VERSION: "2"})
    election.took(msgspec.structs.replace(taken, metadata=later), 200.0)
    assert election.record_version == "2"
    assert "annotations" not in election.renewal(NOW)["metadata"]


def test_what_the_leader_says_of_itself_is_written_with_every_renewal_and_not_handed_down() -> None:
    election = leading()
    election.report = "{}"
    assert election.renewal(NOW)["metadata"]["annotations"] == {REPORT: "{}"}
    election.record = "ours"
    assert election.renewal(NOW)["metadata"]["annotations"].keys() == {RECORD, RECORD_VERSION, REPORT}
    metadata = msgspec.structs.replace(lease("us").metadata, annotations={REPORT: "x"})
    written = msgspec.structs.replace(lease("us"), metadata=metadata)
    election.took(written, 200.0)
    assert (written.report, election.report) == ("x", "{}")


def test_a_release_has_no_holder() -> None:
    assert leading().release(NOW)["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"renew_deadline": 14.6},
        {"retry_period": 10.0},
        {"retry_period": 0.0},
    ],
    ids=["last writes beyond the end", "one try before the deadline", "no pause"],
)
def test_timings_that_leave_no_room_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="renewDeadlineSeconds"):
        Timing(**fields)


def test_a_lease_without_anything_in_it_is_free() -> None:
    election = Election("us", TIMING)
    election.seen(msgspec.json.decode(b'{"metadata":{},"spec":{}}', type=Lease), 0.0)
    assert election.can_take(0.0)
