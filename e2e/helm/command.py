"""The command `helm`, built from its Go module."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from e2e.controlplane import build
from e2e.helm.cases import Values
from e2e.helm.kustomize import Manifest
from e2e.helm.templates import CHART, NAMESPACE

RELEASE: Final = "dovetail"
"""The name of the release."""


class ChartError(RuntimeError):
    """Helm failed, or left something else than kustomize does; the message says what."""


@dataclass(frozen=True, slots=True)
class Helm:
    """The command, with its files in one folder and the kubeconfig of a control plane (or of none)."""

    folder: Path
    kubeconfig: str = ""

    def __call__(self, *arguments: str, values: Values | None = None) -> str:
        """Run a command and return what it prints. Raises ChartError, and BuildError where it cannot be built."""
        files = self.folder / "values.yaml"
        files.write_text(yaml.safe_dump(values or {}))
        binary = build.tool("helm", Path(__file__).parent / "go", "helm.sh/helm/v4/cmd/helm")
        places = {f"HELM_{name}_HOME": str(self.folder / name) for name in ("CACHE", "CONFIG", "DATA")}
        flags = [] if values is None else ["-f", str(files)]
        command = [str(binary), "--namespace", NAMESPACE, *arguments, *flags]
        environment = {**os.environ, **places, "KUBECONFIG": self.kubeconfig}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ChartError(f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def rendered(self, values: Values) -> list[Manifest]:
        """Return the objects of the chart."""
        return [each for each in yaml.safe_load_all(self("template", RELEASE, str(CHART), values=values)) if each]
