"""When the new leader took the Lease and wrote, from the audit log."""

import pytest

from e2e.takeover.handovers import Handover, handovers
from tests.support.audit_log import LEASE, START, AuditLog, device

BEGIN = START.timestamp()


@pytest.fixture
def log() -> AuditLog:
    log = AuditLog()
    log.lead("one")
    log.claim("a", device("gpu-0"))
    log.lead("one")
    return log


def found(log: AuditLog) -> list[Handover]:
    return list(handovers(log.writes(), LEASE))


def test_a_leader_that_renews_is_no_handover(log: AuditLog) -> None:
    assert found(log) == []


def test_after_a_kill_the_end_of_the_lease_counts(log: AuditLog) -> None:
    log.seconds = 17.0
    log.lead("two")
    log.claim("b", device("gpu-1"), by="two")
    log.claim("c", device("gpu-2"), by="two")
    (change,) = found(log)

    assert (change.renewed, change.taken, change.first) == (BEGIN + 2, BEGIN + 18, BEGIN + 19)
    assert (change.lease_delay, change.write_delay) == (1.0, 2.0)
    assert not change.is_clean
    assert not change.is_early


def test_a_lease_that_is_taken_while_the_former_leader_may_hold_it_is_early(log: AuditLog) -> None:
    log.seconds = 15.0
    log.lead("two")
    (change,) = found(log)

    assert change.is_early


def test_after_a_release_the_last_write_counts_however_late_the_lease_is_given_up(log: AuditLog) -> None:
    log.claim("b", device("gpu-1"))
    log.seconds = 6.0
    log.lead("")
    log.lead("two")
    log.claim("c", device("gpu-2"), by="two")
    (change,) = found(log)

    assert (change.placed, change.released) == (BEGIN + 4, BEGIN + 7)
    assert (change.lease_delay, change.write_delay) == (4.0, 5.0)
    assert change.is_clean


def test_writes_of_others_are_none_of_the_new_leader(log: AuditLog) -> None:
    log.lead("two")
    log.claim("late", device("gpu-1"), by="one")
    (change,) = found(log)

    assert change.first == 0.0
