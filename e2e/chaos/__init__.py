"""
Chaos: hours of mixed work on a real control plane while everything is killed, stopped, edited and deleted beside it.

    make chaos                                  # ten minutes; a line for everything that was done to the cluster
    make chaos ARGS="--minutes 60 --seed 7"     # longer; the seed names the work and the disturbances, not their timing

Whether all went well is judged from the API server, not from what Dovetail says:

- `judge` holds the rules that must never be broken, and is pure: claims and pods as a watch gives them go in, findings
  come out. `watcher` watches. `e2e.audit.history` checks every write of the audit log at the end.
- `cluster` makes the cluster, `work` creates pods in ten namespaces, `disturbances` edits and deletes beside them,
  `hostile_tenant` creates hostile objects, `process_faults` kills, ends and stops processes, `replicas` starts them.
- `ending` lets it all come to rest and looks at what is left.

Exits with 0 when nothing was found. Logs and the control plane's state stay in the folder that is printed.
"""
