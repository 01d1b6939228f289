"""What a person does with the page, and has to see then: each function is one visit, and raises what is not seen."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.sync_api import expect

from e2e.browser import clusters
from e2e.browser.visit import NARROW, Chromium, Fault, UnseenError, Visit, visit


class Pages(NamedTuple):
    """The files of the clusters, and the documents in two of them."""

    mixed: Path
    empty: Path
    large: Path
    document: Any


class Stop(NamedTuple):
    """A visit: its name, what is done, on which page, in which window."""

    name: str
    act: Callable[[Visit, Any], None]
    page: str = "mixed"
    size: tuple[int, int] = (1400, 860)
    theme: str = "light"


_MOST_SHIFT: Final = 0.02
_BRIGHT: Final = 0.8


def _require(*, is_seen: bool, text: str) -> None:
    if not is_seen:
        raise UnseenError(text)


def opens(seen: Visit, document: Any) -> None:
    """The numbers are those of the document, the age is shown, and nothing moves while the page is built."""
    total = document["total"]
    strip = seen.page.locator(".figures-strip")
    for name, key in (("Devices", "total"), ("Held", "held"), ("Free", "free"), ("Unusable", "unusable")):
        expect(strip.locator("div", has_text=name).first).to_contain_text(f"{total[key]:,}")
    expect(seen.page.locator(".age")).to_contain_text("old")
    expect(seen.page.get_by_role("heading", name="Fleet map")).to_be_visible()
    seen.panel("NVIDIA H100 80GB HBM3", "Unusable, by cause", "Fragmentation")
    _require(is_seen=seen.shifts() < _MOST_SHIFT, text="parts of the page move while it is built")


def searches(seen: Visit, document: Any) -> None:
    """A claim is found, zoomed to, and opened from the list."""
    del document
    seen.search("claim:research/pretraining-0-gpu")
    seen.status(r"^8 of ")
    seen.page.keyboard.press("Enter")
    seen.settle()
    seen.panel("nvl-01/gpu-0")
    seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
    seen.panel("pretraining-0", "research", "Gang", "pretraining", "Since", "NVLink domain")
    seen.page.get_by_role("button", name="Clear").click()
    seen.status(r"^\d+ devices$")


def finds_what_is_gone(seen: Visit, document: Any) -> None:
    """A device whose pod does not exist any more is found, and says so."""
    del document
    seen.search("pod:gone")
    seen.status(r"^1 of ")
    seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
    seen.panel("(gone)", clusters.GONE[1])


def filters(seen: Visit, document: Any) -> None:
    """Entries of the legend and types narrow what is in the foreground; both are undone."""
    del document
    legend = seen.page.locator(".legend")
    entry = legend.get_by_role("button", name="research")
    number = (entry.locator(".number").text_content() or "").strip()
    entry.click()
    expect(entry).to_have_attribute("aria-pressed", "true")
    seen.status(rf"^{number} of ")
    entry.click()
    seen.page.get_by_label("Type", exact=True).select_option("NVIDIA L40S")
    seen.status(r"^12 of ")


def colours_and_groups(seen: Visit, document: Any) -> None:
    """Each colouring has its legend; nodes are grouped by zone."""
    del document
    legend = seen.page.locator(".legend")
    for name, text in (("Gang", "research/pretraining"), ("State", "held"), ("Age", "under 7 days")):
        seen.page.get_by_text(name, exact=True).click()
        expect(legend).to_contain_text(text)
    before = seen.map.screenshot()
    seen.page.get_by_label("Group by", exact=True).select_option("topology.kubernetes.io/zone")
    seen.settle()
    _require(is_seen=seen.map.screenshot() != before, text="grouping changes nothing")


def points(seen: Visit, document: Any) -> None:
    """Hovering shows a device, a click its details, and a drag moves the map."""
    del document
    seen.search("node:h100-12")
    seen.page.keyboard.press("Enter")
    seen.settle()
    seen.point(0.5, 0.55)
    expect(seen.page.locator(".tip")).to_contain_text("h100-12")
    seen.point(0.5, 0.55, is_click=True)
    seen.panel("h100-12")
    before = seen.map.screenshot()
    seen.page.mouse.down()
    seen.point(0.3, 0.4)
    seen.page.mouse.up()
    seen.settle()
    _require(is_seen=seen.map.screenshot() != before, text="dragging moves nothing")


def looks_into_a_card(seen: Visit, document: Any) -> None:
    """The partitions of a card are listed with their states."""
    del document
    seen.search(f"node:{clusters.CARD_NODE} device:gpu-0")
    seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
    seen.panel("gpu-0-counter-set", "devices share this card", "gpu-0-mig-3g20gb-9-0", "blocked")


def reads_the_queue(seen: Visit, document: Any) -> None:
    """Pods that wait stand with the reason; a click shows the message and the command to ask further."""
    del document
    seen.tab("Queue")
    seen.panel(clusters.WAITING[1], clusters.HINT)
    seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
    seen.panel("0/32 nodes are available", f"dovetail explain pod/{clusters.WAITING[1]} -n {clusters.WAITING[0]}")


def uses_the_keyboard(seen: Visit, document: Any) -> None:
    """Everything works without a pointer: search, map, tabs, theme."""
    del document
    seen.page.keyboard.press("/")
    expect(seen.page.get_by_role("searchbox")).to_be_focused()
    seen.page.keyboard.type("speech")
    seen.page.keyboard.press("Escape")
    seen.status(r"^\d+ devices$")
    seen.map.focus()
    seen.page.keyboard.press("ArrowRight")
    seen.spoken("a100-cut-01")
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("+")
    seen.page.keyboard.press("Escape")
    expect(seen.page.locator("[aria-live=polite]")).to_be_empty()
    seen.page.get_by_role("tab", name="Details").focus()
    seen.page.keyboard.press("ArrowLeft")
    expect(seen.page.get_by_role("tab", name="Devices")).to_be_focused()
    for _ in range(30):
        seen.page.keyboard.press("Shift+Tab")
        if seen.map.evaluate("(canvas) => canvas === document.activeElement"):
            return
    raise UnseenError("Tab does not lead to the map")


def switches_theme(seen: Visit, document: Any) -> None:
    """The page follows the system, and the switch changes page and map."""
    del document
    light = seen.map.screenshot()
    _require(is_seen=seen.brightness() > _BRIGHT, text="the page is not light")
    seen.page.get_by_role("button", name="Dark colours").click()
    expect(seen.page.locator("html")).to_have_attribute("data-theme", "dark")
    seen.settle()
    _require(is_seen=seen.brightness() < 1 - _BRIGHT, text="the page stays light")
    _require(is_seen=seen.map.screenshot() != light, text="the map stays light")
    seen.page.keyboard.press("t")
    expect(seen.page.locator("html")).to_have_attribute("data-theme", "light")


def is_dark_at_night(seen: Visit, document: Any) -> None:
    """A system with dark colours gets a dark page at once."""
    del document
    _require(is_seen=seen.brightness() < 1 - _BRIGHT, text="the page is light")


def prints(seen: Visit, document: Any) -> None:
    """Paper is light, also where the page is dark before and after."""
    del document
    dark = seen.map.screenshot()
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    _require(is_seen=seen.brightness() > _BRIGHT, text="paper is dark")
    paper = seen.map.screenshot()
    _require(is_seen=paper != dark, text="the map on paper is dark")
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    seen.settle()
    _require(is_seen=seen.brightness() < 1 - _BRIGHT, text="the page stays light after printing")
    _require(is_seen=seen.map.screenshot() != paper, text="the map stays light after printing")


def fits_a_phone(seen: Visit, document: Any) -> None:
    """Nothing is wider than a narrow window, and the map comes before the panels."""
    del document
    _require(is_seen=seen.fits(), text="the page is wider than the window")
    seen.panel("NVIDIA H100 80GB HBM3")


def is_empty(seen: Visit, document: Any) -> None:
    """A cluster without a node says so."""
    del document
    expect(seen.page.get_by_text("No node and no device")).to_be_visible()
    seen.panel("No device is published or held.")
    seen.tab("Queue")
    seen.panel("No pod waits.")


STOPS: Final = (
    Stop("opens it", opens),
    Stop("searches", searches),
    Stop("finds a pod that is gone", finds_what_is_gone),
    Stop("filters", filters),
    Stop("colours and groups", colours_and_groups),
    Stop("hovers, clicks and drags", points),
    Stop("looks into a card", looks_into_a_card),
    Stop("reads the queue", reads_the_queue),
    Stop("uses the keyboard", uses_the_keyboard),
    Stop("switches the theme", switches_theme),
    Stop("has a dark system", is_dark_at_night, theme="dark"),
    Stop("prints", prints, theme="dark"),
    Stop("has a phone", fits_a_phone, size=NARROW),
    Stop("has an empty cluster", is_empty, page="empty"),
)


def travel(chromium: Chromium, pages: Pages) -> Iterator[tuple[str, str]]:
    """Make every visit; give its name and what was wrong, empty where all was seen."""
    for stop in STOPS:
        fault = Fault()
        with fault, visit(chromium, getattr(pages, stop.page), size=stop.size, theme=stop.theme) as seen:
            stop.act(seen, pages.document)
        yield stop.name, fault.text


def photograph(chromium: Chromium, pages: Pages, folder: Path) -> Iterator[Path]:
    """Take the pictures that are looked at."""
    shots: tuple[tuple[str, str, Any], ...] = (
        ("light", "mixed", {}),
        ("dark", "mixed", {"theme": "dark"}),
        ("narrow", "mixed", {"size": NARROW, "ratio": 2}),
        ("empty", "empty", {}),
        ("large", "large", {}),
        ("large-dark", "large", {"theme": "dark"}),
    )
    for name, page, window in shots:
        with visit(chromium, getattr(pages, page), **window) as seen:
            seen.settle()
            yield _picture(seen, folder / f"{name}.png", is_full=name == "narrow")
    with visit(chromium, pages.mixed) as seen:
        seen.search(f"node:{clusters.CARD_NODE} device:gpu-0")
        seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
        seen.settle()
        yield _picture(seen, folder / "card.png")
        seen.search("")
        seen.page.get_by_text("State", exact=True).click()
        seen.tab("Queue")
        seen.page.get_by_role("tabpanel").get_by_role("button").first.click()
        seen.map.focus()
        seen.page.keyboard.press("0")
        seen.settle()
        yield _picture(seen, folder / "queue.png")
    with visit(chromium, pages.mixed, theme="dark") as seen:
        seen.settle()
        seen.page.pdf(path=folder / "print.pdf", prefer_css_page_size=True, print_background=True)
        yield folder / "print.pdf"


def _picture(seen: Visit, path: Path, *, is_full: bool = False) -> Path:
    seen.page.screenshot(path=path, full_page=is_full)
    return path
