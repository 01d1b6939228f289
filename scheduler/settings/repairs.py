"""The section `repair` of the configuration: what is looked for, what may move, and how much at a time."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from scheduler.settings.policies import Section
from solver.domain import RepairRules, RepairTargets

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
RunSeconds = Annotated[int, Meta(ge=0, le=31_536_000)]


class RepairMode(StrEnum):
    """What the scheduler does about a fleet that has decayed."""

    DISABLED = "disabled"
    ADVISE = "advise"
    APPLY = "apply"


class RepairBudget(Section, frozen=True):
    """How many pods repairs may move; what is used up stands in the status of the plans, so a new leader keeps it."""

    moves_per_hour: Count = 20
    """The most moves within any hour, of all plans together."""

    moves_per_hour_of_namespace: Count = 10
    """The most moves within any hour of pods of one namespace."""

    moves_at_once: Annotated[int, Meta(ge=1, le=1000)] = 1
    """The most pods that are on the way at once. Pods that restart together count as many, and may exceed it alone."""


class RepairSettings(Section, frozen=True):
    """
    Whether pods are moved so that waiting pods fit, and away from failed devices and nodes that go.

    A move evicts a pod once the room of its successor is held. docs/repair.md says which pods are never moved.
    """

    mode: RepairMode = RepairMode.DISABLED
    """
    `disabled`: no plans are made. `advise`: plans are made as RepairPlan objects, and nothing moves. `apply`: approved
    plans are carried out where room can be held for successors.
    """

    auto_approve: bool = False
    """Whether plans need no approval in the mode `apply`. The budgets bind them all the same."""

    maintenance_taints: tuple[str, ...] = ()
    """Keys of node taints that announce maintenance: nodes with one of them are emptied like cordoned ones."""

    max_fragmentation: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """
    Above this fragmentation of the fleet (0 to 1, `dovetail free` shows it) room is made for typical requests. 1 looks
    for none.
    """

    budget: RepairBudget = RepairBudget()
    """How many pods may be moved."""

    minimum_run_seconds: RunSeconds = 300
    """Seconds that a pod with devices must have run before it may be moved."""

    max_checkpoint_age_seconds: RunSeconds = 3600
    """The most seconds that count of the age of a checkpoint that a pod declares (`dovetail.dev/checkpointed-at`)."""

    cool_down_seconds: RunSeconds = 600
    """Seconds after a move in which no other pod of the same controller makes room. Failed devices are left at once."""

    interval_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """Seconds between two looks at the fleet."""

    planning_seconds: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """The most seconds that planning may take."""

    successor_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 600
    """Seconds that a successor may take until it runs. Then the plan stops."""

    approval_seconds: RunSeconds = 86_400
    """Seconds after which a plan that nobody has approved is made anew or removed."""

    def rules(self) -> RepairRules:
        """Return what protects pods and prices moves, as the solver's type."""
        return RepairRules(
            minimum_run_seconds=self.minimum_run_seconds, most_checkpoint_seconds=self.max_checkpoint_age_seconds
        )

    def targets(self) -> RepairTargets:
        """Return what is looked for, as the solver's type."""
        return RepairTargets(maintenance_taints=self.maintenance_taints, most_fragmentation=self.max_fragmentation)
