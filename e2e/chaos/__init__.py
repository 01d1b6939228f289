"""
Chaos: hours of mixed work on a real control plane while everything is killed, stopped, edited and deleted beside it.

    make chaos                                  # ten minutes; a line for everything that was done to the cluster
    make chaos ARGS="--minutes 60 --seed 7"     # longer; the seed names the work and the disturbances, not their timing
    make chaos ARGS="--nodes 2"                 # two of the nodes are real ones: kubelet, containerd, driver (root)

Whether all went well is judged from the API server, not from what Dovetail says:

- `judge` holds the rules that must never be broken, and is pure: claims and pods as a watch gives them go in, findings
  come out. `watcher` watches. `e2e.audit.history` checks every write of the audit log at the end.
- `cluster` makes the cluster, `work` creates pods in ten namespaces, `disturbances` edits and deletes beside them,
  `decay` brings about what repairs mend, `hostile_tenant` creates hostile objects, `process_faults` kills, ends and
  stops processes, `replicas` starts them.
- With real nodes (`e2e.nodes`), `real_nodes` starts them and acts on them for all threads, `node_faults` kills drivers
  and kubelets and reboots, and `for_kubelets` makes objects such that they run there. `node_watcher` reads the logs of
  drivers and containers for `node_judge`, which is pure, too: what kubelets did, not what the API server has.
- `ending` lets it all come to rest and looks at what is left.

Exits with 0 when nothing was found. Logs and the control plane's state stay in the folder that is printed.
"""
