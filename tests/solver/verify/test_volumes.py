"""The checker names every rule about volumes that a changed plan breaks, and accepts what is next to it."""

from collections.abc import Callable

import pytest

from solver.verify import Rule
from tests.solver.verify import cases as c
from tests.solver.verify import volume_cases
from tests.solver.verify.both_ways import check


def test_the_plan_is_valid_as_it_is() -> None:
    assert check(*volume_cases.volumes()) == ()


@pytest.mark.parametrize(
    ("case", "change", "rules"),
    [row[1:] for row in volume_cases.BROKEN],
    ids=[row[0] for row in volume_cases.BROKEN],
)
def test_a_broken_rule_is_noticed_by_its_name(case: Callable[[], c.Case], change: c.Change, rules: set[Rule]) -> None:
    assert {violation.rule for violation in check(*change(case()))} == rules


@pytest.mark.parametrize(
    "change", [row[1] for row in volume_cases.ACCEPTED], ids=[row[0] for row in volume_cases.ACCEPTED]
)
def test_what_the_api_allows_is_accepted(change: c.Change) -> None:
    assert check(*change(volume_cases.volumes())) == ()
