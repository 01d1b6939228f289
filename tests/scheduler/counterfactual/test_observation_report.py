"""The report: sums over observations, and the largest differences."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler.counterfactual.observation_record import OutcomeLine, RecordError
from scheduler.counterfactual.observation_report import MOST_NAMED, MOST_POINTS
from scheduler.counterfactual.outcomes import OutcomeCounts, PlacementOutcome
from tests.support.observations import BETTER, NONE, WORSE, outcome, report, sample, start


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.jsonl"


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


def test_names_are_of_the_moment_of_the_counts(path: Path) -> None:
    still, final, late = outcome("p", 60.0), outcome("p", 70.0), OutcomeLine(of=outcome("r", -9.0))
    lines = start(1.0), sample(2.0, still_open=(still, outcome("q", 50.0))), OutcomeLine(of=final), late
    found = report(path, *lines)
    assert [(each.name, each.seconds_ahead) for each in found.sooner] == [("p", 60.0), ("q", 50.0)]
    assert found.later == ()
    found = report(path, sample(3.0))
    assert [(each.name, each.seconds_ahead) for each in found.sooner] == [("p", 70.0)]
    assert [each.name for each in found.later] == ["r"]


def test_what_was_not_counted_before_a_gap_is_not_named_after_it(path: Path) -> None:
    found = report(path, start(1.0), sample(2.0), OutcomeLine(of=outcome("p")), start(9.0), sample(10.0))
    assert found.sooner == ()


def test_series_are_thinned_by_averages(path: Path) -> None:
    count = MOST_POINTS * 3
    found = report(path, start(0.0), *(sample(float(at), waiting=(at % 3, 0)) for at in range(1, count + 1)))
    assert len(found.series) == MOST_POINTS
    assert {each.real.waiting for each in found.series} == {1.0}
    assert found.series[-1].at == count


def test_a_record_without_a_sample_is_refused(path: Path) -> None:
    with pytest.raises(RecordError, match="has no sample yet"):
        report(path, start(1.0))


def test_the_tolerance_is_the_longest_of_all_samples(path: Path) -> None:
    found = report(path, start(0.0), replace(sample(60.0), tolerance_seconds=90.0), sample(120.0))
    assert found.tolerance_seconds == 90.0
