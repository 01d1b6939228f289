"""
What makes pods equal: everything that decides whether one can be placed, of its spec and of its claims' specs.

Equal pods may differ in name, namespace, uid, age, labels, images and what they merely prefer. Labels and namespace
count where the pod itself states whom it runs with; that others may not want it beside them shows in its reasons
(`wakeups.OF_ITS_OWN`). A pod is like no other where it has something that others have not: a gang, volumes, a
nominated node, a claim that is named, missing, allocated, reserved or deleting, or a history.
"""

from collections.abc import Callable, Hashable
from typing import Final

from solver.domain import Claim, ClaimId, Pod, PodClaim


class Shapes:
    """
    Tells which pods are equal, by the claims as they are now.

    `is_apart` says of whose history something is remembered, `is_overdue` who goes before others of its priority.
    """

    def __init__(
        self,
        claim: Callable[[ClaimId], Claim | None],
        is_apart: Callable[[Pod], bool],
        is_overdue: Callable[[Pod], bool],
    ) -> None:
        self._claim: Final = claim
        self._is_apart: Final = is_apart
        self._is_overdue: Final = is_overdue

    def of(self, pod: Pod) -> Hashable | None:
        """Give what is equal for equal pods, and None for a pod like no other; one that raises is like no other."""
        try:
            return self._of(pod)
        except Exception:  # noqa: BLE001 - whatever one pod raises, the others are put back and decided
            return None

    def _of(self, pod: Pod) -> Hashable | None:
        if _is_special(pod) or self._is_apart(pod):
            return None
        asked: list[Hashable] = []
        for entry in pod.claims:
            wanted = self._asked(entry, pod)
            if wanted is None:
                return None
            asked.append(wanted)
        return (pod.scheduler_name, pod.priority, self._is_overdue(pod), *spec(pod), *company(pod), *asked)

    def _asked(self, entry: PodClaim, pod: Pod) -> Hashable | None:
        """Give what one entry of the pod's claims asks for, None where it is not merely to be allocated for the pod."""
        if entry.is_skipped:
            return entry.entry
        claim = self._claim(entry.claim) if entry.claim is not None else None
        if claim is None or claim.owner_pod_uid != pod.uid or not _is_untouched(claim):
            return None
        return (entry.entry, claim.requests, claim.constraints)


def _is_special(pod: Pod) -> bool:
    return bool(pod.gang is not None or pod.pod_group or pod.volumes or pod.nominated_node_name or pod.invalid)


def _is_untouched(claim: Claim) -> bool:
    return claim.allocation is None and not (claim.reserved_for or claim.is_deleting or claim.invalid)


def spec(pod: Pod) -> tuple[Hashable, ...]:
    """Give what of a pod's spec decides where it may run, its claims and its company apart."""
    return (
        pod.preemption_policy,
        pod.requests,
        pod.containers,
        pod.level_slack,
        pod.node_selector,
        pod.required_affinity,
        pod.tolerations,
        pod.host_ports,
    )


def company(pod: Pod) -> tuple[Hashable, ...]:
    """Whom it runs with, keeps away from or spreads among, by its own word; and as what others of its kind see it."""
    if not (pod.affinity or pod.anti_affinity or pod.spread):
        return ()
    return (pod.id.namespace, pod.labels, pod.affinity, pod.anti_affinity, pod.spread)
