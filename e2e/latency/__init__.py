"""
How soon a pod is bound that comes while the scheduler runs, next to kube-scheduler in turns.

    make measure ARGS=latency  # each workload, one turn
    make measure ARGS="latency --workload one-200 --turns 5 --pods 1000 --json latency.json"

- `arrivals`: one run. Pods come at a steady rate, each with a claim from a template, and leave some seconds after they
  were bound; a watch from outside says when each was bound.
- `latencies`: what was measured, and the table made of it (pure).

kube-scheduler has no limit on its client here. Both run without a Lease and without kubelets.
"""
