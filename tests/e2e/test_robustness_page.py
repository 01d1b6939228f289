"""docs/robustness.md names what there is: tests, cases of hostile tenants, and the fail points as they are now."""

import re
from pathlib import Path
from typing import Final

from e2e.hostile.cases import CASES
from tests.integration.test_fail_points import cases
from tests.support import fail_point_matrix, house

TEXT: Final = fail_point_matrix.PAGE.read_text(encoding="utf-8")


def test_the_matrix_of_fail_points_is_up_to_date() -> None:
    assert fail_point_matrix.in_page(TEXT) == fail_point_matrix.matrix()


def test_the_matrix_counts_the_cases_that_run() -> None:
    assert f" {len(list(cases()))} cases:" in fail_point_matrix.matrix()


def test_the_page_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/.]+\.py)`(?: `(test_\w+)`)?", TEXT)
    assert len(named) > 40
    for path, name in named:
        assert not name or f"def {name}(" in _text(path), f"{path} {name}"


def test_the_page_names_cases_that_exist() -> None:
    found = re.findall(r"cases? ((?:`[a-z-]+`(?:, )?)+)", TEXT)
    names = {name for each in found for name in re.findall(r"`([a-z-]+)`", each)}
    assert len(names) > 8
    assert names <= set(CASES)


def _text(path: str) -> str:
    return Path(house.ROOT, path).read_text(encoding="utf-8")
