"""`make versions`: the table of the page."""

from e2e.controlplane import versions
from e2e.versions import BEGIN, END, PAGE, Outcome, markdown
from scheduler.cli import simulate
from scheduler.kube.api_versions import NEWEST_MINOR


def outcome(release: str, gates: str, passed: int) -> Outcome:
    return Outcome(release[:4], gates, release, passed, failures=(), left_out=1, seconds=60.0)  # type: ignore[arg-type]


def test_a_run_replaces_its_own_lines_and_keeps_the_others() -> None:
    before = markdown([outcome("1.37.2", "on", 9), outcome("1.34.11", "on", 5), outcome("1.34.11", "defaults", 4)])
    after = markdown([outcome("1.34.12", "on", 6)], before)
    assert after.splitlines()[2:] == [
        "| 1.34.12 | all on | 6 | 0 | 1 |",
        "| 1.34.11 | as shipped | 4 | 0 | 1 |",
        "| 1.37.2 | all on | 9 | 0 | 1 |",
    ]


def test_the_page_has_a_place_for_the_table() -> None:
    page = PAGE.read_text()
    assert page.index(BEGIN) < page.index(END)


def test_a_patch_release_has_a_minor_version() -> None:
    assert versions.minor("1.37.2") == versions.minor("1.37") == 37


def test_simulate_knows_the_versions_that_are_tested() -> None:
    assert simulate.VERSIONS == versions.SUPPORTED
    assert versions.minor(versions.DEFAULT) == NEWEST_MINOR
