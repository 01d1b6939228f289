"""Loads what a decision needs, while the API server prepares its lists."""

import solver


def load() -> None:
    """Import the solver, and decide a tiny case: it loads grammar and engines, and what only deciding imports."""
    from scheduler.simulation import case_builder, simulator  # noqa: F401, PLC0415 - they take most of a second

    solver.solve_warm_up_case()
