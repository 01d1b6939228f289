"""The comparison between status write and binding: which other claims hold what the unit was given."""

import msgspec
import pytest

from scheduler.change import Object
from scheduler.cluster import Cluster, Unit
from solver.domain import Claim, Device, DeviceResult
from tests.support.builders import (
    claim,
    claim_allocation,
    consumer,
    device,
    held,
    node,
    placement,
    pod,
    resource_slice,
    result,
    share_id,
)
from tests.support.cluster_builders import cluster_of, gone, show, unit

POD, CLAIM = pod("p", "c"), claim("c")
DEVICES = resource_slice(
    "n1",
    device("a", consumes={"card": {"memory": 20}}),
    device("b", consumes={"card": {"memory": 30}}),
    device("shared", is_shareable=True, capacities={"memory": 80}),
    name="devices",
    slice_count=2,
)
COUNTERS = resource_slice("n1", name="counters", slice_count=2, counter_sets={"card": {"memory": 40}})


def share(number: int, memory: int) -> DeviceResult:
    return result("gpu", "shared", "n1", share_id=share_id(number), consumed={"memory": memory})


def unit_of(*results: object) -> Unit:
    return unit(placement(POD, "n1"), claim_allocation(CLAIM, *results))  # type: ignore[arg-type]  # results


def written(*results: object, others: tuple[Object, ...] = ()) -> tuple[Cluster, Unit]:
    """The unit is assumed, its status write has been echoed, and other claims have been seen since."""
    each = unit_of(*results)
    cluster = cluster_of(node("n1"), POD, CLAIM, DEVICES, COUNTERS)
    cluster.assume(each)
    allocation = each.allocations[0].allocation
    show(cluster, msgspec.structs.replace(CLAIM, allocation=allocation, reserved_for=(consumer("p"),)), others)
    return cluster, each


def other(*results: object) -> Claim:
    return held("other", *results)  # type: ignore[arg-type]  # results


@pytest.mark.parametrize(
    ("own", "theirs", "message"),
    [
        pytest.param(
            result("gpu", "a", "n1"), result("gpu", "a", "n1"), "is held by claim default/other", id="both alone"
        ),
        pytest.param(
            result("gpu", "shared", "n1"), share(2, 1), "is held by claim default/other", id="alone against a share"
        ),
        pytest.param(
            share(1, 1),
            result("gpu", "shared", "n1"),
            "is held alone by claim default/other",
            id="a share against alone",
        ),
        pytest.param(share(1, 50), share(2, 40), "has 40 of memory left, 50 is planned", id="over its capacity"),
        pytest.param(
            result("gpu", "a", "n1"),
            result("gpu", "b", "n1"),
            "draws 20 of card/memory, 10 is left",
            id="over counters",
        ),
    ],
)
def test_a_duplicate_names_the_device_and_the_other_claim(own: object, theirs: object, message: str) -> None:
    cluster, each = written(own, others=(other(theirs),))
    (duplicate,) = cluster.compare_after_write(each)

    assert duplicate.message == f"device {duplicate.device} {message}"
    assert duplicate.claims == (claim("other").id,)


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        pytest.param(result("gpu", "a", "n1"), result("gpu", "a", "n2"), id="another pool"),
        pytest.param(result("gpu", "a", "n1"), result("gpu", "a", "n1", is_admin=True), id="their admin access"),
        pytest.param(result("gpu", "a", "n1", is_admin=True), result("gpu", "a", "n1"), id="our admin access"),
        pytest.param(share(1, 50), share(2, 30), id="shares that fill the device"),
    ],
)
def test_what_fits_together_is_no_duplicate(own: object, theirs: object) -> None:
    cluster, each = written(own, others=(other(theirs),))

    assert cluster.compare_after_write(each) == ()


def test_a_unit_is_no_duplicate_of_itself() -> None:
    cluster, each = written(result("gpu", "a", "n1"))

    assert cluster.compare_after_write(each) == ()


def test_a_claim_of_the_unit_that_holds_the_device_already_is_named_once_before_and_after_the_assumption() -> None:
    pod_of_both, before = pod("p", "c", "old"), held("old", result("gpu", "a", "n1"))
    each = unit(placement(pod_of_both, "n1"), claim_allocation(CLAIM, result("gpu", "a", "n1")))
    cluster = cluster_of(node("n1"), pod_of_both, CLAIM, DEVICES, COUNTERS, before)
    found = cluster.compare_after_write(each)
    assert [each.claims for each in found] == [(before.id,)]

    cluster.assume(each)

    assert cluster.compare_after_write(each) == found


def test_a_device_shared_by_others_is_not_charged_to_counters_again() -> None:
    drawing = device("s", is_shareable=True, consumes={"card": {"memory": 40}})
    slices = msgspec.structs.replace(DEVICES, devices=(drawing,))
    own, theirs = (result("gpu", "s", "n1", share_id=share_id(number)) for number in (1, 2))
    each = unit_of(own)
    cluster = cluster_of(node("n1"), POD, CLAIM, slices, COUNTERS, other(theirs))
    cluster.assume(each)
    greedier = device("s", is_shareable=True, consumes={"card": {"memory": 50}})
    show(cluster, msgspec.structs.replace(slices, devices=(greedier,)))

    assert cluster.compare_after_write(each) == ()


