"""The picture of the report in docs/observe.md: `python -m e2e.browser.report_picture` draws docs/report.png."""

import tempfile
from pathlib import Path
from typing import Final

from e2e.browser import report_journey
from e2e.browser.visit import Chromium, visit
from e2e.controlplane.plane import REPOSITORY

PICTURE: Final = REPOSITORY / "docs" / "report.png"
_SIZE: Final = (1120, 690)
"""What a reader sees first: in short, and over time."""


def draw(chromium: Chromium, path: Path) -> None:
    """Take the picture."""
    with (
        tempfile.TemporaryDirectory() as name,
        visit(chromium, report_journey.write_page(Path(name)), size=_SIZE, has_map=None) as seen,
    ):
        seen.page.screenshot(path=path)


if __name__ == "__main__":
    with Chromium() as opened:
        draw(opened, PICTURE)
