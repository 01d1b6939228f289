"""What a background loop raises ends neither the loop nor the process: it goes on with its next turn."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler import replica, watches
from scheduler.cluster import Cluster
from scheduler.commit import manually_bound, uncertain_allocations
from scheduler.commit.claims import ClaimWriter
from scheduler.commit.manually_bound import ManuallyBoundPods
from scheduler.commit.uncertain_allocations import UncertainAllocations
from scheduler.kube.client import Client
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.kube.writer import Writer
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.replica import Replica
from scheduler.status import misspelled_schedulers
from scheduler.status.misspelled_schedulers import MisspelledSchedulers
from scheduler.status.pod_groups import PodGroupStatusWriter
from scheduler.status.status_writer import StatusWriter
from scheduler.status.unreadable_objects import Quarantine
from scheduler.watches import Watches

TURNS = 3
Loop = Callable[[], Coroutine[Any, Any, None]]


class Turns:
    """Raises in each turn, and counts them."""

    def __init__(self) -> None:
        self.count = 0
        self.are_over = asyncio.Event()

    def turn(self, *_: object) -> Any:
        self.count += 1
        if self.count == TURNS:
            self.are_over.set()
        raise RuntimeError("a defect")

    async def turn_later(self, *_: object) -> Any:
        await asyncio.sleep(0)
        return self.turn()


def uncertain(metrics: Metrics, turns: Turns, patch: pytest.MonkeyPatch) -> Loop:
    patch.setattr(uncertain_allocations, "_PERIOD_SECONDS", 0.0)
    cluster = cast("Cluster", SimpleNamespace(uncertain_claims=turns.turn))
    return UncertainAllocations(cluster, cast("ClaimWriter", None), metrics).run


def bound_by_hand(metrics: Metrics, turns: Turns, patch: pytest.MonkeyPatch) -> Loop:
    patch.setattr(manually_bound, "_PERIOD_SECONDS", 0.0)
    return ManuallyBoundPods(Cluster(), cast("StatusWriter", None), (), metrics, clock=turns.turn).run


def misspelled(metrics: Metrics, turns: Turns, patch: pytest.MonkeyPatch) -> Loop:
    patch.setattr(misspelled_schedulers, "_PERIOD_SECONDS", 0.0)
    patch.setattr(MisspelledSchedulers, "look", turns.turn_later)
    return MisspelledSchedulers(Cluster(), cast("Any", None), cast("Any", None), (), metrics).run


def groups(metrics: Metrics, turns: Turns, patch: pytest.MonkeyPatch) -> Loop:
    patch.setattr(PodGroupStatusWriter, "_write_due", turns.turn_later)
    patch.setattr(PodGroupStatusWriter, "_wait_for_work", lambda _: asyncio.sleep(0))
    status = cast("StatusWriter", None), metrics
    return PodGroupStatusWriter(cast("Client", None), cast("Writer", None), Cluster(), status, "").run


def watch_ages(metrics: Metrics, turns: Turns, patch: pytest.MonkeyPatch) -> Loop:
    patch.setattr(watches, "_REPORT_SECONDS", 0.0)
    patch.setattr(Watches, "report_stale", turns.turn)
    quarantine = Quarantine(metrics, lambda _, __: None)
    source = cast("Client", None), DiscoveredKinds(paths=()), lambda _: None
    return Watches(source, WatchAges(30.0), Health(), metrics, quarantine).report


@pytest.mark.parametrize("make", [uncertain, bound_by_hand, misspelled, groups, watch_ages])
async def test_it_goes_on(
    make: Callable[[Metrics, Turns, pytest.MonkeyPatch], Loop], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, turns = Metrics(), Turns()
    task = asyncio.create_task(make(metrics, turns, monkeypatch)())
    async with asyncio.timeout(30):
        await turns.are_over.wait()

    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_replica_begins_each_of_its_loops_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: Counter[str] = Counter()

    def part(name: str) -> Any:
        async def run(*_: object) -> None:
            begun[name] += 1
            raise RuntimeError("a defect")

        return SimpleNamespace(run=run, decide=run, extended_claims=None, claims=None)

    names = (
        "isolated_lane",
        "stale_allocations",
        "pod_groups",
        "fleet_counter",
        "holds",
        "status",
        "placement_check",
        "kept_nodes",
    )
    parts = SimpleNamespace(**{name: part(name) for name in names}, cluster=None, queue=None, commit=part("commit"))
    context = SimpleNamespace(metrics=Metrics(), settings=SimpleNamespace(scheduler_names=("dovetail",)))
    monkeypatch.setattr(replica, "OrphanedClaims", lambda *_, **__: part("orphaned"))
    monkeypatch.setattr(replica, "UncertainAllocations", lambda *_, **__: part("uncertain"))
    monkeypatch.setattr(replica, "answer_callers", part("callers").run)
    monkeypatch.setattr("scheduler.observe.unexpected_errors._PAUSE_SECONDS", 0.0)
    made: Any = SimpleNamespace(
        _parts=parts,
        _context=context,
        _cycle=part("cycle"),
        _budget=None,
        _api=None,
        _usage=None,
        _late_seconds=0.0,
        _make_repairer=lambda: part("repairer"),
        _make_quota_statuses=lambda: part("quotas"),
        _reporter=part("reporter"),
        _followers=(part("by hand"), part("misspelled"), None, None),
    )
    made._admission_check = partial(Replica._admission_check, made)  # noqa: SLF001 - as below
    made._kept = partial(Replica._kept, made)  # noqa: SLF001 - there is no replica without an API server
    tasks = [asyncio.create_task(each) for each in Replica._loops(made)]  # noqa: SLF001 - as before
    async with asyncio.timeout(30):
        while len(begun) < len(tasks) or min(begun.values()) < TURNS:  # noqa: ASYNC110 - the pauses are zero
            await asyncio.sleep(0)

    assert not any(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
