"""
How a plan is found and proven: values of levels, bounds, exact search.

`last` is the door: it decides the level `scores` after all others (`scoring`), which `apart` decides for each part of
a batch that shares nothing with the others, by `staged`: one stage after the other, each only where the one before has
proven nothing. The stages are `bound` (relaxation), `columns` (patterns of nodes: `kinds`, `patterns`, `mix`, `dive`),
`exact` (the model as a whole) and `neighbourhoods` (with `crews` for gangs: the exact model of some nodes at a time, by
`parts`). `values` says what a solution is worth. `hard` tells which pods are worth a solve of their own. Before the
stages that search, `gangs_first` lets gangs that would wait choose ahead of others, which these would take long to
find.

Every stage stops as soon as the best solution known meets its bound. A budget ends them; the best solution known
always stands. A rule that couples classes has to be known to `apart`, and to `parts`, which leaves pods where they are.
"""
