"""Volumes that wait for their first consumer: kept for their claims, or made on the node, before the pods are bound.

A volume that exists is kept for its claim (spec.claimRef) and bound by the volume controller; one that does not is made
by a provisioner once the claim names the node. The first can be taken back until it is bound. The second is for the
provisioner to take back: it removes the node from the claim where it cannot make the volume there.

Whether the volumes of a placement are bound, as the watches show it. Pure apart from the mirror that it asks.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from scheduler.change import is_at_least
from scheduler.cluster import Cluster
from scheduler.commit.claims import api_reason
from scheduler.kube import volume_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.writer import Writer
from scheduler.observe import logs
from solver import matches_node_selector
from solver.domain import (
    Node,
    Placement,
    Reason,
    ReasonCode,
    Volume,
    VolumeBinding,
    VolumeClaim,
    VolumeClaimId,
    wording,
)

_TRIES: Final = 5

_log: Final = logs.logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """
    A claim for which all is written that its volume needs.

    `stored` is the volume that is kept, or the claim that names its node, as the server answered; `is_ours` says that
    this commit has written it.
    """

    placement: Placement
    binding: VolumeBinding
    stored: Volume | VolumeClaim
    is_ours: bool = False


class VolumeBinder:
    """Writes what volumes of placements need, and takes it back."""

    def __init__(self, client: Client, cluster: Cluster, writer: Writer) -> None:
        self._client: Final = client
        self._cluster: Final = cluster
        self._writer: Final = writer

    async def prepare(self, placements: Iterable[Placement]) -> tuple[Prepared, ...] | Reason:
        """
        Write what the volumes of some placements need; take it all back and give the reason where one cannot be.

        A claim that several of them share is written once, and waited for by each.
        Raise `GateClosedError` when writing is not allowed any more.
        """
        users: defaultdict[VolumeClaimId, list[tuple[Placement, VolumeBinding]]] = defaultdict(list)
        for placement in placements:
            for binding in placement.volumes:
                users[binding.claim].append((placement, binding))
        if not users:
            return ()
        results = await asyncio.gather(*(self._prepare(*each[0]) for each in users.values()))
        failed = [each for each in results if isinstance(each, Reason)]
        written = tuple(each for each in results if isinstance(each, Prepared))
        shared = (
            Prepared(placement=placement, binding=binding, stored=each.stored)
            for each in written
            for placement, binding in users[each.binding.claim][1:]
        )
        prepared = (*written, *shared)
        if not failed:
            return prepared
        await self.take_back(prepared, is_begun=False)
        return failed[0]

    async def take_back(self, prepared: Sequence[Prepared], *, is_begun: bool) -> None:
        """
        Take back what this commit has written and nobody has acted on, nor counts on for a pod that shares the claim.

        With `is_begun` a node that a claim names stays: its volume may be half made there. What cannot be taken back
        does no harm: the pod is placed where its volume is the next time.
        """
        own = {each.placement.pod_uid for each in prepared}
        ours = [
            each
            for each in prepared
            if each.is_ours
            and not (is_begun and isinstance(each.stored, VolumeClaim))
            and not self._cluster.is_volume_assumed_by_others(each.binding, own)
        ]
        await asyncio.gather(*(self._take_back(each) for each in ours))

    async def _prepare(self, placement: Placement, binding: VolumeBinding) -> Prepared | Reason:
        claim = self._cluster.seen_volume_claim(binding.claim)
        volume = self._cluster.seen_volume(binding.volume) if binding.volume else None
        was_written = False
        for attempt in range(_TRIES):
            done = _judge(placement, binding, claim, volume)
            if isinstance(done, Prepared):
                return replace(done, is_ours=was_written)
            if done is not None:
                return done
            try:
                stored = await self._write(binding.made_on(placement.node), claim, volume)
            except KubeError as error:
                if not (error.may_have_acted or isinstance(error, Conflict | NotFound)):
                    return api_reason(error)
                was_written = was_written or error.may_have_acted
            else:
                return Prepared(placement=placement, binding=binding, stored=stored, is_ours=True)
            await self._writer.pause(attempt)
            try:
                claim = await self._read_claim(binding)
                volume = await self._read_volume(binding.volume) if binding.volume else None
            except KubeError as error:
                return api_reason(error)
        return _conflict(f"volume claim {binding.claim} changed under each of {_TRIES} attempts to write it")

    async def _write(self, node: str, claim: VolumeClaim | None, volume: Volume | None) -> Volume | VolumeClaim:
        if claim is None:
            raise AssertionError("a claim that is not there was to be written")
        if volume is None:
            return await self._writer.write(
                lambda seconds: volume_writes.select_node(self._client, claim, node, timeout_seconds=seconds)
            )
        return await self._writer.write(
            lambda seconds: volume_writes.keep_volume(self._client, volume, claim, timeout_seconds=seconds)
        )

    async def _take_back(self, prepared: Prepared) -> None:
        """One try on a live read: whoever has changed the object meanwhile has begun to act on it."""
        binding = prepared.binding
        try:
            claim = await self._read_claim(binding)
            if claim is not None and (claim.volume or claim.uid != binding.claim_uid):
                return
            if isinstance(prepared.stored, Volume):
                volume = await self._read_volume(binding.volume)
                if volume is None or volume.phase == "Bound" or volume.claim_uid != binding.claim_uid:
                    return
                await self._writer.write(
                    lambda seconds: volume_writes.give_volume_free(self._client, volume, timeout_seconds=seconds)
                )
            elif claim is not None and claim.selected_node == binding.made_on(prepared.placement.node):
                await self._writer.write(
                    lambda seconds: volume_writes.select_node(self._client, claim, "", timeout_seconds=seconds)
                )
        except KubeError as error:
            _log.warning(logs.UNIT_FAILED, claim=str(binding.claim), error=str(error))

    async def _read_claim(self, binding: VolumeBinding) -> VolumeClaim | None:
        return await self._writer.read(
            lambda seconds: volume_writes.read_volume_claim(self._client, binding.claim, timeout_seconds=seconds)
        )

    async def _read_volume(self, name: str) -> Volume | None:
        return await self._writer.read(
            lambda seconds: volume_writes.read_volume(self._client, name, timeout_seconds=seconds)
        )


def _judge(
    placement: Placement, binding: VolumeBinding, claim: VolumeClaim | None, volume: Volume | None
) -> Prepared | Reason | None:
    """Say what a state of claim and volume means for a write: done, not to be done, or None: to be done."""
    if claim is None or claim.uid != binding.claim_uid:
        return _conflict(f"volume claim {binding.claim} was deleted meanwhile")
    if claim.is_deleting:
        return _conflict(f"volume claim {binding.claim} is being deleted")
    outcome = _judge_kept(binding, claim, volume) if binding.volume else _judge_made(placement, binding, claim)
    if isinstance(outcome, Volume | VolumeClaim):
        return Prepared(placement=placement, binding=binding, stored=outcome)
    return outcome


def _judge_made(placement: Placement, binding: VolumeBinding, claim: VolumeClaim) -> VolumeClaim | Reason | None:
    if claim.volume or claim.selected_node == binding.made_on(placement.node):
        return claim
    if claim.selected_node is None:
        return None
    return _conflict(f"the volume of claim {binding.claim} is made on node {claim.selected_node}")


def _judge_kept(binding: VolumeBinding, claim: VolumeClaim, volume: Volume | None) -> Volume | Reason | None:
    if volume is None or volume.uid != binding.volume_uid:
        return _conflict(f"volume {binding.volume} was deleted meanwhile")
    if claim.volume not in {"", volume.name}:
        return _conflict(f"volume claim {binding.claim} was bound to volume {claim.volume} meanwhile")
    if volume.claim is not None and not volume.is_bound_to(claim):
        whom = wording.seen(volume.claim, binding.claim.namespace)
        return _conflict(f"volume {binding.volume} was taken for {whom} meanwhile")
    return volume if volume.claim_uid else None


def _conflict(message: str) -> Reason:
    return Reason(code=ReasonCode.CONFLICT, message=message)


class AwaitedVolume(NamedTuple):
    """A claim whose volume is not bound yet."""

    pod_uid: str
    claim: VolumeClaimId

    def __str__(self) -> str:
        return f"the volume of claim {self.claim.name}"


class VolumeReadiness(NamedTuple):
    """Claims that are awaited, and what says that one will not be bound for the pod; empty where nothing does."""

    awaited: tuple[AwaitedVolume, ...]
    problem: str = ""


def readiness(cluster: Cluster, prepared: Sequence[Prepared]) -> VolumeReadiness:
    """Judge every claim; a state before the one that was written counts for nothing."""
    awaited = []
    for each in prepared:
        outcome = _problem(cluster, each)
        if outcome is None:
            awaited.append(AwaitedVolume(each.placement.pod_uid, each.binding.claim))
        elif outcome:
            return VolumeReadiness((), f"binding volumes: {outcome}")
    return VolumeReadiness(tuple(awaited))


def _problem(cluster: Cluster, each: Prepared) -> str | None:
    """Give what is wrong, None while the claim is to be waited for, and nothing where it is bound."""
    binding, node = each.binding, cluster.node(each.placement.node)
    claim = cluster.seen_volume_claim(binding.claim)
    if claim is None or claim.uid != binding.claim_uid:
        return f"volume claim {binding.claim} was deleted meanwhile"
    volume = cluster.seen_volume(claim.volume) if claim.volume else None
    if volume is not None and node is not None and not _is_allowed(volume, node):
        return f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
    if claim.is_bound:
        return "" if volume is not None else None
    if isinstance(each.stored, VolumeClaim):
        if _is_current(claim, each) and claim.selected_node != binding.made_on(each.placement.node):
            return f'provisioning failed for PVC "{binding.claim.name}"'
        return None
    kept = cluster.seen_volume(binding.volume)
    if kept is None:
        return f"volume {binding.volume} was deleted meanwhile"
    if _is_current(kept, each) and not (kept.claim_uid and kept.is_bound_to(claim)):
        return f'ClaimRef got reset for pv "{binding.volume}"'
    return None


def _is_allowed(volume: Volume, node: Node) -> bool:
    if volume.node_affinity is None:
        return True
    return matches_node_selector(volume.node_affinity, "", dict(node.labels))


def _is_current(seen: Volume | VolumeClaim, each: Prepared) -> bool:
    """Whether the watch shows what was stored, or a later state."""
    return is_at_least(seen.resource_version, each.stored.resource_version)
