"""
Devices of the cluster in dense form: what is published, what is in use, and which nodes look the same to a batch.

From objects to the dense form:

- `slice_cache`: results kept per ResourceSlice (counters, selectors);
- `device_properties`: node sizes, classes of equal capacities, ownership, taint rules, and devices of several drivers
  that stand together;
- `inventory`: every device of every usable pool, independent of batch and usage;
- `inventory_builder`: builds it; `inventory_update`: replaces the pools of which slices changed;
- `ledger`: claims by id, and the ledger of devices: what their allocations hold, and what is left.

The device layout of a batch: nodes with interchangeable devices are described once, as a group.

- `layout`: the values (types of devices, groups of nodes, budgets);
- `device_types`: what the batch can see of each device, and sites of cluster-wide devices;
- `states`: what is left of each budget of every node;
- `node_ledger`: what is left on one node while devices are taken there, by type;
- `node_groups`: builds types, groups and budgets;
- `incremental`: describes the nodes of changed devices again;
- `fragmentation`: groups of devices that are worth more whole, and partitions that a placement spoils.
"""
