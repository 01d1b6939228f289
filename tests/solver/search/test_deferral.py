"""What is hard and shares nothing with the rest is left for a solve of its own, and nothing else is."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from solver import solve, verify
from solver.domain import Batch, Budget, Plan, Policy, SearchParams, Snapshot
from tests.support import builders as b
from tests.support import solver_problems as s

ZONES = ("a", "b", "c")
PROMPT = Budget(seconds=86_400.0, deterministic_seconds=1.0, may_defer=True)
EASY = (("b", 1, 0), ("b", 3, 0), ("c", 4, 0))
HARD = (("a", 2, 6), ("a", 3, 6), ("a", 1, 5), ("a", 3, 6))
"""Each takes more than half a node's cpu or cards: two fit, while the relaxation over both nodes says three."""


def case(pods: Sequence[tuple[str, int, int]], *, gang: Sequence[int] = ()) -> tuple[Snapshot, Batch]:
    """Pods (zone or "" for any, cards, cpu) on two nodes with four cards in each of three zones; some are a gang."""
    claims = [b.claim(f"c{index}", b.request(count=cards)) for index, (_, cards, _) in enumerate(pods)]
    made = [
        b.pod(
            f"p{index}",
            f"c{index}",
            cpu=cpu,
            node_selector={"zone": zone} if zone else {},
        )
        for index, (zone, _, cpu) in enumerate(pods)
    ]
    made = [b.member(pod, "g") if index in gang else pod for index, pod in enumerate(made)]
    nodes = [b.node(f"n-{zone}{index}", cpu=10, labels={"zone": zone}) for zone in ZONES for index in range(2)]
    slices = [b.gpu_slice(node.name, count=4) for node in nodes]
    gangs = (b.gang("g", minimum=len(gang)),) if gang else ()
    return b.snapshot(*nodes, *slices, b.gpu_class(), *claims), Batch(pods=tuple(made), gangs=gangs)


def decided(snapshot: Snapshot, batch: Batch, budget: Budget = PROMPT) -> Plan:
    plan = solve(snapshot, batch, Policy(), budget)
    assert verify.check(snapshot, batch.without(frozenset(s.later(plan))), plan, Policy()) == ()
    return plan


def left(plan: Plan) -> list[str]:
    return [pod.name for pod in s.later(plan)]


def test_hard_pods_are_left_and_the_easy_ones_are_placed() -> None:
    plan = decided(*case((*HARD, *EASY)))
    assert left(plan) == ["p0", "p1", "p2", "p3"]
    assert [each.pod.name for each in plan.placements] == ["p4", "p5", "p6"]
    assert plan.unplaced == ()


def test_what_was_left_is_decided_next() -> None:
    snapshot, batch = case((*HARD, *EASY))
    rest = batch.without({pod.id for pod in batch.pods} - set(s.later(decided(snapshot, batch))))
    plan = decided(snapshot, rest)
    assert left(plan) == []
    assert (len(plan.placements), len(plan.unplaced)) == (2, 2)


def test_nothing_is_left_unless_the_budget_says_so() -> None:
    plan = decided(*case((*HARD, *EASY)), Budget(seconds=86_400.0, deterministic_seconds=1.0))
    assert left(plan) == []
    assert (len(plan.placements), len(plan.unplaced)) == (5, 2)


def test_nothing_is_left_where_everything_hangs_together() -> None:
    assert left(decided(*case((*HARD, *EASY, ("", 1, 1))))) == []


def test_nothing_is_left_where_everything_is_as_hard() -> None:
    assert left(decided(*case((*HARD, *(("b", cards, cpu) for _, cards, cpu in HARD))))) == []


def test_large_hard_parts_are_left_after_small_ones() -> None:
    prompt = replace(PROMPT, params=SearchParams(deferred_terms=30))
    larger = (*(("b", cards, cpu) for _, cards, cpu in HARD), ("b", 4, 7), ("b", 4, 8))
    assert left(decided(*case((*larger, *HARD)), prompt)) == [f"p{index}" for index in range(len(larger))]


def test_a_gang_is_left_whole_with_a_member_that_can_run_nowhere() -> None:
    snapshot, batch = case((*HARD, ("a", 1, 1), ("b", 1, 0), *EASY), gang=(4, 5))
    batch = structs.replace(batch, gangs=(b.gang("g", minimum=1),))
    without_claim = tuple(each for each in snapshot.claims if each.id.name != "c5")
    plan = decided(structs.replace(snapshot, claims=without_claim), batch)
    assert left(plan) == ["p0", "p1", "p2", "p3", "p4", "p5"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(("a", "b")), st.integers(1, 4), st.integers(0, 6)), min_size=2, max_size=9))
def test_decided_one_after_the_other_as_many_are_placed_as_at_once(pods: list[tuple[str, int, int]]) -> None:
    snapshot, batch = case(pods)
    whole = decided(snapshot, batch, Budget(seconds=86_400.0, deterministic_seconds=5.0))
    placed, rest = 0, batch
    while rest.pods:
        plan = decided(snapshot, rest)
        placed += len(plan.placements)
        rest = rest.without({pod.id for pod in rest.pods} - set(s.later(plan)))
    assert placed == len(whole.placements)
