"""Pods, claims and groups come and go without end: what is kept of them does not grow."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import msgspec
import pytest

from scheduler.change import Change, Kind
from scheduler.cluster import Cluster, Unit
from scheduler.cluster.pod_index import MOST_RECENT_PODS
from scheduler.cluster.unit import Bound, Outcome, Undone
from scheduler.commit.claims import ClaimWriter
from scheduler.commit.commit import Commit
from scheduler.commit.evictions import Evictions
from scheduler.commit.local_taints import FailedDevices, LocalTaints, SuspectDevices
from scheduler.commit.manually_bound import ManuallyBoundPods
from scheduler.commit.prebind import PreBind, PreemptionBackoff
from scheduler.commit.rollback import Rollback
from scheduler.commit.speculative_finalizers import SpeculativeFinalizers
from scheduler.commit.stale_allocations import StaleAllocations
from scheduler.components import Components, equivalence_keys
from scheduler.cycle import SchedulingCycle
from scheduler.history.decision_history import DecisionHistory
from scheduler.holds.hold_keeper import HoldKeeper
from scheduler.isolated_lane import IsolatedLane
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.writer import ApiCall, Writer
from scheduler.observe.metrics import Metrics
from scheduler.queue import GangReplacements, PreemptionDelays, QueuedGangs, SchedulingQueue, StarvationTracker
from scheduler.queue_waker import QueueWaker
from scheduler.settings import HistorySettings, HoldLimits
from scheduler.status.attempt_metrics import AttemptMetrics
from scheduler.status.events import EventFactory
from scheduler.status.pod_groups import PodGroupStatusWriter
from scheduler.status.rate_limits import StatusTokenBucket
from scheduler.status.status_writer import StatusWriter
from scheduler.status.unreadable_objects import Quarantine
from scheduler.worker.change_log import ChangeLog
from scheduler.worker.decider import Decider, Decision
from scheduler.worker.fleet_counter import FleetCounter
from scheduler.worker.supervisor import WorkerSupervisor
from scheduler.worker.telemetry import SolverTelemetry
from solver import solve_greedily
from solver.domain import (
    Batch,
    Claim,
    GangId,
    Placement,
    Pod,
    PodGroup,
    Policy,
    Preemption,
    Reason,
    ReasonCode,
    Victim,
)
from tests.support import builders as b
from tests.support.cluster_builders import gone, seen
from tests.support.idle_loop import until_idle
from tests.support.solver_problems import PATIENT

ROUND = 60
"""Times that some pods come and go, until it is looked at what is kept of them; done three times."""
BOUNDED = {
    "[]._cluster._store.pod_index._recent_pods": MOST_RECENT_PODS,
    "[]._reports._queue._queue._places": 5000,
    "[]._reports._queue._queue._waiting[][]": 5000,
    "[]._cluster.interner._young": 100_000,  # bounded in bytes, see tests/scheduler/test_interning.py
}
"""What has a bound of its own, and is not full yet."""
CONFLICT = Reason(code=ReasonCode.CONFLICT, message="another client was faster")
OURS = frozenset({"dovetail"})


class Direct:
    """A writer that writes at once."""

    async def write(self, request: ApiCall[Any], *, is_status: bool = False) -> Any:
        del is_status
        return await request(timeout_seconds=1.0)


class Deciding:
    """Stands where the worker process is asked; each plan has a level of another name."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.count = cluster, 0

    async def wait_until_ready(self) -> None:
        pass

    async def decide(self, batch: Batch, policy: Policy) -> Decision:
        await asyncio.sleep(0)
        self.count += 1
        plan = solve_greedily(self.cluster.snapshot(), batch, policy, PATIENT)
        levels = tuple(msgspec.structs.replace(each, name=f"{each.name}:{self.count}") for each in plan.report.levels)
        report = msgspec.structs.replace(plan.report, levels=levels)
        return Decision(asked=batch, plan=msgspec.structs.replace(plan, report=report), seconds=0.0)


class Committing:
    """Stands where units are written: every third comes to nothing."""

    def __init__(self) -> None:
        self.count = 0

    async def begin(self, units: Sequence[Unit]) -> None:
        pass

    def end(self, unit: Unit) -> None:
        pass

    async def commit(self, unit: Unit) -> Outcome:
        await asyncio.sleep(0)
        self.count += 1
        if self.count % 3 == 0:
            return Undone(unit=unit, reasons=(CONFLICT,))
        return Bound(unit=unit, seconds=0.0)


