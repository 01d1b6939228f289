"""An allowance pays before work is done, counts for its whole, and says whether units or time ended it."""

import pytest

from solver.domain import Allowance, AllowanceSpentError, Budget


def test_what_a_part_spends_its_wholes_have_spent() -> None:
    decision = Allowance(1_000)
    pod = decision.part(600)
    request = pod.part(200)
    request.spend(150)
    pod.charge(50)
    assert (request.left, pod.left, decision.left) == (50, 400, 800)
    assert (request.spent, pod.spent, decision.spent) == (150, 200, 200)
    request.charge(-100)
    assert (request.left, pod.left, decision.left) == (150, 500, 900)


def test_a_step_that_is_too_long_is_not_paid() -> None:
    decision = Allowance(1_000)
    part = decision.part(100)
    with pytest.raises(AllowanceSpentError, match="101 units are needed, and 100 are left"):
        part.spend(101)
    assert (part.left, part.spent, decision.spent) == (100, 0, 0)
    assert (part.is_late, part.insufficient_units) == (False, 100)
    part.spend(100)
    assert (part.left, part.insufficient_units) == (0, 100)


def test_the_clock_is_asked_at_the_first_payment_and_then_about_every_two_thousand_units() -> None:
    asked: list[int] = []
    allowance = Allowance(100_000)

    def look() -> bool:
        asked.append(allowance.spent)
        return False

    allowance.is_over = look
    for _ in range(50):
        allowance.spend(100)
    assert asked == [0, 2_000, 4_000]
    allowance.allow(1_000)
    allowance.spend(100)
    assert asked == [0, 2_000, 4_000, 5_000]


@pytest.mark.parametrize(("spent", "is_late"), [(0, True), (49_999, True), (50_000, False)])
def test_work_that_spent_much_is_costly_although_the_time_ended_it(spent: int, is_late: bool) -> None:  # noqa: FBT001
    is_over = False
    allowance = Allowance(100_000, lambda: is_over)
    allowance.charge(spent)
    is_over = True
    with pytest.raises(AllowanceSpentError, match="the time is used up"):
        allowance.spend(2_000)
    assert (allowance.is_late, allowance.insufficient_units) == (is_late, spent)


def test_a_part_is_late_where_the_time_of_its_whole_ended() -> None:
    whole = Allowance(100, lambda: True)
    waiting, other = whole.part(10), Allowance(100).part(10)
    assert not whole.has_time()
    assert (waiting.is_late, other.is_late) == (True, False)


def test_parts_of_a_decision_share_its_cost_units_and_one_may_have_some_of_its_own() -> None:
    budget = Budget(seconds=1.0, cost_units=1_000, clock=lambda: 0.0, started=0.0)
    budget.allowance(0.5).charge(1_200)
    assert budget.work.cost.spent == 1_200
    assert budget.allowance(0.5).left == 0
    assert budget.allowance(0.5, least=500).left == 500
    budget.allowance(0.5, least=500).spend(300)
    assert budget.work.cost.spent == 1_500


def test_a_part_of_a_decision_has_time_until_a_share_of_the_wall_time() -> None:
    now = 0.0
    budget = Budget(seconds=1.0, clock=lambda: now, started=0.0)
    half, most = budget.allowance(0.5), budget.allowance(0.75)
    now = 0.7
    assert (half.has_time(), most.has_time()) == (False, True)
