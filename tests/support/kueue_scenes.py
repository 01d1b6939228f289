"""Workloads of Kueue while something fails at a write of the admission check; Kueue's part is done by hand."""

from collections.abc import Iterator
from typing import Any, ClassVar

from e2e.dovetail import install
from tests.support import kueue_stand_in
from tests.support.fail_scenes import Scene, Writes
from tests.support.kueue_stand_in import KueueByHand
from tests.support.shell_world import World

PARKED = "dovetail.dev/parked"
BY_CHECK = "DeactivatedDueToAdmissionCheck"


class LetIn(Scene):
    """A Workload of two pods, which come when it is let in, and a pod that would like their room."""

    writes: ClassVar[Writes] = (
        ("check-active", 1),
        ("hold", 1),
        ("check-state", 1),
        ("allocation", 1),
        ("binding", 1),
        ("binding", 2),
    )
    expected = frozenset({"train-0", "train-1"})
    settings: ClassVar[dict[str, Any]] = {"admissionCheck": {"enabled": True, "parkAfterSeconds": 1}}

    def __init__(self, world: World) -> None:
        super().__init__(world)
        kueue_stand_in.install(world.plane)
        install(world.plane, "holds", "kueue")
        self.kueue = KueueByHand(world)
        self._has_members = False

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=2)
        self.kueue.template(1)

    def load(self) -> None:
        self.kueue.create("train", pods=2)

    def clear(self) -> None:
        self.kueue.clear()

    def problems(self) -> list[str]:
        """Do first what Kueue and the Job's controller do by now."""
        self._go_on()
        return super().problems()

    def _go_on(self) -> None:
        if self.kueue.state("train")[0] == "Ready" and not self._has_members:
            self._has_members = True
            self.world.pod("other")
            for index in range(2):
                self.kueue.member("train", index)

    def _more_problems(self) -> Iterator[str]:
        if self.kueue.state("train")[0] != "Ready":
            yield "train was not let in"
        yield from (f"{name} still holds room" for name in self.kueue.holds())


class ParkedAndBack(LetIn):
    """A Workload without room, which is parked; then there is room."""

    writes: ClassVar[Writes] = (
        ("check-state", 1),
        ("check-state", 2),
        ("park-mark", 1),
        ("let-requeue", 1),
        ("activation", 1),
        ("check-state", 3),
    )
    expected = frozenset({"train-0", "train-1", "other"})

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=1)
        self.kueue.template(1)

    def _go_on(self) -> None:
        workload = self.kueue.get("train")
        conditions = {each["type"]: each["status"] for each in workload["status"].get("conditions", [])}
        has_quota = conditions.get("QuotaReserved") == "True"
        if self.kueue.state("train")[0] == "Rejected" and has_quota:
            self.kueue.deactivate("train", BY_CHECK)
            self.world.more_devices(2)
        elif workload["spec"]["active"] and not has_quota:
            self.kueue.reserve("train")
        super()._go_on()

    def _more_problems(self) -> Iterator[str]:
        yield from super()._more_problems()
        if self.kueue.is_kept_back("train"):
            yield "train would get quota at its first try only"
        if PARKED in self.kueue.get("train")["metadata"].get("annotations", {}):
            yield "train is still marked"
