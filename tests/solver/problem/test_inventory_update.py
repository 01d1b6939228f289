"""Devices that come or go: all others keep their records, and what has to be built anew is."""

from unittest import mock

import pytest
from msgspec import structs

from solver import solve
from solver.domain import (
    Batch,
    Device,
    DeviceId,
    DeviceTaintRule,
    NodeAllocatableMapping,
    Policy,
    ResourceSlice,
    Snapshot,
)
from solver.problem.devices import inventory_builder, inventory_update
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.inventory_update import UpdatedInventory, updated_inventory
from solver.problem.devices.slice_cache import SliceCache
from solver.problem.prepare import prepare
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support import solver_problems as s

NODES = tuple(b.node(f"n{index}") for index in range(4))


def pool(number: int, *names: str, driver: str = b.GPU_DRIVER) -> ResourceSlice:
    return b.resource_slice(f"n{number}", *map(b.device, names or ("d0", "d1")), driver=driver)


DEVICES = tuple(b.device(f"e{number}") for number in range(3))
NEW = [f"n0x/{each.name}" for each in DEVICES]
BEFORE = (pool(0), pool(1), pool(3))


def updated(
    after: tuple[ResourceSlice, ...],
    before: tuple[ResourceSlice, ...] = BEFORE,
    rules: tuple[DeviceTaintRule, ...] = (),
    known: Inventory | None = None,
) -> UpdatedInventory | None:
    return updated_inventory(known or s.inventory(NODES, before), before, after, rules, SliceCache())


def order(found: UpdatedInventory) -> list[str]:
    return [f"{each.id.pool}/{each.id.device}" for each in found.inventory.records.values()]


COMING: dict[str, tuple[tuple[ResourceSlice, ...], list[str]]] = {
    "first": ((pool(0, driver="a.example.com"), *BEFORE), ["n0/d0", "n0/d1"]),
    "between": ((*BEFORE, pool(2)), ["n2/d0", "n2/d1"]),
    "last": ((*BEFORE, pool(0, driver="z.example.com")), ["n0/d0", "n0/d1"]),
    "in a slice": ((BEFORE[0], pool(1, "d0", "d1", "d2"), BEFORE[2]), ["n1/d0", "n1/d1", "n1/d2"]),
    "in a new slice": (
        (
            BEFORE[0],
            structs.replace(BEFORE[1], slice_count=2),
            structs.replace(pool(1, "d2"), name="zz", slice_count=2),
            BEFORE[2],
        ),
        ["n1/d0", "n1/d1", "n1/d2"],
    ),
}


@pytest.mark.parametrize(("after", "described"), COMING.values(), ids=COMING)
def test_a_device_that_comes_stands_where_a_new_inventory_has_it(
    after: tuple[ResourceSlice, ...], described: list[str]
) -> None:
    known = s.inventory(NODES, BEFORE)
    found = updated(after, known=known)
    assert found is not None
    anew = s.inventory(NODES, after)
    assert order(found) == [f"{each.id.pool}/{each.id.device}" for each in anew.records.values()]
    assert list(found.inventory.records) == sorted(found.inventory.records)
    fresh = [each for index, each in found.inventory.records.items() if each is not known.records.get(index)]
    assert [f"{each.id.pool}/{each.id.device}" for each in fresh] == described


def test_other_devices_keep_their_records_when_a_slice_goes_and_comes_back() -> None:
    known = s.inventory(NODES, BEFORE)
    gone = updated((BEFORE[0], BEFORE[2]), known=known)
    assert gone is not None
    assert [record for record in known.records.values() if record.home != 1] == list(gone.inventory.records.values())
    back = updated(BEFORE, (BEFORE[0], BEFORE[2]), known=gone.inventory)
    assert back is not None
    assert order(back) == ["n0/d0", "n0/d1", "n1/d0", "n1/d1", "n3/d0", "n3/d1"]
    kept = [record for record in back.inventory.records.values() if record.home != 1]
    assert kept == list(gone.inventory.records.values())


def test_what_was_given_out_before_stays_as_it_is() -> None:
    known = s.inventory(NODES, BEFORE)
    assert updated((*BEFORE[:2], pool(2)), known=known) is not None
    anew = s.inventory(NODES, BEFORE)
    assert [(index, each.id) for index, each in known.records.items()] == [
        (index, each.id) for index, each in anew.records.items()
    ]
    assert (known.by_home, known.record_of, known.has_devices.tolist()) == (
        anew.by_home,
        anew.record_of,
        anew.has_devices.tolist(),
    )


