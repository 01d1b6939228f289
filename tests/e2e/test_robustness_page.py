"""docs/robustness.md has the fail points as they are now."""

from typing import Final

from tests.support import fail_point_matrix
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
