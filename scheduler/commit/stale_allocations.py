"""
Allocations that stand in the way and belong to nobody who runs: taken back, after a live read.

Two kinds. A device that is held twice: another scheduler, or a former leader, wrote at the same time; the allocation
that no pod is bound to goes. And an allocation that an earlier attempt left behind: its pod is still unbound and now
fits only elsewhere, so the claim is given free and allocated anew with the next attempt.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from scheduler.cluster import Cluster
from scheduler.commit.rollback import NO_GROUPS, Pods, Withdrawal
from scheduler.kube.writer import GateClosedError
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.queue import Pending
from scheduler.status.reports import Reports
from solver.domain import Claim, ClaimId, DeviceId, Pod, PodId, Reason, ReasonCode

_PERIOD_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 30.0
"""A device or claim that could not be repaired is looked at again after this time."""
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
"""Reasons that another attempt may not meet: an allocation is not given up for them."""
_ELSEWHERE: Final = frozenset({ReasonCode.CLAIM_ELSEWHERE, ReasonCode.CLAIM_OUT_OF_REACH})

IsKin = Callable[[str], bool]
"""Tells by its uid whether a consumer of a claim holds nothing for others."""

_log: Final = logs.logger()


class Repairs:
    """Finds such allocations and takes them back, one after the other, behind everything else."""

    def __init__(
        self,
        cluster: Cluster,
        pending: Pending,
        withdrawal: Withdrawal,
        reports: Reports,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._pending: Final = pending
        self._withdrawal: Final = withdrawal
        self._reports: Final = reports
        self._metrics: Final = metrics
        self._clock: Final = clock
        self._confined: Final = partial(Confined, metrics, Subsystem.REPAIR, passing=(GateClosedError,))
        self._written: Final[Counter[ClaimId]] = Counter()
        self._repaired: ClaimId | None = None
        self._is_repaired: Final = asyncio.Event()
        self._loose: Final[dict[ClaimId, Pod]] = {}
        self._looked_at: Final[dict[DeviceId | ClaimId, float]] = {}
        self._reported: set[DeviceId] = set()

    @asynccontextmanager
    async def hands_off(self, claims: Iterable[ClaimId]) -> AsyncIterator[None]:
        """
        Leave these claims alone while the block runs: their own commit takes care of them.

        It begins when no repair of one of them is under way.
        """
        claims = tuple(claims)
        self._written.update(claims)
        try:
            while self._repaired in claims:
                self._is_repaired.clear()
                await self._is_repaired.wait()
            yield
        finally:
            self._written.subtract(claims)
            for claim in claims:
                if not self._written[claim]:
                    del self._written[claim]

    def loosen(self, pod: Pod, reasons: Sequence[Reason]) -> None:
        """Note the allocations that keep an unplaced pod where it does not fit, reserved for it alone."""
        codes = {reason.code for reason in reasons}
        if codes & _PASSING:
            return
        for key in pod.claim_ids:
            claim = self._cluster.seen_claim(key)
            if claim is None or claim.allocation is None or key in self._written:
                continue
            if _is_left_behind(claim, self._kin(pod), is_elsewhere=bool(codes & _ELSEWHERE)):
                self._loose[key] = pod

    async def run(self) -> None:
        """Repair for ever; end when no write may start any more."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                with self._confined():
                    await self._separate()
                with self._confined():
                    await self.give_free()
            except GateClosedError:
                return

    async def _separate(self) -> None:
        """Look for devices that are held twice."""
        contested = self._cluster.contested_devices()
        self._reported &= {device for device, _ in contested}
        for device, claims in contested:
            if device not in self._reported:
                self._reported.add(device)
                self._metrics.duplicate_devices.inc()
                _log.warning(logs.DEVICE_HELD_TWICE, device=str(device), claims=[str(claim) for claim in claims])
            if any(claim in self._written for claim in claims) or not self._is_time(device):
                continue
            with self._confined(device=str(device)):
                await self._separate_one(device, claims)

    async def _separate_one(self, device: DeviceId, claims: Sequence[ClaimId]) -> None:
        """Take back what holds a device needlessly; one holder stays."""
        left = len(claims)
        for claim in sorted(claims, key=self._age, reverse=True):
            if left > 1 and self._is_ours(claim) and await self._reclaim(claim, _holds(device)):
                left -= 1
                for pod in self._cluster.pods_using(claim):
                    self._reports.yielded(pod, (device,))

    async def give_free(self) -> None:
        """Take back what was noted as left behind, where a live read says the same."""
        while self._loose:
            claim, pod = self._loose.popitem()
            with self._confined(claim=str(claim)):
                await self._give_free_one(claim, pod)

    async def _give_free_one(self, claim: ClaimId, pod: Pod) -> None:
        if self._is_time(claim):
            await self._reclaim(claim, partial(_is_reserved_at_most_for, self._kin(pod)), self._group(pod))

    def _kin(self, pod: Pod) -> IsKin:
        """Tell the uids of those that hold nothing for others: a pod, or a whole gang while no member of it runs."""
        roster = self._cluster.gang_counts(pod.gang) if pod.gang is not None else None
        if pod.gang is None or roster is None or roster.placed:
            return lambda uid: uid == pod.uid
        group = self._cluster.pod_group(pod.gang)
        of_group = group.uid if group is not None else ""
        return lambda uid: uid == pod.uid or uid in roster.uids or (bool(of_group) and uid == of_group)

    def _group(self, pod: Pod) -> dict[str, tuple[tuple[PodId, str], ...]]:
        """Give the pods of a pod's PodGroup by the group's uid; nothing where there is no such object."""
        group = self._cluster.pod_group(pod.gang) if pod.gang is not None else None
        if group is None or not group.uid:
            return {}
        return {group.uid: tuple((each.id, each.uid) for each in self._cluster.gang_members(group.id))}

    async def _reclaim(
        self, claim: ClaimId, is_wanted: Callable[[Claim], bool], groups: Mapping[str, Pods] = NO_GROUPS
    ) -> bool:
        if claim in self._written:
            return False
        self._repaired = claim
        try:
            return await self._withdrawal.reclaim(claim, is_wanted, groups)
        finally:
            self._repaired = None
            self._is_repaired.set()

    def _is_ours(self, key: ClaimId) -> bool:
        """Whether every pod that uses the claim waits in our queue: none is bound, none another scheduler's."""
        pods = self._cluster.pods_using(key)
        return bool(pods) and all(self._pending.state(pod.id) is not None for pod in pods)

    def _age(self, key: ClaimId) -> tuple[str, ClaimId]:
        claim = self._cluster.seen_claim(key)
        return (claim.allocation.allocation_timestamp if claim is not None and claim.allocation else "", key)

    def _is_time(self, subject: DeviceId | ClaimId) -> bool:
        now = self._clock()
        while self._looked_at and now - self._looked_at[first := next(iter(self._looked_at))] >= _AGAIN_SECONDS:
            del self._looked_at[first]  # they stand in the order in which they were looked at
        return self._looked_at.setdefault(subject, now) == now


def _is_left_behind(claim: Claim, is_kin: IsKin, *, is_elsewhere: bool) -> bool:
    """Whether only these hold the claim; one that nobody reserved counts where it keeps the pod from its node."""
    return _is_reserved_at_most_for(is_kin, claim) and (bool(claim.reserved_for) or is_elsewhere)


def _is_reserved_at_most_for(is_kin: IsKin, claim: Claim) -> bool:
    return all(is_kin(each.uid) for each in claim.reserved_for)


def _holds(device: DeviceId) -> Callable[[Claim], bool]:
    def is_wanted(claim: Claim) -> bool:
        return claim.allocation is not None and any(each.device == device for each in claim.allocation.results)

    return is_wanted
