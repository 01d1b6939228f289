"""What a person reads while a program is built from its Go modules."""

import pytest

from e2e.controlplane.build import Progress

DOWNLOADED = b"".join(b"go: downloading example.com/m%d v1.0.0\n" % number for number in range(3))


def compiled(packages: int) -> bytes:
    return DOWNLOADED + b"".join(b"example.com/p%d\n" % number for number in range(packages))


def test_downloads_are_counted_first() -> None:
    progress = Progress("it", lambda: 0.0)
    assert progress.line(DOWNLOADED, 7.0) == "building it (once): 7 s, 3 modules downloaded"


@pytest.mark.parametrize(
    ("packages", "now", "expected"),
    [
        pytest.param(0, 10.0, "building it (once): 0 % of 200 packages, 10 s", id="nothing yet"),
        pytest.param(9, 40.0, "building it (once): 4 % of 200 packages, 40 s", id="too early"),
        pytest.param(50, 110.0, "building it (once): 25 % of 200 packages, 110 s, about 5 min left", id="a quarter"),
        pytest.param(190, 200.0, "building it (once): 95 % of 200 packages, 200 s, less than a minute left", id="soon"),
        pytest.param(200, 200.0, "building it (once): 100 % of 200 packages, 200 s", id="all"),
        pytest.param(210, 200.0, "building it (once): 100 % of 200 packages, 200 s", id="lines of others"),
    ],
)
def test_then_packages_with_the_time_that_is_left(packages: int, now: float, expected: str) -> None:
    times = iter((0.0, 10.0))
    progress = Progress("it", lambda: next(times))
    progress.begin_compiling(200)
    assert progress.line(compiled(packages), now) == expected
