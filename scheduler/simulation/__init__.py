"""
The same engine without a cluster, for `dovetail simulate` and `dovetail replay`.

Manifests (or a live cluster, only read) become the snapshot and the batch that production would decide on, and the
plan becomes a table or a documented JSON.

In the order of use: `documents` (files to documents), `shapes` (what the API server would refuse), `defaults` (what it
would fill in), `workloads` (controllers' pods), `stamping` (the claim controller's claims), `assembly` (documents to a
`Case`), `live` (the cluster's objects), `answer` (case to plan, checked), `output` and `table` (plan to text). Here may
not live: rules of allocation. Only `scheduler.cli` calls it.
"""
