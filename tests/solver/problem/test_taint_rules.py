"""Taints of rules are those of the rules that select a device, in the order of the rules."""

from hypothesis import given
from hypothesis import strategies as st

from solver.domain import DeviceId, DeviceTaintRule
from solver.problem.devices.device_properties import TaintRules
from tests.support import builders as b

PART = st.sampled_from((None, "a", "b"))


@given(
    chosen=st.lists(st.tuples(PART, PART, PART, st.booleans()), max_size=8),
    device=st.tuples(*(st.sampled_from("ab") for _ in range(3))),
)
def test_rules_are_filed_by_what_they_select(
    chosen: list[tuple[str | None, str | None, str | None, bool]], device: tuple[str, str, str]
) -> None:
    rules = tuple(
        DeviceTaintRule(
            name=f"r{number}",
            taint=b.taint(f"k{number}"),
            driver=driver,
            pool=pool,
            device=name,
            selects_nothing=is_empty,
        )
        for number, (driver, pool, name, is_empty) in enumerate(chosen)
    )

    expected = tuple(
        rule.taint
        for rule in rules
        if not rule.selects_nothing
        and all(want in {None, each} for want, each in zip((rule.driver, rule.pool, rule.device), device, strict=True))
    )
    assert TaintRules(rules).taints(DeviceId(*device)) == expected