def grouped(name: str, *groups: str, is_shareable: bool = False) -> Device:
    return device(name, consumes={"card": {"memory": 1}}, groups=groups, is_shareable=is_shareable)


@pytest.mark.parametrize(
    ("theirs", "is_found"), [(("a",), False), (("b",), True), ((), True)], ids=["the same", "another", "none"]
)
def test_a_device_without_a_compatibility_group_in_common_is_a_duplicate(
    theirs: tuple[str, ...],
    is_found: bool,  # noqa: FBT001 - a column of the table
) -> None:
    slices = msgspec.structs.replace(DEVICES, devices=(grouped("a", "a"), grouped("b", *theirs)))
    each, claimed = unit_of(result("gpu", "a", "n1")), other(result("gpu", "b", "n1"))
    cluster = cluster_of(node("n1"), POD, CLAIM, slices, COUNTERS, claimed)
    cluster.assume(each)

    found = cluster.compare_after_write(each)

    message = "device gpu.example.com/n1/a has no compatibility group of card in common with devices in use"
    assert [(each.message, each.claims) for each in found] == ([(message, (claimed.id,))] if is_found else [])


def test_a_share_of_a_device_in_use_is_not_compared_again() -> None:
    slices = msgspec.structs.replace(DEVICES, devices=(grouped("a", "a", is_shareable=True), grouped("b", "b")))
    own, theirs = (result("gpu", "a", "n1", share_id=share_id(number)) for number in (1, 2))
    each, claimed = unit_of(own), held("other", theirs, result("gpu", "b", "n1"))
    cluster = cluster_of(node("n1"), POD, CLAIM, slices, COUNTERS, claimed)
    cluster.assume(each)

    assert cluster.compare_after_write(each) == ()


def test_a_pool_in_flux_makes_no_duplicates() -> None:
    cluster, each = written(result("gpu", "a", "n1"), others=(other(result("gpu", "b", "n1")),))
    cluster.apply(gone(COUNTERS))

    assert cluster.compare_after_write(each) == ()


def test_a_driver_that_publishes_less_makes_no_duplicate_but_an_objection() -> None:
    cluster, each = written(share(1, 50))
    smaller = device("shared", is_shareable=True, capacities={"memory": 40})
    show(cluster, msgspec.structs.replace(DEVICES, devices=(smaller,)))

    assert cluster.compare_after_write(each) == ()
    assert [each.message for each in cluster.check(each)] == [
        "device gpu.example.com/n1/shared gives 50 of memory by the plan, 40 of memory by its policies",
        "device gpu.example.com/n1/shared has 40 of memory left, 50 is planned",
    ]


def test_one_claim_that_names_a_device_twice_is_objected_to() -> None:
    each = unit_of(result("one", "a", "n1"), result("two", "a", "n1"))
    cluster = cluster_of(node("n1"), POD, CLAIM, DEVICES, COUNTERS)

    assert [each.message for each in cluster.check(each)] == ["device gpu.example.com/n1/a is planned 2 times"]


JOINED = held("c", result("gpu", "a", "n1"))
JOINING = unit(placement(POD, "n1"))


@pytest.mark.parametrize("theirs", [result("gpu", "a", "n1"), result("gpu", "a", "n1", share_id=share_id(1))])
def test_a_pod_does_not_join_an_allocated_claim_whose_device_another_claim_holds(theirs: DeviceResult) -> None:
    cluster = cluster_of(node("n1"), POD, JOINED, held("other", theirs), DEVICES, COUNTERS)

    (before,) = cluster.check(JOINING)
    cluster.assume(JOINING)
    (after,) = cluster.compare_after_write(JOINING)

    assert before.message == after.message == "device gpu.example.com/n1/a is held by claim default/other"


def test_a_pod_joins_a_claim_with_which_another_pod_runs() -> None:
    """Its device is in use twice already, and no allocation of it would be removed."""
    running = pod("q", "c", node_name="n1")
    cluster = cluster_of(node("n1"), POD, running, JOINED, held("other", result("gpu", "a", "n1")), DEVICES, COUNTERS)

    assert cluster.check(JOINING) == ()


def test_a_pod_that_has_ended_does_not_run_with_its_claim() -> None:
    ended = msgspec.structs.replace(pod("q", "c", node_name="n1"), is_terminal=True)
    cluster = cluster_of(node("n1"), POD, ended, JOINED, held("other", result("gpu", "a", "n1")), DEVICES, COUNTERS)

    assert cluster.check(JOINING)


SHAREABLE = device("s", is_shareable=True, consumes={"card": {"memory": 20}})
SLICES = msgspec.structs.replace(DEVICES, devices=(*DEVICES.devices, SHAREABLE))


