"""A page in the browser: what a person does with it, and what is to be seen then."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

WIDE: Final = (1400, 860)
NARROW: Final = (390, 844)
_CHROMIUM: Final = "/usr/bin/chromium"
_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_SHIFTS: Final = """() => new Promise((resolve) => {
  let sum = 0;
  new PerformanceObserver((list) => { for (const each of list.getEntries()) sum += each.value; })
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(sum), 100);
})"""
_BRIGHTNESS: Final = """() => getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3)
  .reduce((sum, each) => sum + Number(each), 0) / 765"""


class UnseenError(AssertionError):
    """What was to be seen is not there."""


class Fault:
    """What was wrong with a visit that it surrounds; such an error goes no further."""

    def __init__(self) -> None:
        self.text = ""

    def __enter__(self) -> Self:
        """Start the visit."""
        return self

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> bool:
        """Keep the text of what was not seen, or not found."""
        if isinstance(error, AssertionError | Error):
            self.text = str(error).strip()
            return True
        return False


class Chromium:
    """Debian's chromium without a window."""

    def __init__(self) -> None:
        self._playwright = sync_playwright().start()
        self.browser: Browser = self._playwright.chromium.launch(executable_path=_CHROMIUM, args=list(_FLAGS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.browser.close()
        self._playwright.stop()


class Visit:
    """An open page."""

    def __init__(self, page: Page, address: str, *, has_map: bool | None, failure: str) -> None:
        self.page: Final = page
        self._wrong: Final[list[str]] = []
        self._failed = ""
        own = "file:" if address.startswith("file:") else address.partition("#")[0]
        page.on("request", lambda request: self._note(request.url, is_wrong=not request.url.startswith((own, "data:"))))
        page.on("console", lambda message: self._note(message.text, is_wrong=message.type in {"error", "warning"}))
        page.on("pageerror", lambda error: self._note(str(error), is_wrong=True))
        if failure:
            self.expects_failures(failure)
        page.goto(address)
        self.map: Final = page.get_by_role("application", include_hidden=True)
        if has_map is not None and not failure:
            self.map.wait_for(state="visible" if has_map else "attached")

    def _note(self, text: str, *, is_wrong: bool) -> None:
        if is_wrong and not (self._failed and text.startswith(self._failed)):
            self._wrong.append(text)

    def expects_failures(self, why: str = "net::ERR_") -> None:
        """Expect that requests fail from now on, which the browser writes to its console."""
        self._failed = f"Failed to load resource: {why}"

    def check(self) -> None:
        """Raise where the page asked for anything, or the browser complained."""
        if self._wrong:
            raise UnseenError("; ".join(self._wrong))

    def search(self, text: str) -> None:
        """Type into the search field."""
        self.page.get_by_role("searchbox").fill(text)

    def tab(self, name: str) -> None:
        """Open a panel."""
        self.page.get_by_role("tab", name=name).click()

    def status(self, pattern: str) -> None:
        """See how many devices match."""
        expect(self.page.get_by_role("status")).to_have_text(re.compile(pattern))

    def panel(self, *texts: str) -> None:
        """See texts in the open panel."""
        for text in texts:
            expect(self.page.get_by_role("tabpanel")).to_contain_text(text)

    def spoken(self, text: str) -> None:
        """Hear a text as with a screen reader."""
        expect(self.page.locator("[aria-live=polite]")).to_contain_text(text)

    def point(self, x: float, y: float, *, is_click: bool = False) -> None:
        """Move to a point of the map by parts of its width and height, and click there."""
        box = self.map.bounding_box()
        assert box is not None
        at = box["x"] + box["width"] * x, box["y"] + box["height"] * y
        (self.page.mouse.click if is_click else self.page.mouse.move)(*at)

    def settle(self) -> None:
        """Wait until the map has come to rest."""
        self.page.wait_for_timeout(400)

    def brightness(self) -> float:
        """Return how bright the page is: 0 is black, 1 is white."""
        found: float = self.page.evaluate(_BRIGHTNESS)
        return found

    def shifts(self) -> float:
        """Return the sum of the layout shifts since the page was opened (the metric CLS)."""
        found: float = self.page.evaluate(_SHIFTS)
        return found

    def fits(self) -> bool:
        """Whether nothing is wider than the window."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@contextmanager
def visit(
    chromium: Chromium,
    place: Path | str,
    *,
    size: tuple[int, int] = WIDE,
    theme: Any = "light",
    ratio: float = 1,
    has_map: bool | None = True,
    failure: str = "",
) -> Iterator[Visit]:
    """
    Open a file or a URL in a window of a size; `theme` is what the reader's system asks for.

    `has_map` says whether a map is in sight, None that the page has none.
    `failure` is what the browser says of a request that is refused at first; then there is no map yet.
    """
    context = chromium.browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=theme,
        device_scale_factor=ratio,
        ignore_https_errors=True,  # of our own server, whose certificate signs itself
    )
    try:
        address = place if isinstance(place, str) else place.as_uri()
        found = Visit(context.new_page(), address, has_map=has_map, failure=failure)
        yield found
        found.check()
    finally:
        context.close()
