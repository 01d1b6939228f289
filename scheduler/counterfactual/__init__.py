"""
What Dovetail would have done with the pods of other schedulers: `dovetail observe` and `dovetail report`.

A counterfactual cluster starts as the real one and then diverges: nodes, devices and pods come and go as the watches
show, but Dovetail's solver decides where pods run. Each pod runs there as long as it really ran. In the order of use:

- `counterfactual_cluster`: the cluster of these decisions, with `pod_life` (a pod in both clusters) and
  `counterfactual_claims` (the devices that pods hold there). Pure: the time is passed in.
- `outcomes`: which cluster placed a pod or a gang first. `fleet_measure`: devices in use and free nodes.
- `observer`: the watches, the decisions and the samples; reads only.
- `observation_record`: the file, bounded, with `recorded_objects`. `observation_report` sums it up.

No rule of placement belongs here. Only `scheduler.cli` and `scheduler.page` call this package.
"""
