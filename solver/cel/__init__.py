"""
A compiler for the CEL environment of Dynamic Resource Allocation; `README.md` describes it.

- parse: `parse` (text → tree), `tree_builder`, `macros`, `tree` (the nodes).
- check: `check` (types and overloads), `types`, `checker_hints` (what to write instead).
- compile: `compile` (tree → closures), `calls`, `field_access`, `loops`, `frame` (the evaluation's frame), `reads`
  (what an expression reads of a device).
- evaluate: `values`, `library` (the functions), `meter` (cost limits), `cache` (bounded in bytes), `errors`.

The package knows devices, but no claims, pools or nodes. Only `feasibility.selectors` and `feasibility.lint` import it.
"""
