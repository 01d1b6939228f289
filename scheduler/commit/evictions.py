"""Preemptions, carried out: nominate who waits, try whether all victims may go, evict them, tell everybody.

The nomination is written first: it is what a scheduler that starts anew knows of a preemption, and what holds the room.
Whatever goes wrong later leaves a pod that waits with a node nominated, and is decided anew. Nobody is evicted by
force: what a PodDisruptionBudget refuses stays, and no victim goes unless the server would let all of them go.

The bound on evictions per minute, which also holds where one leader follows another.
"""

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from scheduler.cluster import Cluster, Transition
from scheduler.kube import pod_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.kube.writer import GateClosedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined, Tasks, together
from scheduler.status.conditions import LONGEST_BYTES, shortened
from scheduler.status.reports import Reports
from solver.domain import Placement, Pod, PodId, Policy, Preemption, Victim

_WINDOW_SECONDS: Final = 60.0

_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_decoder: Final = msgspec.json.Decoder(dict[str, list[tuple[_Whole, _Whole]]])


class LeaseRecord(Protocol):
    """Where a leader leaves a text for the next one: the Lease."""

    @property
    def inherited(self) -> str:
        """What leaders before this one left; empty: nothing."""
        ...

    async def hand_down(self, record: str) -> None:
        """Leave a text. Raises KubeError where it may not be there."""
        ...


class _Spent(NamedTuple):
    """So many evictions: when by the monotonic clock, and in whole seconds since the epoch, rounded up."""

    at: float
    when: int
    pods: int