class Finalizing:
    """Stands where finalizers are written."""

    async def add_finalizer(self, _: Claim) -> None:
        await asyncio.sleep(0)


class Absent:
    """A worker process that does not start: what it would have to be told is kept."""

    def __init__(self) -> None:
        self.changes = ChangeLog()

    def note(self, change: Change) -> None:
        self.changes.append(change)


class Town:
    """The parts of a cycle, all real but for the API, the worker process and the writes of units."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def written(*_: object, **__: object) -> int:
            await asyncio.sleep(0)
            return 4096

        for name in ("write_pod_condition", "write_event", "write_group_condition"):
            monkeypatch.setattr(writes, name, written)
        self.cluster, self.metrics, self.now = Cluster(), Metrics(), 1000.0
        client, writer = cast("Client", None), cast("Writer", Direct())
        narrator, allowance = EventFactory("host"), StatusTokenBucket(0.5, lambda: self.now)
        self.reports = StatusWriter(client, writer, self.metrics, narrator, allowance, clock=lambda: self.now)
        taints, fewer_writing = LocalTaints(self.metrics), asyncio.Event()
        backoff, replacements = PreemptionBackoff(60.0, lambda: self.now), GangReplacements(self.cluster.claim)
        waits = PreBind(
            self.cluster,
            self.reports,
            FailedDevices(taints, 60.0),
            backoff,
            timeout_seconds=600.0,
            on_begin=fewer_writing.set,
            clock=lambda: self.now,
        )
        starvation = StarvationTracker(300.0, replacements)
        pending = SchedulingQueue(
            OURS,
            key_of=equivalence_keys(self.cluster, starvation, backoff, lambda: self.now).of,
            gangs=QueuedGangs(lambda gang: self.cluster.gang_progress(gang, OURS)),
        )
        waker, deciding = QueueWaker(self.cluster, pending, lambda: self.now), cast("Decider", Deciding(self.cluster))
        told = partial(self.reports.report_unschedulable, node_count=0)
        history = DecisionHistory(HistorySettings(max_records=50))
        self.parts = Components(
            cluster=self.cluster,
            queue=pending,
            waker=waker,
            fewer_writing=fewer_writing,
            starvation=starvation,
            preemption_delays=PreemptionDelays(),
            gang_replacements=replacements,
            placement_check=None,
            kept_nodes=None,
            holds=HoldKeeper(
                (cast("Client", None), cast("Writer", None), self.cluster), HoldLimits(), self.metrics, waker.wake
            ),
            quarantine=Quarantine(self.metrics, lambda _, __: None),
            worker=cast("WorkerSupervisor", Absent()),
            decider=deciding,
            isolated_lane=IsolatedLane(
                self.cluster, pending, deciding, told, self.metrics, share=0.1, clock=lambda: self.now
            ),
            commit=cast("Commit", Committing()),
            finalizers=SpeculativeFinalizers(
                cast("ClaimWriter", Finalizing()), self.cluster.observed_claim, self.metrics
            ),
            prebind=waits,
            preemption_backoff=backoff,
            stale_allocations=StaleAllocations(
                self.cluster, pending, cast("Rollback", None), self.reports, self.metrics
            ),
            pod_groups=PodGroupStatusWriter(
                client,
                writer,
                self.cluster,
                (self.reports, self.metrics),
                "/apis/scheduling.k8s.io/v1alpha2/podgroups",
                clock=lambda: self.now,
            ),
            evictions=Evictions(
                client,
                writer,
                self.cluster,
                (self.reports, history),
                self.metrics,
                on_given_up=waker.preemption_given_up,
            ),
            history=history,
            status=self.reports,
            attempt_metrics=AttemptMetrics(self.metrics, pending.counts),
            fleet_counter=cast("FleetCounter", None),
            telemetry=cast("SolverTelemetry", None),
            writer=writer,
            metrics=self.metrics,
        )
        self.cycle = SchedulingCycle(self.parts, {"dovetail": Policy()}, 100, lambda: self.now)
        self.following = ExitStack()
        self.following.enter_context(taints.followed_by(self.cycle.see))
        self.suspicion = SuspectDevices(taints, self.cluster, 60.0)
        self.strays = ManuallyBoundPods(self.cluster, self.reports, ["dovetail"], self.metrics, lambda: self.now)
        self.see(seen(b.node("n1", cpu=8)), seen(b.gpu_slice("n1", count=4)), seen(b.gpu_class()))

    def see(self, *changes: Change) -> None:
        self.suspicion.before(changes)
        self.cycle.see(changes)
        self.strays.see(changes)
        self.suspicion.see(changes)

    async def turn(self) -> None:
        """Let every task run until all wait."""
        await until_idle()
        self.now += 61.0

    async def live(self, number: int) -> None:
        """Let some pods come, be decided about, run, wait or fail, and go."""
        gang = GangId(b.NAMESPACE, f"g{number}", "scheduling.k8s.io")
        group = PodGroup(id=gang, uid=f"uid-g{number}", min_count=2)
        groups = Change(kind=Kind.POD_GROUPS, key=str(gang), value=group)
        plain, huge = b.pod(f"p{number}", f"c{number}"), b.pod(f"huge{number}", cpu=100)
        victim = b.pod(f"low{number}", cpu=1, node_name="n1")
        mates = [msgspec.structs.replace(b.pod(f"m{number}-{each}"), gang=gang) for each in "ab"]
        stray = b.pod(f"stray{number}", f"s{number}", node_name="n1")
        claims = [b.claim(f"c{number}"), b.claim(f"s{number}")]
        pods = [plain, huge, *mates, stray, victim]
        self.see(groups, *map(seen, claims), *map(seen, pods))
        await self.turn()
        self.see(seen(msgspec.structs.replace(huge, labels=(("n", "1"),))))
        self.preempt(huge if number % 2 else b.pod(f"never{number}"), victim)
        self.strays.look()
        await self.turn()
        self.see(*(seen(_bound(each)) for each in (plain, *mates)))
        await self.turn()
        self.see(*map(gone, pods), *map(gone, claims), msgspec.structs.replace(groups, value=None))
        await self.turn()

    def preempt(self, pod: Pod, victim: Pod) -> None:
        """Believe in a preemption whose pod may be gone by now, as one may that was decided meanwhile."""
        self.cluster.preempt(
            Preemption(
                placements=(Placement(pod=pod.id, pod_uid=pod.uid, node="n1"),),
                victims=(Victim(pod=victim.id, pod_uid=victim.uid, node="n1", message="makes room"),),
            )
        )

    async def age(self) -> None:
        """Let what is kept for a time come to its end."""
        self.now += 3600.0
        for _ in range(10):
            await self.turn()


def _bound(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, node_name="n1")


def sizes(root: object) -> dict[str, int]:
    """Give the number of entries of every container that can be reached, by where it is."""
    found: dict[str, int] = {}
    known: set[int] = set()
    rest: list[tuple[str, object]] = [("", root)]
    while rest:
        path, each = rest.pop()
        if id(each) in known or isinstance(each, str | bytes | int | float | type | ModuleType | FunctionType | None):
            continue
        known.add(id(each))
        if isinstance(each, dict | set | frozenset | list | deque):
            found[path] = found.get(path, 0) + len(each)
        rest += ((f"{path}{name}", inner) for name, inner in _parts(each))
    return found


def _parts(each: object) -> Iterator[tuple[str, object]]:
    if isinstance(each, dict):
        yield from (("[]", inner) for inner in each.values())
    elif isinstance(each, set | frozenset | list | tuple | deque):
        yield from (("[]", inner) for inner in each)
    elif isinstance(each, MethodType):
        yield "", each.__self__
    elif type(each).__module__.startswith("scheduler.") or isinstance(each, Absent):
        names = [*getattr(each, "__dict__", ()), *(name for kind in type(each).__mro__ for name in _slots(kind))]
        yield from ((f".{name}", getattr(each, name, None)) for name in names if name != "__weakref__")


def _slots(kind: type) -> tuple[str, ...]:
    slots = getattr(kind, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


async def test_nothing_that_is_kept_of_pods_outlives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town(monkeypatch)
    tasks = [
        asyncio.create_task(each) for each in (town.cycle.decide(), town.reports.run(), town.parts.pod_groups.run())
    ]
    after = list[dict[str, int]]()
    for rounds in range(3):
        for number in range(ROUND):
            await town.live(rounds * ROUND + number)
        await town.age()
        after.append(sizes(dict(vars(town))))
        after[-1]["series"] = len([*town.metrics.registry.collect()]) + sum(
            len(family.samples) for family in town.metrics.registry.collect()
        )
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    grown = {path: size for path, size in after[2].items() if size - after[1].get(path, 0) >= ROUND // 2}
    assert all(grown.pop(path, 0) <= most for path, most in BOUNDED.items())
    assert grown == {}
    assert town.metrics.registry.get_sample_value("dovetail_defects_total", {"part": "decision"}) == 0
