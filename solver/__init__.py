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
from solver.feasibility.claims import missing_claims
from solver.feasibility.node_fit import (
    UNSCHEDULABLE_TAINT,
    first_untolerated_taint,
    matches_node_selector,
    selects_node,
)
from solver.feasibility.selector_index import MatchedLabels, SelectorIndex, matched_labels
from solver.feasibility.volumes import volume_fits
from solver.feasible import Feasible, feasible_nodes
from solver.preemption.defragmentation import fewest_moves
from solver.preemption.nominated_room import reserve_for_nominated
from solver.preemption.what_if import is_freed, snapshot_after
from solver.problem.devices.slice_cache import SelectorResults
from solver.problem.solver_cache import SolverCache
from solver.solve import solve, solve_greedily
from solver.warm_up import solve_warm_up_case

__all__ = [
    "HINT",
    "UNSCHEDULABLE_TAINT",
    "Feasible",
    "MatchedLabels",
    "SelectorIndex",
    "SelectorResults",
    "SolverCache",
    "explain_pod",
    "feasible_nodes",
    "fewest_moves",
    "first_untolerated_taint",
    "is_freed",
    "matched_labels",
    "matches_node_selector",
    "missing_claims",
    "reserve_for_nominated",
    "selects_node",
    "snapshot_after",
    "solve",
    "solve_greedily",
    "solve_warm_up_case",
    "volume_fits",
]
