"""
The core: a snapshot goes in, a plan comes out.

Rules of this half: no cluster, no log, no file, no clock but the budget's, no randomness but its seed. It never
imports `kubernetes`, `aiohttp`, `structlog`, `prometheus_client` or `asyncio`. "Cannot place" is a value with
reasons; an exception is a bug or invalid input.

In the order of the layers: `domain` is the language, `feasibility` says what may go where, `problem` makes it dense,
`model` writes its rules as rows of integers that `engines` read, `greedy` and `search` find a `solution`, `extract`
makes it concrete, `explain` says why others wait. `preemption` and `holds` make room for who waits, `solve` is the
story on one page. `feasible` and `account` answer questions about single pods, `rehearse` warms everything up, and
`verify` checks plans independently of all this.
"""

from solver.feasible import Feasible, feasible_nodes
from solver.problem.devices.slice_cache import Learned
from solver.problem.solver_cache import Engine
from solver.solve import solve, solve_greedily
from solver.warm_up import rehearse

__all__ = ["Engine", "Feasible", "Learned", "feasible_nodes", "rehearse", "solve", "solve_greedily"]
