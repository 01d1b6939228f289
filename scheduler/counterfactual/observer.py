"""
Watches a cluster, decides for the pods of other schedulers, and records how that compares. It only reads.

An observation begins when every kind has been listed. A gap in a watch ends it, because what happened meanwhile has no
times: another one begins, in which both clusters are equal again.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from scheduler import version
from scheduler.change import Change, Kind
from scheduler.counterfactual.comparison import ClusterComparison
from scheduler.counterfactual.fleet_measure import FleetMeasure, measured
from scheduler.counterfactual.observation_record import (
    ObservationRecord,
    ObservationSample,
    ObservationStart,
    OutcomeLine,
    RecordError,
)
from scheduler.counterfactual.recorded_objects import ObjectLine, RecordedObjects
from scheduler.kube import discovery
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, DecodeError, Forbidden, KubeError
from scheduler.kube.watching.reflector import Reflector
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.settings import Settings
from scheduler.unreadable import cut
from scheduler.worker import checked_plan, decision_limits
from solver import SolverCache, solve, verify
from solver.domain import Batch, Budget, GangId, Plan, Pod, Policy, Snapshot

SAMPLE_ROUNDS: Final = 12
"""A sample is taken in every twelfth round."""
_RETRY_SECONDS: Final = 5.0


class WatchGapError(Exception):
    """The watch of a kind was silent for too long: what happened meanwhile is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverOptions:
    """
    What is observed: pods of these schedulers, decided every `interval` seconds with these settings.

    `say` takes what a person should know at once, `show` a line of numbers with each sample.
    """

    scheduler_names: tuple[str, ...]
    interval: float
    settings: Settings
    say: Callable[[str], None]
    show: Callable[[str], None]
    clock: Callable[[], float] = field(default=time.time)

    def tolerance(self, longest_round: float = 0.0) -> float:
        """
        Differences up to this many seconds say nothing: the counterfactual cluster decides in rounds.

        After a round of r seconds the next one waits for max(`interval`, r), so snapshots are at most r + that apart.
        """
        return 2 * max(self.interval, longest_round)

    def policy(self) -> Policy:
        """Return the first profile's policy, which may evict pods of the observed schedulers too, and does not wait."""
        names = self.settings.scheduler_names | set(self.scheduler_names)
        policy = self.settings.policy(self.settings.profiles[0].scheduler_name)
        rules = msgspec.structs.replace(
            policy.preemption, scheduler_names=tuple(sorted(names)), now=int(self.clock()), delay_seconds=0
        )
        return msgspec.structs.replace(policy, preemption=rules)


async def observe(client: Client, options: ObserverOptions, record: ObservationRecord, stop: asyncio.Event) -> None:
    """Observe until `stop` is set. Raise `KubeError` where the cluster cannot be read when an observation begins."""
    is_first = True
    while not stop.is_set():
        try:
            await Observation(client, options, record).run(stop)
        except WatchGapError as gap:
            options.say(f"{gap}; a new observation begins")
        except KubeError as error:
            if is_first or isinstance(error, ConfigurationError):
                raise
            options.say(f"{error}; trying again")
            await asyncio.sleep(_RETRY_SECONDS)
        is_first = False


