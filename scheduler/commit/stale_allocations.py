"""
Removes allocations that no bound pod uses and that block others, after live reads (`rollback.deallocate`).

Two kinds. Allocations that exclude each other: a device in two of them, more shares than it has capacity, partitions
that draw more than there is. Another scheduler or a former leader wrote at the same time. The newest to which no pod is
bound is removed, until the others go together. And the allocation of an earlier attempt: its pod is still unbound and
now fits only on other nodes, so the claim is deallocated and the next attempt allocates it again.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from scheduler.backoff import Cooldown
from scheduler.cluster import Cluster, Unit
from scheduler.cluster.assume_cache import is_same
from scheduler.commit.rollback import NO_GROUPS, Pods, Rollback
from scheduler.kube.writer import FencedError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.queue import SchedulingQueue
from scheduler.status.status_writer import StatusWriter
from solver.domain import ALLOCATED_ELSEWHERE, Allocation, Claim, ClaimId, DeviceId, Pod, PodId, Reason, ReasonCode

_PERIOD_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 30.0
"""A device or claim is tried again after this time."""
_PASSING: Final = frozenset(
    {
        ReasonCode.BUDGET,
        ReasonCode.OUTRANKED,
        ReasonCode.TOO_COSTLY,
        ReasonCode.SOLVER_FAILED,
        ReasonCode.CONFLICT,
        ReasonCode.API_ERROR,
    }
)
"""Reasons that the next attempt may not have: they cost a pod no allocation."""

IsUnboundConsumer = Callable[[str], bool]
"""Whether the consumer of this uid is known to be unbound: the pod, or its gang while no member runs."""

_log: Final = logs.logger()


class StaleAllocations:
    """Finds such allocations and removes them, one after the other, in the background."""

    def __init__(
        self,
        cluster: Cluster,
        pending: SchedulingQueue,
        rollback: Rollback,
        reports: StatusWriter,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._pending: Final = pending
        self._rollback: Final = rollback
        self._reports: Final = reports
        self._metrics: Final = metrics

        self._confined: Final = partial(Confined, metrics, Subsystem.STALE_ALLOCATIONS, passing=(FencedError,))
        self._committing: Final[Counter[ClaimId]] = Counter()
        self._deallocating: ClaimId | None = None
        self._has_deallocated: Final = asyncio.Event()
        self._unused: Final[dict[ClaimId, tuple[str, Pod]]] = {}
        """Uid of the claim and the pod, by the claim's key."""
        self._joined: Final[dict[ClaimId, None]] = {}
        self._tried: Final[Cooldown[DeviceId | ClaimId]] = Cooldown(_AGAIN_SECONDS, clock)
        self._reported: set[DeviceId] = set()

    @asynccontextmanager
    async def excluding(self, claims: Iterable[ClaimId]) -> AsyncIterator[None]:
        """
        Remove none of these allocations while the block runs: the commit of a unit writes the claims.

        The block begins when no removal of one of them is under way.
        """
        claims = tuple(claims)
        self._committing.update(claims)
        try:
            while self._deallocating in claims:
                self._has_deallocated.clear()
                await self._has_deallocated.wait()
            yield
        finally:
            self._committing.subtract(claims)
            for claim in claims:
                if not self._committing[claim]:
                    del self._committing[claim]

    def note_unplaced(self, pod: Pod, reasons: Sequence[Reason]) -> None:
        """Note allocations that only an unplaced pod has reserved, and that keep it on nodes where it does not fit."""
        codes = {reason.code for reason in reasons}
        if codes & _PASSING:
            return
        for key in pod.claim_ids:
            claim = self._cluster.observed_claim(key)
            if claim is None or claim.allocation is None or key in self._committing:
                continue
            if _is_unused(claim, self._unbound_consumers(pod), is_elsewhere=bool(codes & ALLOCATED_ELSEWHERE)):
                self._unused[key] = (claim.uid, pod)

    def note_refused(self, unit: Unit) -> None:
        """Note the allocated claims of a unit that was not bound: they may exclude those of other claims."""
        new = {each.claim for each in unit.allocations}
        self._joined.update((key, None) for key in unit.claims if key not in new)

    def note_lost_race(self, devices: Iterable[DeviceId]) -> None:
        """Count the devices for which a commit removed its allocation; what it could not remove is counted once."""
        for device in devices:
            self._count(device)

    async def run(self, pause_seconds: float = 0.0) -> None:
        """
        Look for them every second; end when no write may start any more.

        During the pause a late binding of the leader before may come for a pod whose claims are allocated.
        """
        await asyncio.sleep(pause_seconds)
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                with self._confined():
                    await self.resolve_duplicates()
                with self._confined():
                    await self.deallocate_unused()
            except FencedError:
                return

    async def resolve_duplicates(self) -> None:
        """Remove allocations that exclude others."""
        contested = self._contested()
        self._reported &= contested.keys()
        for device, claims in contested.items():
            if self._count(device):
                _log.warning(logs.DEVICE_HELD_TWICE, device=str(device), claims=[str(claim) for claim in claims])
            if any(claim in self._committing for claim in claims) or not self._tried.try_start(device):
                continue
            with self._confined(device=str(device)):
                await self._resolve_duplicate(device, claims)

    def _count(self, device: DeviceId) -> bool:
        """Count a device that is held twice, unless it was held twice before and still is; return whether it counts."""
        if device in self._reported:
            return False
        self._reported.add(device)
        self._metrics.duplicate_devices.inc()
        return True

    def _contested(self) -> dict[DeviceId, tuple[ClaimId, ...]]:
        """Return the devices that are held twice, and those for which a pod could not use its allocated claim."""
        contested = dict(self._cluster.contested_devices())
        for key in tuple(self._joined):
            conflicts = self._cluster.claim_conflicts(key)
            if not conflicts:
                del self._joined[key]
            for each in conflicts:
                contested.setdefault(each.device, (key, *each.claims))
        return contested

    async def _resolve_duplicate(self, device: DeviceId, claims: Sequence[ClaimId]) -> None:
        """Remove allocations, the newest first, until those that are left go together."""
        removed: list[ClaimId] = []
        for key in sorted(claims, key=self._age, reverse=True):
            conflicts = self._cluster.claim_conflicts(key, removed)
            if not any(claim in claims for each in conflicts for claim in each.claims):
                continue
            claim = self._cluster.claim(key)
            if claim is None or claim.allocation is None or not self._is_ours(key):
                continue
            groups = {uid: pods for pod in self._cluster.pods_using(key) for uid, pods in self._group(pod).items()}
            if await self._deallocate(key, partial(_is_the_allocated, claim.uid, claim.allocation), groups):
                removed.append(key)
                for pod in self._cluster.pods_using(key):
                    self._reports.record_lost_race(pod, (device,))

    async def deallocate_unused(self) -> None:
        """Remove the allocations that `note_unplaced` has noted."""
        while self._unused:
            claim, (uid, pod) = self._unused.popitem()
            if self._tried.try_start(claim):
                is_unbound = self._unbound_consumers(pod)
                with self._confined(claim=str(claim)):
                    await self._deallocate(claim, partial(_is_the_unused, uid, is_unbound), self._group(pod))

    def _unbound_consumers(self, pod: Pod) -> IsUnboundConsumer:
        roster = self._cluster.gang_counts(pod.gang) if pod.gang is not None else None
        if pod.gang is None or roster is None or roster.placed:
            return lambda uid: uid == pod.uid
        group = self._cluster.pod_group(pod.gang)
        of_group = group.uid if group is not None else ""
        return lambda uid: uid == pod.uid or uid in roster.uids or (bool(of_group) and uid == of_group)

    def _group(self, pod: Pod) -> dict[str, tuple[tuple[PodId, str], ...]]:
        """Return the pods of a pod's PodGroup by the group's uid; empty where there is no such object."""
        group = self._cluster.pod_group(pod.gang) if pod.gang is not None else None
        if group is None or not group.uid:
            return {}
        return {group.uid: tuple((each.id, each.uid) for each in self._cluster.gang_members(group.id))}

    async def _deallocate(
        self, claim: ClaimId, is_wanted: Callable[[Claim], bool], groups: Mapping[str, Pods] = NO_GROUPS
    ) -> bool:
        if claim in self._committing:
            return False
        self._deallocating = claim
        try:
            return await self._rollback.deallocate(claim, is_wanted, groups)
        finally:
            self._deallocating = None
            self._has_deallocated.set()

    def _is_ours(self, key: ClaimId) -> bool:
        """Whether every pod that uses the claim waits in our queue, has ended, or has a scheduling gate."""
        pods = [pod for pod in self._cluster.pods_using(key) if not (pod.is_terminal or pod.scheduling_gates)]
        return bool(pods) and all(self._pending.state(pod.id) is not None for pod in pods)

    def _age(self, key: ClaimId) -> tuple[str, ClaimId]:
        claim = self._cluster.observed_claim(key)
        return (claim.allocation.allocation_timestamp if claim is not None and claim.allocation else "", key)


def _is_unused(claim: Claim, is_unbound: IsUnboundConsumer, *, is_elsewhere: bool) -> bool:
    """Whether only unbound consumers have the claim; one without any must also keep the pod from its nodes."""
    return _is_reserved_at_most_for(is_unbound, claim) and (bool(claim.reserved_for) or is_elsewhere)


def _is_reserved_at_most_for(is_unbound: IsUnboundConsumer, claim: Claim) -> bool:
    return all(is_unbound(each.uid) for each in claim.reserved_for)


def _is_the_unused(uid: str, is_unbound: IsUnboundConsumer, claim: Claim) -> bool:
    """Whether it is the claim with this uid, and still only unbound consumers have it: another may be of its name."""
    return claim.uid == uid and _is_reserved_at_most_for(is_unbound, claim)


def _is_the_allocated(uid: str, judged: Allocation, claim: Claim) -> bool:
    """Whether it is the claim with this uid, with the allocation that was judged."""
    return claim.uid == uid and claim.allocation is not None and is_same(judged, claim.allocation)