def test_without_room_between_two_slices_the_inventory_is_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_builder, "SPACE", 1)
    assert updated((*BEFORE, pool(2, "d0"))) is not None
    assert updated((*BEFORE, pool(2, "d0", "d1"))) is None


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((BEFORE[0], pool(1, "d0", "d1", "d2", "d3"), BEFORE[2]), ["n1/d0", "n1/d1", "n1/d2", "n1/d3"]),
        ((BEFORE[0], b.resource_slice("n0x", *DEVICES, at=b.scope("n0")), pool(1, "d0"), BEFORE[2]), [*NEW, "n1/d0"]),
    ],
    ids=["a slice that grows", "a new slice before a changed one"],
)
def test_indices_that_others_have_are_not_given_out_again(
    after: tuple[ResourceSlice, ...], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory_builder, "SPACE", 1)
    found = updated(after)
    assert found is not None
    assert order(found) == ["n0/d0", "n0/d1", *expected, "n3/d0", "n3/d1"]
    assert [found.inventory.records[index].id for index in found.inventory.record_of.values()] == list(
        found.inventory.record_of
    )


def test_what_devices_take_of_their_nodes_goes_with_them() -> None:
    takes = (NodeAllocatableMapping(resource="cpu", allocation_multiplier=b.quantity(1)),)
    taking = structs.replace(pool(2), devices=(b.device("d0"), structs.replace(b.device("d1"), node_allocatable=takes)))
    before, after = (*BEFORE, taking), (*BEFORE, pool(2, "d0"))
    assert s.inventory(NODES, before).takes_node_resources
    for new, old, is_taken in ((after, before, False), (BEFORE, before, False), (before, BEFORE, True)):
        found = updated(new, old)
        assert found is not None
        assert found.inventory.takes_node_resources is is_taken


def _of_size(name: str, memory: int) -> Device:
    return b.device(name, capacities={"memory": memory})


@pytest.mark.parametrize(("memory", "is_updated"), [(1, True), (2, True), (3, False)])
def test_a_device_larger_than_all_others_changes_what_these_are_worth(memory: int, *, is_updated: bool) -> None:
    before = tuple(b.resource_slice(f"n{number}", _of_size("d0", number + 1)) for number in range(2))
    after = (*before, b.resource_slice("n2", _of_size("d0", memory)))
    for old, new in ((before, after), (after, before)):
        found = updated(new, old)
        assert (found is not None) is is_updated
        anew = s.inventory(NODES, new)
        made = anew if found is None else found.inventory
        assert [each.value for each in made.records.values()] == [each.value for each in anew.records.values()]


def test_many_slices_at_once_or_one_after_the_other_are_a_reason_to_build_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_update, "_MOST_SLICES", 3)
    assert updated((*BEFORE, pool(2), *(pool(each, driver="z.example.com") for each in range(2)))) is not None
    assert updated((*BEFORE, pool(2), *(pool(each, driver="z.example.com") for each in range(3)))) is None
    known, last = s.inventory(NODES, BEFORE), BEFORE
    counts = []
    for number in range(4):
        after = (*BEFORE[:2], pool(3, f"d{number}"))
        found = updated(after, last, known=known)
        counts.append(found is not None)
        known, last = (found.inventory, after) if found is not None else (s.inventory(NODES, after), after)
    assert counts == [True, False, True, False]


@pytest.mark.parametrize(("concerned", "rule"), [([1], "n1"), ([], "elsewhere")])
def test_a_taint_rule_concerns_only_what_it_selects(concerned: list[int], rule: str) -> None:
    found = updated(BEFORE, rules=(b.taint_rule("r", b.taint("hot"), pool=rule),))
    assert found is not None
    assert {found.inventory.records[index].home for index in found.replaced} == set(concerned)
    assert {each.home for each in found.inventory.records.values() if each.taints} == set(concerned)


