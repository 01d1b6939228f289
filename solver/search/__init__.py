"""
How a plan is found and proven. `scoring.search_and_score` is the door.

- `scoring`: search all other levels, then place pods without devices by their scores.
- `stages`: the order of the stages, each only while nothing before it has proven the solution.
- `bound`: LP bounds, contradictions, the budget for packing levels.
- `decompose`: independent subproblems, and which of them are deferred.
- `column_generation`, `columns`: bounds and solutions from columns (what one node of a class holds).
- `exact`: CP-SAT on the whole model, level by level.
- `neighbourhoods`, `restricted_problem`: LNS, and the model of some nodes.

The constants and switches of all stages are `solver.domain.SearchParams`; `docs/search.md` explains the pipeline and
what each stage earns. Every stage stops as soon as the best solution meets its bound. A rule that couples pod classes
has to be known to `decompose` and to `restricted_problem`.
"""
