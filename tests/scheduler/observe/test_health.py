import pytest

from scheduler.observe.health import Check, CheckState, Health, report


class Clock:
    """Time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def check(clock: Clock) -> Check:
    return Health(clock).ready("solver")


def test_a_check_of_readiness_fails_until_it_is_told_otherwise(check: Check) -> None:
    assert check.state is CheckState.FAILED


def test_a_check_of_life_passes_until_it_is_told_otherwise() -> None:
    assert Health().live("loop").state is CheckState.OK


def test_a_check_says_since_when_it_stands_so(check: Check, clock: Clock) -> None:
    check.degrade("only the fall-back decides")
    clock.now += 12
    assert check.line() == "[~]solver degraded for 12 s: only the fall-back decides"


def test_a_new_message_does_not_start_the_time_again(check: Check, clock: Clock) -> None:
    check.degrade("one restart")
    clock.now += 12
    check.degrade("two restarts")
    assert check.seconds == 12


def test_a_new_state_starts_the_time_again(check: Check, clock: Clock) -> None:
    clock.now += 12
    check.succeed()
    assert check.line() == "[+]solver ok for 0 s"


def test_the_same_name_is_the_same_check() -> None:
    health = Health()
    assert health.ready("a") is health.ready("a")
    assert health.live("a") is not health.ready("a")


def test_one_failed_check_fails_the_whole_and_lists_all(clock: Clock) -> None:
    health = Health(clock)
    health.ready("pods").succeed()
    health.ready("nodes").fail("listing")
    status, text = report("readyz", health.ready_checks, verbose=False)
    assert status == 503
    assert text == "[+]pods ok for 0 s\n[-]nodes failed for 0 s: listing\nreadyz check failed\n"


def test_a_degraded_check_fails_nothing() -> None:
    health = Health()
    health.ready("solver").degrade("only the fall-back decides")
    assert report("readyz", health.ready_checks, verbose=False) == (200, "ok\n")


def test_a_check_that_is_not_renewed_fails(clock: Clock) -> None:
    check = Health(clock).live("event-loop")
    check.succeed(for_seconds=10)
    clock.now += 10
    assert check.state is CheckState.OK
    clock.now += 5
    assert check.line() == "[-]event-loop failed for 5 s: not renewed in time"
    check.succeed(for_seconds=10)
    assert check.line() == "[+]event-loop ok for 0 s"


def test_a_renewed_check_keeps_its_time(clock: Clock) -> None:
    check = Health(clock).live("event-loop")
    for _ in range(3):
        check.succeed(for_seconds=10)
        clock.now += 8
    assert check.line() == "[+]event-loop ok for 24 s"
