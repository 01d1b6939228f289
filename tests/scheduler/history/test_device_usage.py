"""How long devices were in use: samples, sums, bounds."""

import pytest

from scheduler.history import device_usage
from scheduler.history.device_usage import OTHERS, PERIODS, ClassKey, ClassSeconds, DeviceUsage, UsageKey, UsageSample
from solver.domain import Claim, PodId
from solver.domain.fleet import DeviceCount, DeviceState
from tests.support.builders import allocation, claim, consumer, gpu_slice, request, result

SLICES = (gpu_slice("n1", count=4),)
DRIVER = "gpu.example.com"


def held(name: str, *devices: str, namespace: str = "default") -> Claim:
    results = [result("gpu", each, "n1") for each in devices]
    return claim(
        name,
        request("gpu"),
        namespace=namespace,
        allocation=allocation(*results),
        reserved_for=[consumer(f"pod-{name}")],
    )


def label(pod: PodId) -> str:
    return f"queue of {pod.name}"


def sampled(*claims: Claim, seconds: float = 10.0, hours: float = 24.0) -> DeviceUsage:
    usage = DeviceUsage(hours)
    usage.sample(UsageSample(claims, SLICES), label, 1000.0)
    usage.sample(UsageSample(claims, SLICES), label, 1000.0 + seconds)
    return usage


def test_devices_count_for_the_time_between_two_samples() -> None:
    totals = sampled(held("a", "gpu-0", "gpu-1")).since(0)

    assert totals.held == {UsageKey("default", "gpu", DRIVER, "queue of pod-a"): 20.0}
    assert totals.existing == {DRIVER: 40.0}
    assert (totals.begin, totals.end) == (1000.0, 1010.0)


def test_a_device_that_claims_share_counts_once() -> None:
    totals = sampled(held("a", "gpu-0"), held("b", "gpu-0", namespace="team")).since(0)

    assert sorted(totals.held.values()) == [5.0, 5.0]


def test_after_a_long_gap_only_90_seconds_count() -> None:
    totals = sampled(held("a", "gpu-0"), seconds=7200.0).since(0)

    assert list(totals.held.values()) == [90.0]


def test_claims_without_an_allocation_use_nothing() -> None:
    assert sampled(claim("a")).since(0).held == {}


def test_a_clock_that_goes_back_counts_nothing() -> None:
    usage = sampled(held("a", "gpu-0"))
    usage.sample(UsageSample([held("a", "gpu-0")], SLICES), label, 500.0)

    assert sum(usage.since(0).held.values()) == 10.0


def test_a_clock_that_is_put_back_leaves_times_in_order() -> None:
    usage = sampled(held("a", "gpu-0"))
    for now in (500.0, 530.0):
        usage.sample(UsageSample([held("a", "gpu-0")], SLICES), label, now)

    totals = usage.since(0)

    assert (totals.begin, totals.end, totals.seconds) == (500.0, 1010.0, 40.0)


def test_time_that_was_not_sampled_is_not_averaged() -> None:
    usage = sampled(held("a", "gpu-0"))
    usage.sample(UsageSample([held("a", "gpu-0")], SLICES), label, 8000.0)

    totals = usage.since(0)

    assert totals.seconds == sum(totals.held.values()) == 100.0


def test_keys_that_are_too_many_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_usage, "_MOST_KEYS", 2)
    claims = [held(f"c{number}", f"gpu-{number}", namespace=f"team-{number}") for number in range(4)]

    found = dict(sampled(*claims).since(0).held)

    assert found.pop(UsageKey(OTHERS, OTHERS, DRIVER, OTHERS)) == 20.0
    assert len(found) == 2


def test_labels_that_are_too_many_do_not_hide_other_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_usage, "_MOST_KEYS", 4)
    claims = [held(f"c{number}", f"gpu-{number}", namespace="loud") for number in range(9)]

    found = sampled(*claims, held("d", "gpu-9", namespace="quiet")).since(0).held

    assert found[UsageKey("quiet", "gpu", DRIVER, OTHERS)] == 10.0
    assert found[UsageKey("loud", "gpu", DRIVER, OTHERS)] == 70.0


def test_old_periods_are_dropped() -> None:
    usage, period = DeviceUsage(1.0), 3600 / PERIODS
    for step in range(4 * PERIODS):
        usage.sample(UsageSample([held("a", "gpu-0")], SLICES), label, step * period)

    totals = usage.since(0)

    assert totals.end - totals.begin <= 2 * 3600
    assert sum(usage.since(totals.end - 600).held.values()) == pytest.approx(600, abs=2 * period)


def test_what_is_idle_is_known_by_class_and_driver() -> None:
    counts = [
        DeviceCount(driver=DRIVER, device_class="gpu", node_group=group, state=state, count=count)
        for group, state, count in (
            ("a", DeviceState.HELD, 2),
            ("b", DeviceState.SHARED, 1),
            ("b", DeviceState.FREE, 4),
            ("b", DeviceState.UNUSABLE, 1),
        )
    ]
    none = DeviceCount(driver="nic", device_class="", node_group="a", state=DeviceState.FREE, count=9)
    usage = DeviceUsage(1.0)
    for now in (1000.0, 1010.0, 1000.0 + 3600 / PERIODS + 30, 1000.0 + 3600 / PERIODS + 40):
        usage.sample(UsageSample((), SLICES, [*counts, none]), label, now)

    seconds = 10 + 3600 / PERIODS + 20 + 10
    assert usage.since(0).classes == {ClassKey("gpu", DRIVER): ClassSeconds(3 * seconds, 8 * seconds)}


def test_classes_are_averaged_over_the_time_since_their_devices_were_counted() -> None:
    usage = DeviceUsage(24)
    counted = DeviceCount(driver=DRIVER, device_class="gpu", node_group="", state=DeviceState.FREE, count=4)
    for now, devices in ((0.0, ()), (60.0, ()), (120.0, (counted,)), (180.0, (counted,))):
        usage.sample(UsageSample((), SLICES, devices), label, now)

    totals = usage.since(0)

    assert (totals.seconds, totals.class_seconds) == (180.0, 120.0)
    (seconds,) = totals.classes.values()
    assert seconds.existing / totals.class_seconds == 4
