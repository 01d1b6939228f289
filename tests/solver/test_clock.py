"""Whenever the time is up, there is a plan: it keeps every rule and is worth no less than first fit."""

import itertools

import pytest

from solver import greedy, solve, verify
from solver.domain import Batch, Budget, Policy, SearchParams, SearchStage, SearchStatus, Snapshot
from solver.engines import cpsat, linear
from solver.engines.cpsat import Effort
from solver.greedy import units
from solver.greedy.device_fit import FitCache
from solver.greedy.units import PlacementUnit
from solver.model import build, cells, form
from solver.model.form import OutOfTimeError
from solver.model.objective import evaluate
from solver.problem.prepare import prepare
from solver.problem.skipped_pods import NOT_REACHED
from solver.problem.solver_cache import SolverCache
from solver.search import bound, columns, exact, restricted_problem, stages
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.gangs import crowded, problem_of
from tests.support.neighbour_builders import neighbour, port


def ended() -> Budget:
    """A budget whose time is up."""
    return Budget(seconds=1.0, clock=lambda: 2.0, started=0.0)


def ending(looks: int) -> Budget:
    """A budget whose time is up at a certain look at the clock."""
    ticks = itertools.count()
    return Budget(seconds=1.0, deterministic_seconds=0.2, clock=lambda: 2.0 * (next(ticks) >= looks), started=0.0)


def case() -> tuple[Snapshot, Batch]:
    objects, batch = crowded()
    return b.snapshot(objects), batch


def first_fit(snapshot: Snapshot, batch: Batch) -> tuple[int, ...]:
    problem = prepare(snapshot, batch, Policy(), SolverCache())
    return evaluate(problem, greedy.Greedy(problem, FitCache(problem), greedy.Order.QUEUE_FIRST_FIT).run())


@pytest.mark.parametrize("looks", [0, 1, 2, 5, 12, 20, 30, 45, 60, 90, 120, 150])
def test_wherever_the_time_ends_the_plan_is_valid_and_places_no_less_of_what_was_reached_than_first_fit(
    looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "_GLANCE", 1)
    snapshot, batch = case()
    budget = ending(looks)
    plan = solve(snapshot, batch, Policy(), budget)
    assert budget.should_stop()  # else it tells nothing about an end of the time
    assert verify.check(snapshot, batch, plan) == ()
    late = frozenset(each.pod for each in plan.unplaced if NOT_REACHED in each.reasons)
    assert len(plan.placements) >= first_fit(snapshot, batch.without(late))[0]


def test_once_the_time_is_up_nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((cpsat, "maximize"), (linear, "bound"), (build, "build")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("there is no time for that"))
    snapshot, batch = case()
    plan = solve(snapshot, batch, Policy(), ended())
    assert tuple(level.value for level in plan.report.levels) == first_fit(snapshot, batch)
    assert plan.report.status is SearchStatus.FEASIBLE


def test_first_fit_tries_one_pod_or_gang_and_no_other_order_begins() -> None:
    problem = problem_of(*crowded())
    (only,) = greedy.candidates(problem, lambda: True)
    whole = greedy.Greedy(problem, FitCache(problem), greedy.Order.QUEUE_FIRST_FIT).run()
    assert only.choices == whole.choices[: len(only.choices)]
    assert len(only.choices) == 1
    assert only.unreached.total() == len(problem.batch.pods) - 1


def test_first_fit_and_best_fit_get_time_of_their_own_however_long_it_took_to_prepare() -> None:
    """First fit takes the first node, and with it the second choice of the pod that has two."""
    model = f"device.attributes['{b.GPU_DRIVER}'].model"
    wanted = [b.alternative(name, selectors=(f"{model} == '{name}'",)) for name in ("fast", "slow")]
    claims = [b.claim("c", b.first_available("gpu", *wanted)), b.claim("d", b.request())]
    slices = [b.gpu_slice("n0", count=1, model="slow"), b.gpu_slice("n1", count=1, model="fast")]
    snapshot = b.snapshot([b.node("n0"), b.node("n1")], slices, b.gpu_class(), claims)
    plan = solve(snapshot, b.batch(b.pod("p", "c"), b.pod("q", "d")), Policy(), ended())
    assert s.nodes_of(plan) == {"p": "n1", "q": "n0"}


@pytest.mark.parametrize("limit", [0, 9, 10, 15, 18, 22, 27])
def test_every_order_ends_where_it_is(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(*crowded())
    tried: list[PlacementUnit] = []
    real = units.place

    def place(run: greedy.Greedy, unit: PlacementUnit) -> None:
        tried.append(unit)
        real(run, unit)

    monkeypatch.setattr(units, "place", place)
    greedy.candidates(problem, lambda: len(tried) >= limit)
    assert len(tried) == max(1, limit)


def test_a_pod_that_first_fit_has_tried_waits_for_its_own_reason_although_a_later_order_was_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot, batch = case()
    tried: list[PlacementUnit] = []
    real = units.place

    def place(run: greedy.Greedy, unit: PlacementUnit) -> None:
        tried.append(unit)
        real(run, unit)

    monkeypatch.setattr(units, "place", place)
    greedy.Greedy(problem_of(*crowded()), FitCache(problem_of(*crowded())), greedy.Order.QUEUE_FIRST_FIT).run()
    whole = len(tried)
    tried.clear()
    budget = Budget(seconds=1.0, clock=lambda: 2.0 * (len(tried) > 2 * whole), started=0.0)
    plan = solve(snapshot, batch, Policy(), budget)
    assert len(tried) == 2 * whole + 1
    assert plan.unplaced
    assert [each.pod for each in plan.unplaced if NOT_REACHED in each.reasons] == []


def test_a_model_that_has_no_time_left_is_not_written_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "_GLANCE", 1)
    problem = problem_of(*crowded())
    with pytest.raises(OutOfTimeError):
        build.build(problem, cells.single(problem), stop=lambda: True)


