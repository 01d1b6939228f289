"""More may be spent while the worker process is new, and a tenth of the time after that."""

from scheduler.worker.serve import UNITS_PER_DEVICE, TokenBucket

DEVICES = 1000
FULL = DEVICES * UNITS_PER_DEVICE


def bucket_at(seconds: list[float]) -> TokenBucket:
    return TokenBucket(clock=lambda: seconds[0])


def test_a_new_process_may_spend_some_for_each_device() -> None:
    assert bucket_at([50.0]).units(DEVICES) == FULL


def test_what_is_spent_is_gone_and_comes_back_with_a_tenth_of_the_time() -> None:
    now = [50.0]
    bucket = bucket_at(now)
    bucket.units(DEVICES)
    bucket.pay(FULL + 5000)
    assert bucket.units(DEVICES) == 0
    now[0] += 0.1
    assert bucket.units(DEVICES) == 5000
    now[0] += 3600.0
    assert bucket.units(DEVICES) == FULL


def test_a_batch_that_stays_within_its_own_allowance_fills_nothing_up() -> None:
    bucket = bucket_at([0.0])
    bucket.pay(1000)
    bucket.pay(-5000)
    assert bucket.units(DEVICES) == FULL - 1000
