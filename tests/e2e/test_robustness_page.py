"""docs/robustness.md names what there is: tests, cases of hostile tenants, and the fail points as they are now."""

import re
from pathlib import Path
from typing import Final

from e2e.hostile.cases import CASES
from tests.support import fail_point_matrix, house
from tests.support.fail_point_matrix import cases, covering_cases
from tests.support.fail_points import KINDS, MOMENTS
from tests.support.scenes import SCENES

TEXT: Final = fail_point_matrix.PAGE.read_text(encoding="utf-8")


def test_the_matrix_of_fail_points_is_up_to_date() -> None:
    assert fail_point_matrix.in_page(TEXT) == fail_point_matrix.matrix()


def test_the_matrix_counts_the_cases_that_run() -> None:
    assert f" {len(list(cases()))} cases:" in fail_point_matrix.matrix()


def test_few_cases_cover_the_matrix() -> None:
    few, every = list(covering_cases()), list(cases())
    assert set(few) <= set(every)
    assert len(few) == len(set(few)) < len(every) / 10
    for names in (_writes(), [f"-{each}" for each in MOMENTS]):
        assert all(any(name in f"{case}-" or case.endswith(name) for case in few) for name in names)
    assert {_cell(case) for case in few} == {_cell(case) for case in every}


def _writes() -> set[str]:
    return {f"{scene}-{kind}-{number}-" for scene, made in SCENES.items() for kind, number in made.writes}


def _cell(case: str) -> tuple[str, str]:
    moment = max((each for each in MOMENTS if case.endswith(f"-{each}")), key=len)
    write = case.removesuffix(f"-{moment}")
    kind = max((each for each in KINDS if f"-{each}-" in write), key=len)
    return kind, fail_point_matrix.group_of(MOMENTS[moment])


def test_the_page_names_tests_that_exist() -> None:
    named = [(path, names.split()) for path, names in re.findall(r"`(tests/[\w/.]+\.py)`((?: `test_\w+`)*)", TEXT)]
    assert len(named) > 40
    for path, names in named:
        missing = [name for name in names if f"def {name.strip('`')}(" not in _text(path)]
        assert missing == [], path
    assert sum(len(names) for _, names in named) == len(re.findall(r"`test_\w+`", TEXT))


def test_the_page_names_cases_that_exist() -> None:
    found = re.findall(r"cases? ((?:`[a-z-]+`(?:, )?)+)", TEXT)
    names = {name for each in found for name in re.findall(r"`([a-z-]+)`", each)}
    assert len(names) > 8
    assert names <= set(CASES)


def _text(path: str) -> str:
    return Path(house.ROOT, path).read_text(encoding="utf-8")
