"""
Moves of running pods: `dovetail repair plan`, and the moves that `dovetail fit` proposes.

- `planned_moves`: from what a person names to a goal, and from a goal to the fewest moves.
- `moves_output`: the plan as a table, JSON or YAML.
- `moves_by_hand`: `--apply` makes the moves with the caller's credentials; the only writes of `scheduler.simulation`
  beside `draining`.
"""
