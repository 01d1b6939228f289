import pytest
from msgspec.structs import replace

from scheduler.cluster.devices import _MOST_POOLS, SliceIndex
from solver.domain import PoolId
from tests.support.builders import GPU_DRIVER, device, device_id, quantity, resource_slice

POOL = PoolId(GPU_DRIVER, "n1")
OLD = resource_slice("n1", device("a"), device("b"), name="old", generation=1)
NEW = resource_slice("n1", device("a"), name="new", generation=2)


def inventory_of(*slices: object) -> SliceIndex:
    inventory = SliceIndex()
    for each in slices:
        inventory.replace(None, each)  # type: ignore[arg-type]  # slices
    return inventory


@pytest.mark.parametrize(
    ("slices", "is_whole"),
    [
        pytest.param([OLD], True, id="one slice of one"),
        pytest.param([OLD, NEW], True, id="the newest generation is whole"),
        pytest.param([resource_slice("n1", slice_count=2)], False, id="one slice of two"),
        pytest.param([resource_slice("n1", name=name, slice_count=2) for name in "ab"], True, id="two slices of two"),
        pytest.param(
            [OLD, resource_slice("n1", name="new", generation=2, slice_count=2)],
            False,
            id="a newer generation in part, never an older one",
        ),
        pytest.param(
            [resource_slice("n1", name=name, slice_count=1) for name in "ab"], False, id="more slices than stated"
        ),
        pytest.param(
            [resource_slice("n1", name="a", slice_count=2), resource_slice("n1", name="b", slice_count=3)],
            False,
            id="slices that state different counts",
        ),
    ],
)
def test_a_pool_is_judged_by_its_newest_generation(
    slices: list[object],
    is_whole: bool,  # noqa: FBT001 - a column of the table
) -> None:
    newest = max(each.generation for each in slices)  # type: ignore[attr-defined]  # slices
    trouble = "" if is_whole else f"its newest generation {newest} is not published whole"

    assert inventory_of(*slices).checked([POOL]).view(POOL).trouble == trouble


def test_counters_are_those_of_the_newest_generation() -> None:
    inventory = inventory_of(
        resource_slice("n1", name="old", generation=1, counter_sets={"card": {"memory": 5}}),
        resource_slice("n1", name="new", generation=2, counter_sets={"card": {"memory": 7}}),
    )

    assert inventory.checked([POOL]).view(POOL).counters == {("card", "memory"): quantity(7)}


def published(inventory: SliceIndex, pool: PoolId = POOL) -> list[str]:
    """The slices of the newest generation, after they were looked at as they were before."""
    return [each.name for each in inventory.checked([pool]).view(pool).slices]


def test_a_pool_that_was_checked_follows_its_slices() -> None:
    inventory = inventory_of(OLD)
    assert published(inventory) == ["old"]
    inventory.replace(None, NEW)
    assert published(inventory) == ["new"]
    again = replace(NEW, generation=3)
    inventory.replace(NEW, again)
    assert inventory.checked([POOL]).view(POOL).slices == (again,)
    inventory.replace(again, None)
    assert published(inventory) == ["old"]
    inventory.replace(OLD, None)

    assert published(inventory) == []
    assert inventory.find(device_id("a", "n1")) is None
    inventory.replace(None, OLD)
    assert published(inventory) == ["old"]


def test_pools_that_were_not_checked_lately_are_read_again() -> None:
    slices = [resource_slice(f"n{number}", name=f"s{number}") for number in range(_MOST_POOLS + 2)]
    inventory = inventory_of(*slices)
    for each in slices:
        inventory.checked([each.pool_id])
    assert len(inventory._recent) == _MOST_POOLS  # noqa: SLF001 - what is kept
    inventory.replace(slices[0], replace(slices[0], name="later"))
    assert published(inventory, slices[0].pool_id) == ["later"]

    every = [each.pool_id for each in slices]
    pools = inventory.checked(every)
    assert all(pools.view(each).slices for each in every)  # as many as a unit needs at a time


def test_a_device_is_found_in_the_newest_slice_that_lists_it() -> None:
    listing = inventory_of(NEW, OLD).find(device_id("a", "n1"))

    assert listing is not None
    assert listing.slice.name == "new"


def test_a_device_that_the_newest_generation_leaves_out_is_found_in_the_older_one() -> None:
    listing = inventory_of(NEW, OLD).find(device_id("b", "n1"))

    assert listing is not None
    assert listing.slice.name == "old"


def test_a_device_that_a_changed_slice_leaves_out_is_not_found() -> None:
    inventory = inventory_of(OLD)
    inventory.replace(OLD, resource_slice("n1", device("a"), name="old"))

    assert inventory.find(device_id("a", "n1")) is not None
    assert inventory.find(device_id("b", "n1")) is None


def test_a_slice_that_lists_a_device_twice_lists_it_once() -> None:
    twice = resource_slice("n1", device("a"), device("a"), name="twice")
    inventory = inventory_of(twice)
    inventory.replace(twice, None)

    assert inventory.find(device_id("a", "n1")) is None


def test_equal_pool_names_of_two_drivers_are_two_pools() -> None:
    inventory = inventory_of(OLD, resource_slice("n1", name="other", driver="other.example.com", generation=5))

    assert published(inventory) == ["old"]
