"""
First fit and best fit: the hint of the exact search, its floor, and the fall-back when the budget ends.

`greedy` is the story: pods by strict priority, in several orders. `units` are what it places whole (single pods,
gangs), `placing` serves what a pod asks for on one node, `picking` takes the devices, `rating` says how good that is,
and `tracking` (with `tracking_neighbours`) follows the rules among pods while they are placed. Here may not live:
proofs, and rules that the model does not have too. Called by `solver.solve`, and by whoever asks quickly what would
fit: `preemption`, `holds`, `explain`, `account`, `search.last`.
"""

from solver.greedy.device_fit import reach
from solver.greedy.greedy import Greedy, Order, candidates
from solver.greedy.node_score import Rating

__all__ = ["Greedy", "Order", "Rating", "candidates", "reach"]
