"""
What a test of Kubernetes starts in kube-scheduler's place: `python -m e2e.upstream.process KUBECONFIG CONFIG.json`.

CONFIG.json says where `/readyz` is expected and what the test's KubeSchedulerConfiguration asks for (see
`go/process.go`); Dovetail gets it as a configuration file of its own.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml

LEVEL = "DOVETAIL_UPSTREAM_LOG_LEVEL"


def configuration(asked: dict[str, Any]) -> dict[str, Any]:
    """Return Dovetail's configuration for what a test asks for."""
    timeouts = [profile["bindingTimeoutSeconds"] for profile in asked["profiles"] if "bindingTimeoutSeconds" in profile]
    return {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "profiles": [
            {"schedulerName": profile["schedulerName"], "preemption": {"enabled": profile["preemption"]}}
            for profile in asked["profiles"]
        ],
        **({"commit": {"bindingTimeoutSeconds": min(timeouts)}} if timeouts else {}),
        "leaderElection": {"enabled": False},
        **{section: {"bindAddress": asked["address"]} for section in ("health", "metrics")},
        "logging": {"format": "console", "level": os.environ.get(LEVEL, "debug")},
    }


def main(kubeconfig: str, asked: str) -> None:
    """Become Dovetail."""
    settings = Path(asked).with_suffix(".yaml")
    settings.write_text(yaml.safe_dump(configuration(json.loads(Path(asked).read_text()))))
    command = [sys.executable, "-m", "e2e.dovetail", "run", f"--kubeconfig={kubeconfig}", f"--config={settings}"]
    os.execv(command[0], command)  # noqa: S606 - our own program


if __name__ == "__main__":
    main(*sys.argv[1:])
