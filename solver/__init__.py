"""
The core: a snapshot of the cluster and a batch of pods go in, a plan comes out.

The core knows no cluster, no log, no file, no clock except the budget's and no randomness except its seed. It never
imports `kubernetes`, `aiohttp`, `structlog`, `prometheus_client` or `asyncio`. A pod that cannot be placed is a value
with reasons; an exception is a bug or invalid input.

In the order of the layers: `domain` has the values, `cel` and `feasibility` the rules of single pods, nodes and
devices, `problem` the dense form. `model` writes rules as rows of integers, which `engines` solve. `greedy` and
`search` find a `solution`; `extract` and `volume_matching` make it concrete; `explain` and `unplaced` give the
reasons of pods that wait. `preemption` chooses victims, `reservations` keeps nodes for overdue pods. `solve` is the
story on one page. `feasible` and `diagnosis` answer questions about single pods, `warm_up` loads engines before the
first batch, and `verify` checks plans independently of all this.

This module is the door: the scheduler imports `solver`, `solver.domain` and `solver.verify`, and nothing else.
"""

from solver.diagnosis import explain_pod
from solver.explain.hints import HINT
from solver.feasibility.claims import late as missing_claims
from solver.feasibility.node_fit import UNSCHEDULABLE as UNSCHEDULABLE_TAINT
from solver.feasibility.node_fit import first_untolerated as first_untolerated_taint
from solver.feasibility.node_fit import matches as matches_node_selector
from solver.feasibility.node_fit import selects as selects_node
from solver.feasibility.selector_index import Described, Selection, described
from solver.feasibility.volumes import fits as volume_fits
from solver.feasible import Feasible, feasible_nodes
from solver.preemption.defragmentation import fewest as fewest_moves
from solver.preemption.nominated_pods import held as reserve_for_nominated
from solver.preemption.what_if import is_freed
from solver.preemption.what_if import settled as snapshot_after
from solver.problem.devices.slice_cache import Learned
from solver.problem.solver_cache import Engine
from solver.solve import solve, solve_greedily
from solver.warm_up import rehearse

__all__ = [
    "HINT",
    "UNSCHEDULABLE_TAINT",
    "Described",
    "Engine",
    "Feasible",
    "Learned",
    "Selection",
    "described",
    "explain_pod",
    "feasible_nodes",
    "fewest_moves",
    "first_untolerated_taint",
    "is_freed",
    "matches_node_selector",
    "missing_claims",
    "rehearse",
    "reserve_for_nominated",
    "selects_node",
    "snapshot_after",
    "solve",
    "solve_greedily",
    "volume_fits",
]
