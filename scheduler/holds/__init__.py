"""
Holds (DeviceHold): the leader makes them for other parts of the scheduler, follows them, and ends them.

- `hold_keeper`: the door. Another part holds the room of a plan, gives it free, and learns how a hold ended.
- `hold_requests`: what they ask, and what they learn.
- `hold_bounds`: why a hold may not be made.
- `kept_nodes`, `node_marks`: autoscalers leave nodes with held room alone.
- `hold_owners`: whether the object is still there for which room is held.

Which pods get held room is decided in the core (`solver.holds`). What the cache knows of holds is in
`scheduler.cluster.holds.hold_cache`; the requests themselves are in `scheduler.kube.hold_writes`.
"""
