"""
The rules of a plan, grouped by the shape of their rows; each function adds the rows of one rule.

`pods`: how many pods go where. `components`: every claim is served in one way. `devices`: nothing is given out
twice.
"""
