"""
Which nodes to add, for `--add-nodes`: where shapes come from, the question to the solver, and the answer.

- `shapes_file`: shapes that a person writes, with prices.
- `live_shapes`: a live node of each group of nodes, and what Karpenter's NodePools make of it, within `pool_limits`.
- `karpenter_objects`, `coming_nodes`: what Karpenter can make, and nodes that it is making.
- `confirmed_nodes`: the cheapest nodes, decided again with the nodes there.
- `node_additions`: the question and its answer, printed.
"""
