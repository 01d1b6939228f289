"""
The fleet: every device of a snapshot with its state and holders, and supplies of groups of devices.

- `availability`: whether a device has room for one more allocation; messages about waiting pods use it too;
- `request_counts`: how many devices match a request, and how many of them are free, in use or excluded;
- `holders`: who holds each device, since when, and how much of it;
- `products`: the product that a device is;
- `node_facts`: what devices have in common by their nodes;
- `fleet_builder`: all devices of a snapshot (`fleet_of`);
- `blocks`: the largest blocks that may be taken at once;
- `fragmentation`: the part of the available devices that typical requests cannot use, and the pods beside them;
- `supply`: totals of groups of devices (`supply_of`); `totals`: those that have series (`totals_of`).

Nothing here changes a plan. The values are in `solver.domain.fleet`.
"""

from solver.fleet.fleet_builder import fleet_of
from solver.fleet.fragmentation import fleet_fragmentation
from solver.fleet.supply import supply_of
from solver.fleet.totals import totals_of

__all__ = ["fleet_fragmentation", "fleet_of", "supply_of", "totals_of"]
