"""The part of the check that is about volumes of one pod: somebody may have come to use one in between."""

from collections.abc import Iterator
from typing import Final

from scheduler.cluster.mirror import Mirror
from scheduler.cluster.storage import Storage
from scheduler.cluster.unit import Unit
from solver.domain import Pod, VolumeClaimId, wording

_ONE_POD: Final = "ReadWriteOncePod"


def about_exclusive(mirror: Mirror, storage: Storage, unit: Unit) -> Iterator[str]:
    """
    Say which claims of one pod (access mode ReadWriteOncePod) another pod uses by now that holds a node.

    Looked at are pods that somebody else has bound lately: all others were there when the decision was made.
    """
    for placement in unit.placements:
        pod = mirror.pods.get(placement.pod)
        wanted = _exclusive(pod, storage) if pod is not None and pod.volumes else set()
        if not wanted:
            continue
        for other in mirror.company.newcomers(mirror.believed_pods):
            taken = wanted & _plain(other) if other.id != placement.pod else None
            if taken:
                whom = wording.seen(other.id, placement.pod.namespace)
                yield f"volume claim {min(taken)} is for one pod, and {whom} on node {other.node_name} uses it"
                break


def _exclusive(pod: Pod, storage: Storage) -> set[VolumeClaimId]:
    claims = {each: storage.claims.get(str(each)) for each in _plain(pod)}
    return {each for each, claim in claims.items() if claim is not None and _ONE_POD in claim.access_modes}


def _plain(pod: Pod) -> set[VolumeClaimId]:
    """Claims that a pod names itself; those that are made for it are nobody else's."""
    return {each.claim for each in pod.volumes if each.claim is not None and not each.is_ephemeral}
