"""The page around a map: one file that loads nothing and runs only its own script."""

import base64
import gzip
import hashlib
import re
from html.parser import HTMLParser

from scheduler.page import map_page

DOCUMENT = b'{"kind":"FleetMap","texts":["</script><script>alert(1)</script>"]}'


class _Elements(HTMLParser):
    """Every element with its attributes, and the text of styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"style": [], "script": []}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        last = self.found[-1][0] if self.found else ""
        if last in self.texts and data.strip():
            self.texts[last].append(data)


def parsed(document: bytes = DOCUMENT) -> _Elements:
    elements = _Elements()
    elements.feed(map_page.page(document))
    return elements


def policy() -> dict[str, str]:
    (content,) = (
        each["content"] for tag, each in parsed().found if each.get("http-equiv") == "Content-Security-Policy"
    )
    assert content is not None
    return {name: rest for name, _, rest in (part.strip().partition(" ") for part in content.split(";"))}


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_only_the_script_and_the_style_of_the_page_are_allowed() -> None:
    elements = parsed()
    _, script = elements.texts["script"]
    (style,) = elements.texts["style"]
    allowed = policy()
    assert allowed["default-src"] == "'none'"
    assert (allowed["script-src"], allowed["style-src"]) == (sha256(script), sha256(style))
    assert (allowed["base-uri"], allowed["form-action"]) == ("'none'", "'none'")
    assert "unsafe" not in " ".join(allowed.values())


def test_nothing_is_loaded_from_elsewhere() -> None:
    names = {name for _, attributes in parsed().found for name in attributes}
    assert names & {"src", "href", "srcset", "action", "style"} == set()
    text = map_page.page(DOCUMENT)
    assert re.findall(r"@import|url\((?!data:)", text) == []


def test_the_document_is_in_the_page_and_cannot_end_it() -> None:
    elements = parsed()
    packed, _ = elements.texts["script"]
    assert gzip.decompress(base64.b64decode(packed)) == DOCUMENT
    assert "alert(1)" not in map_page.page(DOCUMENT)
    assert [tag for tag, _ in elements.found].count("script") == 2


def test_the_same_document_gives_the_same_page() -> None:
    packed, _ = parsed().texts["script"]
    time_of_packing = base64.b64decode(packed)[4:8]  # RFC 1952, MTIME
    assert time_of_packing == bytes(4)
    assert map_page.page(DOCUMENT) == map_page.page(DOCUMENT)
