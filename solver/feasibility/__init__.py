"""
Which claims and devices fit together, before any optimisation, with a reason for each exclusion.

- Pods: `claims`, `missing_claims`, `selector_index` (which pod affinity terms select a pod).
- Devices: `selectors` (the door to CEL), `pools`, `capacity` (KEP-5075, KEP-5517), `device_attributes`,
  `extended_resources` (KEP-5004).
- `lint`: why a request matches nothing, and what to write instead.

The modules judge single objects and pairs; they choose nothing. `solver.problem` is the main caller.
"""
