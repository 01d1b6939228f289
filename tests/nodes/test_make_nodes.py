"""`make nodes`: the examples on nodes, each with devices of its driver, and what their containers have."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.controlplane.plane import REPOSITORY
from e2e.nodes.programs import Programs
from e2e.scenarios.examples import read_examples

pytestmark = [pytest.mark.nodes, pytest.mark.slow]


def test_once_ends_well_with_every_example_in_containers(programs: Programs, tmp_path: Path) -> None:
    del programs  # built by now
    command = [sys.executable, "-m", "e2e.run", "--nodes", "--once", f"--folder={tmp_path}"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300)
    log = tmp_path / "dovetail.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text()[-4000:] if log.exists() else "")
    count = sum(example.pod_count for example in read_examples())
    assert f"{count} of {count} pods ended as their examples say." in done.stdout
    assert "what containers print, claims and drivers agree." in done.stdout
    # GPUs and a card of two drivers, and a share of a GPU.
    assert re.search(r"several-claims: Running on \S+ with train: gpu-\d, gpu-\d, pci-", done.stdout)
    assert re.search(r"Running on l40s-shared-1 with hami-gpu-\d \(share [0-9a-f]{8}\)", done.stdout)
