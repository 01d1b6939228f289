"""
The independent checker: whether a plan keeps every rule of the API and of the configuration.

`check` is written from the API's semantics and not from the solver. It imports the domain and the door to CEL and
nothing else, and implements pools, taints, node fit and rounding again, so that only the same mistake made twice goes
unnoticed. It runs on every plan; a plan that fails is never written. The shell, `simulate` and all tests call it.

Right before a unit is written, `recheck` and `clashes` judge it on the present cluster by the same modules. What they
say is shown to users: such a message is a whole sentence, and names pods and claims of the reader's namespace only.

A check costs what its plan touches, and what the snapshot has changed since the last check with the same
`VerifierCache`; without a cache, one pass over nodes, slices, claims and pods.

`checker` runs one module per kind of rule: `node_fit`, `node_allocatable` (KEP-5517), `inter_pod` (ports, affinity,
spread), `volumes`, `claims` (with allocation results), `requests` (with selectors and constraints), `devices`, `usage`
(exclusive devices, capacities, counters), `extended_resources` (KEP-5004), `gangs`, `preemption` (with node
reservations), `holds` (room that is held). `before_write` runs those that need no CEL and no other pods than those of
the unit's nodes.
`repair` checks the moves of a repair one after the other.
`violations` is the closed list of rules. The checks share `plan_context` (batch and plan by key), `snapshot_index` with
`pools` and `label_groups` (the snapshot by key, built of the indexes of `object_index`), and `matching` (node
selectors, taints).

This package is a door, as `solver` is: its names stand in `__init__.pyi`, and each imports its module when it is first
used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
