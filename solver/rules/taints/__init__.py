"""
Taints and tolerations (core/v1, KEP-5471 for Gt and Lt; DRA device taints KEP-5055), and spec.unschedulable of a node.

A pod may use a node whose NoSchedule and NoExecute taints it tolerates (TaintToleration, NodeUnschedulable); so may the
request of a claim a device. PreferNoSchedule taints are costs (`solver.problem.costs`).

Devices ask `values` where they are counted (`solver.problem.requests.demand`); their reasons are hinted with those of
other devices (`scheduler.queue.queueing_hints`). The checks are in `solver.verify.node_fit` for nodes, and for devices
in `solver.verify.devices` and `solver.verify.claims`.
"""
