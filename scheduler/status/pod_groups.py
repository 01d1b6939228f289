"""
What PodGroups say about themselves: the condition PodGroupScheduled, as kube-scheduler writes it.

True once enough pods are bound, and it stays so; False with the reason while they wait, or while only some are bound.
Only the last word about a group waits to be written; of texts that changed alone the last one is written once a minute.
"""

import asyncio
import datetime as dt
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from scheduler.cluster import Cluster, Transition
from scheduler.cluster.unit import Bound, Outcome, PartlyBound, Refused, Undone
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.encode import GroupCondition
from scheduler.kube.errors import KubeError, NotFound
from scheduler.kube.writer import GateClosedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.status import conditions
from scheduler.status.conditions import shortened
from scheduler.status.reports import Reports
from solver.domain import SCHEDULING_GROUP, Batch, Gang, GangId, Placement, Plan, Pod, PodGroup, PodId, Reason

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
_REWRITE_SECONDS: Final = 60.0
_LONGEST: Final = 32 * 1024 - 1024
"""A condition's message may have 32 KiB; what is written is what is compared with."""

_log: Final = logs.logger()


class _Word(NamedTuple):
    is_scheduled: bool
    reason: str
    message: str


class GroupStatusQueue:
    """Takes what is to be said of gangs at once, and writes it when there is room."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        cluster: Cluster,
        told: tuple[Reports, Metrics],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._cluster: Final = cluster
        self._reports, self._metrics = told
        self._collection = ""
        self._clock: Final = clock
        self._due: Final[dict[GangId, _Word]] = {}
        self._later: Final[dict[GangId, tuple[float, _Word]]] = {}
        """What came too early after the last word, or could not be written, and when it is due."""
        self._written: Final[dict[str, tuple[_Word, float]]] = {}
        self._has_work: Final = asyncio.Event()

    def connect(self, collection: str) -> None:
        """Say under which path the server has PodGroups; without one their conditions are not written."""
        self._collection = collection

    def scheduled(self, gang: GangId, message: str) -> None:
        """Say that enough pods of a gang are bound."""
        self._say(gang, _Word(is_scheduled=True, reason=SCHEDULED, message=message))

    def waits(self, gang: GangId, message: str) -> None:
        """Say why a gang waits."""
        self._say(gang, _Word(is_scheduled=False, reason=UNSCHEDULABLE, message=message))

    def is_partly_bound(self, gang: GangId, message: str) -> None:
        """Say that some pods of a gang are bound and others could not be."""
        self._say(gang, _Word(is_scheduled=False, reason=SCHEDULER_ERROR, message=message))

    def decided(self, batch: Batch, plan: Plan) -> None:
        """Say of gangs that a plan places nothing of why that is."""
        if not batch.gangs:
            return
        pods = {pod.id: pod for pod in batch.pods}
        placed = {pods[each.pod].gang for each in plan.placements if each.pod in pods}
        for unplaced in plan.unplaced:
            gang = pods[unplaced.pod].gang if unplaced.pod in pods else None
            if gang is not None and gang not in placed:
                placed.add(gang)
                self.waits(gang, self._joined(unplaced.reasons))

    def settled(self, outcome: Outcome, pods: Mapping[PodId, Pod]) -> None:
        """Say what the commit of a unit means for its gangs."""
        match outcome:
            case Bound(unit=unit):
                for gang in unit.gangs:
                    self.scheduled(gang.id, f"{self._bound(gang.id)} pods are bound, {gang.min_count} have to be")
            case PartlyBound(unit=unit, unbound=unbound) if unit.gangs:
                self._metrics.gangs_partly_bound.inc()
                for gang in unit.gangs:
                    mine = [(each, why) for each, why in unbound if pods[each.pod].gang == gang.id]
                    self._tell_of_part(gang, mine, pods)
            case Refused(unit=unit, reasons=reasons) | Undone(unit=unit, reasons=reasons):
                for gang in unit.gangs:
                    self.waits(gang.id, self._joined(reasons))
            case _:
                pass

    def _joined(self, reasons: Sequence[Reason]) -> str:
        told = reasons if self._reports.tells_inventory else conditions.public(reasons)
        return "; ".join(reason.message for reason in told)

    def left(self, gang: GangId) -> None:
        """Say of a gang a pod of which is gone, and that runs in part, if it waits for pods that nobody has made."""
        found = self._cluster.gang(gang)
        if found.is_partial and found.member_count < found.min_count:
            self.waits(gang, _partial(found, found.running_count, _missing(found)))

    def _tell_of_part(self, gang: Gang, unbound: Sequence[tuple[Placement, Reason]], pods: Mapping[PodId, Pod]) -> None:
        count = self._bound(gang.id, {placement.pod for placement, _ in unbound})
        there = [(placement, reason) for placement, reason in unbound if self._is_there(placement)]
        for placement, reason in there:
            message = _partial(gang, count, f"pod {placement.pod.name} is tried again: {self._joined([reason])}")
            self._reports.partly_bound(pods[placement.pod], message)
        missing = _missing(self._cluster.gang(gang.id))
        if there:
            again = f"{len(there)} are tried again: {self._joined([there[0][1]])}"
            self.is_partly_bound(gang.id, _partial(gang, count, again, missing))
        elif unbound:
            self.waits(gang.id, _partial(gang, count, missing))
        _log.warning(
            logs.GANG_PARTLY_BOUND, gang=str(gang.id), bound=count, unbound=[str(each.pod) for each, _ in unbound]
        )

    def _is_there(self, placement: Placement) -> bool:
        """Whether a pod that was not bound can be tried again."""
        pod = self._cluster.seen_pod(placement.pod)
        return pod is not None and pod.uid == placement.pod_uid and not (pod.is_deleting or pod.is_terminal)

    def _bound(self, gang: GangId, unbound: Collection[PodId] = ()) -> int:
        """How many members are bound, by what is believed but of some: a binding's echo may be on its way."""
        roster = self._cluster.gang_counts(gang)
        others = (roster.pods.get(each) for each in unbound)
        return roster.placed - sum(each is not None and bool(each.node_name) for each in others)

    async def run(self) -> None:
        """Write for ever; end when no write may start any more."""
        while True:
            await self._work()
            try:
                await self._tell_due()
            except GateClosedError:
                return

    async def _tell_due(self) -> None:
        while self._due:
            gang = next(iter(self._due))
            word = self._due.pop(gang)
            with Confined(self._metrics, Subsystem.GROUPS, passing=(GateClosedError,), gang=str(gang)):
                await self._tell(gang, word)

    async def _tell(self, gang: GangId, word: _Word) -> None:
        """Write a word that is news, now or when it may follow the one before."""
        group = self._cluster.pod_group(gang)
        if group is None or not self._is_news(group, word):
            return
        if (at := self._rewritable_at(group, word)) > self._clock():
            self._later[gang] = (at, word)
        else:
            await self._write(group, word)

    async def _work(self) -> None:
        """Wait until something is to be said, or what was put off is due."""
        seconds = min((at for at, _ in self._later.values()), default=math.inf) - self._clock()
        try:
            async with asyncio.timeout(None if seconds == math.inf else max(0.0, seconds)):
                await self._has_work.wait()
        except TimeoutError:
            pass
        self._has_work.clear()
        for gang, (at, word) in list(self._later.items()):
            if at <= self._clock():
                del self._later[gang]
                self._due[gang] = word

    def _say(self, gang: GangId, word: _Word) -> None:
        if self._collection and gang.source == SCHEDULING_GROUP:
            self._due.pop(gang, None)
            self._later.pop(gang, None)
            self._due[gang] = word._replace(message=shortened(word.message, _LONGEST))
            self._has_work.set()

    def _is_news(self, group: PodGroup, word: _Word) -> bool:
        """What is scheduled is not taken back (k/k does so too), and what is there already is not written again."""
        status, reason, message = group.condition
        written, _ = self._written.get(group.uid, (None, 0.0))
        if status == "True" or (written is not None and written.is_scheduled):
            return False
        if written is not None and self._clock() < self._rewritable_at(group, written):
            return word != written  # the watch may be behind
        return (status, reason, message) != ("True" if word.is_scheduled else "False", word.reason, word.message)

    def _rewritable_at(self, group: PodGroup, word: _Word) -> float:
        """Give the time from which a word may follow the last one that was written about a group."""
        written, at = self._written.get(group.uid, (None, -math.inf))
        return at + _REWRITE_SECONDS if written is not None and written[:2] == word[:2] else -math.inf

    async def _write(self, group: PodGroup, word: _Word) -> None:
        send = partial(
            writes.write_group_condition,
            self._client,
            self._collection,
            group,
            GroupCondition(
                is_true=word.is_scheduled,
                reason=word.reason,
                message=word.message,
                since=dt.datetime.now(dt.UTC),
            ),
        )
        try:
            await self._writer.write(lambda seconds: send(timeout_seconds=seconds), is_status=True)
        except NotFound:
            self._written.pop(group.uid, None)
        except KubeError as error:
            _log.warning(logs.GROUP_CONDITION_FAILED, group=str(group.id), error=str(error))
            self._later.setdefault(group.id, (self._clock() + _REWRITE_SECONDS, word))
        else:
            if self._cluster.pod_group(group.id) is not None:  # it may have gone while this was written
                self._written[group.uid] = (word, self._clock())

    def see(self, transition: Transition) -> None:
        """Drop what is known of a PodGroup that is gone, or whose name another one has."""
        before, after = transition.before, transition.after
        if isinstance(before, PodGroup) and not (isinstance(after, PodGroup) and after.uid == before.uid):
            self._written.pop(before.uid, None)
            self._due.pop(before.id, None)
            self._later.pop(before.id, None)


def _partial(gang: Gang, bound: int, *more: str) -> str:
    text = f"gang {gang.id.name} is partly bound: {bound} of its pods are, {gang.min_count} have to be"
    return "; ".join((text, *filter(None, more)))


def _missing(gang: Gang) -> str:
    """Say what a gang waits for whose pods nobody has made, and what else can be done; empty where enough exist."""
    if gang.member_count >= gang.min_count:
        return ""
    return (
        f"it waits for members: {gang.member_count} of {gang.min_count} exist: make the missing pods anew, or delete "
        "those that run to give back what they hold"
    )
