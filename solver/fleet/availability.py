"""Whether a device has room for one more allocation: the one definition that counts, messages and the fleet share."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from solver.domain import Quantity
from solver.feasibility.capacity import Consumption, consumed
from solver.problem.devices.compatibility import gate_of, is_exclusion
from solver.problem.devices.inventory import DeviceRecord, Inventory
from solver.problem.devices.ledger import DeviceLedger

_LEAST: Final = Quantity(nano=1, text="1n")


class Obstacle(StrEnum):
    """Why a device that may be allocated has no room; the values are sentence fragments behind a number."""

    IN_USE = "in use"
    CAPACITY = "with too little capacity left"
    COUNTERS = "with too little left of their shared counters"
    INCOMPATIBLE = "without a compatibility group in common with devices in use"
    CLASHING = "beside devices in use that have no compatibility group in common themselves"


@dataclass(frozen=True, slots=True, eq=False)
class Availability:
    """The devices of an inventory, and the ledger of what is in use of them."""

    inventory: Inventory
    ledger: DeviceLedger

    def obstacle(self, index: int, consumption: Consumption) -> Obstacle | None:
        """
        Return why a device has no room for one more allocation with this consumption of capacities; None if it has.

        `index` is that of its record. An allocation with admin access needs no room.
        """
        record, ledger = self.inventory.records[index], self.ledger
        if index in ledger.exclusive:
            return Obstacle.IN_USE
        if index not in ledger.shared:
            return self._counters(record) if record.counters else None
        if not record.device.allow_multiple_allocations or ledger.is_overcommitted(record):
            return Obstacle.IN_USE
        left = ledger.capacities_left(record)
        return Obstacle.CAPACITY if any(left[name] < amount for name, amount in consumption) else None

    def has_share_left(self, index: int) -> bool:
        """Whether the smallest share that request policies allow is left of each capacity of a device with shares."""
        record = self.inventory.records[index]
        if not record.device.allow_multiple_allocations or index in self.ledger.exclusive:
            return False
        left = self.ledger.capacities_left(record)
        return all(
            left[name] >= (consumed(capacity, _LEAST) or 1)
            for name, capacity in record.device.capacities
            if capacity.value.nano
        )

    def _counters(self, record: DeviceRecord) -> Obstacle | None:
        """Say whether the counters that an unused device draws on have enough left."""
        left = self.ledger.counter_left
        short = [counter for counter, amount in record.counters if amount > left(self.inventory, counter)]
        if not short:
            return None
        if not all(map(is_exclusion, short)):
            return Obstacle.COUNTERS
        return Obstacle.CLASHING if any(each == gate_of(each) for each in short) else Obstacle.INCOMPATIBLE
