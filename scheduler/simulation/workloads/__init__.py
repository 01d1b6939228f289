"""
What controllers do before the scheduler sees a pod.

- `workload_set` has the workloads of manifests; `controllers` and `job_controller` make their pods, by `pod_templates`.
- `foreign_kinds` has kinds outside Kubernetes (JobSet, LeaderWorkerSet, Ray, Kubeflow), with `exclusive_topology`;
  `unknown_makers` says what to write instead of others.
- `volume_controllers` make volume claims, and bind volumes.
- `creation_order` has pods that are made one after another.
"""
