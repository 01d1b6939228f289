"""Decisions beside the batches: what goes there, when, in what order, what becomes of it. Tests move the time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.queue import PodState
from scheduler.worker.decider import Decision
from scheduler.worker.frames import Cause
from scheduler.worker.supervisor import ChildEndedError, SolveFailedError, WorkerError, WorkerLostError
from solver import solve_greedily, verify
from solver.domain import (
    SPREAD,
    Batch,
    Plan,
    Pod,
    PodId,
    Policy,
    Reason,
    ReasonCode,
    SearchReport,
    SearchStatus,
    UndecidedCause,
    Unplaced,
)
from tests.scheduler.test_cycle import Deciding, Hall, running
from tests.support.builders import claim, member, pod
from tests.support.cluster_builders import gone, seen
from tests.support.idle_loop import until_idle
from tests.support.shell_clock import Ahead
from tests.support.solver_problems import PATIENT

NOTHING = Plan(report=SearchReport(status=SearchStatus.FALLBACK))
TOO_COSTLY = Reason(
    code=ReasonCode.TOO_COSTLY, message="the selector of request gpu is too costly: write a shorter one"
)


class Slow(Deciding):
    """
    Stands where the process is asked: pods named after what is to go wrong are costly, or end it.

    `costly…` are left for a decision aside; `kill…` end a batch and a decision aside. What a pod named with a number of
    seconds (`costly-15-a`) takes aside passes on the virtual clock.
    """

    def __init__(self, hall: Hall, ahead: Ahead) -> None:
        super().__init__(hall.cluster)
        self.ahead = ahead
        self.aside: list[list[str]] = []
        self.greedy: list[bool] = []
        self.costly_limits: list[bool] = []
        self.levels: list[tuple[str, ...]] = []
        self.may_decide_isolated = asyncio.Event()
        self.may_decide_isolated.set()
        self.breaks: Callable[[Pod], WorkerError | None] = _kills

    async def decide(self, batch: Batch, policy: Policy) -> Decision:
        self.batches.append(batch)
        await self.may_solve.wait()
        if any(each.id.name.startswith("kill") for each in batch.pods):
            suspects = {each.id: UndecidedCause.SUSPECT for each in batch.pods}
            return Decision(asked=batch, plan=NOTHING, seconds=3.0, undecided=suspects)
        costly = {each.id for each in batch.pods if each.id.name.startswith("costly")}
        return self.decided(batch, costly, policy)

    async def decide_isolated(self, batch: Batch, policy: Policy, *, is_costly: bool, is_greedy: bool) -> Decision:
        self.aside.append([each.id.name for each in batch.pods])
        self.greedy.append(is_greedy)
        self.costly_limits.append(is_costly)
        self.levels.append(policy.levels)
        await self.ahead.sleep(max(_seconds(each) for each in batch.pods))
        await self.may_decide_isolated.wait()
        for each in batch.pods:
            if error := self.breaks(each):
                raise error
        if any("hopeless" in each.id.name for each in batch.pods):
            unplaced = tuple(Unplaced(pod=each.id, pod_uid=each.uid, reasons=(TOO_COSTLY,)) for each in batch.pods)
            return Decision(asked=batch, plan=Plan(unplaced=unplaced, report=NOTHING.report), seconds=20.0)
        costly = set() if is_costly else {each.id for each in batch.pods if each.id.name.startswith("costly")}
        return self.decided(batch, costly, policy)

    async def is_still_valid(self, decision: Decision, policy: Policy) -> bool:
        return not verify.check(self.cluster.snapshot(), decision.batch, decision.plan, policy)

    def decided(self, batch: Batch, costly: set[PodId], policy: Policy) -> Decision:
        now = batch.without(costly)
        plan = solve_greedily(self.cluster.snapshot(), now, policy, PATIENT)
        undecided = dict.fromkeys(costly, UndecidedCause.TOO_COSTLY)
        return Decision(asked=batch, plan=plan, seconds=0.1, undecided=undecided, cost_seconds=0.1)


def _seconds(each: Pod) -> float:
    words = [word for word in each.id.name.split("-") if word.isdigit()]
    return float(words[0]) if words else 0.0


def _kills(each: Pod) -> WorkerError | None:
    return ChildEndedError(Cause.TIME) if each.id.name.startswith("kill") else None


class Stage:
    """A cycle whose clock is the loop's, which tests move."""

    def __init__(self, max_pods: int = 100) -> None:
        self.ahead = Ahead()
        self.hall = Hall(max_pods, clock=asyncio.get_running_loop().time)
        self.deciding = Slow(self.hall, self.ahead)
        self.hall.deciding = self.deciding
        self.hall.parts.isolated_lane._decider = self.deciding  # type: ignore[misc, assignment]  # noqa: SLF001 - the door that is a test's
        object.__setattr__(self.hall.parts, "decider", self.deciding)

    def arrive(self, name: str, *claims: str, namespace: str = "default", **fields: Any) -> Pod:
        arrived = pod(name, *claims, namespace=namespace, **fields)
        self.hall.cycle.see([seen(claim(key.name, namespace=namespace)) for key in arrived.claim_ids])
        self.hall.cycle.see([seen(arrived)])
        return arrived

    async def pass_seconds(self, seconds: float) -> None:
        await self.ahead.sleep(seconds)
        await until_idle()

    def state(self, each: Pod) -> PodState | None:
        return self.hall.pending.state(each.id)

    def is_bound(self, each: Pod) -> bool:
        return any(unit.placements[0].pod == each.id for unit in self.hall.committing.units)

    def told(self, each: Pod) -> list[str]:
        return [message for name, message in self.hall.telling.told if name == each.id.name]

    def outcomes(self, outcome: str) -> float:
        return self.hall.series("dovetail_isolated_decisions_total", outcome=outcome)


