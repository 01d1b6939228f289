"""
Which nodes to add, for `--add-nodes`: where shapes come from, the question to the solver, and the answer.

- `shapes_file`: shapes that a person writes, with prices.
- `live_shapes`: a live node of each group of nodes, and what Karpenter's NodePools make of it.
- `node_additions`: asks for the cheapest nodes, checks the answer by deciding again, and prints it.
"""
