"""What a person does with "would this fit?" of the live page, and has to see then."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from playwright.sync_api import Locator, expect

from e2e.browser import clusters
from e2e.browser.visit import NARROW, UnseenError, Visit

_MOST_SHIFT: Final = 0.02
_PHONE: Final = {"width": NARROW[0], "height": NARROW[1]}


def asks_whether_it_fits(seen: Visit, cluster: object, server: object) -> None:
    """A manifest that is pasted gets an answer: it fits, it does not and why, or where it is wrong."""
    del cluster, server
    open_view(seen)
    seen.page.get_by_label("Manifest").fill(clusters.asking(2, 3))
    seen.page.get_by_role("button", name="Ask").click()
    expect(verdict(seen)).to_contain_text("It fits: 3 pods would start now.", timeout=60_000)
    expect(seen.page.get_by_role("row", name="research/train-0")).to_contain_text("gpu-")
    seen.page.get_by_label("Manifest").fill(clusters.asking(9, 1))
    seen.page.get_by_role("button", name="Ask").click()
    expect(verdict(seen)).to_contain_text("It does not fit", timeout=60_000)
    expect(seen.page.get_by_role("row", name="research/train-0")).to_contain_text("needs 9 devices")
    seen.page.get_by_label("Manifest").fill(clusters.asking(1, 1).replace("count: 1", "count: one"))
    seen.page.get_by_role("button", name="Ask").click()
    expect(verdict(seen)).to_contain_text("mistake", timeout=60_000)
    expect(seen.page.get_by_text("spec.spec.devices.requests[0].exactly.count")).to_be_visible()
    seen.page.get_by_role("link", name="Map").click()
    seen.page.get_by_role("link", name="Fit").click()
    expect(seen.page.get_by_label("Manifest")).to_have_value(clusters.asking(1, 1).replace("count: 1", "count: one"))
    expect(seen.page.get_by_text("spec.spec.devices.requests[0].exactly.count")).to_be_visible()
    if seen.shifts() > _MOST_SHIFT:
        raise UnseenError("parts of the page move while an answer comes")


def pastes_something_hostile(seen: Visit, cluster: object, server: object) -> None:
    """Markup in a manifest is a text, deep nesting is a mistake, and the page goes on."""
    del cluster, server
    open_view(seen)
    markup = "<img src=x onerror=alert(1)>"
    seen.page.get_by_label("Manifest").fill(clusters.asking(1, 1).replace("name: train", f"name: '{markup}'"))
    seen.page.get_by_role("button", name="Ask").click()
    expect(seen.page.get_by_text(f"Job research/{markup}")).to_be_visible(timeout=60_000)
    seen.page.get_by_label("Manifest").fill("a: " + "[" * 100_000)
    seen.page.get_by_role("button", name="Ask").click()
    expect(seen.page.get_by_text("nested deeper than 200 levels")).to_be_visible(timeout=60_000)
    seen.page.get_by_label("Manifest").fill("# " + "x" * 1024 * 1024)
    seen.page.get_by_role("button", name="Ask").click()
    expect(seen.page.get_by_role("alert").filter(has_text="larger than 1 MiB")).to_be_visible()


def asks_with_the_keyboard(seen: Visit, cluster: object, server: object) -> None:
    """Every key is a text in the field, Ctrl+Enter asks, and Tab leads through the form."""
    del cluster, server
    open_view(seen)
    seen.page.keyboard.press("/")
    field = seen.page.get_by_label("Manifest")
    expect(field).to_be_focused()
    seen.page.keyboard.type("t/")
    expect(field).to_have_value("t/")
    for part in (seen.page.get_by_role("textbox", name="Namespace"), seen.page.get_by_label("Question")):
        seen.page.keyboard.press("Tab")
        expect(part).to_be_focused()
    seen.page.keyboard.press("Tab")
    expect(seen.page.get_by_role("button", name="Ask")).to_be_focused()
    seen.page.get_by_label("Question").select_option("how many would fit")
    field.fill(clusters.asking(8, 1))
    field.press("Control+Enter")
    expect(verdict(seen)).to_contain_text("would start now; no more would.", timeout=60_000)


def open_view(seen: Visit) -> None:
    """Open the view."""
    seen.page.get_by_role("link", name="Fit").click()
    expect(seen.page.get_by_role("heading", name="Would this fit?")).to_be_visible()


def verdict(seen: Visit) -> Locator:
    """Find the answer in a sentence."""
    return seen.page.locator(".verdict")


_QUESTIONS: Final = {
    "fits": (clusters.asking(2, 3), "It fits"),
    "not": (clusters.asking(8, 4), "It does not fit"),
    "never": (clusters.asking(9, 1), "It does not fit"),
    "wrong": (clusters.asking(1, 1).replace("count: 1", "count: one"), "mistake"),
}


def photograph(seen: Visit, pictures: Path, window: str) -> Iterator[Path]:
    """Take pictures of answers about manifests, and of the view without one and with too much."""
    open_view(seen)
    yield _picture(seen, pictures / f"live-fit-empty-{window}.png")
    for name, (manifest, sentence) in _QUESTIONS.items():
        seen.page.get_by_label("Manifest").fill(manifest)
        seen.page.get_by_role("button", name="Ask").click()
        expect(verdict(seen)).to_contain_text(sentence, timeout=60_000)
        yield _picture(seen, pictures / f"live-fit-{name}-{window}.png")
    seen.page.get_by_label("Manifest").fill("")
    seen.page.get_by_role("button", name="Ask").click()
    yield _picture(seen, pictures / f"live-fit-refused-{window}.png")
    seen.page.get_by_role("link", name="Decisions").click()
    yield _picture(seen, pictures / f"live-no-decisions-{window}.png")


def _picture(seen: Visit, path: Path) -> Path:
    seen.page.screenshot(path=path, full_page=seen.page.viewport_size == _PHONE)
    return path
