"""What Dovetail would decide for the examples, by `dovetail simulate`: it needs no control plane to be built."""

import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from rich.console import Console

from e2e.fleet.shape import Fleet
from e2e.scenarios.examples import FOLDER


def show(console: Console, fleet: Fleet) -> None:
    """Decide about the examples on a fleet as if it were a cluster's, and print the plan."""
    text = "The control plane is built once, which takes minutes. What Dovetail decides about the examples needs none:"
    console.print(text, highlight=False, soft_wrap=True)
    console.file.flush()
    with tempfile.TemporaryDirectory() as folder:
        cluster = Path(folder) / "cluster.yaml"
        cluster.write_text(yaml.safe_dump_all([*fleet.nodes, *fleet.classes, *fleet.slices]), encoding="utf-8")
        command = [sys.executable, "-m", "scheduler", "simulate", f"--filename={cluster}", f"--filename={FOLDER}"]
        subprocess.run(command, check=False)  # 1: some wait
    console.print()
