"""What a person does with the page of `dovetail report`, and has to see then."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Locator, expect

from e2e.browser.afternoon import OBSERVED, Afternoon
from e2e.browser.visit import NARROW, Chromium, Fault, UnseenError, Visit, visit
from scheduler.counterfactual import observation_report
from scheduler.counterfactual.observation_record import ObservationRecord, RecordReader
from scheduler.page import report_page

_MOST_SHIFT: Final = 0.02


def write_page(folder: Path) -> Path:
    """Write the report of an afternoon in memory."""
    record, page = folder / "record.jsonl", folder / "report.html"
    record.unlink(missing_ok=True)
    with ObservationRecord(record) as written:
        Afternoon(written).play()
    page.write_text(report_page.page(observation_report.report_of(RecordReader(record))), encoding="utf-8")
    return page


def reads_the_lines(seen: Visit) -> None:
    """Each chart has both lines and names them; at the pointer stand the values of all charts."""
    charts = _charts(seen)
    expect(charts).to_have_count(3)
    for at in range(3):
        expect(charts.nth(at)).to_contain_text("Dovetail")
        expect(charts.nth(at)).to_contain_text(OBSERVED)
    charts.first.locator(".u-over").hover()
    expect(charts.last).to_contain_text("2026-11-25 15:")
    expect(charts.last.locator(".u-value").nth(1)).to_have_text("22")
    if seen.shifts() > _MOST_SHIFT:
        raise UnseenError("parts of the page move while it is built, or at the pointer")


def prints(seen: Visit) -> None:
    """A dark page is light on paper, its charts, too."""
    dark = _charts(seen).first.screenshot()
    seen.page.emulate_media(media="print")
    seen.settle()
    if seen.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ours')") != "#16578c":
        raise UnseenError("the colours on paper are those of the dark page")
    if _charts(seen).first.screenshot() == dark:
        raise UnseenError("the charts stay dark on paper")


def fits_a_phone(seen: Visit) -> None:
    """Nothing is wider than a narrow window, also after it was turned."""
    if not seen.fits():
        raise UnseenError("the report is wider than the window")
    seen.page.set_viewport_size({"width": NARROW[1], "height": NARROW[0]})
    seen.settle()
    seen.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    seen.settle()
    if not seen.fits():
        raise UnseenError("the report is wider than the window that was turned")


STOPS: Final[tuple[tuple[str, Callable[[Visit], None], dict[str, Any]], ...]] = (
    ("reads the lines of the report", reads_the_lines, {}),
    ("prints the report", prints, {"theme": "dark"}),
    ("has a phone for the report", fits_a_phone, {"size": NARROW}),
)


def travel(chromium: Chromium, folder: Path) -> Iterator[tuple[str, str]]:
    """Make every visit; give its name and what was wrong, empty where all was seen."""
    page = write_page(folder)
    for name, act, window in STOPS:
        fault = Fault()
        with fault, visit(chromium, page, has_map=None, **window) as seen:
            act(seen)
        yield name, fault.text


def photograph(chromium: Chromium, folder: Path, pictures: Path) -> Iterator[Path]:
    """Take the pictures that are looked at."""
    page = write_page(folder)
    windows: dict[str, dict[str, Any]] = {"light": {}, "dark": {"theme": "dark"}, "narrow": {"size": NARROW}}
    for name, window in windows.items():
        with visit(chromium, page, has_map=None, **window) as seen:
            _charts(seen).first.locator(".u-over").hover()
            seen.settle()
            seen.page.screenshot(path=pictures / f"report-{name}.png", full_page=True)
            yield pictures / f"report-{name}.png"


def _charts(seen: Visit) -> Locator:
    return seen.page.locator(".chart")
