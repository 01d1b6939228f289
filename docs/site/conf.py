"""
Sphinx reads the repository's Markdown as it stands, and links are those of a forge.

`make site` builds it. The landing page and the side bar have the doors of the table "Read on" of README.md, so a page
stands there once for all of them.
"""

import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

ROOT: Final = Path(__file__).parents[2]

project = "Dovetail"
author = "The Dovetail authors"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**.md", "examples/README.md"]
exclude_patterns = [".*", "build", "dist", "results", "**/node_modules"]
nitpicky = True

myst_heading_anchors = 6
"""Anchors of headings, as a forge makes them; a link to one that is missing fails the build."""

html_theme = "furo"
html_title = "Dovetail"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "landing.html"}
templates_path = ["templates"]
html_copy_source = False
html_use_index = False
highlight_language = "none"
html_show_copyright = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

_HEADING: Final = "\n## Read on\n"
_ROW: Final = re.compile(r"^\| ?(?P<door>[^|]*?) ?\| (?P<question>[^|]*) \| (?P<pages>[^|]*) \|$", re.MULTILINE)
_PAGE: Final = re.compile(r"\[([^]]+)\]\(([^)]+)\.md\)")

Door = tuple[str, list[tuple[str, list[tuple[str, str]]]]]
"""What readers want to do, and for each of their questions the pages, with title and path."""


def setup(app: Sphinx) -> None:
    """Add the side bar."""
    app.connect("source-read", _add_navigation)


def _doors(readme: str) -> list[Door]:
    """Read the table of README.md; a row without a door belongs to the one above it."""
    _, heading, rest = readme.partition(_HEADING)
    found: list[Door] = []
    for row in _ROW.finditer(rest.partition("\n## ")[0]):
        pages = _PAGE.findall(row["pages"])
        if row["door"] and pages:
            found.append((row["door"].strip("*"), []))
        if pages:
            found[-1][1].append((row["question"], pages))
    if not heading or not found:
        raise ValueError(
            f"README.md has no table below {_HEADING.strip()!r}, from which landing page and side bar are made"
        )
    return found


def _add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Give README.md a table of contents that only the site shows."""
    if name == root_doc:
        source[0] += "".join(_contents(*door) for door in _doors(source[0]))


def _contents(door: str, rows: list[tuple[str, list[tuple[str, str]]]]) -> str:
    pages = "\n".join(page for _, of_question in rows for _, page in of_question)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {door.capitalize()}\n\n{pages}\n```\n"


_README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
html_context = {"doors": _doors(_README), "lead": " ".join(_README.split("\n\n")[1].split()).replace("`", "")}
