"""
Volume binding for claims that wait for their first consumer (WaitForFirstConsumer), before the pod is bound.

An existing volume gets spec.claimRef, and the volume controller binds it; this can be rolled back until it is bound. A
volume to be provisioned needs the annotation selected-node on its claim; a provisioner that cannot create the volume
there removes the annotation itself. `volume_readiness` says from the watches whether volumes are bound.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from scheduler.change import is_at_least
from scheduler.cluster import Cluster
from scheduler.commit.claims import api_reason
from scheduler.kube import volume_writes
from scheduler.kube.client import Client
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.writer import Writer
from scheduler.observe import logs
from scheduler.observe.unexpected_errors import together
from solver import matches_node_selector
from solver.domain import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Placement,
    Reason,
    ReasonCode,
    VolumeBinding,
    VolumeClaimId,
    wording,
)

_TRIES: Final = 5

_log: Final = logs.logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedVolume:
    """
    A claim for which everything is written that its volume needs.

    `stored` is the API server's answer: the volume with its claimRef, or the claim with its selected node. `is_ours`
    says that this commit has written it.
    """

    placement: Placement
    binding: VolumeBinding
    stored: PersistentVolume | PersistentVolumeClaim
    is_ours: bool = False


class VolumeBinder:
    """Writes what the volumes of placements need, and rolls it back."""

    def __init__(self, client: Client, cluster: Cluster, writer: Writer) -> None:
        self._client: Final = client
        self._cluster: Final = cluster
        self._writer: Final = writer

    async def prepare(self, placements: Iterable[Placement]) -> tuple[PreparedVolume, ...] | Reason:
        """
        Write what the volumes of some placements need, or roll it all back and return the reason.

        A claim that several placements share is written once, and each waits for it. Raise `FencedError` where no write
        may start any more.
        """
        users: defaultdict[VolumeClaimId, list[tuple[Placement, VolumeBinding]]] = defaultdict(list)
        for placement in placements:
            for binding in placement.volumes:
                users[binding.claim].append((placement, binding))
        if not users:
            return ()
        results = await together(self._prepare(*each[0]) for each in users.values())
        failed = [each for each in results if isinstance(each, Reason)]
        written = tuple(each for each in results if isinstance(each, PreparedVolume))
        shared = (
            PreparedVolume(placement=placement, binding=binding, stored=each.stored)
            for each in written
            for placement, binding in users[each.binding.claim][1:]
        )
        prepared = (*written, *shared)
        if not failed:
            return prepared
        await self.roll_back(prepared, is_begun=False)
        return failed[0]

    async def roll_back(self, prepared: Sequence[PreparedVolume], *, is_begun: bool) -> None:
        """
        Roll back what this commit has written, unless a controller has acted on it or another pod needs it.

        With `is_begun` a selected node stays: provisioning may have begun there. What cannot be rolled back does no
        harm: the next attempt places the pod where its volume is.
        """
        own = {each.placement.pod_uid for each in prepared}
        ours = [
            each
            for each in prepared
            if each.is_ours
            and not (is_begun and isinstance(each.stored, PersistentVolumeClaim))
            and not self._cluster.is_volume_assumed_by_others(each.binding, own)
        ]
        await together(self._roll_back(each) for each in ours)

    async def _prepare(self, placement: Placement, binding: VolumeBinding) -> PreparedVolume | Reason:
        claim = self._cluster.observed_volume_claim(binding.claim)
        volume = self._cluster.observed_volume(binding.volume) if binding.volume else None
        was_written = False
        for attempt in range(_TRIES):
            done = _judge(placement, binding, claim, volume)
            if isinstance(done, PreparedVolume):
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
                return PreparedVolume(placement=placement, binding=binding, stored=stored, is_ours=True)
            await self._writer.pause(attempt)
            try:
                claim = await self._read_claim(binding)
                volume = await self._read_volume(binding.volume) if binding.volume else None
            except KubeError as error:
                return api_reason(error)
        return _conflict(f"volume claim {binding.claim} changed under each of {_TRIES} attempts to write it")

    async def _write(
        self, node: str, claim: PersistentVolumeClaim | None, volume: PersistentVolume | None
    ) -> PersistentVolume | PersistentVolumeClaim:
        if claim is None:
            raise AssertionError("a claim that is not there was to be written")
        if volume is None:
            return await self._writer.write(partial(volume_writes.select_node, self._client, claim, node))
        return await self._writer.write(partial(volume_writes.claim_volume, self._client, volume, claim))

    async def _roll_back(self, prepared: PreparedVolume) -> None:
        """Try once, by a live read: an object that changes meanwhile is one that a controller acts on."""
        binding = prepared.binding
        try:
            claim = await self._read_claim(binding)
            if claim is not None and (claim.volume or claim.uid != binding.claim_uid):
                return
            if isinstance(prepared.stored, PersistentVolume):
                volume = await self._read_volume(binding.volume)
                if volume is None or volume.phase == "Bound" or volume.claim_uid != binding.claim_uid:
                    return
                await self._writer.write(partial(volume_writes.release_volume, self._client, volume))
            elif claim is not None and claim.selected_node == binding.made_on(prepared.placement.node):
                await self._writer.write(partial(volume_writes.select_node, self._client, claim, ""))
        except KubeError as error:
            _log.warning(logs.UNIT_FAILED, claim=str(binding.claim), error=str(error))

    async def _read_claim(self, binding: VolumeBinding) -> PersistentVolumeClaim | None:
        return await self._writer.read(partial(volume_writes.read_volume_claim, self._client, binding.claim))

    async def _read_volume(self, name: str) -> PersistentVolume | None:
        return await self._writer.read(partial(volume_writes.read_volume, self._client, name))


def _judge(
    placement: Placement, binding: VolumeBinding, claim: PersistentVolumeClaim | None, volume: PersistentVolume | None
) -> PreparedVolume | Reason | None:
    """Decide by a state of claim and volume about a write: done, not to be done, or None: to be done."""
    if claim is None or claim.uid != binding.claim_uid:
        return _conflict(f"volume claim {binding.claim} was deleted meanwhile")
    if claim.is_deleting:
        return _conflict(f"volume claim {binding.claim} is being deleted")
    outcome = (
        _judge_existing(binding, claim, volume) if binding.volume else _judge_provisioned(placement, binding, claim)
    )
    if isinstance(outcome, PersistentVolume | PersistentVolumeClaim):
        return PreparedVolume(placement=placement, binding=binding, stored=outcome)
    return outcome


def _judge_provisioned(
    placement: Placement, binding: VolumeBinding, claim: PersistentVolumeClaim
) -> PersistentVolumeClaim | Reason | None:
    if claim.volume or claim.selected_node == binding.made_on(placement.node):
        return claim
    if claim.selected_node is None:
        return None
    return _conflict(f"the volume of claim {binding.claim} is made on node {claim.selected_node}")


def _judge_existing(
    binding: VolumeBinding, claim: PersistentVolumeClaim, volume: PersistentVolume | None
) -> PersistentVolume | Reason | None:
    if volume is None or volume.uid != binding.volume_uid:
        return _conflict(f"volume {binding.volume} was deleted meanwhile")
    if claim.volume not in {"", volume.name}:
        return _conflict(f"volume claim {binding.claim} was bound to volume {claim.volume} meanwhile")
    if volume.claim is not None and not volume.is_bound_to(claim):
        other = wording.seen(volume.claim, binding.claim.namespace)
        return _conflict(f"volume {binding.volume} was taken for {other} meanwhile")
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
    """Claims whose volumes are awaited, and why one will not be bound for the pod; empty where none is known."""

    awaited: tuple[AwaitedVolume, ...]
    problem: str = ""


def volume_readiness(cluster: Cluster, prepared: Sequence[PreparedVolume]) -> VolumeReadiness:
    """Judge every claim; a state older than the one that was written does not count."""
    awaited = []
    for each in prepared:
        outcome = _problem(cluster, each)
        if outcome is None:
            awaited.append(AwaitedVolume(each.placement.pod_uid, each.binding.claim))
        elif outcome:
            return VolumeReadiness((), f"binding volumes: {outcome}")
    return VolumeReadiness(tuple(awaited))


def _problem(cluster: Cluster, each: PreparedVolume) -> str | None:
    """Return what is wrong, None while the volume is awaited, "" where it is bound."""
    binding, node = each.binding, cluster.node(each.placement.node)
    claim = cluster.observed_volume_claim(binding.claim)
    if claim is None or claim.uid != binding.claim_uid:
        return f"volume claim {binding.claim} was deleted meanwhile"
    volume = cluster.observed_volume(claim.volume) if claim.volume else None
    if volume is not None and node is not None and not _is_allowed(volume, node):
        return f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}"'
    if claim.is_bound:
        return "" if volume is not None else None
    if isinstance(each.stored, PersistentVolumeClaim):
        if _is_current(claim, each) and claim.selected_node != binding.made_on(each.placement.node):
            return f'provisioning failed for PVC "{binding.claim.name}"'
        return None
    stored = cluster.observed_volume(binding.volume)
    if stored is None:
        return f"volume {binding.volume} was deleted meanwhile"
    if _is_current(stored, each) and not (stored.claim_uid and stored.is_bound_to(claim)):
        return f'ClaimRef got reset for pv "{binding.volume}"'
    return None


def _is_allowed(volume: PersistentVolume, node: Node) -> bool:
    if volume.node_affinity is None:
        return True
    return matches_node_selector(volume.node_affinity, "", dict(node.labels))


def _is_current(seen: PersistentVolume | PersistentVolumeClaim, each: PreparedVolume) -> bool:
    """Whether the watch shows what was stored, or a later state."""
    return is_at_least(seen.resource_version, each.stored.resource_version)
