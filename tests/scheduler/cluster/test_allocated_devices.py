import pytest

from scheduler.cluster.devices import AllocatedDevices, SliceIndex
from solver.domain import Allocation, ClaimId, CounterId, ResourceSlice
from tests.support.builders import GPU_DRIVER, allocation, device, device_id, resource_slice, result

A, B = ClaimId("default", "a"), ClaimId("default", "b")
GPU = device_id("gpu", "n1")
MEMORY = CounterId(GPU_DRIVER, "n1", "card", "memory")
ALONE = allocation(result("r", "gpu", "n1"))


def share(number: int, gib: int = 10) -> Allocation:
    return allocation(result("r", "gpu", "n1", share_id=f"s{number}", consumed={"memory": gib}))


def drawing(amount: int) -> ResourceSlice:
    return resource_slice("n1", device("gpu", consumes={"card": {"memory": amount}}), name="s")


class Shelf:
    """Holdings with the inventory that they look at."""

    def __init__(self) -> None:
        self.slice_index = SliceIndex()
        self.allocated_devices = AllocatedDevices(self.slice_index)
        self.slice: ResourceSlice | None = None

    def publish(self, each: ResourceSlice | None) -> None:
        before, self.slice = self.slice, each
        self.slice_index.replace(before, each)
        for one in (before, each):
            if one is not None:
                self.allocated_devices.slice_changed(one)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def nano(amount: int) -> int:
    return amount * 10**9


def charged(shelf: Shelf) -> int:
    """The nano-units of the counter that all allocated devices of the pool are charged."""
    devices = shelf.allocated_devices.in_pool(GPU.pool_id)
    drawn = (shelf.allocated_devices.draws(each) or () for each in devices)
    return sum(amount for each in drawn for counter, amount in each if counter == MEMORY)


def test_a_share_that_ends_is_free(shelf: Shelf) -> None:
    shelf.allocated_devices.replace(A, None, share(1, 10))
    shelf.allocated_devices.replace(B, None, share(2, 5))
    shelf.allocated_devices.replace(A, share(1, 10), None)

    assert shelf.allocated_devices.holders(GPU) == {B: share(2, 5).results}


def test_admin_access_holds_nothing(shelf: Shelf) -> None:
    shelf.allocated_devices.replace(A, None, allocation(result("r", "gpu", "n1", is_admin=True)))

    assert shelf.allocated_devices.holders(GPU) == {}


def test_a_shared_device_is_charged_once(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, share(1))
    shelf.allocated_devices.replace(B, None, share(2))

    assert charged(shelf) == nano(40)


def test_the_charge_ends_with_the_last_share(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, share(1))
    shelf.allocated_devices.replace(B, None, share(2))
    shelf.allocated_devices.replace(A, share(1), None)
    assert charged(shelf) == nano(40)
    shelf.allocated_devices.replace(B, share(2), None)

    assert charged(shelf) == 0


def test_a_device_held_before_any_slice_lists_it_is_charged_when_one_does(shelf: Shelf) -> None:
    shelf.allocated_devices.replace(A, None, ALONE)
    assert charged(shelf) == 0
    shelf.publish(drawing(40))

    assert charged(shelf) == nano(40)


def test_a_driver_that_alters_a_held_device_changes_no_charge(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, ALONE)
    shelf.publish(drawing(1))

    assert charged(shelf) == nano(40)


def test_a_driver_that_withdraws_a_held_device_changes_no_charge(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, ALONE)
    shelf.publish(None)

    assert charged(shelf) == nano(40)


def test_a_withdrawn_device_frees_its_counters_when_it_is_freed(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, ALONE)
    shelf.publish(None)
    shelf.allocated_devices.replace(A, ALONE, None)

    assert charged(shelf) == 0


def test_the_next_holder_is_charged_by_the_slice_of_its_day(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, ALONE)
    shelf.publish(drawing(1))
    shelf.allocated_devices.replace(A, ALONE, None)
    shelf.allocated_devices.replace(B, None, ALONE)

    assert charged(shelf) == nano(1)


def test_an_echo_that_respells_the_allocation_keeps_the_charge(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, share(1))
    shelf.publish(drawing(1))
    shelf.allocated_devices.replace(A, share(1), share(7))

    assert charged(shelf) == nano(40)


def test_the_allocated_devices_of_a_pool_are_known_with_their_draws(shelf: Shelf) -> None:
    shelf.publish(drawing(40))
    shelf.allocated_devices.replace(A, None, allocation(*ALONE.results, result("r", "unpublished", "n1")))
    shelf.allocated_devices.replace(B, None, allocation(result("r", "other", "n2")))

    assert set(shelf.allocated_devices.in_pool(GPU.pool_id)) == {GPU, device_id("unpublished", "n1")}
    assert shelf.allocated_devices.draws(GPU) == ((MEMORY, nano(40)),)
    assert shelf.allocated_devices.draws(device_id("unpublished", "n1")) is None


def test_two_results_of_one_claim_on_a_shared_device_are_both_known(shelf: Shelf) -> None:
    both = allocation(*share(1, 10).results, *share(2, 5).results)
    shelf.allocated_devices.replace(A, None, both)
    assert shelf.allocated_devices.holders(GPU) == {A: both.results}
    shelf.allocated_devices.replace(A, both, None)

    assert shelf.allocated_devices.holders(GPU) == {}
    assert list(shelf.allocated_devices.in_pool(GPU.pool_id)) == []
    assert shelf.allocated_devices.contested() == ()


def test_a_held_device_whose_slice_says_something_else_is_told_with_what_it_took(shelf: Shelf) -> None:
    shelf.publish(drawing(4))
    shelf.allocated_devices.replace(A, None, ALONE)
    taken = shelf.allocated_devices.draws(GPU)
    assert shelf.allocated_devices.altered() == ()

    shelf.publish(drawing(1))
    assert shelf.allocated_devices.altered() == ((GPU, taken),)

    shelf.publish(drawing(4))
    assert shelf.allocated_devices.altered() == ()


def test_a_held_device_that_no_slice_lists_any_more_is_told_until_it_is_free(shelf: Shelf) -> None:
    shelf.publish(drawing(4))
    shelf.allocated_devices.replace(A, None, ALONE)
    taken = shelf.allocated_devices.draws(GPU)

    shelf.publish(None)
    assert shelf.allocated_devices.altered() == ((GPU, taken),)

    shelf.allocated_devices.replace(A, ALONE, None)
    assert shelf.allocated_devices.altered() == ()
