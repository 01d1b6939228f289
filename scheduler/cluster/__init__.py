"""
What we believe: a living mirror of the cluster, and the ledger of writes that the watch has not confirmed yet.

Pure: no I/O, no task, no clock but the one that `staleness` is given. The shell feeds it with changes and asks it for
snapshots and checks; the solver's worker process keeps a replica of it, fed by the same changes and by the shell's
`Assumptions`. Whoever needs the state of the cluster asks here; nothing here decides where a pod goes.

`cluster` is the door, `intake` what isolates the changes that come in by it. `mirror` holds the objects, each kind a
`table`, and what is indexed from them: `inventory`, `holdings` (with `contention`), `occupancy`, `company` (with
`keepers`), `storage`, `gangs`, `specials`, `sharing`. `ledger` holds what is believed before a watch shows it,
`nominations` preemptions under way, `vacated` what became of them. `unit` is what is committed together, `held_apart`
what is decided together; `check*` say whether a unit may still be written.
"""

from scheduler.change import Transition
from scheduler.cluster.cluster import Cluster
from scheduler.cluster.devices import Duplicate
from scheduler.cluster.intake import Intake, IntakeResult
from scheduler.cluster.ledger import Assumptions, ClaimAssumption, PodAssumption
from scheduler.cluster.nominations import split_held
from scheduler.cluster.unit import Unit, split_plan

__all__ = [
    "Assumptions",
    "ClaimAssumption",
    "Cluster",
    "Duplicate",
    "Intake",
    "IntakeResult",
    "PodAssumption",
    "Transition",
    "Unit",
    "split_held",
    "split_plan",
]
