"""One line for everything that is done and found, with the seconds since the start."""

import time
from collections.abc import Iterable
from typing import Final

from e2e.audit.reading import Finding

_BEGAN: Final = time.monotonic()


def report(what: str) -> None:
    """Print a line."""
    print(f"{time.monotonic() - _BEGAN:8.1f}  {what}", flush=True)


def report_findings(findings: Iterable[Finding]) -> None:
    """Print a line for each."""
    for each in findings:
        report(f"WRONG {each.rule:8} {each.subject}: {each.message}")
