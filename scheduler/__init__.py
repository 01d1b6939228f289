"""
The shell: everything that touches the cluster, the clock or a task.

It caches the cluster, asks `solver.solve` for plans and makes them so. Decisions live in `solver`, not here.
"""

from importlib import metadata


def version() -> str:
    """Return the version of the installed distribution; `unknown` in a checkout that is not installed."""
    try:
        return metadata.version("dovetail-scheduler")
    except metadata.PackageNotFoundError:
        return "unknown"
