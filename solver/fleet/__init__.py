"""
The fleet: every device of a snapshot with its state and holders, and supplies of groups of devices.

- `availability`: whether a device has room for one more allocation; messages about waiting pods use it too;
- `request_counts`: how many devices match a request, and how many of them are free, in use or excluded; `kept_counts`
  keeps these numbers between decisions;
- `device_facts`: which claims and pods hold a device, which product it is, and what it has from its node;
- `fleet_builder`: all devices of a snapshot (`fleet_of`);
- `blocks`: the largest blocks that may be taken at once;
- `fragmentation`: the part of the available devices that typical requests cannot use, and the pods beside them;
- `supply`: totals of some devices, of groups of them (`grouped_supply`), and those that have series (`totals_of`);
- `selection`: the devices and unusable pools that a question is about (`selected_devices`, `selected_pools`).

Nothing here changes a plan. The values are in `solver.domain.fleet`.
"""

from solver.fleet.fleet_builder import fleet_of
from solver.fleet.selection import selected_devices, selected_pools
from solver.fleet.supply import grouped_supply, totals_of

__all__ = ["fleet_of", "grouped_supply", "selected_devices", "selected_pools", "totals_of"]
