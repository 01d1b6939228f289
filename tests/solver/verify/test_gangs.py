"""The checker finds partial gangs and gangs outside of one topology domain, and nothing else about them."""

from collections.abc import Callable

import pytest

from solver.verify import Rule
from tests.solver.verify import cases as c
from tests.solver.verify import gang_cases
from tests.solver.verify.both_ways import check


@pytest.mark.parametrize(
    ("case", "change", "rules"), [row[1:] for row in gang_cases.BROKEN], ids=[row[0] for row in gang_cases.BROKEN]
)
def test_a_broken_rule_is_noticed_by_its_name(case: Callable[[], c.Case], change: c.Change, rules: set[Rule]) -> None:
    assert {violation.rule for violation in check(*change(case()))} == rules


@pytest.mark.parametrize(
    ("case", "change"), [row[1:] for row in gang_cases.VALID], ids=[row[0] for row in gang_cases.VALID]
)
def test_what_is_allowed_breaks_nothing(case: Callable[[], c.Case], change: c.Change) -> None:
    assert check(*change(case())) == ()
