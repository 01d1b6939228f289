"""After a slice is published again, only its nodes are described anew; the result equals a build from scratch."""

import dataclasses
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from solver import greedy
from solver.domain import Batch, Device, Policy, ResourceSlice, Snapshot
from solver.problem import solver_cache
from solver.problem.devices import fragmentation, inventory_builder, node_groups
from solver.problem.devices.device_types import LayoutInput
from solver.problem.devices.inventory import Inventory
from solver.problem.devices.layout import DeviceLayout, GroupKey
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support.slice_changes import CHANGES, Change, histories, with_attribute
from tests.support.strategies import Situation

ROOT = "resource.kubernetes.io/pcieRoot"
ALIGNED = b.claim("c", b.request("r", count=2), constraints=(b.match(ROOT),))


def look(problem: Problem) -> dict[str, object]:
    """Everything that depends on slices, in a form that can be compared: devices by their position and not by index."""
    layout, stock, answers = problem.layout, problem.inventory, problem.requests.answers
    place = {index: number for number, index in enumerate(stock.records)}
    assert list(place) == sorted(place)
    kept = {
        "options",
        "ways",
        "served",
        "serving",
        "fits",
        "device_keys",
        "expected",
        "partitions",
        "groups",
        "wide_types",
        "members",
        "wide_members",
        "place_of",
    }
    found: dict[str, object] = {
        each.name: getattr(layout, each.name) for each in dataclasses.fields(layout) if each.name not in kept
    }
    found["groups"] = [dataclasses.asdict(group) for group in layout.groups]
    found["wide types"] = [dataclasses.asdict(kind) for kind in layout.wide_types]
    found["members"] = [[[place[index] for index in each] for each in members] for members in layout.members]
    found["wide members"] = [[place[index] for index in each] for each in layout.wide_members]
    found["places"] = {place[index]: each for index, each in layout.place_of.items()}
    for name in ("verdicts", "consumption", "unfit", "spared"):
        found[name] = [[(place[index], value) for index, value in getattr(each, name).items()] for each in answers]
    found["failures"] = [each.failure for each in answers]
    ledger = problem.available.ledger
    found["usage"] = ({place[each] for each in ledger.exclusive}, dict(ledger.absent), ledger.drawn)
    found["shared"] = {place[index]: amounts for index, amounts in ledger.shared.items()}
    found["states"] = (problem.available.states, problem.available.wide_state, problem.available.is_unused.tolist())
    found["partitions"] = [fragmentation.partitions(problem, node) for node in range(problem.node_count)]
    return found | _look_at(stock, place)


def _look_at(stock: Inventory, place: dict[int, int]) -> dict[str, object]:
    records = [dataclasses.asdict(record) for record in stock.records.values()]
    sizes = {number: position for position, number in enumerate(dict.fromkeys(each["size_class"] for each in records))}
    kept = ("pools", "budgets", "counter_homes", "own_taints", "draws", "exclusions", "taking_node_resources")
    return {
        "records": [
            each | {"index": place[each["index"]], "size_class": sizes[each["size_class"]]} for each in records
        ],
        "order of pools": list(stock.pools),
        "record of": {device: place[index] for device, index in stock.record_of.items()},
        "by home": [[place[index] for index in each] for each in stock.by_home],
        "wide": [place[index] for index in stock.wide],
        "has devices": stock.has_devices.tolist(),
        "spans": [(each.slice, each.key, [place.get(index) for index in each.indices]) for each in stock.spans],
        "slices": [stock.slice_of(index) for index in stock.records],
        "undeclared": {place[index]: nodes for index, nodes in stock.undeclared.items()},
        "pairings": {
            node: ([place[index] for index in each.records], {place[index]: n for index, n in each.worth.items()})
            for node, each in stock.pairings.items()
        },
        **{name: getattr(stock, name) for name in kept},
    }


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(histories(), st.sampled_from((1, 5, inventory_builder.SPACE)))
def test_what_is_taken_over_equals_what_is_worked_out_from_nothing(
    case: tuple[Situation, list[Snapshot]], space: int
) -> None:
    situation, snapshots = case
    engine = SolverCache()
    for snapshot in snapshots:
        with mock.patch.object(inventory_builder, "SPACE", space):
            warm = prepare(snapshot, situation.batch, Policy(), engine)
        cold = prepare(snapshot, situation.batch, Policy(), SolverCache())
        assert look(warm) == look(cold)
        placed = [[each.choices for each in greedy.candidates(problem)] for problem in (warm, cold)]
        assert placed[0] == placed[1]


