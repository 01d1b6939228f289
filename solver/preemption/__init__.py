"""
Preemption: which running pods to evict so that pods of higher priority fit, at the least cost.

- `preempt`: adds preemptions to a plan, and rearranges the plan where that spares victims. `preemption_state` serves
  the preemptors, each step giving a new frozen state; `preemptions` are the values and messages that come out.
- `victims`: what may be evicted, and `pdb_index` the PodDisruptionBudgets of pods.
- `dry_run`: the victim candidates of a tier, and the part of the cluster in which victims are searched;
  `node_ranking` chooses its nodes, `cluster_state` is the cluster as decided so far, `what_if` changes a snapshot.
- `victim_model`: the exact model, for one preemptor or several; `victim_usage` says what victims hold. `victim_search`
  checks its answer, and reprieves pods as kube-scheduler does where a rule refuses it.
- `kept_pods`: why the pods of a lower priority stay; `endings`: which pods would have to end, whatever protects them.
- `nominated_room`: room for pods that wait until their victims are gone.

Called by `solver.solve` after the plan; `solver.repair` uses its parts. Nothing here writes to the cluster.
"""
