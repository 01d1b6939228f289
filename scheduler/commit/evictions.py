"""
Carries preemptions out: nominate the preemptors, dry-run all evictions, evict, report.

The nomination is written first. It reserves the room, and it is what the next leader knows of a preemption. A failure
after it leaves a waiting pod with a nominated node, about which the next decision decides. The evictions are tried with
dryRun before: no victim is evicted unless the API server allows all of them, and what a PodDisruptionBudget blocks
stays.

A preemptor has one preemption at a time, as in kube-scheduler (PreEnqueue of DefaultPreemption): what a later decision
finds for it while evictions are asked for waits until these have ended.

`EvictionRate` limits evictions per minute. It is kept in the leader's Lease before they are made, so that the limit
holds across a change of leaders.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Protocol

import msgspec
from msgspec.structs import replace

from scheduler.cluster import Cluster, Transition
from scheduler.history.decision_history import DecisionHistory
from scheduler.kube import pod_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.kube.leader_election.lease import FORMAT, RECORD
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined, Tasks, together
from scheduler.status.conditions import LONGEST_BYTES, truncated
from scheduler.status.status_writer import StatusWriter
from solver.domain import Placement, Pod, PodId, Policy, Preemption, Victim

_WINDOW_SECONDS: Final = 60.0
_FIELD: Final = f"metadata.annotations[{RECORD}]"

_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_decoder: Final = msgspec.json.Decoder(dict[str, list[tuple[_Whole, _Whole]]])


class LeaseRecord(Protocol):
    """A text in the Lease that one leader leaves for the next."""

    @property
    def object_name(self) -> str:
        """The Lease, for messages."""
        ...

    @property
    def earlier_record(self) -> tuple[str, str]:
        """The text of earlier leaders, "" where there is none, and the version of its format."""
        ...

    async def write_record(self, record: str) -> None:
        """Write the text. Raises KubeError where it may not have been written."""
        ...


@dataclass(slots=True, eq=False)
class Evicted:
    """
    A number of evictions at a time: by the monotonic clock, and in seconds since the epoch, rounded up.

    Those that are planned have no time yet: they count until it is known when they were made.
    """

    pods: int
    at: float = math.inf
    epoch_seconds: int = 0


class EvictionRate:
    """
    The evictions of the last minute by profile, those of earlier leaders included.

    Times that another leader has written are compared with `wall` (seconds since the epoch), so that a clock skew
    between two machines counts. Without a record, evictions of earlier processes are not known.
    """

    def __init__(self, record: LeaseRecord | None, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._record: Final = record
        self._clock: Final = clock
        self._wall: Final = wall
        self._recent: Final[defaultdict[str, list[Evicted]]] = defaultdict(list)
        self._kept = ""

    def inherit(self) -> None:
        """Read the record of earlier leaders; one that cannot be read is logged, and counts as empty."""
        if self._record is None:
            return
        self._kept, version = self._record.earlier_record
        try:
            for profile, evicted in self._read(version):
                self._recent[profile].append(evicted)
        except ValueError as error:
            _log.warning(logs.STATE_UNREADABLE, object=self._record.object_name, field=_FIELD, error=str(error))

    def left(self, profile: str, ceiling: int) -> int:
        """Return the number of pods that may be evicted now."""
        oldest = self._clock() - _WINDOW_SECONDS
        recent = self._recent[profile] = [each for each in self._recent[profile] if each.at > oldest]
        return max(0, ceiling - sum(each.pods for each in recent))

    def spend(self, profile: str, count: int) -> Evicted:
        """Count evictions before they are made; `made` says when they were."""
        planned = Evicted(count)
        self._recent[profile].append(planned)
        return planned

    def made(self, evicted: Evicted) -> None:
        """Note that evictions have been made or given up: from now on they count for a minute."""
        evicted.at, evicted.epoch_seconds = self._clock(), math.ceil(self._wall())

    async def keep(self) -> None:
        """Write the record, before an eviction is made. Raises KubeError where it may not have been written."""
        if self._record is None:
            return
        text = self._text()
        if text != self._kept:
            await self._record.write_record(text)
            self._kept = text

    def _text(self) -> str:
        """Return the record. What is not made yet may be made within the next minute, whatever this leader comes to."""
        oldest, latest = self._clock() - _WINDOW_SECONDS, math.ceil(self._wall() + _WINDOW_SECONDS)
        rows = {
            profile: [(each.epoch_seconds or latest, each.pods) for each in evicted if each.at > oldest]
            for profile, evicted in sorted(self._recent.items())
        }
        return msgspec.json.encode({profile: each for profile, each in rows.items() if each}).decode()

    def _read(self, version: str) -> Iterator[tuple[str, Evicted]]:
        """Read the record. Raises ValueError."""
        if version != FORMAT:
            raise ValueError(f"it has version {version} of its format, and this scheduler reads version {FORMAT}")
        rows = _decoder.decode(self._kept or "{}")
        now, wall = self._clock(), self._wall()
        for profile, evicted in rows.items():
            for epoch_seconds, count in evicted:
                yield profile, Evicted(count, now - max(0.0, wall - epoch_seconds), epoch_seconds)


_log: Final = logs.logger()


@dataclass(frozen=True, slots=True)
class _Run:
    """A preemption, the pods of its batch, and the number that its log lines share: no line names both sides."""

    preemption: Preemption
    pods: Mapping[PodId, Pod]
    number: int
    planned: Evicted | None
    """What the rate counts for its victims; None where it has none."""

    @property
    def first(self) -> Placement:
        return self.preemption.placements[0]


class _UnwantedError(Exception):
    """The preemptor does not wait for the eviction any more."""


class Evictions:
    """
    Carries each preemption out in its own task, within the rate limit.

    `on_given_up` gets the transitions of a preemption that ends without its evictions: others may evict the pods.
    `clock` is monotonic, `wall` gives seconds since the epoch, as pods have their start times. `record` is where the
    rate limit is kept for the next leader.
    """

    def __init__(
        self,
        client: Client,
        writer: Writer,
        cluster: Cluster,
        reports: tuple[StatusWriter, DecisionHistory],
        metrics: Metrics,
        *,
        on_given_up: Callable[[Sequence[Transition]], object],
        record: LeaseRecord | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._cluster: Final = cluster
        self._reports, self._history = reports
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._wall: Final = wall
        self._evicts_from = 0.0
        self._count = 0
        self._tasks: Final = Tasks(metrics, Subsystem.EVICTION)
        self._preemptors: Final = set[str]()
        self._rate: Final = EvictionRate(record, clock, wall)
        self._on_given_up: Final = on_given_up

    def allowed(self, profile: str, policy: Policy) -> Policy:
        """Return a profile's policy with the current time and the number of evictions that the rate limit leaves."""
        rules = policy.preemption
        rules = replace(rules, now=int(self._wall()))  # also for reservations of nodes
        if rules.is_enabled:
            rules = replace(rules, most_victims=self._rate.left(profile, rules.ceiling))
        return replace(policy, preemption=rules)

    def begin(self, profile: str, preemption: Preemption, pods: Mapping[PodId, Pod]) -> tuple[Transition, ...]:
        """Assume a preemption and start to carry it out; return the transitions of the cluster cache."""
        self._metrics.preemption_attempts.inc()
        self._count += 1
        if not preemption.victims and all(
            pods[each.pod].nominated_node_name == each.node for each in preemption.placements
        ):
            return ()  # nothing is left to evict, and the nominations are written
        preemptors = {each.pod_uid for each in preemption.placements}
        if not preemptors.isdisjoint(self._preemptors):
            return ()
        self._preemptors.update(preemptors)
        transitions, planned = self._cluster.preempt(preemption), None
        if count := len(preemption.victims):
            self._metrics.preemption_victims.observe(count)
            planned = self._rate.spend(profile, count)
        self._tasks.begin(self._carry_out(_Run(preemption, pods, self._count, planned)))
        return transitions

    def inherit(self, seconds: float) -> None:
        """
        Take over from the leader before: its rate limit, and its late evictions, which show within `seconds`.

        Until then no pod is evicted: another victim might go for the same preemptor.
        """
        self._rate.inherit()
        self._evicts_from = self._clock() + seconds

    async def finish(self, seconds: float) -> bool:
        """Wait for what is under way, at most so long, then cancel the rest; return whether all have ended."""
        return await self._tasks.finish(seconds)

    async def _carry_out(self, run: _Run) -> None:
        """Carry a preemption out; where an exception ends it, drop the assumption, so that it is decided again."""
        is_over = False
        try:
            with Confined(self._metrics, Subsystem.EVICTION, pod=str(run.first.pod)):
                await self._nominate_and_evict(run)
                is_over = True
        finally:
            self._preemptors.difference_update(each.pod_uid for each in run.preemption.placements)
            if run.planned is not None:
                self._rate.made(run.planned)
        if not is_over:
            self._on_given_up(self._cluster.withdraw(run.preemption))

    async def _nominate_and_evict(self, run: _Run) -> None:
        preemption, evicted = run.preemption, set[PodId]()
        try:
            for placement in preemption.placements:
                pod, uid, node = placement.pod, placement.pod_uid, placement.node
                await self._writer.write(partial(pod_writes.nominate, self._client, pod, uid, node))
        except (KubeError, FencedError) as error:
            self._on_given_up(self._cluster.withdraw(preemption))
            _log.info(logs.PREEMPTION_ENDED, pod=str(run.first.pod), error=str(error))
            return
        await asyncio.sleep(max(0.0, self._evicts_from - self._clock()))
        try:
            if self._still_stands(run) and await self._all_are_allowed(run):
                await self._rate.keep()
                # A write waits while a watch is stale. The cluster goes on meanwhile, and so do decisions.
                if self._still_stands(run):
                    self._log_begin(run)
                    await together(self._evict(run, victim, evicted) for victim in preemption.victims)
        except (KubeError, FencedError) as error:
            _log.info(logs.PREEMPTION_ENDED, pod=str(run.first.pod), error=str(error))
        finally:
            kept = [each for each in preemption.victims if each.pod not in evicted]
            for victim in kept:  # the watch shows the others as deleting
                self._cluster.keep_victim(victim.pod, victim.pod_uid)
            if kept:
                self._on_given_up(())

    def _log_begin(self, run: _Run) -> None:
        """Log the preemptor; each victim has a line with the same number."""
        pod, count = str(run.first.pod), len(run.preemption.victims)
        if count:
            _log.info(logs.PREEMPTING, pod=pod, node=run.first.node, victims=count, preemption=run.number)

    def _is_awaited(self, run: _Run) -> bool:
        """Whether all preemptors wait for their nominated nodes; else an eviction is wasted."""
        for placement in run.preemption.placements:
            pod = self._cluster.pod(placement.pod)
            if pod is None or pod.uid != placement.pod_uid or pod.node_name or pod.is_deleting:
                return False
            if pod.nominated_node_name != placement.node:  # a later decision has another node for it, or none
                return False
        return True

    def _still_stands(self, run: _Run) -> bool:
        """Whether the preemptors wait and all victims run."""
        if not self._is_awaited(run):
            return False
        for victim in run.preemption.victims:
            pod = self._cluster.observed_pod(victim.pod)
            if pod is None or (pod.uid, pod.node_name) != (victim.pod_uid, victim.node):
                return False
        return True

    async def _all_are_allowed(self, run: _Run) -> bool:
        """Try each eviction with dryRun; one that is refused refuses all."""
        for victim in run.preemption.victims:
            try:
                await self._writer.write(partial(pod_writes.evict, self._client, victim, is_trial=True))
            except pod_writes.EvictionBlocked as error:
                self._metrics.evictions.labels("blocked").inc()
                _log.info(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error), preemption=run.number)
                return False
            except KubeError as error:  # about this victim: the preemptor's own line does not name it
                _log.warning(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error), preemption=run.number)
                return False
        return True

    async def _evict(self, run: _Run, victim: Victim, evicted: set[PodId]) -> None:
        pod = self._cluster.observed_pod(victim.pod)

        async def send(*, timeout_seconds: float) -> None:
            # A write waits for its turn, and is tried again: it is sent later than the checks before were made.
            if not self._is_awaited(run):
                raise _UnwantedError
            await pod_writes.evict(self._client, victim, timeout_seconds=timeout_seconds)

        try:
            await self._writer.write(send)
        except _UnwantedError:
            return
        except pod_writes.EvictionBlocked as error:
            self._metrics.evictions.labels("blocked").inc()
            _log.info(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error))
            return
        except KubeError as error:
            self._metrics.evictions.labels("failed").inc()
            _log.warning(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error))
            return
        evicted.add(victim.pod)
        self._metrics.evictions.labels("evicted").inc()
        _log.info(logs.EVICTED, pod=str(victim.pod), node=victim.node, preemption=run.number)
        self._history.evicted(victim, run.first.pod)
        preemptor = run.pods[run.first.pod]
        if pod is not None:
            self._reports.record_preemption(pod, preemptor, victim)
        try:
            message = truncated(f"{preemptor.scheduler_name}: {victim.message}", LONGEST_BYTES)
            generation = pod.generation if pod is not None else 0
            mark = partial(pod_writes.mark_preempted, self._client, victim, message, generation)
            await self._writer.write(mark, is_status=True)
        except KubeError as error:
            _log.debug(logs.EVENT_DROPPED, error=str(error))
