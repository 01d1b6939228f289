"""
The scheduler's cache of the cluster: objects from the watches, with the scheduler's own unconfirmed writes applied.

As in kube-scheduler, a placement is assumed before it is written. The watch confirms it, or `forget` takes it back. The
worker keeps a replica of this cache, which gets the same changes and the shell's `Assumptions`. The package is pure: no
I/O, no task, no clock except the one passed in. It decides nothing about where pods go.

- `cluster`: the door, `Cluster`: apply, snapshot, assume, acknowledge, forget, check.
- `listed_cluster`: the snapshot of objects that are listed once, as commands read them.
- `intake`: applies changes and isolates an object that raises; `interning` shares equal parts of objects.
- `object_store`: the objects in `table`s, as observed and as assumed, and their indexes: `devices` (slices, pools,
  allocated devices), `pod_index` (pods by node, anti-affinity), `gangs` with `gang_members`, `storage`.
- `told`: what of a transition waiting pods have to know.
- `assume_cache`: assumed bindings, allocations and reservations; `nominations`: preemptions under way; `hold_cache`:
  room that is held for pods to come; `batch_parts`: pods that see the same room kept for others.
- `unit`: the pods and claims that are committed together, and the outcomes of a commit.
- `commit_check`: whether a unit may still be written, by the checker's rules and by what only the cache knows, with
  `contention` (devices that other claims hold) and `anti_affinity_check`.
"""

from scheduler.change import Transition
from scheduler.cluster.assume_cache import Assumptions, ClaimAssumption, PodAssumption
from scheduler.cluster.batch_parts import split_by_held_room
from scheduler.cluster.cluster import Cluster
from scheduler.cluster.devices import Duplicate
from scheduler.cluster.intake import Intake, IntakeResult
from scheduler.cluster.listed_cluster import ListedCluster
from scheduler.cluster.unit import Unit, split_plan

__all__ = [
    "Assumptions",
    "ClaimAssumption",
    "Cluster",
    "Duplicate",
    "Intake",
    "IntakeResult",
    "ListedCluster",
    "PodAssumption",
    "Transition",
    "Unit",
    "split_by_held_room",
    "split_plan",
]
