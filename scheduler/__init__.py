"""
The shell: everything that touches the cluster, the clock or a task.

It caches the cluster, asks `solver.solve` for plans and makes them so. Decisions live in `solver`, not here.
"""

from typing import Final

NAMESPACE: Final = "dovetail-system"
"""Where the manifests of `deploy` put the scheduler, unless they are changed."""
REPLICAS: Final = "app.kubernetes.io/name=dovetail"
"""Selects the pods of the scheduler, as deploy/base and the chart label them."""
API_SERVICE: Final = f"{NAMESPACE}/dovetail-api"
"""The Service of the scheduler's API."""


def version() -> str:
    """Return the version of the installed distribution; `unknown` in a checkout that is not installed."""
    from importlib import metadata  # noqa: PLC0415 - it takes longer to import than all that `--help` needs

    try:
        return metadata.version("dovetail-scheduler")
    except metadata.PackageNotFoundError:
        return "unknown"
