"""
What controllers do before the scheduler sees a pod.

- `workload_set` has the workloads of manifests; `controllers` and `job_controller` make their pods, by `pod_templates`.
- `foreign_kinds` has kinds outside Kubernetes: `job_sets`, `leader_worker_sets`, `ray_clusters` and `replica_specs`
  (Kubeflow), with `exclusive_topology` and `foreign_pods`. `foreign_rules` holds their fields to what they have to be,
  with `field_reader`; `unknown_makers` says what to write instead of others.
- `volume_controllers` make volume claims, and bind volumes.
- `maker_reading` reads an object that makes pods from a cluster, and `podless_makers` says why it has none.
- `creation_order` has pods that are made one after another.
"""
