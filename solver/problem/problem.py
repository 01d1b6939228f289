"""The whole problem in dense form: classes of equal pods, shared claims, and what nodes have left."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from solver.domain import (
    Batch,
    Claim,
    ClaimId,
    DeviceClass,
    ExtendedResourceClaim,
    Pod,
    PodId,
    Policy,
    Reason,
    Snapshot,
)
from solver.problem.costs.cost_model import NO_TASTES, Tastes
from solver.problem.devices.inventory import Inventory, Mask
from solver.problem.devices.layout import GLOBAL, Group, Layout
from solver.problem.devices.usage import Usage
from solver.problem.gang_rules import GangRule
from solver.problem.inter_pod.rules import Neighbours
from solver.problem.limits import Limit
from solver.problem.node_arrays import NodeVerdicts, Room
from solver.problem.requests.component import Component, Option
from solver.problem.requests.demand import Answers, DemandKey
from solver.problem.requests.options import Pay, options, unpaid
from solver.problem.volumes.volume_index import Store
from solver.problem.volumes.volume_topology import Terms

Requests = tuple[tuple[str, int], ...]
State = tuple[int, ...]
"""Units left of every budget of a node (or of the cluster-wide ones), in the order of its group."""


class Source(NamedTuple):
    """Where one copy of a component comes from: the claim and the positions of its requests in it."""

    claim: ClaimId
    positions: tuple[int, ...]


GANG_TOPOLOGY: Final = "gang-topology"
"""The level that counts domains which gangs would rather not have used."""


class PlacedLevel(NamedTuple):
    """A level of the objective that counts pods placed: its name, and what one pod of each class adds to it."""

    name: str
    worth: Mapping[int, int]


class Tier(NamedTuple):
    """Pods that go before or after others as one: by priority, and within one those first that were passed over."""

    priority: int
    is_overdue: bool

    def __str__(self) -> str:
        """As levels are named."""
        return f"{self.priority}:overdue" if self.is_overdue else str(self.priority)


class Part(NamedTuple):
    """A component that a pod (or a shared claim) needs `copies` times."""

    component: int
    copies: int


@dataclass(slots=True, eq=False)
class PodClass:
    """
    Pods that are equal for every rule; `members` are positions in the batch, in queue order.

    `sources[i][j][k]` is the k-th copy of the j-th part of the i-th member. `shared` are indices of claims that
    the pods share with others of the batch and that are not allocated yet.

    Pods whose extended resources are served differently from node to node have a class for each way, which differ in
    nodes, requests and parts and share their members: a family, known by the index of its first class. `specials` are
    the claims that would be made for the members; `obstacles` (of the first) keep them from ways that have no class.
    `volumes` is what their volumes ask of other pods, None where they have none. `within` names the attributes whose
    values tell the class from others of its family, which use the same nodes with devices of other values.
    """

    index: int
    priority: int
    requests: Requests
    verdicts: NodeVerdicts
    parts: tuple[Part, ...]
    shared: tuple[int, ...]
    family: int
    members: list[int] = field(default_factory=list)
    sources: list[tuple[tuple[Source, ...], ...]] = field(default_factory=list)
    specials: list[ExtendedResourceClaim | None] = field(default_factory=list)
    obstacles: tuple[Reason, ...] = ()
    volumes: Terms | None = None
    is_overdue: bool = False
    within: str = ""

    @property
    def tier(self) -> Tier:
        """Which pods it goes before and after."""
        return Tier(self.priority, self.is_overdue)

    @property
    def size(self) -> int:
        """How many pods it holds."""
        return len(self.members)


@dataclass(slots=True, eq=False)
class SharedClaim:
    """A claim without allocation that several pods of the batch use: allocated once or not at all."""

    index: int
    claim: Claim
    parts: tuple[Part, ...]
    sources: tuple[tuple[Source, ...], ...]


@dataclass(slots=True, eq=False)
class Problem:
    """
    Everything that greedy, model and extraction look at.

    `states` are per node, `wide_state` is of the cluster-wide budgets; `is_whole` marks nodes none of whose
    devices was in use. `rejected` are pods that nothing can place, by batch position. `limits` and
    `gangs` are rules among pods; `tastes` are costs of places.
    """

    snapshot: Snapshot
    batch: Batch
    policy: Policy
    inventory: Inventory
    usage: Usage
    layout: Layout
    room: Room
    claims: Mapping[ClaimId, Claim]
    device_classes: Mapping[str, DeviceClass]
    demands: tuple[DemandKey, ...]
    answers: tuple[Answers, ...]
    components: list[Component]
    classes: list[PodClass]
    shared: list[SharedClaim]
    states: list[State]
    wide_state: State
    is_whole: Mask
    rejected: dict[int, tuple[Reason, ...]]
    has_burdens: bool = False
    """Whether some devices take of their node's own resources (KEP-5517)."""
    limits: tuple[Limit, ...] = ()
    store: Store | None = None
    tastes: Tastes = NO_TASTES
    gangs: tuple[GangRule, ...] = ()
    neighbours: Neighbours = field(default_factory=Neighbours)
    left: Mapping[PodId, Reason] = field(default_factory=dict)
    """Pods that are no part of the batch any more, because time or the allowance did not reach them."""
    held: dict[int, frozenset[int]] = field(default_factory=dict)
    """By class the nodes that its pods may not use for nothing but a hold."""

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self.inventory.nodes)

    def group(self, node: int) -> Group:
        """Describe a node."""
        return self.layout.groups[self.layout.group_of[node]]

    def options(self, component: int, group: Group, pay: Pay = unpaid) -> tuple[Option, ...]:
        """
        Ways to serve a component on nodes of a group; kept as long as the layout.

        Raise `TooCostlyError` where `pay` does.
        """
        key = (self.components[component], group.index)
        found = self.layout.options.get(key)
        if found is None:
            found = options(self.components[component], group, self.layout, pay)
            self.layout.options[key] = found
        return found

    def wide_left(self, budget: int) -> int:
        """Give the units left of a cluster-wide budget."""
        return self.wide_state[budget - GLOBAL]

    def pod(self, position: int) -> Pod:
        """Give a pod of the batch."""
        return self.batch.pods[position]

    def is_tied(self, pod_class: PodClass, *, by_gangs: bool = True) -> bool:
        """
        Whether pods of a class depend on where others are, so that no part of the cluster can be solved alone.

        Without `by_gangs` a gang does not count: it can be solved alone where all of it is.
        """
        if pod_class.shared or pod_class.index in self.neighbours.concerned:
            return True
        if any(pod_class.index in limit.takes for limit in self.limits):
            return True
        return by_gangs and any(pod_class.index in rule.classes for rule in self.gangs)

    @property
    def other_levels(self) -> tuple[str, ...]:
        """Name the levels after the placed ones: few domains of gangs first, unless the policy places that itself."""
        named = self.policy.levels
        is_own = GANG_TOPOLOGY not in named and any(rule.preferred for rule in self.gangs)
        return (GANG_TOPOLOGY, *named) if is_own else named

    def parts_of(self, pod_class: PodClass) -> tuple[Part, ...]:
        """Give what a pod of a class needs: of its own, and of the claims that it shares."""
        return pod_class.parts + tuple(part for each in pod_class.shared for part in self.shared[each].parts)

    def within(self, nodes: Mask) -> "Problem":
        """Give the same problem with all other nodes ruled out."""
        classes = [replace(each, verdicts=each.verdicts.within(nodes)) for each in self.classes]
        held = {key: frozenset(node for node in those if nodes[node]) for key, those in self.held.items()}
        return replace(self, classes=classes, held=held)

    def on(self, node: int) -> "Problem":
        """Give the same problem with every node ruled out but one."""
        alone = np.zeros(self.node_count, dtype=np.bool_)
        alone[node] = True
        return self.within(alone)

    @property
    def families(self) -> list[tuple[PodClass, ...]]:
        """Classes that share their members, each pod in exactly one family; most have one class."""
        found: dict[int, list[PodClass]] = {}
        for each in self.classes:
            found.setdefault(each.family, []).append(each)
        return [tuple(each) for each in found.values()]

    @property
    def placed_levels(self) -> tuple[PlacedLevel, ...]:
        """Levels that count the pods placed, most important first: strictly by priority unless the policy sums."""
        if self.policy.sums_priorities:
            return (PlacedLevel("placed", {each.index: each.priority for each in self.classes}),)
        found: dict[tuple[int, bool], dict[int, int]] = {}
        for each in self.classes:
            found.setdefault((each.priority, each.is_overdue), {})[each.index] = 1
        return tuple(PlacedLevel(f"placed:{Tier(*key)}", found[key]) for key in sorted(found, reverse=True))

    @property
    def tiers(self) -> list[Tier]:
        """Tiers that occur, the first to be placed first."""
        return sorted({each.tier for each in self.classes}, reverse=True)
