"""The generated files of `deploy/monitoring`, by their paths."""

from pathlib import Path
from typing import Final

import yaml

from e2e import alerts
from e2e.dashboards import grafana
from e2e.dashboards.panels import BOARDS

MONITORING: Final = alerts.RULES.parent
RULES: Final = MONITORING / "prometheus" / "rules.yaml"
_HEAD: Final = (
    "# The rules of ../alerts.yaml, for a Prometheus without the Operator. `make monitoring` writes this file.\n"
)


def texts() -> dict[Path, str]:
    """Return what each file holds."""
    made = {MONITORING / "dashboards" / f"dovetail-{board.name}.json": grafana.written(board) for board in BOARDS}
    return {**made, RULES: _HEAD + yaml.safe_dump({"groups": alerts.rules()}, sort_keys=False, width=110)}
