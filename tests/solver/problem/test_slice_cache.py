"""A changed slice is evaluated again; the results of the other slices come from the cache."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from solver import SolverCache, solve
from solver.domain import Allowance, Device, Policy, ResourceSlice, Snapshot
from solver.feasibility import selectors
from solver.problem.devices.slice_cache import Matched, SelectorResults, SliceCache
from solver.problem.prepare import prepare
from tests.support import builders as b
from tests.support import solver_problems as s

MODEL = "device.attributes['gpu.example.com'].model"
FAST = b.device_class("fast", f"{MODEL} == 'fast'", driver=b.GPU_DRIVER)
POD = b.pod("p", "c")


def picture(*slices: ResourceSlice) -> Snapshot:
    nodes = [b.node(each.pool) for each in slices]
    return b.snapshot(nodes, slices, FAST, b.claim("c", b.request("r", "fast")))


def of_model(node: str, model: str, count: int = 2) -> ResourceSlice:
    return b.gpu_slice(node, count=count, model=model)


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """Devices that selectors are put to from now on."""
    seen: list[Device] = []
    real = selectors.Selector.evaluate

    def evaluate(
        selector: selectors.Selector,
        driver: str,
        device: Device,
        attributes: Mapping[str, Any] | None = None,
        allowance: Allowance | None = None,
    ) -> bool | selectors.SelectorFailure:
        if device not in seen:
            seen.append(device)
        return real(selector, driver, device, attributes, allowance)

    monkeypatch.setattr(selectors.Selector, "evaluate", evaluate)
    return seen


def test_only_the_slice_that_changed_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, batch = SolverCache(), b.batch(POD)
    first, second = of_model("n0", "slow"), of_model("n1", "slow")
    solve(picture(first, second), batch, Policy(), s.PATIENT, engine)
    seen = looked_at(monkeypatch)
    changed = of_model("n1", "fast", count=1)
    plan = solve(picture(first, changed), batch, Policy(), s.PATIENT, engine)
    assert (seen, s.nodes_of(plan)) == ([changed.devices[0]], {"p": "n1"})


@pytest.mark.parametrize("changed", [of_model("n1", "slow"), of_model("n1", "fast", 1), of_model("n1", "x", 3)])
def test_what_is_planned_after_a_change_is_what_a_new_memory_plans(changed: ResourceSlice) -> None:
    engine, batch = SolverCache(), b.batch(POD)
    first = of_model("n0", "fast", count=3)
    for each in (of_model("n1", "fast"), changed, of_model("n1", "slow")):
        snapshot = picture(first, each)
        assert solve(snapshot, batch, Policy(), s.PATIENT, engine) == solve(snapshot, batch, Policy(), s.PATIENT)


def test_a_slice_that_is_the_same_in_content_but_not_the_same_object_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, batch, only = SolverCache(), b.batch(POD), of_model("n0", "slow")
    solve(picture(only), batch, Policy(), s.PATIENT, engine)
    seen = looked_at(monkeypatch)
    solve(picture(replace(only)), batch, Policy(), s.PATIENT, engine)
    assert len(seen) == 2


def test_slices_that_are_gone_are_forgotten() -> None:
    recall, (kept, gone) = SliceCache(), (of_model("n0", "x"), of_model("n1", "x"))
    worked_out: list[str] = []

    def work_out(each: ResourceSlice) -> Matched:
        worked_out.append(each.pool)
        return {0: True}

    for each in (kept, gone, kept):
        recall.matched(((), ()), each, work_out)
    recall.keep([kept])
    for each in (kept, gone):
        recall.matched(((), ()), each, work_out)
    assert worked_out == ["n0", "n1", "n1"]


def test_counters_are_drawn_as_the_slice_of_today_says() -> None:
    engine = SolverCache()
    sets = b.resource_slice("n0", name="sets", slice_count=2, counter_sets={"set": {"units": 4}})

    def cut(units: int) -> ResourceSlice:
        return b.resource_slice(
            "n0",
            *(b.device(f"d{i}", attributes={"model": "fast"}, consumes={"set": {"units": units}}) for i in range(2)),
            name="cut",
            slice_count=2,
        )

    pods = [b.pod(name, f"c-{name}") for name in "xy"]
    claims = [b.claim(f"c-{name}", b.request("r", "fast")) for name in "xy"]
    placed = [
        len(
            solve(
                b.snapshot(b.node("n0"), sets, cut(units), FAST, claims),
                b.batch(*pods),
                Policy(),
                s.PATIENT,
                engine,
            ).placements
        )
        for units in (2, 3, 2)
    ]
    assert placed == [2, 1, 2]


def test_a_selector_of_several_requests_is_put_to_a_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = selectors.Selector.evaluate

    def evaluate(
        selector: selectors.Selector,
        driver: str,
        device: Device,
        attributes: Mapping[str, Any] | None = None,
        allowance: Allowance | None = None,
    ) -> bool | selectors.SelectorFailure:
        asked.append(selector.expression)
        return real(selector, driver, device, attributes, allowance)

    monkeypatch.setattr(selectors.Selector, "evaluate", evaluate)
    small, large = (b.request("r", "fast", selectors=(f"{MODEL}.size() > {size}",)) for size in (2, 3))
    snapshot = b.snapshot(
        [b.node("n0"), b.node("n1")],
        [of_model("n0", "fast", count=1), of_model("n1", "slow", count=1)],
        FAST,
        [b.claim("c", small), b.claim("d", large)],
    )
    prepare(snapshot, b.batch(POD, b.pod("q", "d")), Policy(), SolverCache())
    assert [asked.count(f"{MODEL}{text}") for text in (" == 'fast'", ".size() > 2", ".size() > 3")] == [2, 1, 1]


def test_what_another_process_worked_out_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, child, batch = SolverCache(), SolverCache(), b.batch(POD)
    snapshot = picture(of_model("n0", "slow"), of_model("n1", "fast"))
    for engine in (parent, child):
        engine.inventory(snapshot, Policy().owned)
    assert child.learned() == ()
    plan = solve(snapshot, batch, Policy(), s.PATIENT, child)
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(child.learned()), type=tuple[SelectorResults, ...])
    parent.learn(told, snapshot.slices)
    seen = looked_at(monkeypatch)
    assert solve(snapshot, batch, Policy(), s.PATIENT, parent) == plan
    assert seen == []
    assert (parent.learned(), child.learned()) == ((), ())


def test_failures_are_learned_as_failures() -> None:
    recall, each = SliceCache(), of_model("n0", "x", count=3)
    recall.note(((), ("text",)), each, {0: True, 2: selectors.SelectorFailure("it failed")})
    other = SliceCache()
    other.learn(recall.learned([each]), [each])
    assert other.matched(((), ("text",)), each, lambda _: {}) == {0: True, 2: selectors.SelectorFailure("it failed")}
