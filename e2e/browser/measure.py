"""How large a page is, how soon its first picture is there, and how many frames a second are drawn while it moves."""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from e2e.browser.visit import Chromium, Visit, visit

_SEEN: Final = "performance.getEntriesByName('dovetail-first-picture').length > 0"
_FIRST: Final = "performance.getEntriesByName('dovetail-first-picture')[0].startTime"
_COUNT: Final = """() => {
  window.frames_drawn = 0;
  const next = () => { window.frames_drawn += 1; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""
_MIDDLE: Final = 500
_STEPS: Final = 120


class Measured(NamedTuple):
    """A number, its unit, and the limit that it is held against."""

    what: str
    value: float
    unit: str
    limit: str


def measure(chromium: Chromium, file: Path, runs: int) -> Iterator[Measured]:
    """Measure a page; times are medians of several runs."""
    yield Measured("size of the file", file.stat().st_size / 1e6, "MB", "at most 5")
    firsts = []
    for _ in range(runs):
        with visit(chromium, file) as seen:
            seen.page.wait_for_function(_SEEN)
            firsts.append(seen.page.evaluate(_FIRST) / 1000)
    yield Measured("first picture", statistics.median(firsts), "s", "at most 3")
    with visit(chromium, file) as seen:
        seen.page.evaluate(_COUNT)
        for what, act in (("dragging", _drag), ("zooming", _zoom), ("pointing", _hover)):
            rates = [_frames(seen, act) for _ in range(runs)]
            yield Measured(f"frames while {what}, all nodes in sight", statistics.median(rates), "per s", "at least 20")


def _frames(seen: Visit, act: Callable[[Visit], None]) -> float:
    seen.page.keyboard.press("0")
    seen.settle()
    seen.page.evaluate("window.frames_drawn = 0")
    began = time.monotonic()
    act(seen)
    return float(seen.page.evaluate("window.frames_drawn")) / (time.monotonic() - began)


def _drag(seen: Visit) -> None:
    mouse = seen.page.mouse
    mouse.move(_MIDDLE, _MIDDLE)
    mouse.down()
    for step in range(_STEPS):
        mouse.move(_MIDDLE + step % 40 * 4, _MIDDLE + step % 30 * 3)
    mouse.up()


def _zoom(seen: Visit) -> None:
    mouse = seen.page.mouse
    mouse.move(_MIDDLE, _MIDDLE)
    for step in range(_STEPS):
        mouse.wheel(0, -30 if step < _STEPS // 2 else 30)


def _hover(seen: Visit) -> None:
    for step in range(_STEPS):
        seen.page.mouse.move(_MIDDLE // 2 + step * 5, _MIDDLE + step)
