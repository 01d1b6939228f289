"""
Claims that the scheduler creates for extended resources (KEP-5004).

In order: POST the claim, write finalizer and allocation as of any claim (`claims`), PATCH the pod's status
(extendedResourceClaimStatus), bind. A claim belongs to one attempt: the rollback deletes it.

`OrphanedClaims` removes claims that an earlier attempt left behind, by a crash or a lost answer. Their pods wait in our
queue, and such a claim may hold the devices that its pod waits for. It is deallocated after live reads, then deleted.
No attempt makes another claim before: one that is left when its pod is bound would hold its devices as long as the pod.
A creation may still arrive when its pod is bound with another claim. Nothing allocates that claim, and it is deleted.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from scheduler.backoff import Cooldown
from scheduler.cluster import Cluster, Unit
from scheduler.commit.claims import api_reason
from scheduler.commit.rollback import Rollback
from scheduler.kube import extended_resource_writes, writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.extended_resource_writes import NotServedError
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe import logs
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined, together
from scheduler.queue import SchedulingQueue
from solver.domain import Claim, ClaimAllocation, ClaimId, Placement, Pod, PodId, Reason, ReasonCode

_UNSERVED_SECONDS: Final = 20.0
"""Time without another attempt after the API server dropped the status field: its feature gate may be on by then."""

_EARLIER_CLAIM: Final = Reason(
    code=ReasonCode.API_ERROR,
    message="a claim for extended resources of an earlier attempt could not be removed; the scheduler tries again",
)

_log: Final = logs.logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNotCreated:
    """A claim was not created, or the answer was lost; the other claims of the unit are deleted again."""

    reason: Reason


class ExtendedResourceClaims:
    """Creates and deletes such claims; a plan names them by placeholder ids."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        writer: Writer,
        rollback: Rollback,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client: Final = client
        self._cluster: Final = cluster
        self._writer: Final = writer
        self._rollback: Final = rollback
        self._clock: Final = clock
        self._created: Final[dict[ClaimId, Claim]] = {}
        self._left: dict[tuple[PodId, str], Claim] = {}
        """By pod (key, uid): what was created and could not be deleted again. The watch may not have shown it yet."""
        self._unserved: tuple[Reason, float] | None = None
        self._inherited_until = float("-inf")
        self._is_closed = False

    def close(self) -> None:
        """Note that nothing is decided any more: no claim has to be known."""
        self._is_closed = True

    def inherit(self, seconds: float) -> None:
        """
        Take over from the leader before: its late bindings come within `seconds`.

        Until then no claim is removed that is seen allocated: a pod that is bound late needs it on its node.
        """
        self._inherited_until = self._clock() + seconds

    async def make(self, unit: Unit) -> Unit | ClaimNotCreated:
        """
        Create the claims of a unit and return the unit with their names; a unit without any is given as it is.

        Claims that an earlier attempt left behind for its pods are removed first. Raise `FencedError` where no write
        may start any more.
        """
        wanted = [each for each in unit.placements if each.extended_resource_claim is not None]
        if not wanted:
            return unit
        for placement in wanted:
            if not await self._remove_earlier(placement):
                return ClaimNotCreated(reason=_EARLIER_CLAIM)
        if self._unserved is not None and self._clock() < self._unserved[1]:
            return ClaimNotCreated(reason=self._unserved[0])
        try:
            await together(self._make(placement) for placement in wanted)
        except Exception as error:
            await self.drop(unit.placements, ())
            if isinstance(error, KubeError):
                return ClaimNotCreated(reason=api_reason(error))
            raise
        return self.renamed(unit)

    def renamed(self, unit: Unit) -> Unit:
        """Return a unit with the names of the claims that were created for it."""
        return _renamed(unit, self._created)

    def find(self, key: ClaimId) -> Claim | None:
        """Return a claim as it was created, or as the watch last showed it."""
        made = next((claim for claim in self._created.values() if claim.id == key), None)
        return made or self._cluster.observed_claim(key)

    async def announce(self, unit: Unit) -> tuple[Reason, ...]:
        """Write the claims into the statuses of their pods; return the reasons why the pods cannot be bound, if any."""
        announced = await together(
            self._announce(each) for each in unit.placements if each.extended_resource_claim is not None
        )
        return tuple(each for each in announced if each is not None)

    async def drop(self, placements: Iterable[Placement], unreleased: Collection[ClaimId]) -> None:
        """Delete the claims of some placements, except those that are kept; `OrphanedClaims` retries what fails."""
        for placement in placements:
            special = placement.extended_resource_claim
            claim = self._created.get(special.id) if special is not None else None
            if special is None or claim is None:
                continue
            if is_released := claim.id not in unreleased:
                del self._created[special.id]
            if not (is_released and await self._delete(claim)):
                self._left = {key: each for key, each in self._left.items() if self._is_there(*key)}
                self._left[placement.pod, placement.pod_uid] = claim

    async def until_known(self, placements: Iterable[Placement]) -> None:
        """
        Wait until the watch has shown the claims of placements that may be allocated, or they are removed.

        The cluster cache holds the devices of a claim that no watch has shown only while its unit is assumed. Raise
        `FencedError` where no write may start any more.
        """
        for placement in placements:
            special, attempt = placement.extended_resource_claim, 0
            claim = self._created.get(special.id) if special is not None else None
            while claim is not None and not self._is_shown(claim) and not self._is_closed:
                self._writer.require_open()
                is_removed = await self.remove(claim, (placement.pod, placement.pod_uid))
                if is_removed or not await self._may_be_there(claim.id, claim.uid):
                    break
                await self._writer.pause(attempt)
                attempt += 1

    async def until_shown(self, unit: Unit, placement: Placement) -> None:
        """
        Wait until the watch has shown the allocated claim of a bound pod, or a live read shows that it holds nothing.

        Until then only the stand-in holds its devices. The pod may be deleted sooner than the claim is shown.
        """
        special, attempt = placement.extended_resource_claim, 0
        if special is None or (stand_in := self._cluster.claim(special.id)) is None:
            return
        own = (each for each in unit.allocations if each.claim in placement.claims)
        made = next((each for each in own if each.allocation == stand_in.allocation), None)
        while made is not None and not self._is_closed:
            await self._writer.pause(attempt)
            is_shown = self._cluster.claim(special.id) is None
            if is_shown or not await self._may_be_there(made.claim, made.claim_uid, is_allocated=True):
                return
            attempt += 1

    def _is_shown(self, claim: Claim) -> bool:
        seen = self._cluster.observed_claim(claim.id)
        return seen is not None and seen.uid == claim.uid

    async def _may_be_there(self, key: ClaimId, uid: str, *, is_allocated: bool = False) -> bool:
        """Whether a live read shows a claim, or fails: others may delete it, also where its pod is bound after all."""
        try:
            live = await self._writer.read(partial(writes.read_claim, self._client, key))
        except KubeError:
            return True
        return live is not None and live.uid == uid and not (is_allocated and live.allocation is None)

    def _is_there(self, key: PodId, uid: str) -> bool:
        pod = self._cluster.observed_pod(key)
        return pod is not None and pod.uid == uid

    def forget(self, unit: Unit) -> None:
        """Drop what is known of a unit: its commit has ended."""
        for key in unit.stand_ins:
            self._created.pop(key, None)

    async def remove(self, claim: Claim, pod: tuple[PodId, str]) -> bool:
        """
        Delete a claim that an earlier attempt left behind for a pod (key, uid); return whether that is done.

        It stays where a live read shows the pod as bound. An allocation of it that is under way fails. One that is seen
        allocated may be left alone for a while (`inherit`).
        """
        if claim.allocation is not None and self._clock() < self._inherited_until:
            return False
        key = (claim.id,)
        return not await self._rollback.release(key, (pod,), uncertain=key) and await self._delete(claim)

    async def remove_unused(self, claim: Claim, pod: Pod) -> None:
        """Delete a claim without an allocation whose pod is bound with another one, by a live read of the pod."""
        uid, used = await self._writer.read(partial(extended_resource_writes.read_announced, self._client, pod.id))
        if uid == pod.uid and used not in {"", claim.id.name}:
            await self._delete(claim, version=claim.resource_version)

    async def _remove_earlier(self, placement: Placement) -> bool:
        """Remove the claims of a pod that earlier attempts left behind; return whether all of them are removed."""
        pod = placement.pod, placement.pod_uid
        claims = {each.id: each for each in self._cluster.special_claims(*pod)}
        if (left := self._left.get(pod)) is not None:
            claims.setdefault(left.id, left)
        are_removed = [await self.remove(each, pod) for each in claims.values()]
        if all(are_removed):
            self._left.pop(pod, None)
        return all(are_removed)

    async def _make(self, placement: Placement) -> None:
        special = placement.extended_resource_claim
        if special is None:
            return
        send = partial(extended_resource_writes.create_claim, self._client, placement.pod, placement.pod_uid, special)
        self._created[special.id] = await self._writer.write(send)

    async def _announce(self, placement: Placement) -> Reason | None:
        special = placement.extended_resource_claim
        if special is None:
            return None
        claim, pod = self._created[special.id], (placement.pod, placement.pod_uid)
        send = partial(extended_resource_writes.announce_claim, self._client, pod, claim.id, special.mappings)
        try:
            await self._writer.insist(send)
        except NotServedError as error:
            self._unserved = (api_reason(error), self._clock() + _UNSERVED_SECONDS)
            return self._unserved[0]
        except KubeError as error:
            return api_reason(error)
        return None

    async def _delete(self, claim: Claim, *, version: str = "") -> bool:
        send = partial(extended_resource_writes.delete_claim, self._client, claim.id, claim.uid, version=version)
        try:
            await self._writer.write(send)
        except (Conflict, NotFound):  # it is gone, also where another one has its name
            return True
        except KubeError as error:
            _log.warning(logs.UNIT_FAILED, claim=str(claim.id), error=str(error))
            return False
        return True


