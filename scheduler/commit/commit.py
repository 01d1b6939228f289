"""
The commit protocol of a unit: what is written in which order, and what happens when a write fails.

    1  wait      for earlier units: of the same gang, of pods that its affinity needs, of claims that it shares
    2  check     against the cache, whether the placement still holds                                     → Refused
    3  create    claims for extended resources (KEP-5004)                                                  → Undone
    4  claims    finalizer; allocation and reservedFor in one status write                                 → Undone
    5  compare   with the allocations seen by now: does another claim hold a device of the unit's claims?  → LostRace
    6  volumes   claimRef or selected node; then node-allocatable resources of claims (KEP-5517)           → Undone
    7  prebind   wait for binding conditions (KEP-5007) and volumes, without a unit slot; compare again    → Undone
    8  announce  the claims for extended resources in the pods' statuses                                   → Undone
    9  bind      every pod → Bound, or PartlyBound where only some pods of a gang could be

Steps 3 to 8 are revocable. Where one fails, everything that the unit has written is rolled back and its pods go back to
the queue: volumes that are not bound yet, then claims, each guarded by live reads (`rollback`), then what was written
into the pods. A binding is irrevocable: it is retried until it is known, and never undone.

A write whose answer is lost may have acted, and a live read decides: of the claim for claim writes (`claims`), of the
pod for a binding (`bindings`). Until then the unit stays assumed, so that nothing it may hold is given to another pod.
Where an exception ends the protocol, `recover` reads every pod of the unit. Where the fence closes (the lease may be
lost) everything stays as it is (`Aborted`), and the next leader reads it from the API.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from scheduler.change import is_older
from scheduler.cluster import Cluster, Transition, Unit
from scheduler.cluster.assume_cache import is_same
from scheduler.cluster.unit import Aborted, Bound, LostRace, Outcome, PartlyBound, Refused, Undone
from scheduler.commit.affinity.affinity_order import AffinityOrder, Dependencies
from scheduler.commit.binding_conditions import has_conditions
from scheduler.commit.bindings import NodeAllocatableWriter, NotBound, PodBinder
from scheduler.commit.claims import ClaimWriter, NotWritten, Written, operations
from scheduler.commit.extended_resource_claims import ClaimNotCreated, ExtendedResourceClaims
from scheduler.commit.live_pod_groups import LivePodGroups
from scheduler.commit.own_writes import OwnWrites
from scheduler.commit.prebind import DevicesReady, PreBind, WaitFailed, WaitStopped
from scheduler.commit.rollback import Rollback
from scheduler.commit.volumes import PreparedVolume, VolumeBinder
from scheduler.kube.client import Client
from scheduler.kube.writer import FencedError, Writer
from scheduler.observe.unexpected_errors import together
from solver.domain import Claim, ClaimId, GangId, Placement, Reason, ReasonCode


class Commit:
    """
    Commits units, many at a time; they share the writer's unit slots.

    `wake` gets the transitions of devices that an answer of the API server shows to be free. `pod_groups` is the path
    of PodGroups on the API server, empty where it has none.
    """

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        writer: Writer,
        prebind: PreBind,
        wake: Callable[[Sequence[Transition]], None],
        *,
        pod_groups: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster: Final = cluster
        self._writer: Final = writer
        self._prebind: Final = prebind
        self._wake: Final = wake
        self._clock: Final = clock
        self._is_closed = False
        self._allocating: Final[dict[ClaimId, asyncio.Event]] = {}
        self._gangs: Final[dict[GangId, asyncio.Event]] = {}
        self._affinity: Final = AffinityOrder(cluster)
        own_writes = OwnWrites()
        self.claims: Final = ClaimWriter(client, writer, own_writes, self._acknowledge)
        self._pods: Final = PodBinder(client, writer, clock)
        self._volumes: Final = VolumeBinder(client, cluster, writer)
        self._node_allocatable: Final = NodeAllocatableWriter(client, writer)
        self.rollback: Final = Rollback(client, writer, self._pods, own_writes, self._acknowledge)
        self.extended_claims: Final = ExtendedResourceClaims(client, cluster, writer, self.rollback)
        self._pod_groups: Final = LivePodGroups(client, writer, pod_groups)

    def _acknowledge(self, claim: Claim) -> None:
        self._wake(self._cluster.acknowledge(claim))

    def close(self) -> None:
        """Begin no unit any more. Units that write are finished; units that wait stay as they are in the API."""
        self._is_closed = True
        self._prebind.close()
        self.extended_claims.close()

    async def until_shown(self, unit: Unit, placements: Iterable[Placement]) -> None:
        """Wait until the watch has shown the claims for extended resources of pods that were bound."""
        with self._prebind.counted():
            await together(self.extended_claims.until_shown(unit, each) for each in placements)

    async def begin(self, units: Sequence[Unit]) -> None:
        """Order the units of a plan, which are assumed, by the affinity of their pods (`affinity_order`)."""
        await self._affinity.begin(units)

    def end(self, unit: Unit) -> None:
        """Wake the units that depend on a unit, whatever its outcome."""
        self._affinity.end(unit)

    async def commit(self, unit: Unit) -> Outcome:
        """
        Commit a unit that has begun; never raises for what the cluster or the API server does.

        The caller has assumed the unit, and confirms or forgets it by the outcome.
        """
        dependencies = self._affinity.dependencies(unit)
        settled = asyncio.Event()
        before = [self._gangs.get(gang.id) for gang in unit.gangs]
        self._gangs.update((gang.id, settled) for gang in unit.gangs)
        try:
            gangs = [each for each in before if each is not None]
            if reasons := await self._wait_for_others(gangs, dependencies, unit.namespace):
                return Refused(unit=unit, reasons=reasons)
            return await self._commit_next(unit)
        finally:
            settled.set()
            self._affinity.end(unit)
            for gang in unit.gangs:
                if self._gangs.get(gang.id) is settled:
                    del self._gangs[gang.id]

    async def recover(self, unit: Unit) -> Outcome:
        """
        Find the outcome of a unit whose commit or settlement an exception has ended, by a live read of every pod.

        Waits until the API server answers. What was written for pods that are not bound is rolled back.
        """
        try:
            unit = self.extended_claims.renamed(unit)
            found = await together(self._pods.find(placement) for placement in unit.placements)
            outcome = await self._conclude(unit, unit.claims, found, None, uncertain=unit.claims)
            await self._until_claims_known(outcome)
        except FencedError:
            outcome = Aborted(unit=unit)
        self.extended_claims.forget(unit)
        return outcome

    async def _wait_for_others(
        self, gangs: Sequence[asyncio.Event], dependencies: Dependencies, reader: str
    ) -> tuple[Reason, ...]:
        """Wait for the units before it, for minutes where these wait for devices; decisions go on meanwhile."""
        if not gangs and not dependencies:
            return ()
        with self._prebind.counted():
            for each in gangs:
                await each.wait()
            return await self._affinity.wait(dependencies, reader)

    async def _commit_next(self, unit: Unit) -> Outcome:
        """Commit a unit; the units that it had to wait for have ended."""
        await self._wait_for_allocations(unit)
        allocating = {each.claim: asyncio.Event() for each in unit.allocations}
        self._allocating.update(allocating)
        try:
            outcome = await self._commit(unit, allocating)
            await self._until_claims_known(outcome)
        except FencedError:
            outcome = Aborted(unit=unit)
        finally:
            self._end_allocating(allocating)
        self.extended_claims.forget(unit)
        return outcome

    async def _until_claims_known(self, outcome: Outcome) -> None:
        """Keep a unit assumed whose claims for extended resources may hold devices that no watch has shown."""
        match outcome:
            case Refused(unit=unit) | Undone(unit=unit) | LostRace(unit=unit):
                await self.extended_claims.until_known(unit.placements)
            case PartlyBound(unbound=unbound):
                await self.extended_claims.until_known(placement for placement, _ in unbound)
            case Bound() | Aborted():
                pass
            case _:
                assert_never(outcome)

    async def _commit(self, unit: Unit, allocating: Mapping[ClaimId, asyncio.Event]) -> Outcome:
        """Do it all in one unit slot, or in two where devices or volumes have to get ready in between."""
        async with self._writer.unit_slots:
            await self._writer.until_fresh()
            if self._is_closed:
                return Aborted(unit=unit)
            started = self._clock()
            if reasons := self._cluster.check(unit):
                return Refused(unit=unit, reasons=reasons)
            made = await self.extended_claims.make(unit)
            if isinstance(made, ClaimNotCreated):
                return Undone(unit=unit, reasons=(made.reason,))
            unit = made
            step = await self._write(unit, allocating)
            if not isinstance(step, _Step):
                return step
            if not step.volumes and not any(has_conditions(claim) for claim in step.claims):
                return await self._bind(unit, step, started)
        waiting = self._clock()
        end = await self._prebind.until_ready(unit, step.claims, step.volumes)
        async with self._writer.unit_slots:
            match end:
                case DevicesReady():
                    started += self._clock() - waiting
                    return await self._compare(unit, step) or await self._bind(unit, step, started)
                case WaitFailed(reason=reason):
                    await self._volumes.roll_back(step.volumes, is_begun=True)
                    unreleased = await self._roll_back(unit, step.written)
                    return Undone(unit=unit, reasons=(reason,), unreleased=unreleased)
                case WaitStopped():
                    return Aborted(unit=unit)
                case _:
                    assert_never(end)

    async def _write(self, unit: Unit, allocating: Mapping[ClaimId, asyncio.Event]) -> "Outcome | _Step":
        """Steps 4 to 6."""
        plan = operations(unit, self.extended_claims.find, self._cluster.group_uid, self._cluster.claim)
        if isinstance(plan, Reason):
            await self.extended_claims.drop(unit.placements, ())
            return Refused(unit=unit, reasons=self._cluster.check_gangs(unit) or (plan,))
        written = await together(self.claims.write(write) for write in plan.claims)
        self._end_allocating(allocating)
        failed = [each for each in written if isinstance(each, NotWritten)]
        if failed:
            unreleased = await self._roll_back(unit, written)
            # The claims of a deleted gang member are deleted too. The gang waits for the member: that is the reason.
            reasons = self._cluster.check_gangs(unit) or tuple(each.reason for each in failed)
            return Undone(unit=unit, reasons=reasons, unreleased=unreleased)
        step = _Step(written=written, bindings=plan.bindings)
        return await self._compare(unit, step) or await self._prepare(unit, step)

    async def _prepare(self, unit: Unit, step: "_Step") -> "Undone | _Step":
        """Write volume bindings and node-allocatable resources, which are harder to roll back than claims."""
        volumes = await self._volumes.prepare(unit.placements)
        if isinstance(volumes, Reason):
            unreleased = await self._roll_back(unit, step.written)
            return Undone(unit=unit, reasons=(volumes,), unreleased=unreleased)
        if (refusal := await self._node_allocatable.write(unit.placements)) is not None:
            await self._volumes.roll_back(volumes, is_begun=False)
            unreleased = await self._roll_back(unit, step.written)
            return Undone(unit=unit, reasons=(refusal,), unreleased=unreleased)
        return replace(step, volumes=volumes)

    async def _compare(self, unit: Unit, step: "_Step") -> LostRace | Undone | None:
        """
        Roll back where another claim holds the same device by now, or where too few members of a gang are left.

        So it is where another client has taken an allocation back: the pod would wait on its node for ever.
        """
        if reasons := self._objections(unit, step):
            return Undone(unit=unit, reasons=reasons, unreleased=await self._roll_back(unit, step.written))
        duplicates = self._cluster.compare_after_write(unit)
        if not duplicates:
            return None
        unreleased = await self._roll_back(unit, step.written)
        reasons = tuple(Reason(code=ReasonCode.CONFLICT, message=each.message) for each in duplicates)
        return LostRace(
            unit=unit, devices=tuple(each.device for each in duplicates), reasons=reasons, unreleased=unreleased
        )

    def _objections(self, unit: Unit, step: "_Step") -> tuple[Reason, ...]:
        """Return which gangs, PodGroups and written claims are gone or changed; another of the name is not the same."""
        return self._cluster.check_gangs(unit) or tuple(self._lost(step.claims))

    def _lost(self, claims: Iterable[Claim]) -> Iterable[Reason]:
        """Find the claims that are not any more what the API server has answered; `claims` are the answers."""
        for claim in claims:
            seen = self._cluster.observed_claim(claim.id)
            if seen is None:
                if not claim.is_extended_resource_claim:  # else the watch may not have shown it yet
                    yield Reason(code=ReasonCode.CLAIM_MISSING, message=f"claim {claim.id} was deleted meanwhile")
                continue
            if not is_older(claim.resource_version, seen.resource_version) or claim.allocation is None:
                continue
            if seen.uid != claim.uid:
                message = f"claim {claim.id} was deleted and created again meanwhile"
                yield Reason(code=ReasonCode.CONFLICT, message=message)
            elif seen.allocation is None or not is_same(claim.allocation, seen.allocation):
                message = f"claim {claim.id} was deallocated by another client meanwhile"
                yield Reason(code=ReasonCode.CONFLICT, message=message)

    async def _bind(self, unit: Unit, step: "_Step", started: float) -> Outcome:
        reasons = await self.extended_claims.announce(unit) or await self._pod_groups.objections(unit, step.claims)
        if reasons := reasons or self._objections(unit, step):
            unreleased = await self._roll_back(unit, step.written)
            return Undone(unit=unit, reasons=reasons, unreleased=unreleased)
        bindings = await together(self._pods.bind(placement) for placement in step.bindings)
        return await self._conclude(unit, tuple(_touched(step.written)), bindings, started)

    async def _wait_for_allocations(self, unit: Unit) -> None:
        """Wait for claims that an earlier unit allocates and this one only reserves."""
        new = {each.claim for each in unit.allocations}
        for claim in unit.claims:
            if claim not in new and claim in self._allocating:
                await self._allocating[claim].wait()

    def _end_allocating(self, allocating: Mapping[ClaimId, asyncio.Event]) -> None:
        for claim, written in allocating.items():
            written.set()
            if self._allocating.get(claim) is written:
                del self._allocating[claim]

    async def _conclude(
        self,
        unit: Unit,
        touched: Sequence[ClaimId],
        bindings: Sequence[Placement | NotBound],
        started: float | None,
        *,
        uncertain: Collection[ClaimId] = (),
    ) -> Outcome:
        """Return the outcome of the bindings; roll the `touched` claims back for pods that were given up."""
        unbound = [each for each in bindings if isinstance(each, NotBound)]
        if not unbound:
            return Bound(unit=unit, seconds=None if started is None else self._clock() - started)
        bound = tuple(each for each in bindings if isinstance(each, Placement))
        given_up = [each for each in unbound if not (bound and _keeps_claims(unit, each))]
        given_up_placements = [each.placement for each in given_up]
        unreleased = await self._roll_back_claims(unit, touched, given_up_placements, uncertain=uncertain)
        if not bound:
            return Undone(unit=unit, reasons=tuple(each.reason for each in unbound), unreleased=unreleased)
        pairs = tuple((each.placement, each.reason) for each in unbound)
        return PartlyBound(unit=unit, bound=bound, unbound=pairs, unreleased=unreleased)

    async def _roll_back(self, unit: Unit, written: Sequence[Written | NotWritten]) -> tuple[ClaimId, ...]:
        """Roll back what was written for all pods of the unit; see `_roll_back_claims`."""
        lost = {each.write.claim.id for each in written if isinstance(each, NotWritten) and each.may_have_acted}
        touched = tuple(_touched(written))
        return await self._roll_back_claims(unit, touched, unit.placements, uncertain=lost)

    async def _roll_back_claims(
        self,
        unit: Unit,
        claims: Sequence[ClaimId],
        placements: Sequence[Placement],
        *,
        uncertain: Collection[ClaimId] = (),
    ) -> tuple[ClaimId, ...]:
        """
        Roll back what was written for some pods of the unit; return the claims that may stay reserved for them.

        Allocations go with their last consumer. A write of the `uncertain` claims may have acted, or act yet.
        """
        claimed = {claim for placement in placements for claim in placement.claims}
        unreleased = await self.rollback.release(
            tuple(claim for claim in claims if claim in claimed),
            tuple((each.pod, each.pod_uid) for each in placements),
            groups=unit.idle_groups({each.pod for each in placements}, self._cluster.gang_members),
            uncertain=uncertain,
        )
        await self.extended_claims.drop(placements, unreleased)
        kept = frozenset(unreleased)
        await self._node_allocatable.remove(each for each in placements if kept.isdisjoint(each.claims))
        return unreleased


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What steps 4 to 6 have written, and the bindings that follow."""

    written: tuple[Written | NotWritten, ...]
    bindings: tuple[Placement, ...]
    volumes: tuple[PreparedVolume, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims as the server answered."""
        return tuple(each.claim for each in self.written if isinstance(each, Written))


def _keeps_claims(unit: Unit, unbound: NotBound) -> bool:
    """Whether an unbound pod of a partly bound gang keeps its claims: the API server failed, not the placement."""
    return bool(unit.gangs) and unbound.reason.code is ReasonCode.API_ERROR


def _touched(written: Iterable[Written | NotWritten]) -> Iterable[ClaimId]:
    """Return the claims that were or may have been written."""
    for each in written:
        match each:
            case Written(write=write):
                yield write.claim.id
            case NotWritten(write=write, may_have_acted=may_have_acted):
                if may_have_acted:
                    yield write.claim.id
            case _:
                assert_never(each)
