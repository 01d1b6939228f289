"""When the API server counts as changed, while old and new servers answer in turn; and when the cluster is another."""

import random

import pytest

from scheduler.kube.discovery import ApiChange, ClusterIdentity, DiscoveredKinds

OLD, NEW = DiscoveredKinds(minor=36, git_version="v1.36.5"), DiscoveredKinds(minor=37, git_version="v1.37.2")


def answers(change: ApiChange, served: DiscoveredKinds, found: DiscoveredKinds, now: float) -> int:
    """Count the equal answers that it takes."""
    change.begin(served)
    return next(number for number in range(1, 1000) if change.saw(found, now))


def test_three_equal_answers_are_a_change() -> None:
    change = ApiChange()
    change.begin(OLD)
    assert [change.saw(each, 0.0) for each in (NEW, NEW, OLD, NEW, NEW, NEW)] == [False] * 5 + [True]


def test_answers_that_differ_from_each_other_are_none() -> None:
    other = DiscoveredKinds(minor=37, problem="half of it")
    change = ApiChange()
    change.begin(OLD)
    assert [change.saw(each, 0.0) for each in (NEW, NEW, other, NEW, NEW)] == [False] * 5


def test_a_patch_is_no_change() -> None:
    change = ApiChange()
    change.begin(OLD)
    assert not any(change.saw(DiscoveredKinds(minor=36, git_version="v1.36.6"), 0.0) for _ in range(100))


def test_answers_of_two_versions_are_an_upgrade_that_runs_until_they_have_been_one_for_four_minutes() -> None:
    patched, change = DiscoveredKinds(minor=36, git_version="v1.36.6"), ApiChange()
    change.begin(OLD)
    change.saw(OLD, 0.0)
    assert not change.is_under_way(0.0)
    for now, found in ((10.0, patched), (20.0, OLD), (30.0, patched), (40.0, patched)):
        change.saw(found, now)
    assert change.is_under_way(40.0)
    change.begin(patched)  # the scheduler starts again
    assert change.is_under_way(269.0)
    assert not change.is_under_way(270.0)


def test_each_change_within_an_hour_doubles_the_answers() -> None:
    change = ApiChange()
    assert [answers(change, OLD, NEW, now) for now in (0.0, 60.0, 120.0, 180.0, 240.0)] == [3, 6, 12, 24, 24]
    assert answers(change, OLD, NEW, 3600.0) == 24
    assert answers(change, OLD, NEW, 3 * 3600.0) == 3


def test_an_upgrade_of_several_servers_starts_it_again_a_few_times_only() -> None:
    """An hour in which each answer comes from an old or a new server by chance."""
    chance, change, served, restarts = random.Random(3), ApiChange(), OLD, 0  # noqa: S311 - repeatable answers
    change.begin(served)
    for number in range(360):
        found = chance.choice((OLD, NEW))
        if change.saw(found, 10.0 * number):
            served, restarts = found, restarts + 1
            change.begin(served)
    assert 1 <= restarts <= 3


@pytest.mark.parametrize(
    ("uid", "revision", "expected"),
    [
        ("a", "100", ""),
        ("a", "1000", ""),
        ("a", "1000000100", "etcd was restored: its revision went on from 100 to 1000000100"),
        ("a", "1" * 5000, ""),
        ("a", "99", "etcd was restored: its revision went back from 100 to 99"),
        ("b", "100", "it is another cluster: the uid of kube-system is b, and was a"),
        ("b", "", "it is another cluster: the uid of kube-system is b, and was a"),
        ("", "101", ""),
        ("a", "", ""),
    ],
)
def test_another_uid_or_a_revision_that_goes_back_is_another_cluster(uid: str, revision: str, expected: str) -> None:
    """Not what an answer lacks: then nothing is known."""
    before = ClusterIdentity(uid="a", revision="100")
    assert ClusterIdentity(uid=uid, revision=revision).contradiction(before) == expected
