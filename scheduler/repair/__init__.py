"""
The repairing controller: it looks at the fleet, keeps one plan of moves as a RepairPlan, and carries out approved ones.

- `plan_record`: what the plans say of moves so far, their budgets and cool-downs. Pure.
- `advisor`: makes a plan where there is none, and removes plans that hold no more or that nobody needs any more.
- `next_move`: what to do next for a plan. Pure. `executor` does it.
- `upgrades`: whether replicas of Dovetail are being replaced; then nothing moves.
- `repairer`: the loop of the leader.

The moves are found in a child of the worker (`scheduler.worker.repair_planning`). Everything that must outlive a leader
stands in the plans, so that the next one goes on from there.
"""