def part(number: int) -> DeviceResult:
    return result("gpu", "s", "n1", share_id=share_id(number))


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        pytest.param(share(1, 50), share(2, 40), "shared has 40 of memory left, 50 is planned", id="over capacity"),
        pytest.param(
            result("gpu", "a", "n1"),
            result("gpu", "b", "n1"),
            "a draws 20 of card/memory, 10 is left",
            id="over counters",
        ),
        pytest.param(
            part(1),
            (part(2), result("gpu", "b", "n1")),
            "s draws 20 of card/memory, 10 is left",
            id="a share of a device that draws too much",
        ),
    ],
)
def test_a_pod_does_not_join_an_allocated_claim_whose_devices_others_leave_no_room_for(
    ours: DeviceResult, theirs: DeviceResult | tuple[DeviceResult, ...], message: str
) -> None:
    """As two schedulers leave it that write at the same time."""
    others = theirs if isinstance(theirs, tuple) else (theirs,)
    cluster = cluster_of(node("n1"), POD, held("c", ours), other(*others), SLICES, COUNTERS)

    (before,) = cluster.check(JOINING)
    cluster.assume(JOINING)
    (after,) = cluster.compare_after_write(JOINING)

    assert before.message == after.message == f"device gpu.example.com/n1/{message}"
    assert after.claims == (claim("other").id,)


def test_a_pod_does_not_join_a_claim_with_a_partition_that_has_no_compatibility_group_in_common() -> None:
    slices = msgspec.structs.replace(DEVICES, devices=(grouped("a", "a"), grouped("b", "b")))
    theirs = other(result("gpu", "b", "n1"))
    cluster = cluster_of(node("n1"), POD, JOINED, theirs, slices, COUNTERS)

    (reason,) = cluster.check(JOINING)

    assert "has no compatibility group of card in common with devices in use" in reason.message


def test_a_pod_does_not_join_a_share_of_a_device_that_others_hold_and_that_allows_one_allocation_by_now() -> None:
    alone = msgspec.structs.replace(DEVICES, devices=(device("shared", capacities={"memory": 80}),))
    cluster = cluster_of(node("n1"), POD, held("c", share(1, 10)), other(share(2, 10)), alone, COUNTERS)

    (reason,) = cluster.check(JOINING)

    assert reason.message == (
        "device gpu.example.com/n1/shared cannot be shared any more, and is held by claim default/other"
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(result("gpu", "a", "n1", is_admin=True), result("gpu", "a", "n1"), id="admin access"),
        pytest.param(share(1, 50), share(2, 30), id="shares that fill the device"),
        pytest.param(part(1), part(2), id="shares of a device that draws once"),
        pytest.param(result("gpu", "a", "n1"), part(2), id="partitions that fill the card"),
    ],
)
def test_a_pod_joins_an_allocated_claim_that_goes_with_the_others(ours: DeviceResult, theirs: DeviceResult) -> None:
    cluster = cluster_of(node("n1"), POD, held("c", ours), other(theirs), SLICES, COUNTERS)

    assert cluster.check(JOINING) == ()


@pytest.mark.parametrize("ours", [share(1, 90), result("gpu", "greedy", "n1")], ids=["capacity", "counters"])
def test_a_pod_joins_a_claim_that_alone_holds_more_than_its_driver_publishes_by_now(ours: DeviceResult) -> None:
    slices = msgspec.structs.replace(
        DEVICES, devices=(*DEVICES.devices, device("greedy", consumes={"card": {"memory": 50}}))
    )
    cluster = cluster_of(node("n1"), POD, held("c", ours), slices, COUNTERS)

    assert cluster.check(JOINING) == ()


def test_what_a_device_was_charged_counts_when_its_driver_publishes_less_of_it() -> None:
    cluster = cluster_of(node("n1"), POD, JOINED, other(result("gpu", "b", "n1")), DEVICES, COUNTERS)
    show(cluster, msgspec.structs.replace(DEVICES, devices=(device("a"), *DEVICES.devices[1:])))

    assert [each.message for each in cluster.check(JOINING)] == [
        "device gpu.example.com/n1/a draws 20 of card/memory, 10 is left"
    ]


def test_claims_that_are_to_be_removed_do_not_count() -> None:
    """Of three shares two fit; of a card and two partitions of it the partitions do."""
    cards = msgspec.structs.replace(
        DEVICES, devices=(*DEVICES.devices, device("card", consumes={"card": {"memory": 40}}))
    )
    shares = [held(f"s{number}", share(number, 40)) for number in (1, 2, 3)]
    parts = [held(name, result("gpu", name, "n1")) for name in ("a", "card")]
    cluster = cluster_of(cards, COUNTERS, *shares, *parts)

    assert cluster.claim_conflicts(shares[0].id)
    assert not cluster.claim_conflicts(shares[0].id, (shares[1].id,))
    assert cluster.claim_conflicts(parts[0].id)
    assert not cluster.claim_conflicts(parts[0].id, (parts[1].id,))
