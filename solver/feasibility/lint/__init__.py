"""
Why a request matches no device, and what to write instead.

It compares the request with the attributes, values and sizes that devices publish, and gives a sentence fragment, empty
if nothing useful is known.

- `terms`: explains the failing condition of a selector, matchAttribute, and expressions that do not compile.
- `expressions`: recognises reads and comparisons in CEL trees. Only `selectors` and this package use `solver.cel`.
- `published`: the attributes and capacities of devices, and names that no device publishes.
- `near_values`: values that no device has, and the nearest one.

`solver.explain.hints` calls it.
"""

from solver.feasibility.lint.near_values import of_requests
from solver.feasibility.lint.published import Candidate
from solver.feasibility.lint.terms import is_selected, of_constraint, of_selectors, of_uncompiled

__all__ = ["Candidate", "is_selected", "of_constraint", "of_requests", "of_selectors", "of_uncompiled"]
