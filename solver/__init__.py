"""
The core: a snapshot goes in, a plan comes out.

Rules of this half: no cluster, no log, no file, no clock but the budget's, no randomness but its seed. It never
imports `kubernetes`, `aiohttp`, `structlog`, `prometheus_client` or `asyncio`. "Cannot place" is a value with
reasons; an exception is a bug or invalid input.

In the order of the layers: `domain` has the values, `cel` and `feasibility` the rules of single pods, nodes and
devices, `problem` the dense form. `model` writes rules as rows of integers, which `engines` solve. `greedy` and
`search` find a `solution`; `extract` and `volume_matching` make it concrete; `explain` and `unplaced` give the
reasons of pods that wait. `preemption` chooses victims, `reservations` keeps nodes for overdue pods. `solve` is the
story on one page. `feasible` and `diagnosis` answer questions about single pods, `warm_up` loads engines before the
first batch, and `verify` checks plans independently of all this.
"""

from solver.feasible import Feasible, feasible_nodes
from solver.problem.devices.slice_cache import Learned
from solver.problem.solver_cache import Engine
from solver.solve import solve, solve_greedily
from solver.warm_up import rehearse

__all__ = ["Engine", "Feasible", "Learned", "feasible_nodes", "rehearse", "solve", "solve_greedily"]
