"""
What a node is: its labels, name and features, against node selector, node affinity and the claims that a pod joins.

`nodes` and `values.objection` are also where the filters of single pods stand in kube-scheduler's order, taints among
them. The check is in `solver.verify.node_fit`.
"""