def _cluster(*roots: str) -> tuple[list[ResourceSlice], Batch]:
    """Nodes by the PCIe roots of their devices, a letter each."""
    slices = []
    for index, text in enumerate(roots):
        devices = (b.device(f"d{place}", attributes={ROOT: root}) for place, root in enumerate(text))
        slices.append(b.resource_slice(f"n{index}", *devices))
    return slices, b.batch(b.pod("p", "c"))


def _snapshot(slices: list[ResourceSlice]) -> Snapshot:
    return b.snapshot([b.node(f"n{index}") for index in range(len(slices))], slices, b.gpu_class(), ALIGNED)


def _changed(snapshot: Snapshot, number: int, change: Change) -> Snapshot:
    slices = list(snapshot.slices)
    slices[number] = structs.replace(slices[number], devices=tuple(map(change, slices[number].devices)))
    return structs.replace(snapshot, slices=tuple(slices))


@pytest.mark.parametrize(("value", "groups"), [("b", [0, 0]), ("w", [0, 1])])
def test_a_value_that_devices_of_all_nodes_have_becomes_no_label(value: str, groups: list[int]) -> None:
    engine, (slices, batch) = SolverCache(), _cluster("aab", "ccd")
    wide = b.resource_slice("wide", b.device("w", attributes={ROOT: "w"}), at=b.scope(all_nodes=True))
    before = b.snapshot([b.node(f"n{index}") for index in range(2)], slices, wide, b.gpu_class(), ALIGNED)
    prepare(before, batch, Policy(), engine)
    number = next(index for index, each in enumerate(before.slices) if each.pool == "n0")
    old = before.slices[number]
    again = structs.replace(old, devices=(*old.devices[:2], b.device("d2", attributes={ROOT: value})))
    after = structs.replace(before, slices=tuple(again if each is old else each for each in before.slices))

    assert prepare(after, batch, Policy(), engine).layout.group_of == groups
    assert look(prepare(after, batch, Policy(), engine)) == look(prepare(after, batch, Policy(), SolverCache()))


def test_a_changed_layout_keeps_no_answer_by_group() -> None:
    """Groups are numbered anew; what both layouts have in common says nothing of groups."""
    engine, (slices, batch) = SolverCache(), _cluster("aab", "ccd")
    snapshot = _snapshot(slices)
    before = prepare(snapshot, batch, Policy(), engine).layout
    after = prepare(
        _changed(snapshot, 0, lambda device: with_attribute(device, ROOT, "z")), batch, Policy(), engine
    ).layout
    names = {each.name for each in dataclasses.fields(DeviceLayout)}
    wide = {"wide_types", "wide_members", "wide_nodes", "wide_budgets", "sites"}
    assert after is not before
    assert {each for each in names if getattr(after, each) is getattr(before, each)} == {
        *("attributes", "charged", "labelled", "ways"),
        *wide,
    }


def test_an_attribute_with_a_list_is_no_label_on_any_node() -> None:
    engine, (slices, batch) = SolverCache(), _cluster("aab", "ccd")
    first = _snapshot(slices)
    listed = _changed(first, 0, lambda device: with_attribute(device, ROOT, ("a", "b")))
    for snapshot in (first, listed, first):
        warm = prepare(snapshot, batch, Policy(), engine)
        assert look(warm) == look(prepare(snapshot, batch, Policy(), SolverCache()))


def test_units_of_a_counter_that_devices_of_several_nodes_draw_on_follow_from_all_of_them() -> None:
    def device(name: str, node: str, amount: int) -> Device:
        return b.device(name, consumes={"card": {"slices": amount}}, scope=b.scope(node))

    per_device, engine, batch = b.scope(per_device=True), SolverCache(), b.batch(b.pod("p", "c"))
    counters = b.resource_slice("wide", counter_sets={"card": {"slices": 12}}, slice_count=2, at=per_device)
    snapshot = b.snapshot(b.node("n0"), b.node("n1"), b.gpu_class(), b.claim("c"))
    devices = (device("d0", "n0", 2), device("d1", "n1", 4))
    for published in (devices, (*devices, device("d2", "n1", 3)), devices, devices[:1]):
        slices = (b.resource_slice("wide", *published, slice_count=2, at=per_device), counters)
        now = structs.replace(snapshot, slices=slices)
        warm = prepare(now, batch, Policy(), engine)
        assert look(warm) == look(prepare(now, batch, Policy(), SolverCache()))