async def test_a_costly_pod_is_decided_beside_the_batches() -> None:
    stage = Stage()
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        await until_idle()

    assert stage.is_bound(costly)
    assert stage.deciding.aside == [["costly"]]
    assert stage.deciding.costly_limits == [True]


async def test_no_batch_waits_for_a_costly_decision() -> None:
    stage = Stage()
    stage.deciding.may_decide_isolated.clear()
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        await until_idle()
        cheap = stage.arrive("cheap", "d")
        await until_idle()

        assert stage.is_bound(cheap)
        assert not stage.is_bound(costly)
        stage.deciding.may_decide_isolated.set()


async def test_a_device_that_a_batch_took_meanwhile_is_not_given_twice() -> None:
    stage = Stage()
    stage.hall.cycle.see([seen(claim(f"other-{number}")) for number in range(3)])
    async with running(stage.hall):
        deciding = stage.deciding.decided
        stage.deciding.may_decide_isolated.clear()
        costly = stage.arrive("costly", "c")
        await until_idle()
        # The plan is made on the cluster as it was before the batch that comes now, as a child's is.
        before = deciding(Batch(pods=(costly,)), set(), Policy())
        stage.deciding.decided = lambda *_: before  # type: ignore[method-assign]  # a plan that comes late
        stage.deciding.may_solve.clear()
        cheap = stage.arrive("cheap", "d")
        await until_idle()
        stage.deciding.decided = deciding  # type: ignore[method-assign]  # as it was
        stage.deciding.may_solve.set()
        await until_idle()
        assert stage.is_bound(cheap)
        stage.deciding.decided = lambda *_: before  # type: ignore[method-assign]  # a plan that comes late
        stage.deciding.may_decide_isolated.set()
        await until_idle()

    given = [
        result.device
        for unit in stage.hall.committing.units
        for each in unit.allocations
        for result in each.allocation.results
    ]
    assert len(given) == len(set(given))
    assert stage.told(costly) == ["waits on 1: the cluster changed during the decision; the scheduler decides again"]


