"""The counts of the last minutes."""

from scheduler.history.recent_work import MINUTES, RecentWork, WorkCounts


def test_counts_are_of_the_last_minutes() -> None:
    now = 100.0
    recent = RecentWork(lambda: now)
    recent.add(WorkCounts(bound=1, slowest_seconds=2.0))
    recent.add(WorkCounts(bound=2, slowest_seconds=1.0))
    assert recent.total() == WorkCounts(bound=3, slowest_seconds=2.0)
    now += 60.0 * (MINUTES - 1)
    recent.add(WorkCounts(evicted=1))
    assert recent.total() == WorkCounts(bound=3, evicted=1, slowest_seconds=2.0)
    now += 60.0
    assert recent.total() == WorkCounts(evicted=1)


def test_what_is_kept_does_not_grow() -> None:
    now = 0.0
    recent = RecentWork(lambda: now)
    for minute in range(1000):
        now = 60.0 * minute
        recent.add(WorkCounts(decisions=1))
    assert recent.total() == WorkCounts(decisions=MINUTES)
