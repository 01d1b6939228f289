"""What the scheduler calls of the solver. It imports all of the solver, which takes a second."""

from solver.decide import solve, solve_greedily
from solver.diagnosis import UncountableError, explain_placed, explain_pod, max_count
from solver.explain.hints import HINT
from solver.feasibility.claims import missing_claims, with_missing_templates
from solver.feasibility.node_fit import (
    UNSCHEDULABLE_TAINT,
    first_untolerated_taint,
    matches_node_selector,
    selects_node,
)
from solver.feasibility.selector_index import MatchedLabels, SelectorIndex, matched_labels
from solver.feasibility.volumes import volume_fits
from solver.feasible import Feasible, feasible_nodes
from solver.fleet import fleet_fragmentation, fleet_of, supply_of, totals_of
from solver.preemption.defragmentation import fewest_moves
from solver.preemption.nominated_room import reserve_for_nominated
from solver.preemption.what_if import is_freed, snapshot_after
from solver.problem.devices.slice_cache import SelectorResults
from solver.problem.solver_cache import SolverCache
from solver.warm_up import solve_warm_up_case

__all__ = [
    "HINT",
    "UNSCHEDULABLE_TAINT",
    "Feasible",
    "MatchedLabels",
    "SelectorIndex",
    "SelectorResults",
    "SolverCache",
    "UncountableError",
    "explain_placed",
    "explain_pod",
    "feasible_nodes",
    "fewest_moves",
    "first_untolerated_taint",
    "fleet_fragmentation",
    "fleet_of",
    "is_freed",
    "matched_labels",
    "matches_node_selector",
    "max_count",
    "missing_claims",
    "reserve_for_nominated",
    "selects_node",
    "snapshot_after",
    "solve",
    "solve_greedily",
    "solve_warm_up_case",
    "supply_of",
    "totals_of",
    "volume_fits",
    "with_missing_templates",
]
