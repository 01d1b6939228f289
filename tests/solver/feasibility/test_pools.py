"""Which generation of a pool counts, and what makes a pool unusable."""

import pytest
from msgspec.structs import replace

from solver.domain import CounterSet, PoolId, ResourceSlice
from solver.feasibility import pools
from tests.support import builders as b

POOL = PoolId(b.GPU_DRIVER, "n1")


def part(name: str, *device_names: str, generation: int = 1, slice_count: int = 1) -> ResourceSlice:
    devices = (b.device(each) for each in device_names)
    return b.resource_slice("n1", *devices, name=name, generation=generation, slice_count=slice_count)


def resolved(*slices: ResourceSlice) -> pools.Pool:
    return pools.resolve(slices)[POOL]


def test_a_pool_published_whole_can_be_used() -> None:
    assert resolved(part("a", "d0", slice_count=2), part("b", "d1", slice_count=2)).is_usable


def test_slices_are_sorted_by_name() -> None:
    pool = resolved(part("b", "d1", slice_count=2), part("a", "d0", slice_count=2))
    assert [each.name for each in pool.slices] == ["a", "b"]


def test_only_the_highest_generation_counts() -> None:
    pool = resolved(part("old", "d0"), part("new", "d1", generation=2))
    assert [each.name for each in pool.slices] == ["new"]


def test_an_older_generation_never_stands_in_for_one_that_is_not_whole() -> None:
    assert not resolved(part("old", "d0"), part("new", "d1", generation=2, slice_count=2)).is_usable


def test_a_pool_with_too_few_slices_is_incomplete() -> None:
    assert not resolved(part("a", "d0", slice_count=2)).is_complete


def test_a_pool_with_too_many_slices_is_incomplete() -> None:
    assert not resolved(part("a", "d0"), part("b", "d1")).is_complete


def test_an_incomplete_pool_is_not_called_invalid() -> None:
    assert resolved(part("a", "d0", "d0", slice_count=2)).invalid == ""


def test_slices_on_several_nodes_are_counted_together() -> None:
    far = b.resource_slice("n1", b.device("d1"), name="far", at=b.scope("n2"), slice_count=2)
    assert resolved(part("a", "d0", slice_count=2), far).is_usable


def test_pools_of_two_drivers_are_two_pools() -> None:
    other = b.resource_slice("n1", b.device("d0"), driver="other.example.com")
    assert list(pools.resolve([part("a", "d0"), other])) == [POOL, PoolId("other.example.com", "n1")]


def test_a_slice_without_devices_counts_as_a_slice() -> None:
    assert resolved(part("a", slice_count=2), part("b", "d0", slice_count=2)).is_usable


def counted(*names: str) -> ResourceSlice:
    return b.resource_slice(
        "n1", name="counters", slice_count=2, counter_sets={name: {"memory": "8Gi"} for name in names}
    )


def negative_set() -> CounterSet:
    return b.resource_slice("n1", counter_sets={"set": {"memory": -1}}).counter_sets[0]


def drawing(counter_set: str = "set", counter: str = "memory", amount: int = 1) -> ResourceSlice:
    return b.resource_slice("n1", b.device("d0", consumes={counter_set: {counter: amount}}), slice_count=2)


def doubled() -> ResourceSlice:
    return replace(counted("set"), counter_sets=counted("set").counter_sets * 2)


INVALID: tuple[tuple[str, tuple[ResourceSlice, ...], str], ...] = (
    ("a device twice in one slice", (part("a", "d0", "d0"),), "device d0 is published 2 times"),
    (
        "a device in two slices",
        (part("a", "d0", slice_count=2), part("b", "d0", slice_count=2)),
        "device d0 is published 2 times",
    ),
    (
        "slices that count differently",
        (part("a", "d0", slice_count=2), part("b", "d1", slice_count=3)),
        "its slices state 2 and 3 slices",
    ),
    ("a counter set twice", (doubled(), part("a", "d0", slice_count=2)), "counter set set is published 2 times"),
    (
        "an unknown counter set",
        (counted("set"), drawing("other")),
        "device d0 consumes the unknown counter set other",
    ),
    (
        "an unknown counter",
        (counted("set"), drawing("set", "cores")),
        "device d0 consumes the unknown counter set/cores",
    ),
    (
        "a counter below nothing",
        (replace(counted("set"), counter_sets=(negative_set(),)), drawing()),
        "counter set/memory is -1: write no negative amount",
    ),
    (
        "a device that consumes less than nothing",
        (counted("set"), drawing(amount=-1)),
        "what device d0 consumes of counter set/memory is -1: write no negative amount",
    ),
    (
        "a capacity below nothing",
        (b.resource_slice("n1", b.device("d0", capacities={"memory": "-5Gi"})),),
        "capacity memory of device d0 is -5Gi: write no negative amount",
    ),
    *(
        (
            f"a policy whose {name} is below nothing",
            (b.resource_slice("n1", b.device("d0", capacities={"memory": capacity})),),
            "an amount in the request policy of capacity memory of device d0 is -1: write no negative amount",
        )
        for name, capacity in {
            "default": b.capacity(4, default=-1),
            "value": b.capacity(4, default=1, valid_values=(-1, 1)),
            "minimum": b.capacity(4, default=1, minimum=-1),
            "step": b.capacity(4, default=1, minimum=0, step=-1),
        }.items()
    ),
)


@pytest.mark.parametrize(("slices", "problem"), [row[1:] for row in INVALID], ids=[row[0] for row in INVALID])
def test_a_pool_that_contradicts_itself_is_invalid(slices: tuple[ResourceSlice, ...], problem: str) -> None:
    pool = resolved(*slices)
    assert (pool.invalid, pool.is_usable) == (problem, False)


def test_a_known_counter_is_fine() -> None:
    assert resolved(counted("set"), drawing()).is_usable


def test_a_pool_that_is_known_is_looked_at_again_only_where_its_slices_changed() -> None:
    same, old = part("a", "d0"), b.resource_slice("n2", b.device("d0"), name="b")
    before = pools.resolve((same, old))
    other = PoolId(b.GPU_DRIVER, "n2")
    for changed in (
        (replace(old, slice_count=2),),
        (old, replace(old, name="c", generation=0)),
        (old, replace(old, name="c")),
        (replace(old, generation=2),),
        (),
    ):
        now = pools.resolve((same, *changed), before)
        assert now == pools.resolve((same, *changed))
        assert now[POOL] is before[POOL]
        assert now.get(other) is not before[other]
    assert pools.resolve((same, old), before)[other] is before[other]
