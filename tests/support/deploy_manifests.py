"""Manifests of `deploy`, read as they stand in its files."""

from pathlib import Path
from typing import Any

import yaml


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def pod_template(component: Path) -> Any:
    """Return the pod template of the one Deployment in a folder's `deployment.yaml`."""
    (deployment,) = documents(component / "deployment.yaml")
    return deployment["spec"]["template"]


def container(component: Path) -> Any:
    """Return the one container of that template."""
    (only,) = pod_template(component)["spec"]["containers"]
    return only
