"""
The fleet: every device of a snapshot with its state and holders, and supplies of groups of devices.

- `availability`: whether a device has room for one more allocation; messages about waiting pods use it too;
- `request_counts`: how many devices match a request, and how many of them are free, in use or excluded; `kept_counts`
  keeps these numbers between decisions;
- `holders`: the claims and pods that hold each device, since when, and how much of it;
- `products`: the product that a device is;
- `node_facts`: what devices have in common by their nodes;
- `fleet_builder`: all devices of a snapshot (`fleet_of`);
- `blocks`: the largest blocks that may be taken at once;
- `fragmentation`: the part of the available devices that typical requests cannot use, and the pods beside them;
- `supply`: totals of some devices; `grouped_supply`: of groups of them; `totals`: those that have series (`totals_of`);
- `selection`: the devices and unusable pools that a question is about (`selected_devices`, `selected_pools`).

Nothing here changes a plan. The values are in `solver.domain.fleet`.
"""

from solver.fleet.fleet_builder import fleet_of
from solver.fleet.grouped_supply import grouped_supply
from solver.fleet.selection import selected_devices, selected_pools
from solver.fleet.totals import totals_of

__all__ = ["fleet_of", "grouped_supply", "selected_devices", "selected_pools", "totals_of"]
