"""A device that stands beside one of another driver is worth more where its loss costs a pair."""

import pytest
from msgspec import structs

from solver.domain import Device, ResourceSlice
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.inventory_builder import pairs_on
from solver.problem.devices.inventory_update import updated_inventory
from solver.problem.devices.slice_cache import SliceCache
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "resource.kubernetes.io/pcieRoot"
CARD_DRIVER = "nic.example.com"


def at(name: str, root: b.Attribute, attribute: str = ROOT, *, is_shareable: bool = False) -> Device:
    return b.device(name, attributes={attribute: root}, is_shareable=is_shareable)


def slices(gpus: list[Device], cards: list[Device]) -> tuple[ResourceSlice, ...]:
    return (b.resource_slice("n", *gpus), b.resource_slice("n", *cards, driver=CARD_DRIVER))


def stock(published: tuple[ResourceSlice, ...]) -> Inventory:
    return s.inventory(b.node("n"), published)


def worth(gpus: list[Device], cards: list[Device]) -> dict[str, int]:
    """What each device is worth beyond what it is worth alone, without those that are worth no more."""
    found = stock(slices(gpus, cards))
    return {each.id.device: each.value - 1 for each in found.records.values() if each.value > 1}


def test_a_device_without_a_partner_is_worth_no_more() -> None:
    assert worth([at("g0", "a"), at("g1", "b")], [at("c0", "a"), at("c1", "elsewhere")]) == {"g0": 1, "c0": 1}


def test_of_more_devices_than_partners_the_first_are_spare() -> None:
    assert worth([at("g0", "a"), at("g1", "a"), at("g2", "a")], [at("c0", "a")]) == {"g2": 1, "c0": 1}


def test_each_attribute_that_pairs_counts() -> None:
    near = b.device("g0", attributes={ROOT: "a", "resource.kubernetes.io/numaNode": 0})
    far = b.device("g1", attributes={ROOT: "b", "resource.kubernetes.io/numaNode": 0})
    cards = [b.device(f"c{i}", attributes={ROOT: "a", "resource.kubernetes.io/numaNode": 0}) for i in range(2)]
    assert worth([far, near], cards) == {"g0": 2, "g1": 1, "c0": 1, "c1": 2}


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("numa", 0), (f"{b.GPU_DRIVER}/numa", 0), ("resource.kubernetes.io/ready", True)],
    ids=["a name without a domain", "a driver's own name", "a flag"],
)
def test_what_no_place_has_for_a_name_pairs_nothing(attribute: str, value: b.Attribute) -> None:
    assert worth([at("g0", value, attribute)], [at("c0", value, attribute)]) == {}


def test_devices_of_one_driver_are_no_partners() -> None:
    assert worth([at("g0", "a"), at("g1", "a")], [at("c0", "b")]) == {}


def test_shares_and_partitions_are_never_spare() -> None:
    shares = [at("g0", "a", is_shareable=True), at("g1", "a", is_shareable=True)]
    assert worth(shares, [at("c0", "a")]) == {"g0": 1, "g1": 1, "c0": 1}
    cuts = [b.device(f"g{i}", attributes={ROOT: "a"}, consumes={"card": {"memory": 1}}) for i in range(2)]
    published = (
        b.resource_slice("n", *cuts, slice_count=2),
        b.resource_slice("n", slice_count=2, counter_sets={"card": {"memory": 2}}),
        b.resource_slice("n", at("c0", "a"), driver=CARD_DRIVER),
    )
    assert [each.value for each in stock(published).records.values()] == [2, 2, 2]


def test_what_is_lost_goes_by_what_is_free() -> None:
    found = stock(slices([at("g0", "a"), at("g1", "a"), at("g2", "b")], [at("c0", "a"), at("c1", "b")]))
    index = {each.id.device: each.index for each in found.records.values()}
    pairing = pairs_on(found, 0)
    assert pairing is not None

    def lost(name: str, *taken: str) -> int:
        used = {index[each] for each in taken}
        return pairing.lost(index[name], lambda record: record not in used)

    assert (lost("g0"), lost("g2"), lost("c0")) == (0, 1, 1)
    assert lost("g0", "g1") == 1
    assert lost("g0", "g1", "c0") == 0
    assert lost("g2", "c1") == 0


@pytest.mark.parametrize("roots", ["b", "c", "a", "", "aa", "ab", "bb"])
def test_devices_of_other_slices_get_and_lose_partners(roots: str) -> None:
    before = slices([at("g0", "a"), at("g1", "b")], [at("c0", "a")])
    cards = tuple(at(f"c{number}", root) for number, root in enumerate(roots))
    after = (before[0], structs.replace(before[1], devices=cards))
    found = updated_inventory(stock(before), before, after, (), SliceCache())
    assert found is not None
    assert {each.id: each.value for each in found.inventory.records.values()} == {
        each.id: each.value for each in stock(after).records.values()
    }
