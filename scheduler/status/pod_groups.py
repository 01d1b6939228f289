"""
Writes the condition PodGroupInitiallyScheduled of PodGroups (PodGroupScheduled in 1.36), as kube-scheduler does.

It becomes True once enough pods are bound (one, of a group with the basic policy), and stays so. While pods wait, or
too few are bound, it is False with the reason. Only the newest condition of a group is kept until it is written. Where
only the message changes, it is written once a minute; that claims do not exist yet, only after a grace.
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
from scheduler.kube import api_versions, writes
from scheduler.kube.client import Client
from scheduler.kube.encode import GroupCondition
from scheduler.kube.errors import KubeError, NotFound
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.status.conditions import only_waits_for_claims, truncated
from scheduler.status.status_writer import CLAIM_GRACE_SECONDS, StatusWriter
from solver.domain import (
    SCHEDULING_GROUP,
    Batch,
    Gang,
    GangId,
    Placement,
    Plan,
    Pod,
    PodGroup,
    PodId,
    Reason,
    ReasonCode,
)

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
_REWRITE_SECONDS: Final = 60.0
_LONGEST: Final = 32 * 1024 - 1024
"""The API takes messages of 32 KiB. Cut before the comparison with what was written."""

_log: Final = logs.logger()


class _GroupStatus(NamedTuple):
    """The condition of a PodGroup."""

    is_scheduled: bool
    reason: str
    message: str


class PodGroupStatusWriter:
    """
    Queues conditions without waiting; `run` writes them.

    `collection` is the path of PodGroups on the API server, empty where it has none: no condition is written.
    """

    def __init__(
        self,
        client: Client,
        writer: Writer,
        cluster: Cluster,
        status: tuple[StatusWriter, Metrics],
        collection: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._cluster: Final = cluster
        self._status, self._metrics = status
        self._collection: Final = collection
        self._type: Final = api_versions.pod_group_condition(collection.split("/")[-2]) if collection else ""
        self._clock: Final = clock
        self._due: Final[dict[GangId, _GroupStatus]] = {}
        self._later: Final[dict[GangId, tuple[float, _GroupStatus]]] = {}
        """Conditions that came too early after the last write, or could not be written, and when they are due."""
        self._written: Final[dict[str, tuple[_GroupStatus, float]]] = {}
        self._composites: Final[set[tuple[str, str]]] = set()
        """CompositePodGroups that a warning was logged for."""
        self._has_work: Final = asyncio.Event()

    def inherit(self, scheduler_names: Collection[str]) -> None:
        """
        Drop what was queued while another replica led, which has written it.

        That one may have ended after a binding and before it wrote the condition: groups that these schedulers have
        placed, and that do not say so, are reported.
        """
        self._due.clear()
        self._later.clear()
        for gang in self._cluster.store.gangs.in_use():
            group = self._cluster.pod_group(gang.id)
            if group is None or self._said(group)[0] == "True" or not _has_enough(gang):
                continue
            if any(pod.scheduler_name in scheduler_names for pod in self._cluster.gang_counts(gang.id).pods.values()):
                self._report_bound(gang)

    def report_scheduled(self, gang: GangId, message: str) -> None:
        """Report that enough pods of a gang are bound."""
        self._put(gang, _GroupStatus(is_scheduled=True, reason=SCHEDULED, message=message))

    def report_unschedulable(self, gang: GangId, message: str, *, grace_seconds: float = 0.0) -> None:
        """Report why a gang waits; with a grace, unless something else is reported before its end."""
        self._put(gang, _GroupStatus(is_scheduled=False, reason=UNSCHEDULABLE, message=message), grace_seconds)

    def report_partly_bound(self, gang: GangId, message: str) -> None:
        """Report that some pods of a gang are bound and others could not be."""
        self._put(gang, _GroupStatus(is_scheduled=False, reason=SCHEDULER_ERROR, message=message))

    def decided(self, batch: Batch, plan: Plan) -> None:
        """Report the gangs of which a plan places no pod, and too few have a node already."""
        if not batch.gangs:
            return
        pods = {pod.id: pod for pod in batch.pods}
        placed = {pods[each.pod].gang for each in plan.placements if each.pod in pods}
        for unplaced in plan.unplaced:
            gang = pods[unplaced.pod].gang if unplaced.pod in pods else None
            if gang is not None and gang not in placed:
                placed.add(gang)
                if not _has_enough(self._cluster.gang(gang)):
                    grace = CLAIM_GRACE_SECONDS if only_waits_for_claims(unplaced.reasons) else 0.0
                    self.report_unschedulable(gang, self._joined(unplaced.reasons), grace_seconds=grace)

    def settled(self, outcome: Outcome, pods: Mapping[PodId, Pod]) -> None:
        """Report the outcome of a unit for its gangs, and for groups without a minimum that it has bound pods of."""
        if isinstance(outcome, Bound | PartlyBound):
            bound = outcome.unit.placements if isinstance(outcome, Bound) else outcome.bound
            with_minimum = {gang.id for gang in outcome.unit.gangs}
            for gang_id in dict.fromkeys(pods[each.pod].gang for each in bound):
                if gang_id is not None and gang_id not in with_minimum:
                    self._report_bound(self._cluster.gang(gang_id))
        match outcome:
            case Bound(unit=unit):
                for gang in unit.gangs:
                    self._report_bound(gang)
            case PartlyBound(unit=unit, unbound=unbound) if unit.gangs:
                self._metrics.gangs_partly_bound.inc()
                for gang in unit.gangs:
                    own = [(each, why) for each, why in unbound if pods[each.pod].gang == gang.id]
                    self._report_part(gang, own, pods)
            case Refused(unit=unit, reasons=reasons) | Undone(unit=unit, reasons=reasons):
                for gang in unit.gangs:
                    self.report_unschedulable(gang.id, self._joined(reasons))
            case _:
                pass

    def _report_bound(self, gang: Gang) -> None:
        count = f"{self._bound(gang.id)} pods are bound, {gang.min_count} are required"
        self.report_scheduled(gang.id, count if gang.min_count else "its first pods are bound, no number is required")

    def _joined(self, reasons: Sequence[Reason]) -> str:
        """Join the reasons of a gang behind what kube-scheduler says of it."""
        shown = self._status.shown(reasons)
        theirs = (reason.status for reason in shown if reason.code is ReasonCode.GANG_UNPLACED and reason.status)
        return "; ".join((*theirs, *(reason.message for reason in shown)))

    def left(self, gang: GangId) -> None:
        """Report a gang that lost a pod, if it is partly bound and too few members exist."""
        found = self._cluster.gang(gang)
        if found.is_partial and found.member_count < found.min_count:
            self.report_unschedulable(gang, _partial(found, found.running_count, _missing(found)))

    def _report_part(self, gang: Gang, unbound: Sequence[tuple[Placement, Reason]], pods: Mapping[PodId, Pod]) -> None:
        count = self._bound(gang.id, {placement.pod for placement, _ in unbound})
        there = [(placement, reason) for placement, reason in unbound if self._exists(placement)]
        for placement, reason in there:
            message = _partial(gang, count, f"pod {placement.pod.name} is tried again: {self._joined([reason])}")
            self._status.record_partly_bound(pods[placement.pod], message)
        missing = _missing(self._cluster.gang(gang.id))
        if there:
            again = f"{len(there)} are tried again: {self._joined([there[0][1]])}"
            self.report_partly_bound(gang.id, _partial(gang, count, again, missing))
        elif unbound:
            self.report_unschedulable(gang.id, _partial(gang, count, missing))
        _log.warning(
            logs.GANG_PARTLY_BOUND, gang=str(gang.id), bound=count, unbound=[str(each.pod) for each, _ in unbound]
        )

    def _exists(self, placement: Placement) -> bool:
        """Whether a pod that was not bound can be tried again."""
        pod = self._cluster.observed_pod(placement.pod)
        return pod is not None and pod.uid == placement.pod_uid and not (pod.is_deleting or pod.is_terminal)

    def _bound(self, gang: GangId, unbound: Collection[PodId] = ()) -> int:
        """Count the bound members, assumed ones included but for `unbound`: the watch may lag behind a binding."""
        roster = self._cluster.gang_counts(gang)
        others = (roster.pods.get(each) for each in unbound)
        return roster.placed - sum(each is not None and bool(each.node_name) for each in others)

    async def run(self) -> None:
        """Write conditions until no write may start any more."""
        while True:
            try:
                with Confined(self._metrics, Subsystem.POD_GROUPS, passing=(FencedError,)):
                    await self._wait_for_work()
                    await self._write_due()
            except FencedError:
                return

    async def _write_due(self) -> None:
        while self._due:
            gang = next(iter(self._due))
            condition = self._due.pop(gang)
            with Confined(self._metrics, Subsystem.POD_GROUPS, passing=(FencedError,), gang=str(gang)):
                await self._write_if_due(gang, condition)

    async def _write_if_due(self, gang: GangId, condition: _GroupStatus) -> None:
        """Write a condition that is new, or put it off until a minute after the last one."""
        group = self._cluster.pod_group(gang)
        if group is None or not self._is_new(group, condition):
            return
        if (at := self._rewritable_at(group, condition)) > self._clock():
            self._later[gang] = (at, condition)
        else:
            await self._write(group, condition)

    async def _wait_for_work(self) -> None:
        """Wait for a new condition, or until one that was put off is due."""
        seconds = min((at for at, _ in self._later.values()), default=math.inf) - self._clock()
        try:
            async with asyncio.timeout(None if seconds == math.inf else max(0.0, seconds)):
                await self._has_work.wait()
        except TimeoutError:
            pass
        self._has_work.clear()
        for gang, (at, condition) in list(self._later.items()):
            if at <= self._clock():
                del self._later[gang]
                self._due[gang] = condition

    def _put(self, gang: GangId, condition: _GroupStatus, grace_seconds: float = 0.0) -> None:
        if self._collection and gang.source == SCHEDULING_GROUP:
            self._due.pop(gang, None)
            self._later.pop(gang, None)
            cut = condition._replace(message=truncated(condition.message, _LONGEST))
            if grace_seconds:
                self._later[gang] = (self._clock() + grace_seconds, cut)
            else:
                self._due[gang] = cut
            self._has_work.set()

    def _said(self, group: PodGroup) -> tuple[str, str, str]:
        """Return status, reason and message of the condition that a group has, empty where it has none."""
        return next((each[1:] for each in group.conditions if each[0] == self._type), ("", "", ""))

    def _is_new(self, group: PodGroup, condition: _GroupStatus) -> bool:
        """Whether a write changes the group: True stays (as in kube-scheduler), and equal text is not written again."""
        status, reason, message = self._said(group)
        written, _ = self._written.get(group.uid, (None, 0.0))
        if status == "True" or (written is not None and written.is_scheduled):
            return False
        if written is not None and self._clock() < self._rewritable_at(group, written):
            return condition != written  # the watch may lag behind our write
        return (status, reason, message) != (
            "True" if condition.is_scheduled else "False",
            condition.reason,
            condition.message,
        )

    def _rewritable_at(self, group: PodGroup, condition: _GroupStatus) -> float:
        """Return the earliest time of this condition after the last one of its group."""
        written, at = self._written.get(group.uid, (None, -math.inf))
        return at + _REWRITE_SECONDS if written is not None and written[:2] == condition[:2] else -math.inf

    async def _write(self, group: PodGroup, condition: _GroupStatus) -> None:
        send = partial(
            writes.write_group_condition,
            self._client,
            self._collection,
            group,
            GroupCondition(
                type=self._type,
                is_true=condition.is_scheduled,
                reason=condition.reason,
                message=condition.message,
                since=dt.datetime.now(dt.UTC),
            ),
        )
        try:
            await self._writer.write(send, is_status=True)
        except NotFound:
            self._written.pop(group.uid, None)
        except KubeError as error:
            _log.warning(logs.GROUP_CONDITION_FAILED, group=str(group.id), error=str(error))
            self._later.setdefault(group.id, (self._clock() + _REWRITE_SECONDS, condition))
        else:
            there = self._cluster.pod_group(group.id)
            if there is not None and there.uid == group.uid:  # else it was deleted during the write
                self._written[group.uid] = (condition, self._clock())

    def see(self, transition: Transition) -> None:
        """Drop what is kept of a PodGroup that was deleted or replaced; warn about a composite one's first child."""
        before, after = transition.before, transition.after
        if before is None and isinstance(after, PodGroup) and after.parent:
            self._warn_of_composite(after)
        if isinstance(before, PodGroup) and not (isinstance(after, PodGroup) and after.uid == before.uid):
            self._written.pop(before.uid, None)
            self._due.pop(before.id, None)
            self._later.pop(before.id, None)
            self._composites.discard((before.id.namespace, before.parent))

    def _warn_of_composite(self, child: PodGroup) -> None:
        """Warn once, and again after one of its children was deleted: nothing is kept of groups that ended."""
        composite = (child.id.namespace, child.parent)
        if composite not in self._composites:
            self._composites.add(composite)
            _log.warning(logs.COMPOSITE_POD_GROUP, composite="/".join(composite), child=str(child.id))


def _has_enough(gang: Gang) -> bool:
    """Whether as many members have a node, be it assumed, as the condition asks for."""
    return gang.running_count >= max(1, gang.min_count)


def _partial(gang: Gang, bound: int, *more: str) -> str:
    text = f"gang {gang.id.name} is partly bound: {bound} of {gang.min_count} required pods are bound"
    return "; ".join((text, *filter(None, more)))


def _missing(gang: Gang) -> str:
    """Say that members are missing and what to do; empty where enough exist."""
    if gang.member_count >= gang.min_count:
        return ""
    return (
        f"it waits for members: {gang.member_count} of {gang.min_count} exist: create the missing pods again, or "
        "delete the running ones to free what they hold"
    )
