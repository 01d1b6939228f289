"""Caches are bounded in bytes: least recently used entries are dropped, and plans stay the same."""

import numpy as np
import pytest

from solver import SolverCache, solve
from solver.bounded_cache import BoundedCache, bytes_of
from solver.domain import Policy, ResourceSlice, Snapshot
from solver.problem.devices.slice_cache import Selectors, SliceCache
from tests.support import builders as b
from tests.support import solver_problems as s

MODEL = f"device.attributes['{b.GPU_DRIVER}'].model"


def test_what_was_used_least_recently_goes_first() -> None:
    known: BoundedCache[str, str] = BoundedCache(3 * bytes_of("a" * 1000) + 3 * bytes_of("k1"))
    for key in ("k1", "k2", "k3"):
        known[key] = "a" * 1000
    assert known["k1"]
    known["k4"] = "a" * 1000
    assert list(known) == ["k3", "k1", "k4"]


def test_one_entry_stays_whatever_its_size() -> None:
    known: BoundedCache[str, str] = BoundedCache(10)
    known["k"] = "a" * 1000
    known["l"] = "a" * 1000
    assert list(known) == ["l"]


def test_a_patient_one_forgets_when_it_is_told_to() -> None:
    known: BoundedCache[int, str] = BoundedCache(10, patient=True)
    for key in range(3):
        known[key] = "a" * 1000
    assert len(known) == 3
    known.trim()
    assert list(known) == [2]


def test_bytes_are_those_of_what_is_held_now() -> None:
    known: BoundedCache[str, str] = BoundedCache(1_000_000)
    known["k"] = "a" * 1000
    known["k"] = "a"
    assert known.bytes == bytes_of("k") + bytes_of("a")
    del known["k"]
    assert known.bytes == 0


@pytest.mark.parametrize(
    ("value", "least"),
    [
        ("a" * 500, 500),
        (("a" * 500, ("b" * 500,)), 1000),
        ({"a" * 500: ["b" * 500]}, 1000),
        (np.zeros(100), 800),
        (b.node("n", labels={"key": "v" * 500}), 500),
    ],
    ids=["text", "tuples", "dict", "array", "struct"],
)
def test_sizes_cover_what_a_value_is_made_of(value: object, least: int) -> None:
    assert least <= bytes_of(value) <= least + 2000


def names(number: int) -> Selectors:
    return (), (f"'{number}' != ''" + " " * 1000,)


def test_selectors_that_were_used_least_recently_are_forgotten_before_a_decision_and_never_in_one() -> None:
    recall, each = SliceCache(most_bytes=20_000), b.gpu_slice("n0", count=2)
    for number in range(100):
        recall.note(names(number), each, {0: True})
    assert recall.knows(names(0), each)
    recall.unknown(names(0), [each])
    recall.trim()
    kept = [number for number in range(100) if recall.knows(names(number), each)]
    assert 0 in kept
    assert kept[1:] == list(range(100 - len(kept) + 1, 100))
    assert len(kept) < 20


def picture(number: int, *slices: ResourceSlice) -> Snapshot:
    """A claim whose selector no other one has."""
    text = f"{MODEL} != 'm{number}-{'x' * 3000}'"
    claim = b.claim("c", b.request(selectors=(text,)))
    return b.snapshot(b.node("n0"), slices, b.gpu_class(), claim)


def test_an_engine_that_sees_ever_new_pods_holds_no_more_than_its_bounds() -> None:
    engine, only = SolverCache(), b.gpu_slice("n0", count=2)
    for number in range(60):
        labels = {f"key-{number}-{'x' * 3000}": "v"}
        pod = b.pod("p", "c", tolerations=(b.toleration(f"key-{number}-{'x' * 3000}"),))
        choosy = b.pod("q", node_selector=labels)
        for each in engine.caches:
            each.most_bytes = 50_000
        plan = solve(picture(number, only), b.batch(pod, choosy), Policy(), s.PATIENT, engine)
        assert s.nodes_of(plan) == {"p": "n0"}
    engine.trim()
    assert len(engine.caches) == 9
    assert [each.bytes for each in engine.caches if each.bytes > 50_000] == []
    assert sum(each.bytes for each in engine.caches) > 60_000
