"""The cyclic garbage collector is off during preparation, and as before afterwards."""

import gc

import pytest

from solver.domain import Policy
from solver.problem.prepare import gc_paused, prepare
from solver.problem.solver_cache import SolverCache
from tests.support import builders as b


def test_nothing_is_collected_while_a_problem_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    real = SolverCache.inventory

    def inventory(*arguments: object) -> object:
        seen.append(gc.isenabled())
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SolverCache, "inventory", inventory)
    prepare(b.snapshot(b.node("n0")), b.batch(b.pod("p")), Policy(), SolverCache())
    assert (seen, gc.isenabled()) == ([False], True)


def test_the_collector_goes_on_after_an_error() -> None:
    with pytest.raises(ValueError, match="no"), gc_paused():
        raise ValueError("no")
    assert gc.isenabled()


def test_a_caller_that_has_switched_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
