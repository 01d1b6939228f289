"""
Rules between pods over topology domains: pod affinity and anti-affinity, topology spread.

Host ports are collected with them, and kept by `solver.rules.ports`.

- `pod_keys`: selectors of terms and constraints, numbered, and the key of pods that are equal for these rules;
- `inter_pod_context`: running pods by label, host ports, and nodes by the value of a topology key;
- `exclusions`: the nodes that running pods rule out for a pod, with kube-scheduler's reasons;
- `affinity_rules`: the rules between pods of one batch, as data for greedy and model;
- `rules`: all of it, for `prepare`.

A batch without such rules, beside running pods without required anti-affinity, costs one look at each pod.
"""
