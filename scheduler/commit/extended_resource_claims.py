"""Claims behind extended resources (KEP-5004): made for one placement, announced to the kubelet, removed again.

In order: POST the claim, then its finalizer and allocation as of any other claim (`claims`), PATCH the pod's status,
bind. Until the binding everything can be taken back, and then the claim is deleted: it was made for this attempt alone.

Claims for extended resources that a former attempt left behind: a crash, or an answer that was lost.

Their pods wait in our queue and nothing is under way for them; while such a claim stands it may hold the very devices
that its pod waits for. It is deallocated and deleted after a live read.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from scheduler.cluster import Cluster, Unit
from scheduler.commit.claims import api_reason
from scheduler.commit.rollback import Withdrawal
from scheduler.kube import extended_resource_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.kube.extended_resource_writes import NotServedError
from scheduler.kube.writer import GateClosedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.queue import Pending
from solver.domain import Claim, ClaimAllocation, ClaimId, Placement, Reason

_UNSERVED_SECONDS: Final = 20.0
"""For so long none is made, for any pod, after the server kept nothing of one: its feature gate may be on by then."""

_log: Final = logs.logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade:
    """A claim could not be made, or its making was not confirmed; those that were made are deleted again."""

    reason: Reason


class SpecialClaims:
    """Makes and removes such claims. What is under way is known by the ids that stand for the claims in the plan."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        writer: Writer,
        withdrawal: Withdrawal,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Final = client
        self._cluster: Final = cluster
        self._writer: Final = writer
        self._withdrawal: Final = withdrawal
        self._clock: Final = clock
        self._made: Final[dict[ClaimId, Claim]] = {}
        self._unserved: tuple[Reason, float] | None = None

    async def make(self, unit: Unit) -> Unit | NotMade:
        """
        Make the claims of a unit and give the unit with their names; a unit without any is given as it is.

        What an earlier attempt left behind for one of its pods goes first. Raise `GateClosedError` when writing is
        not allowed any more.
        """
        wanted = [each for each in unit.placements if each.special is not None]
        if not wanted:
            return unit
        for placement in wanted:
            for old in self._cluster.special_claims(placement.pod, placement.pod_uid):
                await self.remove(old)
        if self._unserved is not None and self._clock() < self._unserved[1]:
            return NotMade(reason=self._unserved[0])
        results = await asyncio.gather(*(self._make(placement) for placement in wanted), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                await self.drop(unit.placements, ())
                if isinstance(result, KubeError):
                    return NotMade(reason=api_reason(result))
                raise result
        return _renamed(unit, self._made)

    def find(self, key: ClaimId) -> Claim | None:
        """Give a claim as it was made, or as the watch last gave it."""
        made = next((claim for claim in self._made.values() if claim.id == key), None)
        return made or self._cluster.seen_claim(key)

    async def announce(self, unit: Unit) -> tuple[Reason, ...]:
        """Write the claims into the status of their pods; give the reasons why the pods cannot be bound, if any."""
        announced = await asyncio.gather(
            *(self._announce(each) for each in unit.placements if each.special is not None), return_exceptions=True
        )
        for result in announced:
            if isinstance(result, BaseException):
                raise result
        return tuple(each for each in announced if isinstance(each, Reason))

    async def drop(self, placements: Iterable[Placement], kept: Collection[ClaimId]) -> None:
        """Delete the claims that were made for some placements, but for those that are kept; failures are for later."""
        for placement in placements:
            claim = self._made.get(placement.special.id) if placement.special is not None else None
            if claim is not None and claim.id not in kept:
                await self._delete(claim)

    def forget(self, unit: Unit) -> None:
        """Drop what is known of a unit: its commit has ended."""
        for key in unit.stand_ins:
            self._made.pop(key, None)

    async def remove(self, claim: Claim) -> None:
        """Delete a claim that an earlier attempt left behind, unless its pod turns out to be bound after all."""
        if claim.allocation is not None and not await self._withdrawal.reclaim(claim.id, _is(claim)):
            return
        await self._delete(claim)

    async def _make(self, placement: Placement) -> None:
        special = placement.special
        if special is None:
            return
        send = partial(extended_resource_writes.create_claim, self._client, placement.pod, placement.pod_uid, special)
        self._made[special.id] = await self._writer.write(lambda seconds: send(timeout_seconds=seconds))

    async def _announce(self, placement: Placement) -> Reason | None:
        special = placement.special
        if special is None:
            return None
        claim, pod = self._made[special.id], (placement.pod, placement.pod_uid)
        send = partial(extended_resource_writes.announce_claim, self._client, pod, claim.id, special.mappings)
        try:
            await self._writer.insist(lambda seconds: send(timeout_seconds=seconds))
        except NotServedError as error:
            self._unserved = (api_reason(error), self._clock() + _UNSERVED_SECONDS)
            return self._unserved[0]
        except KubeError as error:
            return api_reason(error)
        return None

    async def _delete(self, claim: Claim) -> None:
        send = partial(extended_resource_writes.delete_claim, self._client, claim.id, claim.uid)
        try:
            await self._writer.write(lambda seconds: send(timeout_seconds=seconds))
        except KubeError as error:
            _log.warning(logs.UNIT_FAILED, claim=str(claim.id), error=str(error))


def _is(claim: Claim) -> Callable[[Claim], bool]:
    """Whether a live claim is the one that was seen, and still of the kind that only schedulers make."""
    return lambda live: live.uid == claim.uid and live.is_special


def _renamed(unit: Unit, made: dict[ClaimId, Claim]) -> Unit:
    """Put the claims that were made in the places of the ids that stand for them."""
    placements = [
        msgspec.structs.replace(each, claims=tuple(made[key].id if key in made else key for key in each.claims))
        for each in unit.placements
    ]
    return Unit(placements=tuple(placements), allocations=tuple(_allocations(unit.allocations, made)))


def _allocations(allocations: Sequence[ClaimAllocation], made: dict[ClaimId, Claim]) -> Iterable[ClaimAllocation]:
    for each in allocations:
        claim = made.get(each.claim)
        if claim is None:
            yield each
        else:
            yield msgspec.structs.replace(each, claim=claim.id, claim_uid=claim.uid)


_PERIOD_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 10.0
"""A claim that could not be removed is looked at again after this time."""


class Leftovers:
    """Looks for such claims all the time, behind everything else."""

    def __init__(
        self,
        cluster: Cluster,
        pending: Pending,
        specials: SpecialClaims,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._pending: Final = pending
        self._specials: Final = specials
        self._clock: Final = clock
        self._confined: Final = partial(Confined, metrics, Subsystem.LEFTOVERS, passing=(GateClosedError,))
        self._looked_at: Final[dict[str, float]] = {}

    async def run(self) -> None:
        """Remove for ever; end when no write may start any more."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                with self._confined():
                    await self.remove()
            except GateClosedError:
                return

    async def remove(self) -> None:
        """Remove what is there now."""
        now = self._clock()
        for uid in [uid for uid, at in self._looked_at.items() if now - at >= _AGAIN_SECONDS]:
            del self._looked_at[uid]
        for claim, pod in self._cluster.orphaned_special_claims():
            if self._pending.state(pod.id) is None or self._looked_at.setdefault(claim.uid, now) != now:
                continue
            _log.info(logs.TAKEN_BACK, claim=str(claim.id), pod=str(pod.id))
            with self._confined(claim=str(claim.id)):
                await self._specials.remove(claim)
