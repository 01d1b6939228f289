"""Files of clusters and their maps, as `dovetail map` writes them."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from e2e.controlplane.plane import REPOSITORY
from e2e.fleet.shape import Manifest


def page(folder: Path, name: str, manifests: Iterable[Manifest]) -> Path:
    """Write NAME.json with the manifests, and NAME.html with their map; return the latter."""
    listed: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    (folder / f"{name}.json").write_text(json.dumps(listed), encoding="utf-8")
    written = folder / f"{name}.html"
    written.write_text(mapped(folder / f"{name}.json"), encoding="utf-8")
    return written


def mapped(manifests: Path, *words: str) -> str:
    """Return what `dovetail map` prints."""
    command = [sys.executable, "-m", "scheduler", "map", "-f", str(manifests), *words]
    return subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True).stdout
