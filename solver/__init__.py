"""
The core: a snapshot goes in, a plan comes out.

Rules of this half: no cluster, no log, no file, no clock but the budget's, no randomness but its seed. It never
imports `kubernetes`, `aiohttp`, `structlog`, `prometheus_client` or `asyncio`. "Cannot place" is a value with
reasons; an exception is a bug or invalid input.

`domain` is the language, `feasibility` says what may go where, `problem` makes it dense, `greedy` and `search`
find plans over `model`, `extract` and `explain` put them into words, `verify` checks them independently.
"""

from solver.feasible import Feasible, feasible_nodes
from solver.problem.memory import Engine
from solver.rehearse import rehearse
from solver.solve import solve, solve_greedily

__all__ = ["Engine", "Feasible", "feasible_nodes", "rehearse", "solve", "solve_greedily"]
