"""Compatibility groups: devices in use that contradict each other, large counter sets, shares, and victims."""

from collections.abc import Sequence

import pytest

from solver import solve
from solver.domain import Claim, Device, Policy, ResourceSlice
from solver.feasibility import pools
from solver.problem.devices.compatibility import exclusions_of
from tests.support import builders as b
from tests.support import solver_problems as s

N1, GPU = b.node("n1"), b.gpu_class()


def partition(name: str, *groups: str, is_shareable: bool = False, model: str = "") -> Device:
    return b.device(
        name,
        consumes={"card": {"slices": 1}},
        groups=groups,
        is_shareable=is_shareable,
        attributes={"model": model or name},
    )


def card(*devices: Device) -> tuple[ResourceSlice, ...]:
    return (
        b.resource_slice("n1", *devices, slice_count=2),
        b.resource_slice("n1", counter_sets={"card": {"slices": 8}}, slice_count=2),
    )


def placed(objects: Sequence[s.Objects], *pods: str) -> int:
    found = s.plan(N1, GPU, *objects, pods=tuple(b.pod(f"p-{claim}", claim) for claim in pods))
    return len(found.placements)


def asking(name: str, model: str) -> Claim:
    return b.claim(name, b.request("r", selectors=(f"device.attributes['{b.GPU_DRIVER}'].model == '{model}'",)))


ROWS: tuple[tuple[str, tuple[tuple[str, ...], ...], bool], ...] = (
    ("no groups", ((), ()), True),
    ("one group", (("a",), ("a",)), True),
    ("one in common", (("a", "b"), ("b", "c")), True),
    ("none in common", (("a",), ("b",)), False),
    ("a group and none", (("a",), ()), False),
    ("one in common of three", (("a", "b"), ("b",), ("b", "c")), True),
    ("one in common of each two, none of three", (("a", "b"), ("b", "c"), ("c", "a")), False),
)


@pytest.mark.parametrize(("groups", "is_possible"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_devices_of_one_counter_set_have_a_group_in_common(
    groups: tuple[tuple[str, ...], ...],
    is_possible: bool,  # noqa: FBT001 - a column of the table
) -> None:
    devices = card(*(partition(f"d{index}", *each) for index, each in enumerate(groups)))
    whole = b.claim("c", b.request("r", count=len(groups)))
    assert placed((*devices, whole), "c") == int(is_possible)


def test_devices_of_different_counter_sets_are_never_compared() -> None:
    devices = [b.device(f"d{name}", consumes={name: {"slices": 1}}, groups=(name,)) for name in ("a", "b")]
    counters = b.resource_slice("n1", counter_sets={"a": {"slices": 1}, "b": {"slices": 1}}, slice_count=2)
    both = b.claim("c", b.request("r", count=2))
    assert placed((b.resource_slice("n1", *devices, slice_count=2), counters, both), "c") == 1


def test_no_further_device_fits_where_devices_in_use_contradict_each_other() -> None:
    devices = card(partition("one", "a"), partition("two", "b"), partition("free", "a", "b"))
    held = [b.held(f"h-{name}", b.result("r", name, "n1")) for name in ("one", "two")]
    assert placed((*devices, *held[:1], asking("c", "free")), "c") == 1
    assert placed((*devices, *held, asking("c", "free")), "c") == 0


def test_a_further_share_of_a_device_in_use_is_not_compared() -> None:
    devices = card(partition("shared", "a", is_shareable=True), partition("other", "b"))
    shares = b.held("h-1", b.result("r", "shared", "n1", share_id=b.share_id(1)))
    other = b.held("h-2", b.result("r", "other", "n1"))
    assert placed((*devices, shares, other, asking("c", "shared")), "c") == 1


def test_groups_are_those_published_now_whatever_was_drawn_at_the_allocation() -> None:
    devices = card(partition("one", "a"), partition("free", "b"))
    held = b.held("h", b.result("r", "one", "n1"))
    cluster = b.snapshot(N1, devices, GPU, asking("c", "free"), held, draws={b.device_id("one", "n1"): {}})
    assert solve(cluster, b.batch(b.pod("p", "c")), Policy(), s.PATIENT).placements == ()


def test_of_a_counter_set_that_costs_too_much_one_device_may_be_in_use() -> None:
    devices = card(*(partition(f"d{index}", f"g{index}", "x" if index else "y") for index in range(100)))
    (pool,) = pools.resolve(devices).values()
    assert sorted(exclusions_of(pool).budgets.values()) == [1, 100]
    assert placed((*devices, b.claim("c", b.request("r")), b.claim("e", b.request("r"))), "c", "e") == 1


def test_a_device_with_three_groups_makes_its_pool_invalid() -> None:
    (pool,) = pools.resolve(card(partition("d", "a", "b", "c"))).values()
    assert "3 compatibility groups" in pool.invalid
