"""
Sphinx reads the repository's Markdown as it stands: README.md is the first page, and links are those of a forge.

`make site` builds it. The side bar is the table "Read on" of README.md, so a page stands there once for both.
"""

import re
from collections.abc import Iterator
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
html_extra_path = ["index.html"]
templates_path = ["templates"]
html_copy_source = False
html_use_index = False
highlight_language = "none"
html_show_copyright = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

_HEADING: Final = "\n## Read on\n"
_ROW: Final = re.compile(r"^\| ?(?P<reader>[^|]*?) ?\| [^|]*\| (?P<pages>[^|]*) \|$", re.MULTILINE)
_PAGE: Final = re.compile(r"\]\(([^)]+?)(?:\.md)?\)")


def setup(app: Sphinx) -> None:
    """Add the side bar."""
    app.connect("source-read", _add_navigation)


def _add_navigation(_: Sphinx, name: str, source: list[str]) -> None:
    """Give README.md a table of contents that only the site shows."""
    if name == root_doc:
        source[0] += "\n".join(_navigation(source[0]))


def _navigation(readme: str) -> Iterator[str]:
    """Give a list of pages for each reader of the table."""
    _, heading, table = readme.partition(_HEADING)
    if not heading:
        raise ValueError(f"README.md has no section {_HEADING.strip()!r}, from which the side bar is made")
    end = ""
    for row in _ROW.finditer(table):
        pages = [page for page in _PAGE.findall(row["pages"]) if (ROOT / f"{page}.md").exists()]
        reader = row["reader"].replace("*", "")
        if reader and pages:
            yield from (end, "\n```{toctree}", ":hidden:", f":caption: For {reader}", "")
            end = "```"
        yield from pages
    yield end
