"""
Gangs: pods that are placed together or not at all (scheduling.k8s.io PodGroup, KEP-4671, and what stands in for it).

A pod names its gang; what the gang demands is worked out where the objects are known, and comes with the batch.
"""

from typing import Final

import msgspec

from solver.domain.ids import ClaimId, GangId

SCHEDULING_GROUP: Final = "scheduling.k8s.io"
COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io"
OUR_GROUP: Final = "dovetail.dev"
"""Where a gang comes from: API groups of PodGroups, and pods that our labels tie together."""
MINIMUM_ANNOTATION: Final = f"{OUR_GROUP}/gang-minimum"

ALONE: Final = "Pod"
WHOLE: Final = "PodGroup"
"""Values of spec.disruptionMode."""


class GangLevel(msgspec.Struct, frozen=True, kw_only=True):
    """
    All pods of a gang in one value of a node label, or of an attribute of the devices that they use.

    Exactly one of `node_label` and `device_attribute` (`domain/name`) is set. A level that is not required is a
    preference: as few values as can be.
    """

    node_label: str = ""
    device_attribute: str = ""
    is_required: bool = True

    def __str__(self) -> str:
        """As messages name it."""
        return f"label {self.node_label}" if self.node_label else f"device attribute {self.device_attribute}"


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a gang demands of its pods together.

    At least `min_count` of them run, or none; 0 ties nothing together (a PodGroup of the basic policy), and then only
    its levels and claims matter. Pods that hold a node already count, unless they are being deleted. `member_count` are
    the pods that there are, `running_count` those of them that run. `claims` are shared through the group and reserved
    for it (KEP-5729), by an entry of reservedFor with `uid`: (name, claim, template) as `PodGroup` has them. `invalid`
    says why none of its pods may be placed: its object is missing, or what its pods say of it disagrees; `is_absent`
    says that it is the object that is missing. `disruption` is how pods of it may be evicted: `Pod` one by one,
    `PodGroup` only all of them (spec.disruptionMode, KEP-5710), empty where nothing is said.
    """

    id: GangId
    uid: str = ""
    min_count: int = 0
    member_count: int = 0
    running_count: int = 0
    levels: tuple[GangLevel, ...] = ()
    claims: tuple[tuple[str, ClaimId | None, str], ...] = ()
    priority: int = 0
    creation: str = ""
    invalid: str = ""
    is_absent: bool = False
    disruption: str = ""

    def needed(self, running: int) -> int:
        """Say how many of so many running pods have to stay if not all go: the minimum, or all of them."""
        if self.disruption == WHOLE or self.is_absent:
            return running
        return 0 if self.disruption == ALONE else min(self.min_count, running)

    @property
    def is_partial(self) -> bool:
        """Whether some of its pods run and not enough of them: whoever completes it goes first."""
        return 0 < self.running_count < self.min_count

    def reserves(self, entry: str, claim: ClaimId, template: str) -> bool:
        """Whether an entry of a pod's claims is the group's own: the same name, of the same claim or template."""
        return (entry, claim, template) in self.claims


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    """
    An object that describes a gang: a PodGroup of scheduling.k8s.io, or of scheduling.x-k8s.io (coscheduling).

    `min_count` is 0 for the basic policy. `claims` are entries of spec.resourceClaims, (name, claim, template), where
    the claim is the named one or the one that status.resourceClaimStatuses notes for the template, None while it is
    not made. `condition` is (status, reason, message) of its condition PodGroupScheduled, empty where it has none.
    """

    id: GangId
    uid: str = ""
    min_count: int = 0
    levels: tuple[GangLevel, ...] = ()
    claims: tuple[tuple[str, ClaimId | None, str], ...] = ()
    priority: int = 0
    creation: str = ""
    generation: int = 0
    condition: tuple[str, str, str] = ("", "", "")
    invalid: str = ""
    disruption: str = ""


class GangNote(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a pod's own annotations say of its gang.

    `min_count` is 0 where they say nothing; `invalid` where they cannot be read.
    """

    min_count: int = 0
    levels: tuple[GangLevel, ...] = ()
    invalid: str = ""
