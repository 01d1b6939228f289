"""The last decisions on the page: what the scheduler remembers, as `dovetail history` writes it."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.api.history_answers import HistoryAnswer
from scheduler.api.queries import Query
from scheduler.api.refusals import Refusal
from scheduler.history.records import DecisionRecord, PodNominated, PodPlaced, PodRecord, PodResult, PodWaiting
from scheduler.kube.errors import ConfigurationError
from scheduler.page import decision_answers
from scheduler.visibility import HiddenCounts
from solver.domain import LevelReport

GPUS = ("gpu.example.com/n1/gpu-0", "gpu.example.com/n1/gpu-1", "gpu.example.com/n1/gpu-2")


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def waits(number: int) -> DecisionRecord:
    waiting = (PodWaiting(namespace="team", name="b", reason="NoDevice", message="no device is free"),)
    return DecisionRecord(
        decision=number, time=at(number), profile="p", pods=1, seconds=0.1, status="Optimal", waiting=waiting
    )


DECIDED = DecisionRecord(
    decision=3,
    time=at(3),
    profile="p",
    pods=2,
    seconds=0.25,
    status="Feasible",
    levels=(LevelReport(name="placed:0", value=1, bound=2, proven=False),),
    placed=(PodPlaced(namespace="team", name="a", node="n1", devices=GPUS),),
    nominated=(PodNominated(namespace="team", name="b", node="n2", victims=1),),
)
BOUND = PodRecord(
    decision=3, time=at(4), result=PodResult.BOUND, namespace="team", name="a", node="n1", devices=GPUS, seconds=1.5
)
HISTORY = HistoryAnswer(
    oldest=at(0), truncated=True, hidden=HiddenCounts(pods=2, namespaces=1), items=(BOUND, DECIDED, waits(2), waits(1))
)


class Scheduler:
    """Answers with a history, or with what is wrong."""

    def __init__(self, answer: bytes = msgspec.json.encode(HISTORY), problem: str = "") -> None:
        self.answer, self.problem = answer, problem
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.tokens: list[str] = []

    async def ask(self, name: str, parameters: Mapping[str, str], token: str) -> bytes:
        self.asked.append((name, parameters))
        self.tokens.append(token)
        if self.problem:
            raise ConfigurationError(self.problem)
        return self.answer


async def test_decisions_have_their_levels_in_words_with_bound_or_proof() -> None:
    found = await decision_answers.answer(Scheduler().ask, Query())
    assert [each.decision for each in found.decisions] == [3, 2, 1]
    first = found.decisions[0]
    assert (first.pods, first.placed, first.waiting, first.nominated, first.status) == (2, 1, 0, 1, "Feasible")
    assert first.levels == ("pods of priority 0 placed: 1 (at best 2)",)
    assert (found.truncated, found.oldest, found.hidden) == (True, at(0), HiddenCounts(pods=2, namespaces=1))


async def test_events_are_the_rows_of_dovetail_history_the_newest_first() -> None:
    found = await decision_answers.answer(Scheduler().ask, Query())
    rows = [(each.pod, each.what, each.node, each.devices, each.why) for each in found.events]
    assert rows == [
        ("a", "Bound", "n1", "gpu-0 … gpu-2 (gpu.example.com)", ""),
        ("b", "Nominated", "n2", "", "1 pod is evicted for it"),
        ("b", "Waits", "", "", "no device is free (the last of 2 decisions)"),
    ]


async def test_the_way_of_one_pod_is_asked_of_the_scheduler() -> None:
    scheduler = Scheduler()
    await decision_answers.answer(scheduler.ask, Query(namespace="team", pod="a"))
    ((name, parameters),) = scheduler.asked
    assert (name, parameters["namespace"], parameters["pod"]) == ("history", "team", "a")
    await decision_answers.answer(scheduler.ask, Query())
    assert not {"namespace", "pod"} & set(scheduler.asked[1][1])


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (Scheduler(problem="no scheduler answers"), "no scheduler answers"),
        (Scheduler(b"[]"), "another version"),
        (Scheduler(b"<html>"), "another version"),
    ],
)
async def test_a_scheduler_that_gives_no_answer_is_a_refusal(scheduler: Scheduler, message: str) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        await decision_answers.answer(scheduler.ask, Query())
    assert refused.value.status == 503
