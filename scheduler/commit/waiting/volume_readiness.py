"""Whether the volumes of a placement are bound, as the watches show it. Pure apart from the mirror that it asks."""

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.cluster import Cluster
from scheduler.commit.steps.volumes import Prepared
from scheduler.resource_version import is_at_least
from solver.domain import Node, Volume, VolumeClaim, VolumeClaimId
from solver.feasibility import affinity


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
    return affinity.matches(volume.node_affinity, "", dict(node.labels))


def _is_current(seen: Volume | VolumeClaim, each: Prepared) -> bool:
    """Whether the watch shows what was stored, or a later state."""
    return is_at_least(seen.resource_version, each.stored.resource_version)