def test_claims_keep_their_devices_where_others_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inventory is built once."""
    build = mock.Mock(wraps=inventory_builder.build_inventory)
    monkeypatch.setattr(inventory_builder, "build_inventory", build)
    held = [b.held(f"h{number}", b.result("r0", "d1", f"n{number}")) for number in range(4)]
    cache, batch = SolverCache(), b.batch(b.pod("p", "c"))
    snapshot = b.snapshot(NODES, b.gpu_class(), b.claim("c"), held)
    for slices in (BEFORE, (*BEFORE, pool(2)), (BEFORE[0], pool(1, "d0"), BEFORE[2]), BEFORE):
        problem = prepare(_with(snapshot, slices), batch, Policy(), cache)
        records, ledger = problem.inventory.records, problem.available.ledger
        there = {DeviceId(each.driver, each.pool, device.name) for each in slices for device in each.devices}
        in_use = {result.device for claim in held if claim.allocation for result in claim.allocation.results}
        assert {records[index].id for index in ledger.exclusive} == there & in_use
        assert ledger.absent.keys() == in_use - there
    assert build.call_count == 1


def test_a_claim_keeps_its_device_where_a_taint_rule_comes_and_a_new_slice_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inventory_builder, "SPACE", 1)
    held = b.held("h", b.result("r0", "d0", "n1"))
    slices = (pool(0), pool(1, "d0"), pool(3))
    cache, batch, objects = SolverCache(), b.batch(b.pod("p", "c")), (b.gpu_class(), b.claim("c"), held)
    snapshot = b.snapshot(NODES, slices, objects)
    prepare(snapshot, batch, Policy(), cache)
    more = b.resource_slice("n0x", b.device("e0"), at=b.scope("n0"))
    rule = b.taint_rule("r", b.taint("hot"), pool="n1")
    after = structs.replace(snapshot, slices=(slices[0], more, *slices[1:]), taint_rules=(rule,))
    problem = prepare(after, batch, Policy(), cache)
    (index,) = problem.available.ledger.exclusive
    assert problem.inventory.records[index].id == b.device_id("d0", "n1")


def test_a_device_in_use_that_nothing_is_known_of_takes_all_counters_that_its_pool_has_now() -> None:
    cache, batch = SolverCache(), b.batch(b.pod("p", "c"))
    snapshot = b.snapshot(NODES, b.gpu_class(), b.claim("c"), b.held("h", b.result("r0", "gone", "n0")))
    device = b.device("d0", consumes={"card": {"slices": 1}})
    for amount in (4, 2):
        counters = b.resource_slice("n0", slice_count=2, counter_sets={"card": {"slices": amount}})
        slices = (b.resource_slice("n0", device, slice_count=2), counters)
        drawn = prepare(_with(snapshot, slices), batch, Policy(), cache).available.ledger.drawn
        assert list(drawn.values()) == [amount * 10**9]


def test_a_device_that_draws_nothing_fits_beside_one_that_nothing_is_known_of_whatever_its_groups() -> None:
    def device(name: str, slices: int, group: str) -> Device:
        return b.device(name, consumes={"card": {"slices": slices}}, groups=(group,))

    counters = b.resource_slice("n0", name="counters", slice_count=2, counter_sets={"card": {"slices": 4}})
    devices = b.resource_slice("n0", device("draws", 1, "a"), device("idle", 0, "b"), slice_count=2)
    objects = (b.gpu_class(), b.claim("c0"), b.claim("c1"), b.held("h", b.result("r0", "gone", "n0")))
    snapshot = b.snapshot(b.node("n0"), counters, devices, objects)
    plan = solve(snapshot, b.batch(b.pod("p0", "c0"), b.pod("p1", "c1")), Policy(), s.PATIENT)
    (allocation,) = plan.allocations
    assert [result.device.device for result in allocation.allocation.results] == ["idle"]


def test_hints_about_selectors_are_those_of_the_devices_that_are_there() -> None:
    selector = f"device.attributes['{b.GPU_DRIVER}'].model == 'A'"
    cache, pods = SolverCache(), b.batch(b.pod("p", "c"))
    snapshot = b.snapshot(NODES, b.gpu_class(), b.claim("c", b.request("r", selectors=(selector,))))
    other = b.resource_slice("n2", b.device("d0", attributes={"model": "B"}))
    plans = [solve(_with(snapshot, each), pods, Policy(), s.PATIENT, cache) for each in (BEFORE, (*BEFORE, other))]
    assert plans == [solve(_with(snapshot, each), pods, Policy(), s.PATIENT) for each in (BEFORE, (*BEFORE, other))]
    assert plans[0].unplaced != plans[1].unplaced


def test_draws_recorded_at_allocations_count_from_the_first_counters_on_that_are_published() -> None:
    cache, batch = SolverCache(), b.batch(b.pod("p", "c"))
    held, draws = b.held("h", b.result("r0", "d0", "n1")), {b.device_id("d0", "n1"): {"card/slices": 1}}
    snapshot = b.snapshot(NODES, b.gpu_class(), b.claim("c"), held, draws=draws)
    counters = b.resource_slice("n2", counter_sets={"card": {"slices": 1}})
    for slices, count in ((BEFORE, 0), ((*BEFORE, counters), 1), (BEFORE, 0)):
        drawn = prepare(_with(snapshot, slices), batch, Policy(), cache).available.ledger.drawn
        assert len(drawn) == count


def _with(snapshot: Snapshot, slices: tuple[ResourceSlice, ...]) -> Snapshot:
    return structs.replace(snapshot, slices=slices)


def test_only_the_nodes_of_a_pool_that_becomes_incomplete_are_unsettled() -> None:
    cache, batch = SolverCache(), Batch(pods=(b.pod("p", "c"),))
    snapshot = _with(b.snapshot(NODES, b.gpu_class(), b.claim("c")), BEFORE)
    prepare(snapshot, batch, Policy(), cache)
    incomplete = _with(snapshot, (BEFORE[0], structs.replace(BEFORE[1], slice_count=2), BEFORE[2]))
    layout = prepare(incomplete, batch, Policy(), cache).layout
    assert [layout.groups[each].is_unsettled for each in layout.group_of] == [False, True, False, False]
    part = b.resource_slice("part", b.device("d"), at=b.scope("n2"), slice_count=2)
    layout = prepare(_with(snapshot, (*BEFORE, part)), batch, Policy(), cache).layout
    assert [layout.groups[each].is_unsettled for each in layout.group_of] == [False, False, True, False]
    layout = prepare(snapshot, batch, Policy(), cache).layout
    assert not any(layout.groups[each].is_unsettled for each in layout.group_of)
