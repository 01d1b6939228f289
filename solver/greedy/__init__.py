"""
First fit and best fit: the first solution of the search, and the plan where the budget ends.

`greedy` places pods by strict priority, and `candidates_in_order` has it run in several orders. `units` are what it
places whole: single pods and gangs. `device_fit` serves what a pod requests on one node, and `node_score` rates that.
`placement_state` follows the rules among pods while they are placed. No proofs live here, and no rule that the model
does not have too.
"""

from solver.greedy.candidates_in_order import candidates
from solver.greedy.device_fit import reach
from solver.greedy.greedy import Greedy, Order
from solver.greedy.node_score import Rating

__all__ = ["Greedy", "Order", "Rating", "candidates", "reach"]
