"""Engines are loaded by the warm-up, and by no import: most questions of the command line need none."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENGINES = "['ortools.linear_solver.python.model_builder_helper', 'ortools.sat.python.cp_model_helper']"


@pytest.mark.parametrize(
    ("program", "loaded"),
    [
        ("from scheduler.simulation import explanation, fitting, live_cluster; live_cluster.load_solver()", "[]"),
        ("from solver import solve_warm_up_case; solve_warm_up_case()", ENGINES),
    ],
    ids=["imports", "warm-up"],
)
def test_engines_are_loaded_when_they_are_used(program: str, loaded: str) -> None:
    shown = f"import sys; {program}; print(sorted(set({ENGINES}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", shown], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == loaded
