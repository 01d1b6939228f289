"""
The shell: everything that touches the cluster, the clock or a task.

It mirrors the cluster, asks `solver.solve` for plans and makes them so. Decisions live in `solver`, not here.
"""
