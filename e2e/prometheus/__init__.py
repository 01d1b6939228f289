"""
Prometheus and promtool, built from their Go module into the cache (once, minutes).

`python -m e2e.alerts` tests the alert rules with promtool; `python -m e2e.dashboards` lets Prometheus scrape.
"""

from pathlib import Path
from typing import Final

from e2e.controlplane import build

_SOURCE: Final = Path(__file__).parent / "go"
_TAGS: Final = "netgo,remove_all_sd,enable_kubernetes_sd"
"""Without the other kinds of service discovery, which are most of what would be compiled."""


def binary(name: str) -> Path:
    """Return the path of "prometheus" or "promtool"; builds it first where the cache has none. Raises BuildError."""
    return build.tool(name, _SOURCE, f"github.com/prometheus/prometheus/cmd/{name}", "-tags", _TAGS)
