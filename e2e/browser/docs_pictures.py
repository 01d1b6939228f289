"""Draws the pictures of docs that browsers and terminals show: `python -m e2e.browser.docs_pictures`."""

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any, Final

from e2e.browser import clusters, map_files, report_journey, terminal_picture
from e2e.browser.live_server import LiveServer
from e2e.browser.visit import WIDE, Chromium, visit
from e2e.controlplane.plane import REPOSITORY

DOCS: Final = REPOSITORY / "docs"


def draw(chromium: Chromium, into: Path) -> None:
    """Write map.png, page.png, report.png and terminal.png."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mixed = map_files.page(folder, "mixed", clusters.mixed(dt.datetime.now(dt.UTC)))
        _picture(chromium, mixed, into / "map.png", size=WIDE)
        with LiveServer("-f", str(folder / "mixed.json")) as server:
            _picture(chromium, server.address, into / "page.png", size=(WIDE[0], 800))
        # What a reader sees first: in short, and over time.
        _picture(chromium, report_journey.write_page(folder), into / "report.png", size=(1120, 750), has_map=None)
    terminal_picture.draw(chromium, into / "terminal.png")


def _picture(chromium: Chromium, place: Path | str, path: Path, **window: Any) -> None:
    with visit(chromium, place, **window) as seen:
        seen.settle()
        seen.page.screenshot(path=path)


if __name__ == "__main__":
    with Chromium() as opened:
        draw(opened, DOCS)
