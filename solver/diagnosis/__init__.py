"""
The diagnosis of one pod for `dovetail explain`: why it waits, node by node, and which change would help.

- `pod_report`: makes the report (`PodDiagnosis`), with the device counts of each request.
- `feasibility_probe`: solves whether a pod fits on a node, in the cluster as it is or changed.
- `placed_pod`: the same for a pod that is bound, as if it were decided now.
- `max_count`: counts the copies of some pods that fit.
- `added_nodes`: finds the cheapest nodes to add so that pods start; `node_limits`: how many there can be.
- `facts`: the facts that can exclude a pod from a node, each with the case without it.
- `conflict_model`: finds a minimal set of facts that cannot hold together.
- `counterfactuals`: finds changes after which the pod fits on a node; `whole_cluster` finds those of its rules, and
  shows of each that the pod starts with all that must start with it.

It takes dozens of small solves. No plan depends on it.
"""

from solver.diagnosis.added_nodes import nodes_to_add
from solver.diagnosis.max_count import max_count
from solver.diagnosis.placed_pod import explain_placed
from solver.diagnosis.pod_report import explain_pod
from solver.diagnosis.shape_outlook import ShapeCache

__all__ = ["ShapeCache", "explain_placed", "explain_pod", "max_count", "nodes_to_add"]
