"""The page of the report: it escapes, loads nothing, runs its own script only, and says what would have been worse."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler.counterfactual.observation_record import OutcomeLine
from scheduler.page import report_page
from tests.support.observations import BETTER, WORSE, outcome, report, sample, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


class Page(HTMLParser):
    """What a browser would make of a page: elements, attributes, text, and scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and data.strip():
            self.scripts.append(data)
        else:
            self.text += data


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def test_no_text_of_a_record_becomes_markup_and_nothing_is_loaded(path: Path) -> None:
    harm = outcome(HOSTILE, 7.0, kind=HOSTILE)
    found = report(path, start(1.0, HOSTILE), OutcomeLine(of=harm), sample(2.0, pods=BETTER, still_open=(harm,)))
    text = report_page.page(replace(found, version=HOSTILE))
    page = Page(text)
    assert set(page.tags).isdisjoint({"img", "link", "iframe", "object", "form", "a"})
    assert page.tags.count("script") == 2
    assert not [name for name, _ in page.attributes if name in {"src", "href", "style"} or name.startswith("on")]
    assert re.findall(r"@import|url\(", text) == []
    assert HOSTILE in page.text
    assert json.loads(page.scripts[0])["names"] == ["Dovetail", HOSTILE]


def test_only_the_script_and_the_style_of_the_page_are_allowed(path: Path) -> None:
    text = report_page.page(report(path, start(1.0), sample(2.0)))
    (policy,) = re.findall(r'content="(default-src[^"]*)"', text)
    digest = base64.b64encode(hashlib.sha256(Page(text).scripts[1].encode()).digest()).decode()
    assert re.fullmatch(
        rf"default-src 'none'; script-src 'sha256-{re.escape(digest)}'; style-src 'sha256-[A-Za-z0-9+/=]+'; "
        r"img-src data:; base-uri 'none'; form-action 'none'",
        policy,
    )


def test_the_charts_have_the_values_of_both_clusters(path: Path) -> None:
    found = report(path, start(1.0), sample(2.0, waiting=(3, 1)), sample(9.0, real=(4, 5, 2), counterfactual=(7, 8, 6)))
    page = Page(report_page.page(found))
    given = json.loads(page.scripts[0])
    assert given["names"] == ["Dovetail", "default-scheduler"]
    assert given["at"] == [2.0, 9.0]
    assert given["charts"][0] == [[1.0, 0.0], [3.0, 0.0]]
    figures = [(each.counterfactual, each.real) for each in found.series]
    assert given["charts"][1] == [[each[side].whole_free_nodes for each in figures] for side in (0, 1)]
    assert given["charts"][2] == [[each[side].devices_in_use for each in figures] for side in (0, 1)]
    said = [value for name, value in page.attributes if name == "aria-label"]
    assert said[0] == "Pods that wait: at the end 0 with Dovetail, 0 really"
    assert len(said) == 3


def test_lines_end_where_an_observation_ends(path: Path) -> None:
    lines = start(1.0), sample(2.0, waiting=(3, 1)), sample(5.0), start(900.0), sample(901.0, waiting=(4, 2))
    given = json.loads(Page(report_page.page(report(path, *lines))).scripts[0])
    assert given["at"] == [2.0, 5.0, 5.0, 901.0]
    assert given["charts"][0] == [[1.0, 0.0, None, 2.0], [3.0, 0.0, None, 4.0]]


def test_the_page_says_what_would_have_been_worse_beside_what_would_have_been_better(path: Path) -> None:
    found = report(
        path, start(1000.0), sample(4600.0, pods=BETTER.plus(WORSE), gangs=BETTER, real=(4, 4, 2), evictions=(1, 3))
    )
    text = " ".join(Page(report_page.page(found)).text.split())
    assert (
        "Of 9 pods, Dovetail would have placed 2 sooner than default-scheduler, 2 later, and 5 no differently." in text
    )
    assert "1 pod placed later than by default-scheduler" in text
    assert "1 pod not placed that default-scheduler placed" in text
    assert "2 evictions more" in text
    assert "1 fewer whole nodes free, on average" in text
    assert "2 gangs started sooner than by default-scheduler" in text
    assert "1 min 30 s less waiting, over all pods" in text


def test_a_share_is_written_without_a_blank_as_on_the_other_pages(path: Path) -> None:
    text = report_page.page(report(path, start(1000.0), sample(4600.0, pods=BETTER.plus(WORSE), gangs=BETTER)))
    assert "<td class=number>2 (22%)</td>" in text
    assert re.findall(r"\d %", Page(text).text) == []


def test_the_page_of_an_observation_without_pods_says_so(path: Path) -> None:
    text = Page(report_page.page(report(path, start(1.0), sample(1.0, counterfactual=(4, 4, 0))))).text
    assert "No pod of default-scheduler had to be placed alone." in text
    assert "Nothing was better." in text
    assert "Nothing was worse." in text


def test_every_heading_of_a_table_has_a_text(path: Path) -> None:
    lines = start(1.0), OutcomeLine(of=outcome("p")), OutcomeLine(of=outcome("q", -60.0, "gang")), sample(2.0)
    text = report_page.page(report(path, *lines))
    assert "</th>" in text
    assert not re.search(r"<th[^>]*></th>", text)
