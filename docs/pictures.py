"""Draw the pictures of the pages, docs/*.svg, from their texts, docs/*.toml: `python docs/pictures.py`."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

SOURCES: Final = sorted(Path(__file__).parent.glob("*.toml"))
LEFT: Final = 28
COLUMN: Final = 176
GAP: Final = 16
BOX_HEIGHT: Final = 72

LIGHT: Final = {
    "page": "fill: #ffffff; stroke: #d0d7de",
    "panel-shell": "fill: #ddf4ff; stroke: #54aeff",
    "panel-core": "fill: #fbefff; stroke: #c297ff",
    "box": "fill: #ffffff; stroke: #57606a",
    "outside": "fill: #eaeef2; stroke: #57606a",
    "shell": "fill: #ddf4ff; stroke: #57606a",
    "title": "fill: #1f2328; stroke: none",
    "text": "fill: #424a53; stroke: none",
    "walk": "stroke: #0969da; fill: none",
    "back": "stroke: #bc4c00; fill: none",
    "uses": "stroke: #6e7781; fill: none",
}
DARK: Final = {
    "page": "fill: #0d1117; stroke: #30363d",
    "panel-shell": "fill: #0c2d4a; stroke: #1f6feb",
    "panel-core": "fill: #271a45; stroke: #8957e5",
    "box": "fill: #161b22; stroke: #8b949e",
    "outside": "fill: #21262d; stroke: #8b949e",
    "shell": "fill: #0c2d4a; stroke: #8b949e",
    "title": "fill: #f0f6fc; stroke: none",
    "text": "fill: #c9d1d9; stroke: none",
    "walk": "stroke: #58a6ff; fill: none",
    "back": "stroke: #f0883e; fill: none",
    "uses": "stroke: #8b949e; fill: none",
}
FONT: Final = "font-family: -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, 'DejaVu Sans', sans-serif"
DASHES: Final = {"walk": "none", "back": "6 4", "uses": "2 3"}


def svg(source: Path, *, only: dict[str, str] | None = None) -> str:
    """Give a picture in both colour schemes, of which the reader's decides; or in `only` one."""
    picture = tomllib.loads(source.read_text(encoding="utf-8"))
    width, height = picture["width"], picture["height"]
    boxes = {each["id"]: _frame(each) for each in picture["box"]}
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(picture['title'])}</title>",
            f"<style>text {{ {FONT}; }}",
            *_rules(only or LIGHT),
            *(() if only else ("@media (prefers-color-scheme: dark) {", *_rules(DARK), "}")),
            "</style>",
            "<defs>",
            *(_arrow_head(kind) for kind in DASHES),
            "</defs>",
            f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            *(line for each in picture.get("panel", []) for line in _panel(each, width)),
            *(line for each in picture.get("arrow", []) for line in _arrow(each, boxes)),
            *(line for each in picture["box"] for line in _box(each, boxes[each["id"]])),
            *_legend(*picture.get("legend", (0, 0)), picture.get("legend-words", {})),
            "</svg>\n",
        )
    )


def _rules(colours: dict[str, str]) -> Iterator[str]:
    for name, style in colours.items():
        yield f".{name} {{ {style}; }}"
        if name in {"walk", "back", "uses"}:
            yield f".{name}-head {{ fill: {style.split()[1].rstrip(';')}; stroke: none; }}"


def _arrow_head(kind: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path class="{kind}-head" d="M0 0L10 5L0 10z"/></marker>'
    )


def _frame(box: dict[str, Any]) -> tuple[float, float, float, float]:
    """Give left, top, width and height of a box."""
    first, last = box["columns"]
    return _x(first), box["top"], _x(last) + COLUMN - _x(first), box.get("height", BOX_HEIGHT)


def _x(column: float) -> float:
    return LEFT + (column - 1) * (COLUMN + GAP)


def _panel(panel: dict[str, Any], width: float) -> Iterator[str]:
    left, _, span, _ = _frame(panel)
    x, across = (left - 8, span + 16) if "line" not in panel else (12, width - 24)
    yield (
        f'<rect class="panel-{panel["kind"]}" x="{x}" y="{panel["top"]}" width="{across}" '
        f'height="{panel["height"]}" rx="8" stroke-width="1.5"/>'
    )
    yield from _lines(panel, left + span / 2, panel.get("line", panel["top"] + 26), size=16)


def _box(box: dict[str, Any], frame: tuple[float, float, float, float]) -> Iterator[str]:
    left, top, width, height = frame
    yield f'<rect class="{box.get("kind", "box")}" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>'
    yield from _lines(box, left + width / 2, top + (height - 17 * len(box.get("text", []))) / 2 + 5, size=14)


def _lines(part: dict[str, Any], middle: float, y: float, *, size: float) -> Iterator[str]:
    """Give a title and the text below it."""
    yield _text(part["title"], (middle, y), "title", size=size, weight="bold")
    for number, line in enumerate(part.get("text", []), 1):
        yield _text(line, (middle, y + 17 * number + 1), "text", size=12.5)


def _arrow(arrow: dict[str, Any], boxes: dict[str, tuple[float, float, float, float]]) -> Iterator[str]:
    kind = arrow.get("kind", "walk")
    (x1, y1), (x2, y2) = (_end(each, boxes) for each in arrow["path"])
    corner = f"H{x2}" if x1 != x2 and y1 != y2 else ""
    yield f'<path class="{kind}" d="M{x1} {y1}{corner}L{x2} {y2}" {_stroke(kind)}/>'
    if "label" in arrow:
        is_level = y1 == y2
        place = ((x1 + x2) / 2, y1 - 8) if is_level else (x2 + 8, (y1 + y2) / 2 + 4 if x1 == x2 else y1 - 8)
        yield _text(arrow["label"], place, "text", size=12, anchor="middle" if is_level else "start", weight="bold")


def _stroke(kind: str) -> str:
    return f'stroke-width="2" stroke-dasharray="{DASHES[kind]}" marker-end="url(#{kind})"'


def _end(end: str, boxes: dict[str, tuple[float, float, float, float]]) -> tuple[float, float]:
    """Give where an arrow ends: `box.side`, or `box.side@column` for the middle of a column."""
    name, _, rest = end.partition(".")
    side, _, column = rest.partition("@")
    left, top, width, height = boxes[name]
    x = _x(float(column)) + COLUMN / 2 if column and side in {"top", "bottom"} else left + width / 2
    return {
        "top": (x, top),
        "bottom": (x, top + height),
        "left": (left, top + height / 2),
        "right": (left + width, top + height / 2),
    }[side]


def _text(
    text: str, place: tuple[float, float], kind: str, *, size: float, anchor: str = "middle", weight: str = "normal"
) -> str:
    x, y = place
    return (
        f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}" xml:space="preserve">{escape(text)}</text>'
    )


def _legend(left: float, top: float, legend: dict[str, str]) -> Iterator[str]:
    for number, (kind, words) in enumerate(legend.items()):
        y = top + number * 22
        yield f'<path class="{kind}" d="M{left} {y}H{left + 44}" {_stroke(kind)}/>'
        yield _text(words, (left + 54, y + 4), "text", size=12, anchor="start")


if __name__ == "__main__":
    for each in SOURCES:
        each.with_suffix(".svg").write_text(svg(each), encoding="utf-8")