class EvictionRate:
    """
    What was evicted within the last minute, by profile, in this process and by leaders before it.

    Times that another leader has written are compared with `wall` (seconds since the epoch): what is off between the
    clocks of two machines is off here. Without a record nothing is known of earlier processes.
    """

    def __init__(self, record: LeaseRecord | None, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._record: Final = record
        self._clock: Final = clock
        self._wall: Final = wall
        self._recent: Final[defaultdict[str, deque[_Spent]]] = defaultdict(deque)
        self._kept = record.inherited if record is not None else ""
        for profile, spent in self._read():
            self._recent[profile].append(spent)

    def left(self, profile: str, ceiling: int) -> int:
        """How many more may be evicted now."""
        recent, now = self._recent[profile], self._clock()
        while recent and recent[0].at <= now - _WINDOW_SECONDS:
            recent.popleft()
        return max(0, ceiling - sum(each.pods for each in recent))

    def spend(self, profile: str, count: int) -> None:
        """Count evictions that are about to be made."""
        self._recent[profile].append(_Spent(self._clock(), math.ceil(self._wall()), count))

    async def keep(self) -> None:
        """Have all that was spent recorded before it is made use of. Raises KubeError where it may not be."""
        if self._record is None:
            return
        text = self._text()
        if text != self._kept:
            await self._record.hand_down(text)
            self._kept = text

    def _text(self) -> str:
        oldest = self._clock() - _WINDOW_SECONDS
        rows = {
            profile: [(each.when, each.pods) for each in spent if each.at > oldest]
            for profile, spent in sorted(self._recent.items())
        }
        return msgspec.json.encode({profile: each for profile, each in rows.items() if each}).decode()

    def _read(self) -> Iterator[tuple[str, _Spent]]:
        """Read what was left for us; what nobody of ours has written is not read."""
        try:
            rows = _decoder.decode(self._kept or "{}")
        except msgspec.MsgspecError:
            return
        now, wall = self._clock(), self._wall()
        for profile, spent in rows.items():
            for when, count in spent:
                yield profile, _Spent(now - max(0.0, wall - when), when, count)


_log: Final = logs.logger()


@dataclass(frozen=True, slots=True)
class _Case:
    preemption: Preemption
    pods: Mapping[PodId, Pod]
    number: int
    """What the log lines about its pods have in common: no line names the pods of the other side."""

    @property
    def first(self) -> Placement:
        return self.preemption.placements[0]


class Evictions:
    """
    Carries preemptions out, each in a task of its own, and keeps the bound on evictions per minute.

    `clock` is monotonic, for the bound; `wall` gives seconds since the epoch, as pods have their start times. `record`
    is where evictions are noted before they are made, so that the bound outlives this process.
    """

    def __init__(
        self,
        client: Client,
        writer: Writer,
        cluster: Cluster,
        reports: Reports,
        metrics: Metrics,
        *,
        record: LeaseRecord | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._cluster: Final = cluster
        self._reports: Final = reports
        self._metrics: Final = metrics
        self._wall: Final = wall
        self._count = 0
        self._tasks: Final = Tasks(metrics, Subsystem.EVICTION)
        self._bound: Final = EvictionRate(record, clock, wall)

    def allowed(self, profile: str, policy: Policy) -> Policy:
        """Give a profile's policy with the time of day, and with what the bound leaves of evictions now."""
        rules = policy.preemption
        if not rules.is_enabled:
            return policy
        left = self._bound.left(profile, rules.ceiling)
        return replace(policy, preemption=replace(rules, now=int(self._wall()), most_victims=left))

    def begin(self, profile: str, preemption: Preemption, pods: Mapping[PodId, Pod]) -> tuple[Transition, ...]:
        """Believe in a preemption and start to carry it out; give what looks different now."""
        self._metrics.preemption_attempts.inc()
        self._count += 1
        case = _Case(preemption, pods, self._count)
        if not preemption.victims and all(
            pods[each.pod].nominated_node_name == each.node for each in preemption.placements
        ):
            return ()  # it is known, and under way
        if preemption.victims:
            self._metrics.preemption_victims.observe(len(preemption.victims))
            self._bound.spend(profile, len(preemption.victims))
        transitions = self._cluster.preempt(preemption)
        self._tasks.begin(self._carry_out(case))
        return transitions

    async def finish(self) -> None:
        """End what is under way; the next leader decides anew about pods that wait."""
        await self._tasks.finish()

    async def _carry_out(self, case: _Case) -> None:
        """Carry a preemption out; one that a defect ends is believed no more, and its pods are decided anew."""
        is_over = False
        with Confined(self._metrics, Subsystem.EVICTION, pod=str(case.first.pod)):
            await self._carry_on(case)
            is_over = True
        if not is_over:
            self._cluster.withdraw(case.preemption)

    async def _carry_on(self, case: _Case) -> None:
        preemption, evicted = case.preemption, set[PodId]()
        try:
            for placement in preemption.placements:
                await self._writer.write(partial(self._nominate, placement))
        except (KubeError, GateClosedError) as error:
            self._cluster.withdraw(preemption)
            _log.info(logs.PREEMPTION_ENDED, pod=str(case.first.pod), error=str(error))
            return
        try:
            if self._still_stands(case) and await self._all_may_go(case):
                self._log_begin(case)
                await self._bound.keep()
                await together(self._evict(case, victim, evicted) for victim in preemption.victims)
        except (KubeError, GateClosedError) as error:
            _log.info(logs.PREEMPTION_ENDED, pod=str(case.first.pod), error=str(error))
        finally:
            for victim in preemption.victims:
                if victim.pod not in evicted:  # of the others the watch tells that they leave
                    self._cluster.keep_victim(victim.pod, victim.pod_uid)

    def _log_begin(self, case: _Case) -> None:
        """Log a preemption about the pod that waits; those that go have lines of their own, with the same number."""
        pod, count = str(case.first.pod), len(case.preemption.victims)
        if count:
            _log.info(logs.PREEMPTING, pod=pod, node=case.first.node, victims=count, preemption=case.number)

    async def _nominate(self, placement: Placement, seconds: float) -> None:
        await pod_writes.nominate(
            self._client, placement.pod, placement.pod_uid, placement.node, timeout_seconds=seconds
        )

    def _still_stands(self, case: _Case) -> bool:
        """Whether everybody waits who is helped, and everybody runs who goes: otherwise somebody goes in vain."""
        for placement in case.preemption.placements:
            pod = self._cluster.pod(placement.pod)
            if pod is None or pod.uid != placement.pod_uid or pod.node_name or pod.is_deleting:
                return False
        for victim in case.preemption.victims:
            pod = self._cluster.seen_pod(victim.pod)
            if pod is None or (pod.uid, pod.node_name) != (victim.pod_uid, victim.node):
                return False
        return True

    async def _all_may_go(self, case: _Case) -> bool:
        """Ask the server about each victim without evicting it; nobody goes where one may not."""
        for victim in case.preemption.victims:
            try:
                await self._writer.write(partial(self._try, victim))
            except pod_writes.Shielded as error:
                self._metrics.evictions.labels("shielded").inc()
                _log.info(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error), preemption=case.number)
                return False
            except KubeError as error:  # about this victim: the preemptor's own line does not name it
                _log.warning(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error), preemption=case.number)
                return False
        return True

    async def _evict(self, case: _Case, victim: Victim, evicted: set[PodId]) -> None:
        pod = self._cluster.seen_pod(victim.pod)
        try:
            await self._writer.write(partial(self._send, victim))
        except pod_writes.Shielded as error:
            self._metrics.evictions.labels("shielded").inc()
            _log.info(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error))
            return
        except KubeError as error:
            self._metrics.evictions.labels("failed").inc()
            _log.warning(logs.EVICTION_REFUSED, pod=str(victim.pod), error=str(error))
            return
        evicted.add(victim.pod)
        self._metrics.evictions.labels("evicted").inc()
        _log.info(logs.EVICTED, pod=str(victim.pod), node=victim.node, preemption=case.number)
        preemptor = case.pods[case.first.pod]
        if pod is not None:
            self._reports.preempted(pod, preemptor, victim)
        try:
            await self._writer.write(partial(self._mark, victim, preemptor.scheduler_name), is_status=True)
        except KubeError as error:
            _log.debug(logs.EVENT_DROPPED, error=str(error))

    async def _try(self, victim: Victim, seconds: float) -> None:
        await pod_writes.evict(self._client, victim, is_trial=True, timeout_seconds=seconds)

    async def _send(self, victim: Victim, seconds: float) -> None:
        await pod_writes.evict(self._client, victim, timeout_seconds=seconds)

    async def _mark(self, victim: Victim, scheduler_name: str, seconds: float) -> None:
        message = shortened(f"{scheduler_name}: {victim.message}", LONGEST_BYTES)
        await pod_writes.mark_preempted(self._client, victim, message, timeout_seconds=seconds)