async def test_a_pod_whose_plan_was_overtaken_is_placed_where_the_batches_do_not_pack() -> None:
    """Else a stream of cheap pods takes the devices of every plan before it comes."""
    stage = Stage()
    honest, answers = stage.deciding.is_still_valid, [False, True]

    async def is_still_valid(decision: Decision, policy: Policy) -> bool:
        return answers.pop(0) and await honest(decision, policy)

    stage.deciding.is_still_valid = is_still_valid  # type: ignore[method-assign]
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        await until_idle()
        for _ in range(3):
            await stage.pass_seconds(20.0)

    assert stage.is_bound(costly)
    assert stage.deciding.levels == [Policy().levels, SPREAD]


async def test_a_costly_plan_waits_so_that_the_batch_under_way_does_not_take_the_same() -> None:
    stage = Stage()
    stage.deciding.may_decide_isolated.clear()
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        await until_idle()
        stage.deciding.may_solve.clear()
        stage.arrive("cheap", "d")
        await until_idle()
        stage.deciding.may_decide_isolated.set()
        await until_idle()
        assert not stage.is_bound(costly)

        stage.deciding.may_solve.set()
        await until_idle()

    given = [each.claim.name for unit in stage.hall.committing.units for each in unit.allocations]
    assert given[0] == "d"


async def test_a_pod_that_broke_the_limit_rests_and_is_told_what_to_write_and_when_it_is_tried() -> None:
    stage = Stage()
    async with running(stage.hall):
        hopeless = stage.arrive("costly-hopeless", "c")
        await until_idle()

        assert stage.state(hopeless) is PodState.BACKING_OFF
        assert "write a shorter one; the scheduler tries again in 30 s" in stage.told(hopeless)[-1]


async def test_the_rest_doubles_up_to_ten_minutes() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.arrive("costly-hopeless", "c")
        await until_idle()
        for seconds in (30, 60, 120, 240, 480, 600, 600):
            count = len(stage.deciding.aside)
            await stage.pass_seconds(seconds - 1)
            assert len(stage.deciding.aside) == count
            await stage.pass_seconds(1.2)
            assert len(stage.deciding.aside) == count + 1


async def test_guilt_outlives_the_pod_because_the_next_one_has_its_spec() -> None:
    stage = Stage()
    async with running(stage.hall):
        first = stage.arrive("costly-hopeless-a", "a")
        await until_idle()
        stage.hall.cycle.see([gone(first)])
        batches = len(stage.deciding.batches)

        second = stage.arrive("costly-hopeless-b", "b")
        await until_idle()

        assert len(stage.deciding.batches) == batches  # no batch pays for it
        assert stage.state(second) is PodState.BACKING_OFF
        assert "write a shorter one; the scheduler tries again in" in stage.told(second)[-1]
        assert len(stage.deciding.aside) == 1


async def test_another_spec_the_same_owner_is_not_guilty() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.arrive("costly-hopeless-a", "a")
        await until_idle()

        other = stage.arrive("plain", "b", cpu=2)
        await until_idle()

        assert stage.is_bound(other)


async def test_a_spec_whose_decision_kept_the_limits_goes_with_others_again() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.arrive("costly", "a")
        await until_idle()
        second = stage.arrive("known-by-now", "b")
        await until_idle()

    assert stage.is_bound(second)
    assert stage.deciding.names[-1] == ["known-by-now"]


async def test_pods_with_which_the_process_ended_are_decided_in_halves_until_one_is_alone() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.deciding.may_solve.clear()
        stage.arrive("first")
        await until_idle()
        good = [stage.arrive(f"good-{number}", cpu=f"{number + 1}m") for number in range(7)]
        guilty = stage.arrive("kill")
        stage.deciding.may_solve.set()
        for _ in range(8):
            await until_idle()

        assert all(stage.is_bound(each) for each in good)
        assert stage.state(guilty) is PodState.BACKING_OFF
        assert stage.outcomes("parked") == 1
        assert stage.outcomes("divided") == 2


