import pytest

from scheduler.cluster.devices import PoolFacts, SliceIndex, pool_facts
from solver.domain import CounterId, PoolId
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
    ("slices", "generation", "is_complete"),
    [
        pytest.param([OLD], 1, True, id="one slice of one"),
        pytest.param([OLD, NEW], 2, True, id="the newest generation is whole"),
        pytest.param([resource_slice("n1", slice_count=2)], 1, False, id="one slice of two"),
        pytest.param(
            [resource_slice("n1", name=name, slice_count=2) for name in "ab"], 1, True, id="two slices of two"
        ),
        pytest.param(
            [OLD, resource_slice("n1", name="new", generation=2, slice_count=2)],
            2,
            False,
            id="a newer generation in part, never an older one",
        ),
        pytest.param(
            [resource_slice("n1", name=name, slice_count=1) for name in "ab"], 1, False, id="more slices than stated"
        ),
        pytest.param(
            [resource_slice("n1", name="a", slice_count=2), resource_slice("n1", name="b", slice_count=3)],
            1,
            False,
            id="slices that state different counts",
        ),
    ],
)
def test_a_pool_is_judged_by_its_newest_generation(
    slices: list[object],
    generation: int,
    is_complete: bool,  # noqa: FBT001 - a column of the table
) -> None:
    facts = pool_facts(slices)  # type: ignore[arg-type]  # slices

    assert (facts.generation, facts.is_complete) == (generation, is_complete)


def test_counters_are_those_of_the_newest_generation() -> None:
    sets = [
        resource_slice("n1", name="old", generation=1, counter_sets={"card": {"memory": 5}}),
        resource_slice("n1", name="new", generation=2, counter_sets={"card": {"memory": 7}}),
    ]

    assert pool_facts(sets).counters == ((CounterId(GPU_DRIVER, "n1", "card", "memory"), quantity(7)),)


def test_facts_follow_a_new_slice() -> None:
    inventory = inventory_of(OLD)
    assert inventory.facts(POOL) == PoolFacts(generation=1, is_complete=True)
    inventory.replace(None, NEW)

    assert inventory.facts(POOL) == PoolFacts(generation=2, is_complete=True)


def test_facts_follow_a_deleted_slice() -> None:
    inventory = inventory_of(OLD, NEW)
    assert inventory.facts(POOL) == PoolFacts(generation=2, is_complete=True)
    inventory.replace(NEW, None)

    assert inventory.facts(POOL) == PoolFacts(generation=1, is_complete=True)


def test_a_pool_without_slices_has_no_facts() -> None:
    inventory = inventory_of(OLD)
    inventory.replace(OLD, None)

    assert inventory.facts(POOL) is None
    assert inventory.find(device_id("a", "n1")) is None


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

    assert inventory.facts(POOL) == PoolFacts(generation=1, is_complete=True)
