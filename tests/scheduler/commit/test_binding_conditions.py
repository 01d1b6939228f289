"""What entries of status.devices say about devices that have to be got ready."""

import datetime as dt

import pytest

from scheduler.commit.binding_conditions import DeviceCondition, allocated_at, has_conditions, listed, readiness
from solver.domain import Claim, DeviceResult, DeviceStatus
from tests.support import builders as b


def conditioned(device: str, share_id: str = "") -> DeviceResult:
    return b.result(
        "r", device, "n1", binding_conditions=("attached",), binding_failure_conditions=("broken",), share_id=share_id
    )


def status(device: str, share_id: str = "", **conditions: str) -> DeviceStatus:
    return DeviceStatus(device=b.device_id(device, "n1"), share_id=share_id, conditions=tuple(conditions.items()))


def of(*results: DeviceResult, says: tuple[DeviceStatus, ...] = (), timestamp: str = "") -> Claim:
    return b.claim("c", allocation=b.allocation(*results, timestamp=timestamp), device_status=says)


@pytest.mark.parametrize(
    ("claim", "awaited", "failed"),
    [
        pytest.param(of(b.result("r", "g0", "n1")), 0, 0, id="no conditions"),
        pytest.param(of(conditioned("g0")), 1, 0, id="no entry yet"),
        pytest.param(of(conditioned("g0"), says=(status("g0"),)), 1, 0, id="an entry without the condition"),
        pytest.param(of(conditioned("g0"), says=(status("g0", attached="False"),)), 1, 0, id="not True"),
        pytest.param(of(conditioned("g0"), says=(status("g0", attached="True"),)), 0, 0, id="True"),
        pytest.param(of(conditioned("g0"), says=(status("g1", attached="True"),)), 1, 0, id="True for another device"),
        pytest.param(
            of(conditioned("g0", "s1"), says=(status("g0", "s1", attached="True"),)), 0, 0, id="True for the share"
        ),
        pytest.param(
            of(conditioned("g0", "s1"), says=(status("g0", "s2", attached="True"),)), 1, 0, id="True for another share"
        ),
        pytest.param(
            of(conditioned("g0"), says=(status("g0", attached="True", broken="True"),)), 0, 1, id="ready and failed"
        ),
        pytest.param(
            of(conditioned("g0"), conditioned("g1"), says=(status("g1", broken="True"),)), 2, 1, id="a later one failed"
        ),
        pytest.param(of(conditioned("g0"), says=(status("g0", broken="False"),)), 1, 0, id="a failure that is not"),
    ],
)
def test_a_claim_is_judged_by_every_device(claim: Claim, awaited: int, failed: int) -> None:
    judged = readiness(claim)

    assert (len(judged.awaited), len(judged.failed)) == (awaited, failed)


def test_what_is_awaited_is_named() -> None:
    assert str(readiness(of(conditioned("g0"))).awaited[0]) == "attached of device gpu.example.com/n1/g0 in claim c"


def test_many_conditions_are_named_in_part() -> None:
    many = [DeviceCondition(of().id, b.device_id("g0", "n1"), f"c{number}") for number in range(10)]

    assert listed(many).endswith("c7 of device gpu.example.com/n1/g0 in claim c and 2 more")


@pytest.mark.parametrize(("claim", "has"), [(of(conditioned("g0")), True), (of(b.result("r", "g0", "n1")), False)])
def test_only_claims_with_conditions_are_waited_for(claim: Claim, has: bool) -> None:  # noqa: FBT001 - a table
    assert has_conditions(claim) is has


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        ("", None),
        ("yesterday", None),
    ],
)
def test_the_clock_starts_with_the_allocation(text: str, moment: dt.datetime | None) -> None:
    assert allocated_at(of(timestamp=text)) == moment
