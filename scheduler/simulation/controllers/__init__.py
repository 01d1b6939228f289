"""
What the servers and controllers of a cluster do before a scheduler sees a pod.

`defaults` fills in what the API server (and the kubelet) would, `workloads` makes pods of Deployments, Jobs and others,
`stamping` makes claims of templates, `storage` makes and binds volume claims.
"""