def test_every_option_is_a_step_of_writing_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim can be served in thousands of ways of many lines each: variables and rows are the lesser part."""
    monkeypatch.setattr(form, "_GLANCE", 1)
    rows = (b.first_available(f"r{i}", *(b.alternative(f"a{j}", count=j) for j in (1, 2, 3))) for i in range(3))
    claim = b.claim("c", *rows, constraints=[b.match("resource.kubernetes.io/pcieRoot")])
    problem = problem_of([b.node("n1"), b.gpu_slice("n1"), b.gpu_class(), claim], b.batch(b.pod("p", "c")))
    looks = itertools.count()
    variables = build.build(problem, cells.single(problem), stop=lambda: next(looks) < 0)
    options = sum(map(len, variables.options.values()))
    assert options > 3
    assert next(looks) >= len(variables.form.lower) + len(variables.form.rows) + options


def test_every_class_of_a_limit_is_a_step_of_writing_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may ask for hundreds of host ports, each of them a limit: few of their rows come into the model."""
    monkeypatch.setattr(form, "_GLANCE", 1)

    def looks(ports: int) -> int:
        asked = [port(1000 + each) for each in range(ports)]
        others = [neighbour(f"q{each.port}", ports=[each], cpu=1) for each in asked]
        problem = problem_of([b.node("n1")], b.batch(neighbour("p", ports=asked, cpu=1), *others))
        assert len(problem.rules.limits) == ports
        taken = itertools.count()
        variables = build.build(problem, cells.single(problem), stop=lambda: next(taken) < 0)
        return next(taken) - len(variables.form.lower) - len(variables.form.rows)

    assert looks(20) - looks(0) >= 20


def test_a_model_that_stands_may_grow_whatever_the_time() -> None:
    problem = problem_of(*crowded())
    assert build.build(problem, cells.single(problem), stop=lambda: False).form.stop is None


@pytest.mark.parametrize("stage", [bound, exact])
def test_stages_that_have_no_time_for_their_model_leave_things_as_they_are(
    stage: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "_GLANCE", 1)
    problem = problem_of(*crowded())
    start = greedy.candidates(problem)[0]
    known = evaluate(problem, start)
    nothing = bound.Bounds((None,) * len(known), (0, 0))
    if stage is bound:
        assert bound.bounds(problem, known, ending(1)) == nothing
    else:
        found = exact.improve(problem, start, nothing, ended())
        assert found.solution is start
        assert not any(level.proven for level in found.levels)


def test_no_model_of_a_part_is_written_to_its_end_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "_GLANCE", 1)
    problem = problem_of(*crowded())
    start = greedy.candidates(problem)[0]
    nodes = list(range(problem.node_count))
    effort = Effort.within(ended(), 0.1, presolve=False)
    solved = restricted_problem.solve(problem, start, nodes, effort, stop=lambda: True)
    assert (solved.solution is start, solved.is_optimal) == (True, False)
    assert columns.node_classes(problem, nodes, 64, lambda: True) is None
    looks = iter((False,))
    assert columns.node_classes(problem, nodes, 64, lambda: next(looks, True)) is None
    assert columns.node_classes(problem, nodes, 64) is not None


def test_where_the_time_is_short_the_model_of_the_whole_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "improve", lambda *_: pytest.fail("it would not be written in time"))
    problem = s.with_params(problem_of(*crowded()), SearchParams(exact_terms_per_second=1.0))
    start = greedy.candidates(problem)[0]
    found = stages.search(problem, start, Budget(seconds=60.0, deterministic_seconds=0.5, clock=lambda: 0.0, started=0))
    assert SearchStage.LNS in found.stages


def test_time_is_kept_back_for_what_comes_after_the_search() -> None:
    budget = Budget(seconds=2.0, clock=lambda: 0.8, started=0.0)
    assert budget.sparing().remaining_seconds() == pytest.approx(1.0)
    late = Budget(seconds=2.0, clock=lambda: 1.9, started=0.0)
    assert late.sparing().remaining_seconds() == pytest.approx(0.075)


def test_an_equal_budget_of_work_gives_an_equal_plan() -> None:
    snapshot, batch = case()
    plans = [solve(snapshot, batch, Policy(), s.PATIENT) for _ in range(2)]
    assert plans[0] == plans[1]
