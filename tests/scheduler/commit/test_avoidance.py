"""Devices that failed are tainted for everybody but the API, for a while."""

from scheduler.change import Change, Kind
from scheduler.commit.shunned.avoidance import Avoidance
from solver.domain import BINDING_FAILED_TAINT, DeviceTaintRule
from tests.support import builders as b
from tests.support.shell_clock import Ahead

DEVICE = b.device_id("g0", "n1")


async def test_an_avoided_device_has_a_taint_rule_until_the_time_is_over() -> None:
    changes: list[Change] = []
    clock, avoidance = Ahead(), Avoidance(60.0)
    avoidance.connect(changes.extend)

    avoidance.avoid((DEVICE, DEVICE))
    (first,) = changes
    assert isinstance(first.value, DeviceTaintRule)
    assert first.value.taint.key == BINDING_FAILED_TAINT
    assert (first.value.driver, first.value.pool, first.value.device) == tuple(DEVICE)

    await clock.sleep(59.0)
    assert changes == [first]
    await clock.sleep(1.0)
    assert changes[1:] == [Change(kind=Kind.TAINT_RULES, key=first.key, value=None)]


async def test_a_device_that_fails_again_is_avoided_from_then_on() -> None:
    changes: list[Change] = []
    clock, avoidance = Ahead(), Avoidance(60.0)
    avoidance.connect(changes.extend)

    avoidance.avoid((DEVICE,))
    await clock.sleep(40.0)
    avoidance.avoid((DEVICE,))
    await clock.sleep(40.0)

    assert all(each.value is not None for each in changes)