async def test_fresh_pods_are_decided_with_the_next_batch_while_suspects_are_looked_at() -> None:
    stage = Stage()
    stage.deciding.may_decide_isolated.clear()
    async with running(stage.hall):
        stage.arrive("kill")
        await until_idle()
        fresh = stage.arrive("fresh")
        await until_idle()

        assert stage.is_bound(fresh)
        stage.deciding.may_decide_isolated.set()


async def test_where_the_process_ended_by_another_batch_a_decision_is_made_again_without_blame() -> None:
    stage, failures = Stage(), [WorkerLostError("the process ended while it solved")]
    stage.deciding.breaks = lambda _: failures.pop() if failures else None
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        for _ in range(3):
            await until_idle()

    assert stage.is_bound(costly)
    assert stage.outcomes("lost") == 1


async def test_a_pod_with_which_the_process_ends_every_time_rests_in_the_end() -> None:
    stage = Stage()
    stage.deciding.breaks = lambda _: WorkerLostError("the process ended while it solved")
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        for _ in range(3):
            await until_idle()

        assert stage.state(costly) is PodState.BACKING_OFF


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ChildEndedError(Cause.TIME), "took too long and was ended"),
        (ChildEndedError(Cause.MEMORY), "took too much memory and was ended"),
        (ChildEndedError(Cause.CRASH), "the solver fails on this pod alone"),
        (SolveFailedError("a trace"), "the solver fails on this pod alone"),
    ],
    ids=["time", "memory", "crash", "raised"],
)
async def test_a_decision_that_was_ended_says_why(error: WorkerError, said: str) -> None:
    stage = Stage()
    stage.deciding.breaks = lambda _: error
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        await until_idle()

        assert said in stage.told(costly)[-1]
        assert "the scheduler tries again in 30 s" in stage.told(costly)[-1]


async def test_a_defect_that_meets_one_decision_ends_no_other() -> None:
    stage = Stage()

    def fail(each: Pod) -> WorkerError | None:
        if each.id.name == "costly-bad":
            raise ZeroDivisionError
        return None

    stage.deciding.breaks = fail
    async with running(stage.hall):
        bad, good = stage.arrive("costly-bad", "a", cpu="1m"), stage.arrive("costly-good", "b", cpu="2m")
        for _ in range(3):
            await until_idle()

        assert stage.is_bound(good)
        assert stage.state(bad) is PodState.BACKING_OFF


async def test_what_ended_a_decision_is_decided_greedily_the_next_time() -> None:
    stage, failures = Stage(), [ChildEndedError(Cause.CRASH)]
    stage.deciding.breaks = lambda _: failures.pop() if failures else None
    async with running(stage.hall):
        costly = stage.arrive("costly", "c")
        await until_idle()
        await stage.pass_seconds(31)

    assert stage.deciding.greedy == [False, True]
    assert stage.is_bound(costly)


async def test_a_namespace_waits_until_it_has_earned_what_its_decisions_took() -> None:
    stage = Stage()
    async with running(stage.hall):
        first = stage.arrive("costly-20-a", "a", cpu="1m")
        await until_idle()
        second = stage.arrive("costly-20-b", "b", cpu="2m")
        await until_idle()
        assert stage.is_bound(first)
        assert "used up their share" in stage.told(second)[-1]

        await stage.pass_seconds(100)
        assert stage.deciding.aside == [["costly-20-a"]]
        await stage.pass_seconds(50)
        assert stage.deciding.aside == [["costly-20-a"], ["costly-20-b"]]


