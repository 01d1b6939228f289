"""The colours of the map: people with any kind of colour vision tell them apart, and texts can be read."""

import itertools
import re
from collections.abc import Iterable

import pytest

from tests.support import house

SOURCES = house.ROOT / "scheduler" / "page" / "front" / "src"
THEMES = ("LIGHT", "DARK")
Matrix = tuple[tuple[float, float, float], ...]
VISION: dict[str, Matrix] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What is seen of linear RGB: Machado, Oliveira and Fernandes, IEEE TVCG 15 (2009), severity 1."""
LEAST_DIFFERENCE = 14.0
"""CIE76 in CIELAB; 2.3 is just noticeable side by side."""
LEAST_CONTRAST = 4.5
"""WCAG 2.2, level AA."""


def palette(theme: str) -> dict[str, list[str]]:
    """The colours of a theme by name."""
    text = (SOURCES / "colours.ts").read_text(encoding="utf-8")
    (body,) = re.findall(rf"const {theme}: Palette = \{{(.*?)\n\}};", text, re.DOTALL)
    return {name: re.findall(r"#[0-9a-f]{6}", rest) for name, rest in re.findall(r"(\w+): (.*)", body)}


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]


def lab(rgb: Iterable[float]) -> tuple[float, float, float]:
    red, green, blue = (min(1.0, max(0.0, each)) for each in rgb)
    xyz = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
    )
    x, y, z = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: str, other: str, vision: Matrix) -> float:
    seen = [lab(sum(a * b for a, b in zip(row, linear(each), strict=True)) for row in vision) for each in (one, other)]
    return float(sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5)


def contrast(one: str, other: str) -> float:
    light = sorted(
        sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(each), strict=True)) for each in (one, other)
    )
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(
    "names",
    [
        ("many", "free", "blocked", "other"),
        ("held", "shared", "free", "blocked"),
        ("ages", "free"),
        ("unknown", "free"),
    ],
    ids=lambda names: names[0],
)
def test_colours_that_stand_together_differ(names: tuple[str, ...], theme: str, vision: str) -> None:
    """Unusable devices have a slash as well, blocked ones dots, and free ones a line around them."""
    colours = [each for name in names for each in palette(theme)[name]]
    assert len(colours) >= len(names)
    pairs = itertools.combinations(colours, 2)
    assert {
        pair: difference(*pair, VISION[vision])
        for pair in pairs
        if difference(*pair, VISION[vision]) < LEAST_DIFFERENCE
    } == {}


@pytest.mark.parametrize("theme", THEMES)
def test_texts_on_the_map_can_be_read(theme: str) -> None:
    found = palette(theme)
    for text in (*found["ink"], *found["quiet"]):
        for name in ("background", "tile", "cluster"):
            assert contrast(text, found[name][0]) >= LEAST_CONTRAST


@pytest.mark.parametrize("theme", [":root", ':root[data-theme="dark"]'])
def test_texts_of_the_page_can_be_read(theme: str) -> None:
    style = (SOURCES / "map.css").read_text(encoding="utf-8")
    body = style.partition(f"{theme} {{")[2].partition("}")[0]
    found = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", body))
    for text, ground in itertools.product(("ink", "quiet", "accent", "warning"), ("background", "surface", "raised")):
        assert contrast(found[text], found[ground]) >= LEAST_CONTRAST, (text, ground)
