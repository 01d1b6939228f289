"""The report: sums over observations, the largest differences, and a page that escapes and loads nothing."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler.counterfactual import observation_report, report_page
from scheduler.counterfactual.observation_record import (
    ObservationRecord,
    OutcomeLine,
    RecordError,
    RecordLine,
    RecordReader,
)
from scheduler.counterfactual.observation_report import MOST_NAMED, MOST_POINTS, ObservationReport
from scheduler.counterfactual.outcomes import OutcomeCounts, PlacementOutcome
from tests.support.observations import NONE, outcome, sample, start

BETTER = replace(NONE, sooner=2, same=5, seconds_sooner=90.0)
WORSE = replace(NONE, later=1, only_real=1, seconds_later=30.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


def report(path: Path, *lines: RecordLine) -> ObservationReport:
    with ObservationRecord(path) as record:
        for each in lines:
            record.add(each)
    return observation_report.report_of(RecordReader(path))


def test_the_counts_are_those_of_the_last_sample_of_each_observation(path: Path) -> None:
    found = report(
        path,
        start(1000.0),
        sample(1010.0, pods=replace(NONE, same=1), waiting=(7, 7)),
        sample(1060.0, pods=BETTER, evictions=(3, 1)),
        start(2000.0, "other"),
        sample(2100.0, pods=WORSE, gangs=BETTER, evictions=(1, 1), waiting=(5, 2), failed_decisions=2),
    )
    assert found.schedulers == ("default-scheduler", "other")
    assert found.totals.pods == OutcomeCounts(
        sooner=2, same=5, later=1, only_real=1, seconds_sooner=90.0, seconds_later=30.0
    )
    assert found.totals.gangs == BETTER
    assert (found.totals.real_evictions, found.totals.counterfactual_evictions) == (4, 2)
    assert (found.totals.real_waiting, found.totals.counterfactual_waiting) == (5, 2)
    assert found.observed_seconds == 160.0
    assert found.failed_decisions == 2
    assert found.real.waiting == 4.0  # (7 + 0 + 5) / 3


def test_the_pods_that_differ_most_are_named_also_those_that_still_wait(path: Path) -> None:
    many = [OutcomeLine(of=outcome(f"p{index}", float(index))) for index in range(1, 3000)]
    late = OutcomeLine(of=outcome("late", -40.0, word=PlacementOutcome.LATER))
    waits = outcome("waits", 5000.0, word=PlacementOutcome.ONLY_COUNTERFACTUAL)
    found = report(path, start(1.0), late, *many, sample(2.0, still_open=(waits,)))
    assert [each.name for each in found.sooner][:3] == ["waits", "p2999", "p2998"]
    assert len(found.sooner) == MOST_NAMED
    assert [each.name for each in found.later] == ["late"]


def test_a_pod_whose_outcome_is_final_since_the_last_sample_is_named_once(path: Path) -> None:
    still, final = outcome("p", 60.0), outcome("p", 70.0)
    found = report(path, start(1.0), sample(2.0, still_open=(still, outcome("q", 50.0))), OutcomeLine(of=final))
    assert [(each.name, each.seconds_ahead) for each in found.sooner] == [("p", 70.0), ("q", 50.0)]


def test_series_are_thinned_by_averages(path: Path) -> None:
    count = MOST_POINTS * 3
    found = report(path, start(0.0), *(sample(float(at), waiting=(at % 3, 0)) for at in range(1, count + 1)))
    assert len(found.series) == MOST_POINTS
    assert {each.real.waiting for each in found.series} == {1.0}
    assert found.series[-1].at == count


def test_a_record_without_a_sample_is_refused(path: Path) -> None:
    with pytest.raises(RecordError, match="has no sample yet"):
        report(path, start(1.0))


class Page(HTMLParser):
    """What a browser would make of a page: elements, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def test_no_text_of_a_record_becomes_markup_and_nothing_is_loaded(path: Path) -> None:
    harm = outcome(HOSTILE, 7.0, kind=HOSTILE)
    found = report(path, start(1.0, HOSTILE), OutcomeLine(of=harm), sample(2.0, pods=BETTER, still_open=(harm,)))
    text = report_page.page(replace(found, version=HOSTILE))
    page = Page(text)
    assert page.tags.isdisjoint({"script", "img", "link", "iframe", "object", "form", "a"})
    assert not [name for name, _ in page.attributes if name in {"src", "href", "style"} or name.startswith("on")]
    assert HOSTILE in page.text
    policy = re.search(r'content="(default-src[^"]*)"', text)
    assert policy
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'; base-uri 'none'; form-action 'none'", policy[1]
    )


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


def test_the_page_of_an_observation_without_pods_says_so(path: Path) -> None:
    text = Page(report_page.page(report(path, start(1.0), sample(1.0, counterfactual=(4, 4, 0))))).text
    assert "No pod of default-scheduler had to be placed alone." in text
    assert "Nothing was better." in text
    assert "Nothing was worse." in text


@pytest.mark.parametrize(
    ("seconds", "last"), [(240.0, "00:04:00"), (7200.0, "1970-01-01 02:00")], ids=["minutes", "hours"]
)
def test_the_ends_of_a_time_axis_differ_also_after_minutes(path: Path, seconds: float, last: str) -> None:
    text = report_page.page(report(path, start(0.0), sample(0.0), sample(seconds)))
    assert text.count(f'text-anchor="end">{last}</text>') == 3  # one for each chart


def test_every_heading_of_a_table_has_a_text(path: Path) -> None:
    lines = start(1.0), OutcomeLine(of=outcome("p")), OutcomeLine(of=outcome("q", -60.0, "gang")), sample(2.0)
    text = report_page.page(report(path, *lines))
    assert "</th>" in text
    assert not re.search(r"<th[^>]*></th>", text)


def test_the_tolerance_is_the_longest_of_all_samples(path: Path) -> None:
    found = report(path, start(0.0), replace(sample(60.0), tolerance_seconds=90.0), sample(120.0))
    assert found.tolerance_seconds == 90.0
