"""How a profile chooses among valid plans: its policy, and what its preferences weigh."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from solver.domain import PACK, SPREAD, TOPOLOGY
from solver.domain import Weights as SolverWeights

Weight = Annotated[int, Meta(ge=0, le=100)]


class PolicyName(StrEnum):
    """How to choose among valid plans; pods without devices are placed by scores under each of them."""

    PACK = "pack"
    """Fill few nodes and take the smallest device that does, so that whole nodes and large devices stay free."""
    SPREAD = "spread"
    """Take devices on the nodes that have most of them free, so that as few as can be are in use on each node."""
    TOPOLOGY = "topology"
    """As `pack`, but break no group of devices (of one PCIe root, say) that is whole while others are left."""


LEVELS: Final = {PolicyName.PACK: PACK, PolicyName.SPREAD: SPREAD, PolicyName.TOPOLOGY: TOPOLOGY}


class WeightSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """
    What preferences and scores weigh beside each other, as in kube-scheduler's default profile; 0 turns one off.

    Preferences that pods and nodes state are met before devices are packed, scores come last and for pods without
    devices only.
    """

    node_affinity: Weight = 2
    """Preferred node affinity: a preference."""

    taint_toleration: Weight = 3
    """Taints with the effect PreferNoSchedule: a preference."""

    pod_affinity: Weight = 2
    """Preferred affinity to other pods and against them: a preference."""

    topology_spread: Weight = 2
    """
    Topology spread constraints with ScheduleAnyway: a preference. For pods of a ReplicaSet, StatefulSet or
    ReplicationController that have no constraints, and no devices: even spread over nodes and zones as a score.
    """

    least_allocated: Weight = 1
    """Nodes with more cpu and memory left: a score."""

    balanced_allocation: Weight = 1
    """Nodes whose shares of cpu and memory in use come closer together: a score."""

    image_locality: Weight = 1
    """Nodes that have the pod's images already: a score."""

    free_of_devices: Weight = 10
    """Nodes without devices, which leaves room beside devices to pods that take some: a score kube-scheduler lacks."""

    def solver_weights(self) -> SolverWeights:
        """Give them in the solver's words."""
        return SolverWeights(**{name: getattr(self, name) for name in self.__struct_fields__})
