"""`make versions`: the tests on the API server with each version of Kubernetes and with both sets of feature gates."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final, get_args

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from e2e.controlplane import build, gates, versions

REPOSITORY: Final = Path(__file__).parents[1]
PAGE: Final = REPOSITORY / "docs" / "compatibility.md"
BEGIN, END = "<!-- make versions: begin -->", "<!-- make versions: end -->"
WIDTH: Final = 100
ROW: Final = re.compile(r"^\| (1\.\d+\.\d+) \| (all on|as shipped) \| .* \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tests of one control plane; `left_out` are those of features that it does not have."""

    kubernetes: str
    gates: gates.FeatureGates
    release: str
    passed: int
    failures: tuple[str, ...]
    left_out: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and print the table; 1 when a test failed."""
    options = _parser().parse_args(arguments)
    console, outcomes = Console(width=WIDTH), list[Outcome]()
    for kubernetes, mode in product(
        options.kubernetes or versions.SUPPORTED, options.gates or get_args(gates.FeatureGates)
    ):
        try:
            outcome = _run(kubernetes, mode, options.tests)
        except build.BuildError as error:
            print(error, file=sys.stderr)
            return 1
        outcomes.append(outcome)
        for failure in outcome.failures:
            console.print(f"{outcome.kubernetes}, gates {outcome.gates}: {escape(failure)}")
        if options.write:  # each as soon as it is known: all of them take hours
            write_section(PAGE, (BEGIN, END), markdown([outcome], PAGE.read_text()))
    console.print(_table(outcomes))
    return int(any(outcome.failures for outcome in outcomes))


def _run(kubernetes: str, mode: gates.FeatureGates, tests: Sequence[str]) -> Outcome:
    print(f"Kubernetes {kubernetes}, gates {mode} …", file=sys.stderr)
    build.controlplane_binary(kubernetes)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = ["make", "integration", f"KUBERNETES={kubernetes}", f"TESTS={' '.join(tests)}"]
        command.append(f"ARGS=--junitxml={report}")
        environment = {**os.environ, gates.VARIABLE: mode}
        done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
        if not report.exists():
            raise build.BuildError(f"make integration ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
        failures, passed = _read(report)
    found = re.search(r"(\d+) tests? left out", done.stdout)
    left_out = int(found[1]) if found else 0
    release = build.release(kubernetes)
    return Outcome(kubernetes, mode, release, passed, failures, left_out, time.monotonic() - began)


def _read(report: Path) -> tuple[tuple[str, ...], int]:
    """Return the failures and how many tests passed."""
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it
    failures = tuple(_failures(cases))
    return failures, len(cases) - len(failures)


def _failures(cases: Sequence[ET.Element]) -> Iterator[str]:
    for case in cases:
        for problem in (*case.iter("failure"), *case.iter("error")):
            message = problem.get("message", "").partition("\n")[0]
            yield f"{case.get('classname')}.{case.get('name')}: {message}"
            break


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("Kubernetes", "feature gates"):
        table.add_column(name)
    for name in ("passed", "failed", "left out", "minutes"):
        table.add_column(name, justify="right")
    for each in outcomes:
        failed = f"[red]{len(each.failures)}[/red]" if each.failures else "0"
        minutes = f"{each.seconds / 60:.0f}"
        table.add_row(each.release, _gates(each), str(each.passed), failed, str(each.left_out), minutes)
    return table


def markdown(outcomes: Sequence[Outcome], page: str = "") -> str:
    """Return the table for the page; lines of a page that are about other control planes stay."""
    lines = {(versions.minor(each[1]), each[2]): each[0] for each in ROW.finditer(page)}
    for each in outcomes:
        counts = f"{each.passed} | {len(each.failures)} | {each.left_out}"
        lines[versions.minor(each.release), _gates(each)] = f"| {each.release} | {_gates(each)} | {counts} |"
    head = ["| Kubernetes | feature gates | passed | failed | left out |", "|---|---|---|---|---|"]
    return "\n".join((*head, *(lines[key] for key in sorted(lines))))


def write_section(page: Path, marks: tuple[str, str], text: str) -> None:
    """Replace what stands between two marks of a page. Raises ValueError where the page lacks them."""
    before, begin, rest = page.read_text().partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise ValueError(f"{page} lacks the lines {marks[0]} and {marks[1]}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _gates(outcome: Outcome) -> str:
    return "all on" if outcome.gates == "on" else "as shipped"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.versions", description=__doc__)
    parser.add_argument("--kubernetes", action="append", choices=versions.SUPPORTED, help="only this one; repeatable")
    parser.add_argument("--gates", action="append", choices=get_args(gates.FeatureGates), help="only these; repeatable")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(REPOSITORY)}")
    parser.add_argument("tests", nargs="*", default=["tests"], help="paths of tests (default: all)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
