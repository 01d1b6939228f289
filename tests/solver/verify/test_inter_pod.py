"""The checker names the rules between pods that a changed plan breaks, and no others."""

from collections.abc import Callable

import pytest

from solver.verify import Rule
from tests.solver.verify import cases as c
from tests.solver.verify.both_ways import check
from tests.solver.verify.inter_pod_cases import BROKEN, KEPT, company


@pytest.mark.parametrize(("case", "change", "rules"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_noticed_by_its_name(case: Callable[[], c.Case], change: c.Change, rules: set[Rule]) -> None:
    assert {violation.rule for violation in check(*change(case()))} == rules


@pytest.mark.parametrize("change", [row[1] for row in KEPT], ids=[row[0] for row in KEPT])
def test_what_breaks_no_rule_is_left_alone(change: c.Change) -> None:
    assert check(*change(company())) == ()
