"""What both models of a repair read: the cluster without all that may move, and who gets a place there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from solver.domain import Batch, Budget, Pod, PodId, Policy, Snapshot
from solver.model.victims import PotentialVictims
from solver.preemption.victim_usage import usage_of
from solver.preemption.victims import VictimUnit
from solver.problem.prepare import prepare
from solver.problem.problem import Problem
from solver.problem.solver_cache import SolverCache
from solver.repair.move_rules import MoveRules
from solver.repair.successors import successor_id, with_batch, with_successors


@dataclass(frozen=True, eq=False)  # no slots: the problem is cached
class RepairCase:
    """
    The cluster of a repair.

    `snapshot` is without the pods that have to leave; `batch` has the wanted pods and the successors of these. All of
    them have to get a place. `movable` may be moved for that, each alone.
    """

    snapshot: Snapshot
    batch: Batch
    movable: Sequence[Pod]
    policy: Policy
    rules: MoveRules
    budget: Budget
    cache: SolverCache = field(default_factory=SolverCache)

    @cached_property
    def problem(self) -> Problem:
        """Place the batch and the successors of all movable pods in the cluster without these."""
        cleared, successors = with_successors(self.snapshot, self.movable)
        policy = replace(self.policy, levels=())
        problem = prepare(cleared, with_batch(self.batch, successors, self.snapshot), policy, self.cache)
        return problem.with_no_unused_nodes()

    @cached_property
    def units(self) -> tuple[VictimUnit, ...]:
        """The movable pods, each as a unit of its own."""
        return tuple(VictimUnit((pod,), 0, ()) for pod in self.movable)

    @cached_property
    def usage(self) -> PotentialVictims:
        """What the movable pods take while they stay."""
        return usage_of(self.problem, self.snapshot, self.units)

    @cached_property
    def unit_of_successor(self) -> dict[PodId, int]:
        """The number of the movable pod that a successor follows."""
        return {successor_id(pod.id): number for number, pod in enumerate(self.movable)}

    @cached_property
    def stuck(self) -> frozenset[int]:
        """Movable pods, by number, whose successors no node could take."""
        ids = (self.problem.pod(position).id for position in self.problem.rejected)
        return frozenset(self.unit_of_successor[each] for each in ids if each in self.unit_of_successor)

    @property
    def is_impossible(self) -> bool:
        """Whether a pod of the batch can be placed nowhere, whatever moves."""
        wanted = {pod.id for pod in self.batch.pods}
        return any(self.problem.pod(position).id in wanted for position in self.problem.rejected)


@dataclass(frozen=True, slots=True)
class MovesFound:
    """
    The movable pods, by number, that are moved; None where no set of moves was found.

    `least` is a proven lower bound of their number; `is_proven` says that `moved` reach it, or that there is no such
    set. `places` says for each node (by number) which pods come, by their keys; it is None where the places are still
    to be found.
    """

    moved: tuple[int, ...] | None
    least: int = 0
    is_proven: bool = False
    is_least_harm: bool = False
    places: dict[int, tuple[PodId, ...]] | None = None
