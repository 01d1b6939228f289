"""
The story of one unit: check, write the claims, compare, wait for devices and volumes that are got ready, bind.

When it goes wrong before a binding, what was written is taken back.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from scheduler.cluster import Cluster, Unit
from scheduler.cluster.unit import Aborted, Bound, LostRace, Outcome, PartlyBound, Refused, Undone
from scheduler.commit.affinity_order import AffinityOrder, Dependencies
from scheduler.commit.binding_conditions import has_conditions
from scheduler.commit.bindings import NodeAllocatableWriter, NotBound, PodBinder
from scheduler.commit.claims import ClaimWriter, NotWritten, OwnWrites, Written
from scheduler.commit.extended_resource_claims import ClaimNotCreated, ExtendedResourceClaims
from scheduler.commit.operations import operations
from scheduler.commit.prebind import DevicesReady, PreBind, WaitFailed, WaitStopped
from scheduler.commit.rollback import Rollback
from scheduler.commit.volumes import PreparedVolume, VolumeBinder
from scheduler.kube.client import Client
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe.unexpected_errors import together
from solver.domain import Claim, ClaimId, GangId, Placement, Reason, ReasonCode


class Commit:
    """Commits units; safe to call for many units at once, which share the writer's slots."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        writer: Writer,
        waits: PreBind,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._writer: Final = writer
        self._waits: Final = waits
        self._clock: Final = clock
        self._is_closed = False
        self._allocating: Final[dict[ClaimId, asyncio.Event]] = {}
        self._gangs: Final[dict[GangId, asyncio.Event]] = {}
        self._companions: Final = AffinityOrder(cluster)
        own = OwnWrites()
        self._claims: Final = ClaimWriter(client, writer, own, cluster.acknowledge)
        self._pods: Final = PodBinder(client, writer)
        self._volumes: Final = VolumeBinder(client, cluster, writer)
        self._burdens: Final = NodeAllocatableWriter(client, writer)
        self.withdrawal: Final = Rollback(client, writer, self._pods, own, cluster.acknowledge)
        self.specials: Final = ExtendedResourceClaims(client, cluster, writer, self.withdrawal)

    def close(self) -> None:
        """Begin with no unit any more; those that have begun are finished, those that wait are left as they are."""
        self._is_closed = True
        self._waits.close()

    def begin(self, units: Sequence[Unit]) -> None:
        """Take the units of a plan, which are assumed: who leans on whom does not depend on when they are committed."""
        self._companions.begin(units)

    def end(self, unit: Unit) -> None:
        """Let those go on who wait for a unit, whatever became of it."""
        self._companions.end(unit)

    async def commit(self, unit: Unit) -> Outcome:
        """
        Make a unit so that has begun; never raise for what the cluster or the API server does.

        The caller has assumed the unit, and confirms or forgets it by the outcome.
        """
        leaned_on = self._companions.leaned_on(unit)
        settled = asyncio.Event()
        before = [self._gangs.get(gang.id) for gang in unit.gangs]
        self._gangs.update((gang.id, settled) for gang in unit.gangs)
        try:
            gangs = [each for each in before if each is not None]
            if reasons := await self._wait_for_others(gangs, leaned_on, unit.namespace):
                return Refused(unit=unit, reasons=reasons)
            return await self._commit_next(unit)
        finally:
            settled.set()
            self._companions.end(unit)
            for gang in unit.gangs:
                if self._gangs.get(gang.id) is settled:
                    del self._gangs[gang.id]

    async def recover(self, unit: Unit) -> Outcome:
        """
        Find out what became of a unit whose commit or settlement a defect has ended: a live read of every pod decides.

        Waits as long as the API server does not answer. What was written for pods that are not bound is taken back.
        """
        try:
            found = await together(self._pods.find(placement) for placement in unit.placements)
            return await self._conclude(unit, unit.claims, found, None)
        except FencedError:
            return Aborted(unit=unit)

    async def _wait_for_others(
        self, gangs: Sequence[asyncio.Event], leaned_on: Dependencies, reader: str
    ) -> tuple[Reason, ...]:
        """Wait for units before, for minutes where these wait for devices: decisions go on meanwhile."""
        if not gangs and not leaned_on:
            return ()
        with self._waits.aside():
            for each in gangs:
                await each.wait()
            return await self._companions.wait(leaned_on, reader)

    async def _commit_next(self, unit: Unit) -> Outcome:
        """Commit a unit when the units of its gangs before it have come to an end."""
        await self._wait_for_allocations(unit)
        own = {each.claim: asyncio.Event() for each in unit.allocations}
        self._allocating.update(own)
        try:
            return await self._commit(unit, own)
        except FencedError:
            return Aborted(unit=unit)
        finally:
            self.specials.forget(unit)
            self._end_allocating(own)

    async def _commit(self, unit: Unit, own: Mapping[ClaimId, asyncio.Event]) -> Outcome:
        """Write the claims and bind in one turn, or in two where devices have to be got ready in between."""
        async with self._writer.turns:
            if self._is_closed:
                return Aborted(unit=unit)
            started = self._clock()
            if reasons := self._cluster.check(unit):
                return Refused(unit=unit, reasons=reasons)
            made = await self.specials.make(unit)
            if isinstance(made, ClaimNotCreated):
                return Undone(unit=unit, reasons=(made.reason,))
            unit = made
            step = await self._write(unit, own)
            if not isinstance(step, _Step):
                return step
            if not step.volumes and not any(has_conditions(claim) for claim in step.claims):
                return await self._bind(unit, step, started)
        waiting = self._clock()
        end = await self._waits.until_ready(unit, step.claims, step.volumes)
        async with self._writer.turns:
            match end:
                case DevicesReady():
                    started += self._clock() - waiting
                    return await self._overtaken(unit, step) or await self._bind(unit, step, started)
                case WaitFailed(reason=reason, claims=claims):
                    await self._volumes.take_back(step.volumes, is_begun=True)
                    kept = await self._take_back(unit, step.written, unit.placements, claims)
                    return Undone(unit=unit, reasons=(reason,), kept=kept)
                case WaitStopped():
                    return Aborted(unit=unit)
                case _:
                    assert_never(end)

    async def _write(self, unit: Unit, own: Mapping[ClaimId, asyncio.Event]) -> "Outcome | _Step":
        """Write the claims, up to where the pods can be bound."""
        plan = operations(unit, self.specials.find, self._cluster.seen_pod)
        if isinstance(plan, Reason):
            await self.specials.drop(unit.placements, ())
            return Refused(unit=unit, reasons=self._cluster.check_gangs(unit) or (plan,))
        written = await together(self._claims.write(write) for write in plan.claims)
        self._end_allocating(own)
        failed = [each for each in written if isinstance(each, NotWritten)]
        if failed:
            kept = await self._take_back(unit, written, unit.placements)
            # The claims of a member that is gone are gone too: that it is missing is what its gang waits for.
            reasons = self._cluster.check_gangs(unit) or tuple(each.reason for each in failed)
            return Undone(unit=unit, reasons=reasons, kept=kept)
        step = _Step(written=written, bindings=plan.bindings)
        return await self._overtaken(unit, step) or await self._prepare(unit, step)

    async def _prepare(self, unit: Unit, step: "_Step") -> "Undone | _Step":
        """Write what volumes need, which is harder to take back than claims."""
        volumes = await self._volumes.prepare(unit.placements)
        if isinstance(volumes, Reason):
            kept = await self._take_back(unit, step.written, unit.placements)
            return Undone(unit=unit, reasons=(volumes,), kept=kept)
        if (refusal := await self._burdens.announce(unit.placements)) is not None:
            await self._volumes.take_back(volumes, is_begun=False)
            kept = await self._take_back(unit, step.written, unit.placements)
            return Undone(unit=unit, reasons=(refusal,), kept=kept)
        return replace(step, volumes=volumes)

    async def _overtaken(self, unit: Unit, step: "_Step") -> LostRace | Undone | None:
        """Take everything back where others have allocated the same by now, or where too few of a gang are left."""
        if reasons := self._cluster.check_gangs(unit):
            return Undone(unit=unit, reasons=reasons, kept=await self._take_back(unit, step.written, unit.placements))
        duplicates = self._cluster.compare_after_write(unit)
        if not duplicates:
            return None
        kept = await self._take_back(unit, step.written, unit.placements)
        reasons = tuple(Reason(code=ReasonCode.CONFLICT, message=each.message) for each in duplicates)
        return LostRace(unit=unit, devices=tuple(each.device for each in duplicates), reasons=reasons, kept=kept)

    async def _bind(self, unit: Unit, step: "_Step", started: float) -> Outcome:
        if reasons := await self.specials.announce(unit):
            kept = await self._take_back(unit, step.written, unit.placements)
            return Undone(unit=unit, reasons=reasons, kept=kept)
        bindings = await together(self._pods.bind(placement) for placement in step.bindings)
        return await self._conclude(unit, tuple(_touched(step.written)), bindings, started)

    async def _wait_for_allocations(self, unit: Unit) -> None:
        """Wait until claims that an earlier unit still allocates, and this one only reserves, are written."""
        new = {each.claim for each in unit.allocations}
        for claim in unit.claims:
            if claim not in new and claim in self._allocating:
                await self._allocating[claim].wait()

    def _end_allocating(self, own: Mapping[ClaimId, asyncio.Event]) -> None:
        for claim, written in own.items():
            written.set()
            if self._allocating.get(claim) is written:
                del self._allocating[claim]

    async def _conclude(
        self,
        unit: Unit,
        touched: Sequence[ClaimId],
        bindings: Sequence[Placement | NotBound],
        started: float | None,
    ) -> Outcome:
        """Say what bindings came to; take back what was written (claims that are `touched`) for pods given up."""
        unbound = [each for each in bindings if isinstance(each, NotBound)]
        if not unbound:
            return Bound(unit=unit, seconds=None if started is None else self._clock() - started)
        bound = tuple(each for each in bindings if isinstance(each, Placement))
        given_up = [each for each in unbound if not (bound and _is_held(unit, each))]
        kept = await self._take_back_claims(unit, touched, [each.placement for each in given_up])
        if not bound:
            return Undone(unit=unit, reasons=tuple(each.reason for each in unbound), kept=kept)
        pairs = tuple((each.placement, each.reason) for each in unbound)
        return PartlyBound(unit=unit, bound=bound, unbound=pairs, kept=kept)

    async def _take_back(
        self,
        unit: Unit,
        written: Sequence[Written | NotWritten],
        placements: Sequence[Placement],
        failed: Sequence[ClaimId] = (),
    ) -> tuple[ClaimId, ...]:
        """
        Take back what was written for some of the unit's pods; give the claims that stay reserved.

        Allocations go that the unit made, and those of `failed` claims whoever made them, unless others use them.
        """
        return await self._take_back_claims(unit, tuple(_touched(written)), placements, failed)

    async def _take_back_claims(
        self, unit: Unit, claims: Sequence[ClaimId], placements: Sequence[Placement], failed: Sequence[ClaimId] = ()
    ) -> tuple[ClaimId, ...]:
        mine = {claim for placement in placements for claim in placement.claims}
        allocated = {*(each.claim for each in unit.allocations), *failed}
        kept = await self.withdrawal.take_back(
            tuple(claim for claim in claims if claim in mine),
            tuple((each.pod, each.pod_uid) for each in placements),
            allocated,
            groups=unit.idle_groups({each.pod for each in placements}, self._cluster.gang_members),
        )
        await self.specials.drop(placements, kept)
        await self._burdens.withdraw(each for each in placements if not set(each.claims) & set(kept))
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Claims that are written, volumes that are under way, and the bindings that are next."""

    written: tuple[Written | NotWritten, ...]
    bindings: tuple[Placement, ...]
    volumes: tuple[PreparedVolume, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims as the server answered."""
        return tuple(each.claim for each in self.written if isinstance(each, Written))


def _is_held(unit: Unit, unbound: NotBound) -> bool:
    """Whether a pod keeps its claims: of a gang that runs in part, while nothing speaks against the pod itself."""
    return bool(unit.gangs) and unbound.reason.code is ReasonCode.API_ERROR


def _touched(written: Iterable[Written | NotWritten]) -> Iterable[ClaimId]:
    """Give the claims that were written, or may have been."""
    for each in written:
        match each:
            case Written(write=write):
                yield write.claim.id
            case NotWritten(write=write, may_have_acted=may_have_acted):
                if may_have_acted:
                    yield write.claim.id
            case _:
                assert_never(each)
