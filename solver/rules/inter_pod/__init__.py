"""
What the rules between pods share, `affinity` and `spread`; no rule by itself.

- `pod_keys`: selectors of terms and constraints, numbered, and the key of pods that are equal for these rules;
- `running_pods`: running pods by label, and what they forbid others (host ports included);
- `inter_pod_context`: these, and nodes by the value of a topology key, for one batch;
- `queueing`: the events of any pod or node next to a pod.

`solver.problem.inter_pod` asks the rules. A batch without them, beside running pods without required anti-affinity,
costs one look at each pod.
"""
