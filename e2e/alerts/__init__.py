"""
Tests the alert rules of `deploy/monitoring` with Prometheus' own promtool.

    make alerts     # builds promtool from its Go module into the cache (once, minutes), then tests every rule

`tests/deploy/alerts.test.yaml` has the series with which each rule fires, and with which it stays quiet.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from e2e import prometheus
from e2e.controlplane.plane import REPOSITORY

RULES: Final = REPOSITORY / "deploy" / "monitoring" / "alerts.yaml"
CASES: Final = REPOSITORY / "tests" / "deploy" / "alerts.test.yaml"


def rules() -> list[dict[str, Any]]:
    """Read the groups of rules."""
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["spec"]["groups"]
    return groups


def run() -> int:
    """Check the rules with their templates, then test them; return promtool's exit status."""
    with tempfile.TemporaryDirectory(prefix="dovetail-alerts-") as name:
        folder, groups = Path(name), rules()
        (folder / "full.yaml").write_text(yaml.safe_dump({"groups": groups}))
        for rule in (rule for group in groups for rule in group["rules"]):
            del rule["annotations"]  # promtool compares them word by word
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        (folder / "cases.yaml").write_text(CASES.read_text(encoding="utf-8"))
        for command in (("check", "rules", "full.yaml"), ("test", "rules", "cases.yaml")):
            done = subprocess.run([prometheus.binary("promtool"), *command], cwd=folder, check=False)
            if done.returncode != 0:
                return done.returncode
    return 0
