"""`python -m e2e.regression`: compare an earlier commit with this checkout, in turns, and say what got worse."""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from e2e.arguments import at_least_one
from e2e.checkout import UnknownCommitError, checkout
from e2e.controlplane.plane import REPOSITORY
from e2e.regression.comparison import comparisons, render
from e2e.regression.figures import TOOLS, Figure, Tool

WIDTH = 120


class MeasureError(Exception):
    """A tool recorded nothing."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 1 when a figure got worse."""
    options, others = _parser().parse_known_args(arguments)
    tool = TOOLS[options.tool]
    try:
        homes = (checkout(options.commit), REPOSITORY)
        found = comparisons([_turn(homes, tool, others, turn) for turn in range(options.turns)])
    except (UnknownCommitError, MeasureError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    Console(width=WIDTH).print(render(found, options.commit))
    worse = sum(each.verdict == "worse" for each in found)
    print(f"{worse} of {len(found)} figures got worse, beyond the spread of {options.turns} turns")
    return int(bool(worse))


def _turn(
    homes: tuple[Path, Path], tool: Tool, arguments: Sequence[str], turn: int
) -> tuple[tuple[Figure, ...], tuple[Figure, ...]]:
    """Measure both commits once; every other turn begins with this checkout."""
    measured = {}
    for home in homes[:: -1 if turn % 2 else 1]:
        name = "this checkout" if home == REPOSITORY else home.name[:7]
        print(f"turn {turn + 1}, {name}", file=sys.stderr)
        measured[home] = _measured(home, tool, arguments)
    return measured[homes[0]], measured[homes[1]]


def _measured(home: Path, tool: Tool, arguments: Sequence[str]) -> tuple[Figure, ...]:
    python = sys.executable if home == REPOSITORY else str(home / ".venv" / "bin" / "python")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "measured.json"
        command = (python, "-m", tool.module, f"--json={report}", *(arguments or tool.usual))
        done = subprocess.run(command, cwd=home, env=environment, stdout=subprocess.DEVNULL, check=False)
        if not report.exists():
            raise MeasureError(f"{tool.module} of {home.name} recorded nothing and ended with status {done.returncode}")
        return tuple(tool.figures(report))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="measure regression",
        description="Measure an earlier commit and this checkout in turns: what got worse?",
        epilog="All other arguments go to the tool: --only W1.",
        allow_abbrev=False,
    )
    parser.add_argument("commit", help="the earlier commit")
    parser.add_argument("--tool", choices=[*TOOLS], default="bench", help="what measures (bench)")
    parser.add_argument("--turns", type=at_least_one, default=5, metavar="N", help="how often each is measured (5)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