def _renamed(unit: Unit, made: dict[ClaimId, Claim]) -> Unit:
    """Replace placeholder ids by the claims that were created."""
    placements = [
        msgspec.structs.replace(each, claims=tuple(made[key].id if key in made else key for key in each.claims))
        for each in unit.placements
    ]
    return msgspec.structs.replace(
        unit, placements=tuple(placements), allocations=tuple(_allocations(unit.allocations, made))
    )


def _allocations(allocations: Sequence[ClaimAllocation], made: dict[ClaimId, Claim]) -> Iterable[ClaimAllocation]:
    for each in allocations:
        claim = made.get(each.claim)
        if claim is None:
            yield each
        else:
            yield msgspec.structs.replace(each, claim=claim.id, claim_uid=claim.uid)


_PERIOD_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 10.0
"""A claim that could not be removed is tried again after this time."""


class OrphanedClaims:
    """Looks for such claims in the background."""

    def __init__(
        self,
        cluster: Cluster,
        pending: SchedulingQueue,
        specials: ExtendedResourceClaims,
        metrics: Metrics,
        *,
        scheduler_names: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._pending: Final = pending
        self._specials: Final = specials
        self._scheduler_names: Final = frozenset(scheduler_names)
        self._confined: Final = partial(Confined, metrics, Subsystem.ORPHANED_CLAIMS, passing=(FencedError,))
        self._tried: Final[Cooldown[str]] = Cooldown(_AGAIN_SECONDS, clock)

    async def run(self, pause_seconds: float = 0.0) -> None:
        """Remove them every second, after a pause (`inherit`); end when no write may start any more."""
        await asyncio.sleep(pause_seconds)
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            try:
                with self._confined():
                    await self.remove()
            except FencedError:
                return

    async def remove(self) -> None:
        """Remove those that exist now."""
        for claim, pod in self._cluster.orphaned_special_claims():
            is_ours = pod.scheduler_name in self._scheduler_names and not pod.is_terminal
            if not (is_ours and (pod.node_name or self._pending.state(pod.id)) and self._tried.try_start(claim.uid)):
                continue
            _log.info(logs.ROLLED_BACK, claim=str(claim.id), pod=str(pod.id))
            with self._confined(claim=str(claim.id)):
                if pod.node_name:
                    await self._specials.remove_unused(claim, pod)
                else:
                    await self._specials.remove(claim, (pod.id, pod.uid))
