"""What kustomize renders of `deploy`."""

import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.controlplane import build
from e2e.controlplane.plane import REPOSITORY

DEPLOY: Final = REPOSITORY / "deploy"
CONFIG: Final = "dovetail-config"
_CONFIG_WITH_HASH: Final = re.compile(rf"\b{CONFIG}-[a-z0-9]{{10}}\b")

Manifest = dict[str, Any]


@functools.cache
def rendered(folder: str, *components: str) -> tuple[Manifest, ...]:
    """
    Return the objects of a folder of `deploy` with components, as `kubectl kustomize` does. Raises BuildError.

    The ConfigMap with the configuration has no hash of its content in its name, as in the chart.
    """
    kubectl = build.controlplane_binary().with_name("kubectl")
    with tempfile.TemporaryDirectory(prefix="dovetail-kustomize-") as name:
        # kustomize takes folders by relative paths only.
        root = os.path.relpath(DEPLOY, Path(name).resolve())
        wanted = {
            "resources": [f"{root}/{folder}"],
            "components": [f"{root}/{each}" for each in components],
        }
        (Path(name) / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
        done = subprocess.run([kubectl, "kustomize", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise build.BuildError(f"kubectl kustomize: {done.stderr.strip()}")
    return tuple(each for each in yaml.safe_load_all(_CONFIG_WITH_HASH.sub(CONFIG, done.stdout)) if each)


def key(manifest: Manifest) -> tuple[str, str]:
    """Return kind and name, which tell the objects of `deploy` apart."""
    return manifest["kind"], manifest["metadata"]["name"]
