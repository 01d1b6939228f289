"""
Manifest files as documents, and what the API server would refuse about them.

- `documents`: files to documents; `fields`: safe access to documents of any shape, and errors of old shapes.
- `api_validation`: everything in one object that kubectl or the API server refuses, with `pod_rules` (pods, volumes),
  `claim_rules` (claims, device classes), `slice_rules` (request policies of slices) and `group_rules` (PodGroups,
  Workloads, Jobs).
- `decoding`: document to `Change` as the watches decode it; served kinds and versions, admission, immutable fields.
"""
