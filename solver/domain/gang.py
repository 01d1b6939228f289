"""
Gangs: pods that are placed together or not at all (scheduling.k8s.io PodGroup, KEP-4671; coscheduling; our label).

A pod names its gang. The scheduler makes the `Gang` from its PodGroup or annotations and sends it with the batch.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from solver.domain.ids import ClaimId, GangId

SCHEDULING_GROUP: Final = "scheduling.k8s.io"
COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io"
DOVETAIL_GROUP: Final = "dovetail.dev"
"""Sources of gangs: the two API groups of PodGroup, and Dovetail's gang label."""
MINIMUM_ANNOTATION: Final = f"{DOVETAIL_GROUP}/gang-minimum"

DISRUPT_SINGLE: Final = "single"
DISRUPT_ALL: Final = "all"
"""Values of spec.disruptionMode of a PodGroup."""


class GangLevel(msgspec.Struct, frozen=True, kw_only=True):
    """
    A topology constraint: all pods of a gang have one value of a node label, or of an attribute of their devices.

    Exactly one of `node_label` and `device_attribute` (`domain/name`) is set. A level that is not required is a
    preference: as few different values as possible.
    """

    node_label: str = ""
    device_attribute: str = ""
    is_required: bool = True

    def __str__(self) -> str:
        """Write the level as messages name it."""
        return f"label {self.node_label}" if self.node_label else f"device attribute {self.device_attribute}"


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """
    The requirements of a gang, and how many of its pods exist and run.

    At least `min_count` pods run, or none; 0 (a PodGroup with the basic policy) requires no minimum, and only levels
    and claims matter. `member_count` is the number of its pods, `running_count` the number of bound or assumed pods
    that are not being deleted. `claims` are the claims of the group (KEP-5729), reserved by an entry of reservedFor
    with `uid`: (name, claim, template) as in `PodGroup`. `invalid` says why no pod of the gang can be placed: its
    PodGroup is missing (`is_absent`), or its pods contradict each other. `disruption` is spec.disruptionMode
    (KEP-5710): `single` allows evictions one by one, `all` only of all pods; empty if it is not set. `priority` is that
    of the PodGroup, which its pods have as victims; None if it has none.
    """

    id: GangId
    uid: str = ""
    min_count: int = 0
    member_count: int = 0
    running_count: int = 0
    levels: tuple[GangLevel, ...] = ()
    claims: tuple[tuple[str, ClaimId | None, str], ...] = ()
    priority: int | None = None
    creation: str = ""
    invalid: str = ""
    is_absent: bool = False
    disruption: str = ""

    def needed(self, running: int) -> int:
        """Return how many of `running` pods must stay if not all are evicted: the minimum, or all."""
        if self.disruption == DISRUPT_ALL or self.is_absent:
            return running
        return 0 if self.disruption == DISRUPT_SINGLE else min(self.min_count, running)

    @property
    def is_loose(self) -> bool:
        """Whether nothing ties its pods together: they come and go one by one, as pods without a gang do."""
        return not (self.min_count or self.levels or self.claims or self.invalid or self.needed(1))

    @property
    def is_partial(self) -> bool:
        """Whether some of its pods run, but too few; pods that complete it go first."""
        return 0 < self.running_count < self.min_count

    def reserves(self, entry: str, claim: ClaimId, template: str) -> bool:
        """Whether an entry of a pod's claims is the group's: the same name, and the same claim or template."""
        return (entry, claim, template) in self.claims


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    """
    A PodGroup of scheduling.k8s.io, or of scheduling.x-k8s.io (coscheduling).

    `min_count` is 0 for the basic policy. `claims` are the entries of spec.resourceClaims as (name, claim, template);
    the claim of a template comes from status.resourceClaimStatuses and is None until it is created. `conditions` are
    (type, status, reason, message) of the conditions about its scheduling; each version of the API has its own type.
    `priority` is None and `preemption_policy` empty where pods may differ from their group. `parent` is the
    CompositePodGroup (KEP-6012) that the group is a part of.
    """

    id: GangId
    uid: str = ""
    min_count: int = 0
    levels: tuple[GangLevel, ...] = ()
    claims: tuple[tuple[str, ClaimId | None, str], ...] = ()
    priority: int | None = None
    preemption_policy: str = ""
    parent: str = ""
    creation: str = ""
    generation: int = 0
    conditions: tuple[tuple[str, str, str, str], ...] = ()
    invalid: str = ""
    disruption: str = ""


def loose_gangs(gangs: Iterable[Gang]) -> frozenset[GangId]:
    """Return the gangs whose pods nothing ties together."""
    return frozenset(each.id for each in gangs if each.is_loose)


class GangAnnotations(msgspec.Struct, frozen=True, kw_only=True):
    """
    The gang annotations of a pod.

    `min_count` is 0 if the annotation is missing; `invalid` says why annotations cannot be parsed.
    """

    min_count: int = 0
    levels: tuple[GangLevel, ...] = ()
    invalid: str = ""
