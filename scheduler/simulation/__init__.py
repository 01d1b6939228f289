"""
The scheduler's decisions without a running scheduler: `dovetail simulate`, `replay`, `explain` and `repair plan`.

Manifests or a live cluster become the snapshot and batch that the scheduler would decide on. In the order of use:

- `manifests` reads files and validates them as the API server does; `live_cluster` lists the objects of a cluster,
  `server_versions` asks which versions run there.
- `defaults`, `workloads` and `claim_templates` do what API server, kubelet and controllers would do with the objects.
- `case_builder` makes a `SimulationCase` of all that; `simulator` decides it, explains one pod, saves and loads cases.
- `moves` finds the moves of `dovetail repair plan` and carries them out.
- `plan_output` and `explanation_output` print the answers as tables, JSON or YAML, with `printing`; `list_table` prints
  lists as kubectl does.

No rule of allocation belongs here. Only `scheduler.cli` calls this package.
"""
