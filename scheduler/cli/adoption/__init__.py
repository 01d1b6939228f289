"""The commands for a cluster in which another scheduler decides: `observe` and `report`. They write nothing to it."""
