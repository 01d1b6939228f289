"""
Repair: the fewest moves of running pods after which others fit, or have left devices that failed and nodes that go.

- `goals`: what is wrong with a fleet, the most important first; `failed_devices` says which devices pods have to leave.
- `planner` is the story; it takes the first of the following that gives an answer.
- `move_rules`: which pods may be moved, what ties them together, and what their moves cost.
- `successors`: the pods that controllers will make in place of moved ones, with claims of their own.
- `repair_case`: the cluster without all that may or must move, and who has to get a place there.
- `configurations`: the model for many nodes. Equal nodes and equal pods are counted; a column is what leaves one node
  and what comes to it. `node_kinds` says which nodes are equal, `least_harm` which pods of a kind leave.
- `joint_model`: the model for few nodes and for rules between pods, one variable for each pod that may stay.
- `places`: from counts to named devices.
- `steps`: the order of the moves, each judged by the independent checker (`solver.verify`).

Called by `dovetail repair plan` and by the repairing controller. Nothing here writes to the cluster.
"""
