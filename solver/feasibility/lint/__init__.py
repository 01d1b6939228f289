"""
What is wrong with a request that matches nothing, and what to write instead.

Everything is judged against what the devices that the request could select publish: which attributes there are, which
values and sizes they have, how near the asked ones come. Pure: devices and texts in, a sentence fragment out, empty
where nothing useful can be said. Beside `selectors`, this is the only part that looks at CEL's trees;
`solver.explain.hints` calls it when pods are explained.
"""

from solver.feasibility.lint.near_values import of_requests
from solver.feasibility.lint.published import Candidate
from solver.feasibility.lint.terms import is_selected, of_match, of_selectors, of_uncompiled

__all__ = ["Candidate", "is_selected", "of_match", "of_requests", "of_selectors", "of_uncompiled"]