class Observation:
    """
    One observation: from the listing of every kind to a gap in the watches, or to the end.

    `failed_decisions` counts pods and gangs on which the solver failed, once for each decision about them.
    """

    def __init__(self, client: Client, options: ObserverOptions, record: ObservationRecord) -> None:
        self._client: Final = client
        self._options: Final = options
        self._record: Final = record
        self._objects: Final = RecordedObjects()
        self._has_begun = False
        self._ages: Final = WatchAges(options.settings.commit.max_watch_age_seconds)
        self.compared: Final = ClusterComparison(
            options.scheduler_names, options.tolerance(), lambda each: record.add(OutcomeLine(of=each))
        )
        self._caches: Final = SolverCache(), SolverCache()
        self._verifier: Final = verify.VerifierCache()
        self._refused: Final = asyncio.Event()
        self._missing_right: Forbidden | None = None
        self._unwritten: RecordError | None = None
        self._rounds: Final = deque[float](maxlen=SAMPLE_ROUNDS)
        self.failed_decisions = 0
        self._is_changed = True

    async def run(self, stop: asyncio.Event) -> None:
        """Observe until `stop` is set. Raise `WatchGapError`, and `KubeError` where it cannot begin."""
        served = await discovery.discover(self._client)
        if served.problem:
            raise ConfigurationError(served.problem)
        reflectors = [
            Reflector(self._client, kind, partial(self._see, served), self._failed, ages=self._ages, path=path)
            for kind, path in served.paths
        ]
        running = [asyncio.create_task(each.run()) for each in reflectors]  # no exception ends them
        try:
            if await self._listed(reflectors, stop):
                await self._follow(stop)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _listed(self, reflectors: Sequence[Reflector], stop: asyncio.Event) -> bool:
        """Wait until every kind was listed; false where it was stopped before. Raise `ConfigurationError`."""
        listing = asyncio.gather(*(each.synced.wait() for each in reflectors))
        waits = listing, asyncio.ensure_future(stop.wait()), asyncio.ensure_future(self._refused.wait())
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        is_listed = listing.done()
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        if not is_listed and self._missing_right is not None:
            raise ConfigurationError(f"{self._missing_right}; the ClusterRole dovetail-observe allows what is needed")
        return is_listed

    async def _follow(self, stop: asyncio.Event) -> None:
        options, now = self._options, self._options.clock()
        self.compared.begin(now)
        start = ObservationStart(
            started=now,
            schedulers=options.scheduler_names,
            tolerance_seconds=options.tolerance(),
            version=version(),
        )
        is_recorded = self._record.begin(start, self._all_objects)
        self._has_begun = True
        names = ", ".join(options.scheduler_names)
        options.say(f"observing the pods of {names}; nothing is written to the cluster")
        if not is_recorded:
            options.say("the cluster is too large to be replayed from the record: its objects are not recorded")
        rounds = 0
        while not stop.is_set():
            began = time.monotonic()
            try:
                await self.decide_all()
                if rounds % SAMPLE_ROUNDS == 0:
                    await self._sample()
            except RecordError:
                raise
            except Exception as error:  # noqa: BLE001 - a defect must not end an observation of days
                options.say(f"a round failed: {type(error).__name__}: {cut(str(error))}")
            rounds += 1
            self.round_took(seconds := time.monotonic() - began)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(options.interval, seconds)):
                    await stop.wait()
            if self._unwritten is not None:
                raise self._unwritten
            if stale := self._ages.stale():
                kind, seconds = next(iter(stale.items()))
                raise WatchGapError(f"the watch of {kind} was silent for {seconds:.0f} s: {self._ages.error(kind)}")
        await self._sample()

    def _see(self, served: discovery.DiscoveredKinds, changes: Sequence[Change]) -> None:
        now = self._options.clock()
        for change in served.as_meant(changes):
            self.compared.apply(change, now)
            line = self._objects.changed(change, now)
            if self._has_begun and line is not None:
                self._record.add(line)
        self._is_changed = True

    def _all_objects(self) -> Iterator[ObjectLine]:
        """Return the objects of the real cluster as they are now."""
        waiting = (
            life.pod for life in self.compared.counterfactual.lives if life.bound_at is None and life.ended_at is None
        )
        return self._objects.all_of(self.compared.real.snapshot(), waiting, self._options.clock())

    def _failed(self, kind: Kind, error: Exception) -> None:
        """Keep why the watch of a kind is silent; a right that is missing from the start ends the observation."""
        why = cut(str(error))
        self._ages.failed(kind, why)
        if isinstance(error, RecordError):
            self._unwritten = error  # an outcome that a watch has shown could not be written
        elif isinstance(error, Forbidden):
            self._missing_right = error
            self._refused.set()
        elif isinstance(error, DecodeError):
            self._options.say(f"left out: {why}")

    def round_took(self, seconds: float) -> None:
        """Note how long a round took: while rounds are slow, larger differences say nothing."""
        self._rounds.append(seconds)
        self.compared.tolerance = self._options.tolerance(max(self._rounds))

    async def decide_all(self) -> None:
        """
        Decide all pods that wait in the counterfactual cluster, unless nothing has changed.

        Pods count as placed at the moment of the snapshot, which shows what is free: how long a slow observer takes
        from there on says nothing of Dovetail.
        """
        before = len(self.compared.counterfactual.lives)
        self.compared.advance(self._options.clock())
        if not self._is_changed and len(self.compared.counterfactual.lives) == before:
            return
        self._is_changed = False
        batches = _split(self.compared.counterfactual.waiting(), self._options.settings.batch.max_pods)
        while batches:
            pods = batches.popleft()
            cluster = self.compared.counterfactual.cluster
            batch = cluster.with_gangs(Batch(pods=tuple(pods)))
            snapshot, at = cluster.snapshot(), self._options.clock()
            plan = await asyncio.to_thread(self._decided, snapshot, batch)
            if plan is not None:
                self.compared.take(plan, batch, at)
                self._is_changed = self._is_changed or bool(plan.preemptions)
            elif len(halves := _split(pods, -(-len(pods) // 2))) > 1:
                batches.extendleft(reversed(halves))  # so that one pod does not keep the others waiting
            else:
                self.failed_decisions += 1

    def _decided(self, snapshot: Snapshot, batch: Batch) -> Plan | None:
        """Decide a batch; None where the solver failed or broke a rule."""
        limits = self._options.settings.solver
        budget = Budget(
            seconds=limits.budget_seconds,
            deterministic_seconds=limits.deterministic_seconds,
            cost_units=decision_limits.of_costly(limits).cost_units,
            workers=limits.workers,
            is_forgiving=True,
        )
        decide = partial(solve, cache=self._caches[0])
        try:
            plan, _ = checked_plan.decide(snapshot, batch, self._options.policy(), budget, decide, cache=self._verifier)
        except Exception as error:  # noqa: BLE001 - a defect on one batch must not end the observation
            self._options.say(
                f"a decision about {len(batch.pods)} pods failed: {type(error).__name__}: {cut(str(error))}"
            )
            return None
        return plan

    async def _sample(self) -> None:
        real, counterfactual = self.compared.real.snapshot(), self.compared.counterfactual.cluster.snapshot()
        now, policy = self._options.clock(), self._options.policy()
        totals, still_open = self.compared.totals(now), self.compared.still_open(now)
        both = await asyncio.to_thread(self._measured, (real, counterfactual), policy)
        sample = ObservationSample(
            at=now,
            totals=totals,
            real=both[0],
            counterfactual=both[1],
            still_open=still_open,
            failed_decisions=self.failed_decisions,
            tolerance_seconds=self.compared.tolerance,
        )
        self._record.add(sample)
        self._options.show(_line(sample))

    def _measured(self, snapshots: tuple[Snapshot, Snapshot], policy: Policy) -> tuple[FleetMeasure, FleetMeasure]:
        return measured(snapshots[0], policy, self._caches[1]), measured(snapshots[1], policy, self._caches[0])


def _split(pods: Sequence[Pod], most: int) -> deque[list[Pod]]:
    """Split pods into batches of at most `most`, in order; a gang stays whole, so a batch may have more."""
    units: dict[GangId | str, list[Pod]] = {}
    for pod in pods:
        units.setdefault(pod.gang or pod.uid, []).append(pod)
    found: deque[list[Pod]] = deque()
    for unit in units.values():
        if not found or len(found[-1]) + len(unit) > most:
            found.append([])
        found[-1] += unit
    return found


def _line(sample: ObservationSample) -> str:
    """Write a sample in one line."""
    pods, totals = sample.totals.pods, sample.totals
    sooner, later = pods.sooner + pods.only_counterfactual, pods.later + pods.only_real
    waiting = f"{totals.real_waiting} really, {totals.counterfactual_waiting} with Dovetail"
    whole = f"{sample.real.whole_free_nodes} really, {sample.counterfactual.whole_free_nodes} with Dovetail"
    count = f"{pods.total} pod{'' if pods.total == 1 else 's'}"
    return f"{count}: {sooner} sooner with Dovetail, {later} later; waiting: {waiting}; whole free nodes: {whole}"
