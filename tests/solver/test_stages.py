"""Every stage of a decision ends with the time or the allowance, and what was left is accounted for and replayed."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import SolverCache, solve, solve_greedily, verify
from solver.domain import (
    Batch,
    Budget,
    Claim,
    Plan,
    Pod,
    PodId,
    Policy,
    PreemptionRules,
    ReasonCode,
    Snapshot,
    StageStop,
)
from solver.feasibility import selectors
from solver.model import form
from tests.support import builders as b
from tests.support import neighbour_builders as nb
from tests.support import solver_problems as s
from tests.support.gangs import crowded

MODEL = f"device.attributes['{b.GPU_DRIVER}'].model"
STAGES = (
    "holding",
    "preparation",
    "greedy",
    "half of decision",
    "hard",
    "search",
    "rest of search",
    "explanation",
    "holds",
    "preemption",
)
EVICTING = Policy(preemption=PreemptionRules(is_enabled=True))


def contended() -> tuple[Snapshot, Batch]:
    """Four nodes with two devices, half of which a low priority holds; nine pods, a gang of three among them."""
    nodes = [b.node(f"n{i}") for i in range(4)]
    slices = [b.gpu_slice(f"n{i}", count=2, model=f"m{i % 2}") for i in range(4)]
    held = [b.held(f"h{i}", b.result("r", "gpu-0", f"n{i}")) for i in range(2)]
    claims = [b.claim(f"c{i}", b.request(count=1 + i % 2)) for i in range(9)]
    waiting = [b.pod(f"p{i}", f"c{i}", priority=10 * (i % 3)) for i in range(6)]
    members = [b.member(b.pod(f"g{i}", f"c{6 + i}", priority=5), "g") for i in range(3)]
    running = [b.pod(f"r{i}", f"h{i}", node_name=f"n{i}", priority=-1) for i in range(2)]
    snapshot = b.snapshot(nodes, slices, b.gpu_class(), held, claims, running)
    return snapshot, b.batch(*waiting, *members, gangs=(b.gang("g", 3),))


def budget(**rest: object) -> Budget:
    return Budget(seconds=86_400.0, deterministic_seconds=0.3, may_defer=True, **rest)  # type: ignore[arg-type]


def stopping(stage: str, after: int) -> Budget:
    """A budget whose time is up in one stage after so many looks."""
    return budget().replaying([StageStop(stage=stage, after=after)])


def replayed(limit: Budget, plan: Plan) -> Budget:
    return limit.replaying(plan.report.stopped, plan.report.left_out)


def answered(plan: Plan) -> Counter[PodId]:
    unplaced = [each.pod for each in plan.unplaced]
    return Counter([*(each.pod for each in plan.placements), *unplaced, *plan.undecided_pods()])


def is_sound(snapshot: Snapshot, batch: Batch, plan: Plan, policy: Policy) -> bool:
    """Whether a plan keeps every rule and answers every pod once, members of a gang that are left all alike."""
    left = frozenset(plan.undecided_pods())
    gangs = {pod.gang for pod in batch.pods if pod.id in left and pod.gang is not None}
    gangs_are_whole = all(pod.id in left for pod in batch.pods if pod.gang in gangs)
    is_valid = verify.check(snapshot, batch.without(left), plan, policy) == ()
    return is_valid and gangs_are_whole and answered(plan) == Counter(pod.id for pod in batch.pods)


@pytest.mark.parametrize("after", [0, 1, 3, 7])
@pytest.mark.parametrize("stage", STAGES)
def test_wherever_a_stage_is_stopped_the_plan_is_sound(stage: str, after: int) -> None:
    snapshot, batch = contended()
    plan = solve(snapshot, batch, EVICTING, stopping(stage, after))
    assert is_sound(snapshot, batch, plan, EVICTING)


@pytest.mark.parametrize("stage", ["preparation", "greedy"])
def test_one_pod_or_gang_is_tried_whatever_the_time_says(stage: str) -> None:
    snapshot, batch = contended()
    plan = solve(snapshot, batch, Policy(), stopping(stage, 0))
    assert len(s.later(plan)) < len(batch.pods)
    assert s.later(plan)


@pytest.mark.parametrize("stage", ["preparation", "greedy"])
def test_a_batch_whose_decisions_are_always_stopped_is_decided_in_the_end(stage: str) -> None:
    snapshot, batch = contended()
    rounds, rest = 0, batch
    while rest.pods:
        plan = solve(snapshot, rest, Policy(), stopping(stage, 0))
        rest, rounds = (
            Batch(pods=tuple(pod for pod in rest.pods if pod.id in s.later(plan)), gangs=batch.gangs),
            rounds + 1,
        )
    assert 1 < rounds <= len(batch.pods)


def test_a_batch_that_may_not_be_left_names_the_pods_that_were_not_reached() -> None:
    snapshot, batch = contended()
    given_up = Budget(seconds=86_400.0).replaying([StageStop(stage="greedy", after=1)])
    plan = solve_greedily(snapshot, batch, Policy(), given_up)
    late = [each for each in plan.unplaced if "the time limit ended" in each.reasons[0].message]
    assert late
    assert {each.reasons[0].code for each in late} == {ReasonCode.BUDGET}


def test_pods_that_say_little_are_reached_before_those_of_their_priority_that_say_much() -> None:
    many = [b.toleration(f"key-{number}") for number in range(200)]
    pods = [b.pod(f"m{number}", tolerations=many) for number in range(3)] + [b.pod(f"p{number}") for number in range(3)]
    urgent = b.pod("urgent", tolerations=many, priority=1)
    plan = solve(b.snapshot(b.node("n0")), b.batch(urgent, *pods), Policy(), stopping("preparation", 9))
    assert {each.name for each in s.later(plan)} == {"m0", "m1", "m2"}


def ticking(seconds_per_look: float) -> Budget:
    """A budget whose clock goes on with every look at it."""
    ticks = itertools.count()
    return Budget(
        seconds=1.0,
        deterministic_seconds=0.2,
        may_defer=True,
        clock=lambda: seconds_per_look * next(ticks),
        started=0.0,
    )


@pytest.mark.parametrize("seconds", [0.012, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 2.0])
def test_a_decision_that_time_stopped_is_repeated_by_its_report(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "_GLANCE", 1)
    snapshot, batch = contended()
    first = solve(snapshot, batch, EVICTING, ticking(seconds))
    assert first.report.stopped
    again = solve(snapshot, batch, EVICTING, replayed(ticking(0.0), first))
    assert again == first


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.1])
def test_a_decision_goes_on_for_a_bounded_number_of_looks_once_the_time_is_up(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "_GLANCE", 1)
    objects, batch = crowded()
    ticks = itertools.count()
    limit = Budget(seconds=1.0, may_defer=True, clock=lambda: seconds * next(ticks), started=0.0)
    solve(b.snapshot(objects), batch, Policy(), limit)
    shares = 1 + 0.25 + 6 * 0.125  # what stages get of their own, however late it is
    assert next(ticks) <= shares / seconds + 40 + 12 * len(batch.pods)


# What selectors and combinations cost

_numbers = itertools.count()


def costly() -> str:
    """A selector that costs much, and that no test before has evaluated: results are remembered as long as it is."""
    mark = next(_numbers)
    return " && ".join(f"{MODEL}.matches('(a*)*{mark}-{number}') == false" for number in range(40))


def long() -> str:
    """A selector of some length that no test before has evaluated."""
    return " && ".join(f"{MODEL} != 'none-{next(_numbers)}'" for _ in range(6))


def kinds(count: int) -> list[b.SnapshotObject]:
    """Nodes whose devices are all different, so that every one is looked at."""
    found: list[b.SnapshotObject] = []
    for number in range(count):
        devices = (b.device(f"d{i}", attributes={"model": f"m{number}-{i}"}) for i in range(4))
        found += [b.node(f"n{number}"), b.resource_slice(f"n{number}", *devices)]
    return found


def asking(name: str, *texts: str, namespace: str = b.NAMESPACE) -> Claim:
    requests = (b.request(f"r{i}", selectors=(text,)) for i, text in enumerate(texts))
    return b.claim(name, *requests, namespace=namespace)


def plain(number: int) -> Claim:
    return asking(f"c{number}", f"{MODEL} == 'm{number}-1'")


PLAIN = [b.pod(f"p{number}", f"c{number}") for number in range(4)]


def with_costly(*claims: Claim, pods: Sequence[Pod]) -> tuple[Snapshot, Batch]:
    own = [plain(number) for number in range(4)]
    return b.snapshot(kinds(12), b.gpu_class(), own, claims), b.batch(*pods, *PLAIN)


def test_one_costly_selector_does_not_delay_other_pods() -> None:
    snapshot, batch = with_costly(asking("h", costly()), pods=[b.pod("h", "h")])
    plan = solve(snapshot, batch, Policy(), budget(cost_units=60_000))
    without = solve(snapshot, b.batch(*PLAIN), Policy(), budget())
    assert [each.name for each in s.costly(plan)] == ["h"]
    assert (plan.placements, plan.allocations, plan.unplaced) == (without.placements, without.allocations, ())


def test_a_claim_of_many_costly_selectors_does_not_use_up_what_another_claim_needs() -> None:
    many = asking("h", *(costly() for _ in range(24)))
    snapshot, batch = with_costly(many, pods=[b.pod("h", "h")])
    plan = solve(snapshot, batch, Policy(), budget(cost_units=60_000))
    assert ([each.name for each in s.costly(plan)], len(plan.placements)) == (["h"], 4)


def test_many_costly_claims_of_a_namespace_do_not_use_up_what_another_namespace_needs() -> None:
    claims = [asking(f"h{i}", costly(), namespace="other") for i in range(24)]
    pods = [b.pod(f"h{i}", b.entry(f"h{i}", namespace="other"), namespace="other") for i in range(24)]
    snapshot, batch = with_costly(*claims, pods=pods)
    plan = solve(snapshot, batch, Policy(), budget(cost_units=150_000))
    assert {each.namespace for each in s.costly(plan)} == {"other"}
    assert {f"p{number}" for number in range(4)} <= set(s.nodes_of(plan))


def test_selectors_that_need_more_than_their_share_take_turns_by_namespace() -> None:
    claims = [asking(f"h{i}", costly(), namespace="another") for i in range(24)]
    pods = [b.pod(f"h{i}", b.entry(f"h{i}", namespace="another"), namespace="another") for i in range(24)]
    snapshot, batch = with_costly(*claims, asking("long", long()), pods=[*pods, b.pod("long", "long")])
    plan = solve(snapshot, batch, Policy(), budget(cost_units=150_000))
    assert {each.namespace for each in s.costly(plan)} == {"another"}
    assert "long" in s.nodes_of(plan)


def test_however_many_selectors_there_are_they_end_within_the_allowance() -> None:
    claims = [asking(f"h{i}", long(), namespace=f"team-{i % 3}") for i in range(40)]
    pods = [b.pod(f"h{i}", b.entry(f"h{i}", namespace=f"team-{i % 3}"), namespace=f"team-{i % 3}") for i in range(40)]
    snapshot, batch = with_costly(*claims, pods=pods)
    engine = SolverCache()
    plan = solve(snapshot, batch, Policy(), budget(cost_units=200_000), engine)
    assert 0 < len(s.costly(plan)) < 40
    assert 190_000 < engine.paid_units <= 210_000


def test_a_costly_pod_is_decided_in_the_end_because_what_was_worked_out_stays() -> None:
    text = " && ".join(f"{MODEL}.contains('{next(_numbers)}-none') == false" for _ in range(40))
    snapshot, batch = with_costly(asking("h", text), pods=[b.pod("h", "h")])
    engine, plans = SolverCache(), list[Plan]()
    while len(plans) < 40 and not (plans and "h" in s.nodes_of(plans[-1])):
        plans.append(solve(snapshot, batch, Policy(), budget(cost_units=25_000), engine))
    assert len(plans) > 1
    assert s.costly(plans[0])
    assert "h" in s.nodes_of(plans[-1])


def test_a_gang_is_costly_as_a_whole() -> None:
    members = [b.member(b.pod("h", "h"), "g"), b.member(b.pod("easy", "e"), "g")]
    snapshot, batch = with_costly(asking("h", costly()), asking("e", "true"), pods=members)
    batch = Batch(pods=batch.pods, gangs=(b.gang("g", 2),))
    plan = solve(snapshot, batch, Policy(), budget(cost_units=60_000))
    assert [each.name for each in s.costly(plan)] == ["h", "easy"]


def test_a_costly_pod_that_may_not_be_left_is_told_what_is_expensive() -> None:
    snapshot, batch = with_costly(asking("h", costly()), pods=[b.pod("h", "h")])
    plan = solve(snapshot, batch, Policy(), Budget(seconds=86_400.0, cost_units=60_000))
    assert (s.codes(plan, "h"), len(plan.placements)) == (["TooCostly"], 4)
    assert s.messages(plan, "h")[0].startswith("claim h, request r0: its selectors cost more")
    assert verify.check(snapshot, batch, plan) == ()


def combined(requests: int = 32, alternatives: int = 8, constraints: int = 31) -> Claim:
    named = [f"{MODEL} != 'm0-{number}'" for number in range(alternatives)]
    rows = (
        b.first_available(f"r{i}", *(b.alternative(f"s{j}", selectors=(text,)) for j, text in enumerate(named)))
        for i in range(requests)
    )
    return b.claim("w", *rows, constraints=tuple(b.match(f"{b.GPU_DRIVER}/model") for _ in range(constraints)))


def test_combinations_end_within_the_allowance() -> None:
    snapshot, batch = with_costly(combined(), pods=[b.pod("w", "w")])
    engine = SolverCache()
    plan = solve(snapshot, batch, Policy(), budget(cost_units=200_000), engine)
    assert ([each.name for each in s.costly(plan)], len(plan.placements)) == (["w"], 4)
    assert 190_000 < engine.paid_units <= 220_000


def test_what_is_known_to_be_too_costly_costs_nothing_more() -> None:
    snapshot, batch = with_costly(combined(), pods=[b.pod("w", "w")])
    engine = SolverCache()
    solve(snapshot, batch, Policy(), budget(cost_units=200_000), engine)
    paid = engine.paid_units
    plan = solve(snapshot, batch, Policy(), budget(cost_units=200_000), engine)
    assert ([each.name for each in s.costly(plan)], engine.paid_units) == (["w"], paid)


def test_a_larger_allowance_is_enough() -> None:
    few = combined(requests=4, alternatives=4, constraints=2)
    snapshot, batch = with_costly(few, pods=[b.pod("w", "w")])
    engine = SolverCache()
    assert s.costly(solve(snapshot, batch, Policy(), budget(cost_units=6_000), engine))
    plan = solve(snapshot, batch, Policy(), budget(), engine)
    assert s.costly(plan) == ()


@pytest.mark.parametrize("units", [0, 10, 5_000, 20_000, 60_000, 200_000])
def test_a_decision_that_the_allowance_stopped_is_repeated_by_a_memory_that_knows_nothing(units: int) -> None:
    claims = [combined(), asking("h", costly())]
    snapshot, batch = with_costly(*claims, pods=[b.pod("w", "w"), b.pod("h", "h")])
    engine = SolverCache()
    for _ in range(3):
        plan = solve(snapshot, batch, Policy(), budget(cost_units=units), engine)
        again = solve(snapshot, batch, Policy(), replayed(budget(cost_units=units), plan))
        assert again == plan
        assert is_sound(snapshot, batch, plan, Policy())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 120_000), st.integers(0, 120_000))
def test_whatever_was_worked_out_before_others_are_placed_as_if_the_costly_ones_were_not_there(
    before: int, units: int
) -> None:
    claims = [combined(requests=6, alternatives=4, constraints=3), asking("h", costly())]
    snapshot, batch = with_costly(*claims, pods=[b.pod("w", "w"), b.pod("h", "h")])
    engine = SolverCache()
    solve(snapshot, batch, Policy(), budget(cost_units=before), engine)
    plan = solve(snapshot, batch, Policy(), budget(cost_units=units), engine)
    alone = solve(snapshot, batch.without(frozenset(plan.undecided_pods())), Policy(), budget())
    assert (plan.placements, plan.allocations, plan.unplaced) == (alone.placements, alone.allocations, alone.unplaced)


# What one object raises


def failing_on(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let every evaluation of one selector raise what nothing expects."""
    real = selectors.Selector.evaluate

    def evaluate(selector: selectors.Selector, *rest: object) -> object:
        if selector.expression == text:
            raise ZeroDivisionError("an object that nothing expects")
        return real(selector, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(selectors.Selector, "evaluate", evaluate)


def test_what_matching_one_pod_raises_is_its_own_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = f"{MODEL} == 'bad'"
    failing_on(monkeypatch, bad)
    snapshot, batch = with_costly(asking("h", bad), pods=[b.pod("h", "h")])
    plan = solve(snapshot, batch, Policy(), budget())
    assert (s.codes(plan, "h"), len(plan.placements)) == (["SolverFailed"], 4)
    (found,) = plan.report.quarantined
    assert (found.subject, found.error.split(" (")[0]) == (
        "pod default/h",
        "ZeroDivisionError: an object that nothing expects",
    )


@pytest.mark.parametrize(
    "place",
    [
        "solver.feasibility.claims.objections",
        "solver.rules.node_fit.values.demand_of",
        "solver.problem.pod_classes._ways",
        "solver.problem.inter_pod._number",
        "solver.problem.batch_requests._joined",
    ],
)
def test_what_preparing_one_pod_raises_is_its_own_problem(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module_name, _, name = place.rpartition(".")
    module = __import__(module_name, fromlist=[name])
    real = getattr(module, name)

    def failing(*arguments: object) -> object:
        if any(isinstance(each, Pod) and each.id.name == "h" for each in arguments):
            raise ZeroDivisionError
        return real(*arguments)

    monkeypatch.setattr(module, name, failing)
    spread = replace(b.pod("h", "h", labels={"app": "x"}), spread=(nb.spread(app="x"),))
    snapshot, batch = with_costly(asking("h", "true"), pods=[spread])
    plan = solve(snapshot, batch, Policy(), budget())
    assert (s.codes(plan, "h")[0], len(plan.placements)) == ("SolverFailed", 4)
    assert [each.subject for each in plan.report.quarantined] == ["pod default/h"]


def test_memory_that_ends_is_no_pods_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> Iterator[object]:
        raise MemoryError

    monkeypatch.setattr("solver.feasibility.claims.objections", failing)
    snapshot, batch = contended()
    with pytest.raises(MemoryError):
        solve(snapshot, batch, Policy(), budget())
