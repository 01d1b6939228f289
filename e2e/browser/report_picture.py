"""The picture of the report in docs/observe.md: `python -m e2e.browser.report_picture` draws docs/report.png."""

import tempfile
from pathlib import Path
from typing import Final

from e2e.browser.afternoon import Afternoon
from e2e.browser.visit import Chromium
from e2e.controlplane.plane import REPOSITORY
from scheduler.counterfactual import observation_report, report_page
from scheduler.counterfactual.observation_record import ObservationRecord, RecordReader

PICTURE: Final = REPOSITORY / "docs" / "report.png"
_SIZE: Final = (1120, 690)
"""What a reader sees first: in short, and over time."""


def draw(chromium: Chromium, path: Path) -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as name:
        record, page = Path(name) / "record.jsonl", Path(name) / "report.html"
        with ObservationRecord(record) as written:
            Afternoon(written).play()
        page.write_text(report_page.page(observation_report.report_of(RecordReader(record))), encoding="utf-8")
        width, height = _SIZE
        context = chromium.browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
        seen = context.new_page()
        seen.goto(page.as_uri())
        seen.screenshot(path=path)
        context.close()


if __name__ == "__main__":
    with Chromium() as opened:
        draw(opened, PICTURE)
