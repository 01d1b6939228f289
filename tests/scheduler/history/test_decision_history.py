"""The records of decisions, bindings and evictions: what they hold, and their bounds."""

from datetime import UTC, datetime, timedelta

from scheduler.history.decision_history import DecisionHistory
from scheduler.history.records import DecisionRecord, PodRecord, PodResult
from scheduler.settings import HistorySettings
from solver import solve_greedily
from solver.domain import Placement, Plan, PodId, Policy, Victim
from tests.support.builders import allocation, batch, claim, gpu_class, gpu_slice, node, pod, result, snapshot
from tests.support.solver_problems import PATIENT

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
HELD = claim("old", allocation=allocation(result("gpu", "gpu-1", "n1")))


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def made(settings: HistorySettings = HistorySettings(), *, is_kept: bool = True) -> DecisionHistory:  # noqa: B008 - frozen
    return DecisionHistory(settings, is_kept=is_kept, now=Clock())


def plan() -> Plan:
    """A plan that places `p` on a device, and has no room for `large`."""
    world = snapshot(node("n1", cpu=4), gpu_slice("n1", count=1), gpu_class(), claim("c"), claim("d"))
    return solve_greedily(world, batch(pod("p", "c"), pod("large", "d")), Policy(), PATIENT)


def placement(name: str = "p") -> Placement:
    return Placement(pod=PodId("default", name), pod_uid=name, node="n1", claims=(HELD.id,))


def decide(history: DecisionHistory, found: Plan | None = None) -> int:
    number, claims = history.begin(), {HELD.id: HELD}
    history.decided(
        number, found or plan(), claims.get, profile="dovetail", pods=2, seconds=0.5, is_isolated=False, file="f"
    )
    return number


def test_a_decision_says_which_pods_were_placed_where_and_which_wait() -> None:
    history = made()
    number = decide(history)

    (record,) = history.newest(0)

    assert isinstance(record, DecisionRecord)
    assert (record.decision, record.pods, record.file) == (number, 2, "f")
    (placed,), (waiting,) = record.placed, record.waiting
    assert (placed.name, placed.node, placed.devices) == ("p", "n1", ("gpu.example.com/n1/gpu-0",))
    assert waiting.name == "large"
    assert waiting.message
    assert [level.name for level in record.levels] == [level.name for level in plan().report.levels]


def test_devices_of_claims_that_were_allocated_before_are_named() -> None:
    history = made()
    decide(history, Plan(placements=(placement(),), report=plan().report))

    (record,) = history.newest(0)

    assert isinstance(record, DecisionRecord)
    assert record.placed[0].devices == ("gpu.example.com/n1/gpu-1",)


def test_pods_are_bound_given_up_and_evicted() -> None:
    history = made()
    history.bound(7, placement(), ("gpu.example.com/n1/gpu-1",), 1.25)
    victim = Victim(pod=PodId("default", "v"), pod_uid="v", node="n2", message="for a pod of priority 5")
    history.evicted(victim, PodId("team", "urgent"))

    evicted, bound = history.newest(0)

    assert isinstance(evicted, PodRecord)
    assert isinstance(bound, PodRecord)
    assert (bound.result, bound.decision, bound.seconds) == (PodResult.BOUND, 7, 1.25)
    assert (evicted.result, evicted.node, evicted.message) == (PodResult.EVICTED, "n2", "for a pod of priority 5")
    assert evicted.preemptor == "team/urgent"


def test_only_the_newest_records_are_kept() -> None:
    history = made(HistorySettings(max_records=3))
    for number in range(5):
        history.bound(number, placement(), (), 0.0)
        history.encode()

    assert [record.decision for record in history.newest(0)] == [4, 3, 2]
    assert history.dropped == 2


def test_what_is_not_encoded_yet_is_bounded_too() -> None:
    history = made(HistorySettings(max_records=3))
    for number in range(5):
        history.bound(number, placement(), (), 0.0)

    assert [record.decision for record in history.newest(0)] == [4, 3, 2]
    assert history.dropped == 2


def test_the_records_take_no_more_bytes_than_they_may() -> None:
    history = made(HistorySettings(max_records=1_000_000, max_mib=1))
    for number in range(200):
        history.bound(number, placement("x" * 10_000), (), 0.0)
    history.encode()

    count, size = history.size
    assert 90 < count < 110
    assert 900_000 < size <= 1024 * 1024
    assert history.dropped == 200 - count


def test_only_what_happened_since_is_returned() -> None:
    history = made()
    for number in range(5):
        history.bound(number, placement(), (), 0.0)

    assert [each.decision for each in history.newest((START + timedelta(seconds=4)).timestamp())] == [4, 3]
    assert history.oldest() == START + timedelta(seconds=1)


def test_a_history_that_no_client_can_ask_for_keeps_nothing() -> None:
    history = made(is_kept=False)
    decide(history)

    assert list(history.newest(0)) == []
    assert history.size == (0, 0)