def test_what_is_left_of_a_counter_of_several_nodes_stays_when_one_is_described_again() -> None:
    per_device, engine, batch = b.scope(per_device=True), SolverCache(), b.batch(b.pod("p", "c"))
    devices = (
        b.device(f"d{number}", consumes={"card": {"slices": 2}}, scope=b.scope(f"n{number}")) for number in range(2)
    )
    wide = (
        b.resource_slice("wide", *devices, slice_count=2, at=per_device),
        b.resource_slice("wide", counter_sets={"card": {"slices": 12}}, slice_count=2, at=per_device),
    )
    held = b.held("h", b.result("r0", "d0", "wide"))
    snapshot = b.snapshot(b.node("n0"), b.node("n1"), b.gpu_class(), b.claim("c"), held)
    for own in ("d0", "d1"):
        now = structs.replace(snapshot, slices=(*wide, b.resource_slice("n0", b.device(own))))
        warm = prepare(now, batch, Policy(), engine)
        assert warm.available.wide_state == (5,)
        assert look(warm) == look(prepare(now, batch, Policy(), SolverCache()))


def test_only_the_node_of_a_slice_is_described_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, (slices, batch) = SolverCache(), _cluster("aabb", "aabb", "aaab")
    before = _snapshot(slices)
    prepare(before, batch, Policy(), engine)
    described: list[int] = []
    real = node_groups.describe

    def describe(
        layout: DeviceLayout, drafting: LayoutInput, node: int, surroundings: tuple[tuple[int, ...], bool]
    ) -> GroupKey:
        described.append(node)
        return real(layout, drafting, node, surroundings)

    monkeypatch.setattr(node_groups, "describe", describe)
    after = _changed(before, 1, CHANGES["taint"])
    assert prepare(after, batch, Policy(), engine).layout.group_of == [0, 1, 2]
    assert described == [1]


def test_groups_are_numbered_by_their_first_node() -> None:
    engine, (slices, batch) = SolverCache(), _cluster("aabb", "aabb", "aaab")
    before = _snapshot(slices)
    assert prepare(before, batch, Policy(), engine).layout.group_of == [0, 0, 1]
    after = _changed(before, 0, lambda device: with_attribute(device, ROOT, "a"))
    assert prepare(after, batch, Policy(), engine).layout.group_of == [0, 1, 2]
    again = _changed(after, 1, lambda device: with_attribute(device, ROOT, "b"))
    assert prepare(again, batch, Policy(), engine).layout.group_of == [0, 0, 1]


def test_no_more_outdated_layouts_are_kept_than_current_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_cache, "_MOST_LAYOUTS", 2)
    engine, (slices, batch) = SolverCache(), _cluster("aabb")
    snapshot = _snapshot(slices)
    for number in range(4):
        prepare(snapshot, batch, Policy(), engine)
        snapshot = _changed(snapshot, 0, CHANGES["taint" if number % 2 else "no taint"])
    kept = engine._outdated  # noqa: SLF001 -- memory must not grow
    assert len(kept) <= 2


@pytest.mark.parametrize(("places", "kept"), [(100, 5), (9, 2)])
def test_more_layouts_are_kept_where_they_are_small(monkeypatch: pytest.MonkeyPatch, places: int, kept: int) -> None:
    """Pods that come one by one ask for many things: a layout that is forgotten costs a look at every node."""
    monkeypatch.setattr(solver_cache, "_MOST_LAYOUTS", 5)
    monkeypatch.setattr(solver_cache, "_FEWEST_LAYOUTS", 2)
    monkeypatch.setattr(solver_cache, "_MOST_PLACES", places)
    engine, (slices, _) = SolverCache(), _cluster("aabb")
    snapshot = _snapshot(slices)
    for number in range(7):
        claim = b.claim("some", b.request("r", selectors=(f"device.driver != 'other-{number}'",)))
        prepare(structs.replace(snapshot, claims=(claim,)), b.batch(b.pod("p", "some")), Policy(), engine)
    assert len(engine._layouts) == kept  # noqa: SLF001 -- memory must not grow


def test_a_cluster_none_of_whose_pools_can_be_used_is_taken_over_as_well() -> None:
    engine, batch = SolverCache(), b.batch(b.pod("p"))
    before = b.snapshot(b.node("n0"), b.resource_slice("n0", b.device("d0"), slice_count=2))
    prepare(before, batch, Policy(), engine)
    again = structs.replace(before, slices=(*before.slices,))
    assert look(prepare(again, batch, Policy(), engine)) == look(prepare(again, batch, Policy(), SolverCache()))
