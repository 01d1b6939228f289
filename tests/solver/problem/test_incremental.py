"""After a slice is published again, only its nodes are described anew; the result equals a build from scratch."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from solver import greedy
from solver.domain import Batch, Device, Policy, ResourceSlice, Snapshot
from solver.problem import solver_cache
from solver.problem.devices import incremental, node_groups
from solver.problem.devices.device_types import LayoutInput
from solver.problem.devices.layout import DeviceLayout, GroupKey
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b
from tests.support.strategies import DRIVERS, NUMA, Situation, situations

Change = Callable[[Device], Device]
ROOT = "resource.kubernetes.io/pcieRoot"
ALIGNED = b.claim("c", b.request("r", count=2), constraints=(b.match(ROOT),))


def _with(device: Device, name: str, value: b.Attribute | None) -> Device:
    others = tuple(item for item in device.attributes if item[0] != name)
    added = () if value is None else ((name, b.attribute(value)),)
    return structs.replace(device, attributes=tuple(sorted((*others, *added), key=lambda item: item[0])))


CHANGES: dict[str, Change] = {
    "taint": lambda device: structs.replace(device, taints=(b.taint("hot"),)),
    "no taint": lambda device: structs.replace(device, taints=()),
    "numa 0": lambda device: _with(device, NUMA, 0),
    "numa 1": lambda device: _with(device, NUMA, 1),
    "no numa": lambda device: _with(device, NUMA, None),
    "numa as a list": lambda device: _with(device, NUMA, (0, 1)),
    "model": lambda device: _with(device, "model", "A"),
    "nothing": structs.replace,
    "no capacity": lambda device: structs.replace(device, capacities=()),
    "bindsToNode": lambda device: structs.replace(device, binds_to_node=not device.binds_to_node),
}
RULES = (
    b.taint_rule("device", b.taint("hot"), driver=DRIVERS[0], device_name="d0"),
    b.taint_rule("everything", b.taint("warm")),
    b.taint_rule("nothing", b.taint("cold"), pool="nowhere"),
    b.taint_rule("pool", b.taint("cold"), pool="n0"),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Situation, list[Snapshot]]:
    """Draw a situation, and the same cluster after slices were published again or taint rules changed."""
    situation = draw(situations(most_pods=3))
    snapshots = [situation.snapshot]
    for _ in range(draw(st.integers(1, 3))):
        slices = list(snapshots[-1].slices)
        for number in draw(st.lists(st.integers(0, len(slices) - 1), max_size=2)) if slices else ():
            slices[number] = draw(_again(slices[number]))
        rules = tuple(draw(st.lists(st.sampled_from(RULES), unique=True, max_size=2))) if draw(st.booleans()) else None
        rules = snapshots[-1].taint_rules if rules is None else tuple(sorted(rules, key=lambda each: each.name))
        snapshots.append(structs.replace(snapshots[-1], slices=tuple(slices), taint_rules=rules))
    return situation, snapshots


@st.composite
def _again(draw: st.DrawFn, each: ResourceSlice) -> ResourceSlice:
    chosen = [draw(st.sampled_from(sorted(CHANGES))) if draw(st.booleans()) else "nothing" for _ in each.devices]
    devices = tuple(CHANGES[name](device) for name, device in zip(chosen, each.devices, strict=True))
    return structs.replace(each, devices=devices, generation=each.generation + draw(st.sampled_from((0, 0, 0, 1))))


def look(problem: Problem) -> dict[str, object]:
    """Everything that depends on slices, in a form that can be compared."""
    layout, stock = problem.layout, problem.inventory
    kept = {"options", "ways", "partitions", "groups", "wide_types"}
    found: dict[str, object] = {
        each.name: getattr(layout, each.name) for each in dataclasses.fields(layout) if each.name not in kept
    }
    found["groups"] = [dataclasses.asdict(group) for group in layout.groups]
    found["wide types"] = [dataclasses.asdict(kind) for kind in layout.wide_types]
    found["records"] = [dataclasses.asdict(record) for record in stock.records]
    found["answers"] = [
        (list(each.verdicts.items()), list(each.consumption.items())) for each in problem.requests.answers
    ]
    found["failures"] = [each.failure for each in problem.requests.answers]
    for name in (
        "pools",
        "record_of",
        "by_home",
        "wide",
        "budgets",
        "spans",
        "own_taints",
        "draws",
        "takes_node_resources",
    ):
        found[name] = getattr(stock, name)
    found["states"] = (problem.available.states, problem.available.wide_state, problem.available.is_unused.tolist())
    return found


@settings(max_examples=60)
@given(histories())
def test_what_is_taken_over_equals_what_is_worked_out_from_nothing(case: tuple[Situation, list[Snapshot]]) -> None:
    situation, snapshots = case
    engine = SolverCache()
    for snapshot in snapshots:
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


@pytest.mark.parametrize(("pool", "concerned"), [("n1", [1]), ("elsewhere", [])])
def test_a_taint_rule_concerns_only_what_it_selects(pool: str, concerned: list[int]) -> None:
    slices, batch = _cluster("aabb", "aabb", "aaab")
    before = _snapshot(slices)
    stock = prepare(before, batch, Policy(), SolverCache()).inventory
    found = incremental.updated_inventory(
        stock, before.slices, before.slices, (b.taint_rule("r", b.taint("hot"), pool=pool),)
    )
    assert found is not None
    assert {stock.records[index].home for index in found.replaced} == set(concerned)
    assert {each.home for each in found.inventory.records if each.taints} == set(concerned)


def test_groups_are_numbered_by_their_first_node() -> None:
    engine, (slices, batch) = SolverCache(), _cluster("aabb", "aabb", "aaab")
    before = _snapshot(slices)
    assert prepare(before, batch, Policy(), engine).layout.group_of == [0, 0, 1]
    after = _changed(before, 0, lambda device: _with(device, ROOT, "a"))
    assert prepare(after, batch, Policy(), engine).layout.group_of == [0, 1, 2]
    again = _changed(after, 1, lambda device: _with(device, ROOT, "b"))
    assert prepare(again, batch, Policy(), engine).layout.group_of == [0, 0, 1]


@pytest.mark.parametrize(
    ("change", "is_taken_over"),
    [(CHANGES["taint"], True), (CHANGES["model"], True), (CHANGES["bindsToNode"], False)],
    ids=["taint", "attribute", "bindsToNode"],
)
def test_what_else_changes_is_a_reason_to_take_stock_anew(change: Change, *, is_taken_over: bool) -> None:
    slices, batch = _cluster("aabb", "aabb")
    before = _snapshot(slices)
    stock = prepare(before, batch, Policy(), SolverCache()).inventory
    found = incremental.updated_inventory(stock, before.slices, _changed(before, 0, change).slices, ())
    assert (found is not None) is is_taken_over


@pytest.mark.parametrize("generation", [0, 2], ids=["older", "newer"])
def test_a_pool_of_one_slice_may_become_newer_but_not_older(generation: int) -> None:
    slices, batch = _cluster("aabb", "aabb")
    before = _snapshot(slices)
    stock = prepare(before, batch, Policy(), SolverCache()).inventory
    again = structs.replace(before.slices[0], generation=generation)
    found = incremental.updated_inventory(stock, before.slices, (again, *before.slices[1:]), ())
    assert (found is not None) is (generation > 1)


def test_no_more_outdated_layouts_are_kept_than_current_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_cache, "_MOST_LAYOUTS", 2)
    engine, (slices, batch) = SolverCache(), _cluster("aabb")
    snapshot = _snapshot(slices)
    for number in range(4):
        prepare(snapshot, batch, Policy(), engine)
        snapshot = _changed(snapshot, 0, CHANGES["taint" if number % 2 else "no taint"])
    kept = engine._outdated  # noqa: SLF001 -- memory must not grow
    assert len(kept) <= 2


def test_a_cluster_none_of_whose_pools_can_be_used_is_taken_over_as_well() -> None:
    engine, batch = SolverCache(), b.batch(b.pod("p"))
    before = b.snapshot(b.node("n0"), b.resource_slice("n0", b.device("d0"), slice_count=2))
    prepare(before, batch, Policy(), engine)
    again = structs.replace(before, slices=(*before.slices,))
    assert look(prepare(again, batch, Policy(), engine)) == look(prepare(again, batch, Policy(), SolverCache()))
