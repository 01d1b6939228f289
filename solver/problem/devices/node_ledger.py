"""The ledger of one node: units left of its budgets and of the cluster-wide ones, while devices are taken by type."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from solver.problem.devices.layout import GLOBAL, DeviceType, Takes


class Checkpoint(NamedTuple):
    """Where a ledger stood."""

    local: tuple[int, ...]
    wide: tuple[int, ...]
    opened: int
    value: int
    suspects: int
    distance: int
    quota: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class NodeLedger:
    """
    Units left of every budget of a node, and of every cluster-wide one; ledgers of several nodes may have one `wide`.

    `quota` is what quotas leave to the pod, by `DeviceLayout.charged`; empty where none binds it.
    `opened` counts the shareable devices whose first share was taken. `value`, `suspects` and `distance` add up what is
    taken: its worth, how many are suspect, and how far they are from the node.
    """

    local: list[int]
    wide: list[int]
    opened: int = 0
    value: int = 0
    suspects: int = 0
    distance: int = 0
    quota: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, local: Sequence[int], wide: Sequence[int] = (), quota: Sequence[int] = ()) -> "NodeLedger":
        """Begin with what is left of the budgets of a node, of the cluster-wide ones, and of quotas."""
        return cls(list(local), list(wide), quota=list(quota))

    def left(self, budget: int) -> int:
        """Return the units left of a budget."""
        return self.wide[budget - GLOBAL] if budget >= GLOBAL else self.local[budget]

    def times(self, takes: Takes) -> int:
        """Say how often what one device takes is left; it has to take something."""
        local, wide = self.local, self.wide
        return min([(wide[at - GLOBAL] if at >= GLOBAL else local[at]) // units for at, units in takes if units])

    def most(self, device: DeviceType, demand: int) -> int:
        """
        Count the devices of a type that are left for a demand; one with admin access takes nothing and can get all.

        The first claim of a shareable device takes counters, too.
        """
        takes = device.takes[demand]
        if not takes:
            return device.total
        needs = (*takes, *device.opens) if device.opens and self.is_fresh(device) else takes
        found = min(device.total, self.times(needs))
        for position, units in device.charges.get(demand, ()) if self.quota else ():
            found = min(found, self.quota[position] // units)
        return found

    def is_fresh(self, device: DeviceType) -> bool:
        """Whether this is a shareable device that no claim uses."""
        return device.fresh >= 0 and self.left(device.fresh) > 0

    def take(self, device: DeviceType, demand: int, count: int) -> None:
        """Take devices of a type for a demand; the first use of a shareable one opens it."""
        takes = device.takes[demand]
        if not takes:
            return
        self._charge(takes, count)
        for position, units in device.charges.get(demand, ()) if self.quota else ():
            self.quota[position] -= units * count
        if self.is_fresh(device):
            self._charge(((device.fresh, 1), *device.opens), 1)
            self.opened += 1
        self.value += device.value * count
        self.suspects += device.is_suspect * count
        self.distance += device.distance * count

    def _charge(self, takes: Iterable[tuple[int, int]], count: int) -> None:
        for budget, amount in takes:
            if budget >= GLOBAL:
                self.wide[budget - GLOBAL] -= amount * count
            else:
                self.local[budget] -= amount * count

    def checkpoint(self) -> Checkpoint:
        """Remember where the ledger stands."""
        totals = self.opened, self.value, self.suspects, self.distance
        return Checkpoint(tuple(self.local), tuple(self.wide), *totals, tuple(self.quota))

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Go back to where it stood: what was taken since is left again."""
        self.local[:], self.wide[:], self.opened, self.value, self.suspects, self.distance, self.quota[:] = checkpoint
