"""
Public workloads: what Dovetail places of them beside simple policies and published results, and what was possible.

    make traces ARGS="--traces FOLDER"

The traces are not part of the project; docs/traces.md says which files a folder has to have, and whose they are.

- `workload`: machines, and what tasks ask for; `alibaba` reads those of FGD's setting, `published` its results;
- `draws`: the order in which tasks arrive, the same for every policy;
- `machines`: what is left of machines; `fragmentation`: how much of it typical tasks cannot use;
- `policies`: random, best fit, dot product and FGD of our own, which show that setting and measures are those of FGD;
- `dovetail`: the same decisions by Dovetail: slices, claims and pods in the scheduler's cache, one pod a batch;
- `bound`: the most that a scheduler could allocate if it knew all arrivals (a linear program);
- `trace_cluster`: machines, pods and claims in the scheduler's cache, and decisions about them;
- `kept_runs`: runs as files;
- `replay`: one policy over one draw, and its curve;
- `queues`: jobs that arrive, wait and end; `observed`: one's own cluster, from the record of `dovetail observe`.
"""