async def test_a_namespace_in_debt_has_no_new_spec_decided_in_a_batch() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.arrive("costly-20-a", "a", namespace="team")
        await until_idle()
        batches = len(stage.deciding.batches)
        stage.arrive("other-spec", "b", namespace="team", cpu="7m")
        other = stage.arrive("elsewhere", "b", cpu="7m")
        await until_idle()

        assert stage.deciding.names[batches:] == [["elsewhere"]]
        assert stage.is_bound(other)


async def test_of_several_namespaces_the_one_comes_first_that_was_served_longest_ago() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.deciding.may_decide_isolated.clear()
        stage.arrive("costly-1-a", "a", namespace="greedy", cpu="1m")
        await until_idle()
        for number in range(3):
            stage.arrive(f"costly-1-{number}", f"c{number}", namespace="greedy", cpu=f"{2 + number}m")
        stage.arrive("costly-1-late", "l", namespace="modest")
        await until_idle()
        await stage.pass_seconds(0.1)  # the first one ends after the batch in which both namespaces were served
        stage.deciding.may_decide_isolated.set()
        for _ in range(5):
            await until_idle()

    assert stage.deciding.aside[1] == ["costly-1-late"]


async def test_equal_costly_pods_are_decided_together() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.deciding.may_solve.clear()
        stage.arrive("first")
        await until_idle()
        pods = [stage.arrive(f"costly-{name}", name) for name in "abc"]
        stage.deciding.may_solve.set()
        await until_idle()

    assert stage.deciding.aside == [["costly-a", "costly-b", "costly-c"]]
    assert all(stage.is_bound(each) for each in pods)


async def test_a_costly_gang_is_decided_whole() -> None:
    stage = Stage()
    async with running(stage.hall):
        for each in (member(pod("costly-a", cpu=1), "g"), member(pod("costly-b", cpu=2), "g")):
            stage.hall.cycle.see([seen(each)])
        await until_idle()

    assert stage.deciding.aside[0] == ["costly-a", "costly-b"]


async def test_a_pod_that_is_deleted_while_it_waits_is_not_decided_about() -> None:
    stage = Stage()
    async with running(stage.hall):
        stage.deciding.may_decide_isolated.clear()
        stage.arrive("costly-a", "a", cpu="1m")
        await until_idle()
        second = stage.arrive("costly-b", "b", cpu="2m")
        await until_idle()
        stage.hall.cycle.see([gone(second)])
        stage.deciding.may_decide_isolated.set()
        await until_idle()

    assert stage.deciding.aside == [["costly-a"]]


async def test_an_expensive_pod_is_decided_within_five_minutes_beside_an_endless_stream_of_cheap_ones() -> None:
    stage, started = Stage(), asyncio.get_running_loop().time()
    stage.hall.cycle.see([seen(claim("c", namespace="modest"))])
    async with running(stage.hall):
        for n in range(30):
            stage.arrive(f"costly-20-hopeless-{n}", f"h{n}", namespace="bad", cpu=f"{n + 1}m")
        expensive = stage.arrive("costly-15-valid", "c", namespace="modest")
        number, waited = 0, 0.0
        while not stage.is_bound(expensive):
            number += 1
            before = stage.arrive(f"cheap-{number}", namespace="good")
            await stage.pass_seconds(0.1)
            waited = asyncio.get_running_loop().time() - started
            assert stage.is_bound(before)
            assert waited < 300
            stage.hall.cycle.see([gone(before)])


async def test_one_namespace_uses_a_tenth_of_the_time_whatever_it_asks_for() -> None:
    stage = Stage()
    clock = asyncio.get_running_loop().time
    started = clock()
    async with running(stage.hall):
        for number in range(50):
            stage.arrive(f"costly-20-hopeless-{number}", f"h{number}", namespace="bad", cpu=f"{number + 1}m")
        while clock() - started < 3600:
            await stage.pass_seconds(5.0)
        used = stage.hall.series("dovetail_isolated_seconds_total")

    assert used <= 0.1 * (clock() - started) + 0.1 * 60 + 20
    assert used > 0.08 * 3600
