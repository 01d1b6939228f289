"""
The reasons of unplaced pods, for their conditions and events.

- `unplaced_reasons`: the reasons of one pod; they combine the following.
- `device_reasons`: counts of devices that match, are free or are excluded, and the sentences.
- `unsatisfiable`: requirements that no node of the cluster meets (labels, sizes, pod affinity).
- `hints`: what to write instead of a selector, capacity request or constraint that matches nothing.
- `fewer_devices`: how many devices would fit now.
- `gangs`: why a gang waits; `gang_outlook`: what it needs, with running workloads tried as ended (`ended_pods`).

Nothing here changes a plan. `solver.solve` calls it. `solver.diagnosis` makes the longer report of `dovetail explain`.
"""

from solver.explain.unplaced_reasons import Explanation

__all__ = ["Explanation"]
