"""
How a plan is found and proven: values of levels, bounds, exact search.

Every stage stops as soon as the best solution known meets its bound. A budget ends them; the best solution known
always stands.
"""
