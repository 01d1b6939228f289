"""
The fleet: every device of a snapshot with its state and holders, and supplies of groups of devices.

- `availability`: whether a device has room for one more allocation; messages about waiting pods use it too;
- `holders`: who holds each device, since when, and how much of it;
- `build`: all devices of a snapshot (`fleet_of`);
- `blocks`: the largest blocks that may be taken at once, and fragmentation;
- `supply`: totals of groups of devices (`supply_of`).

Nothing here changes a plan. The values are in `solver.domain.fleet`.
"""

from solver.fleet.build import fleet_of
from solver.fleet.supply import supply_of

__all__ = ["fleet_of", "supply_of"]
