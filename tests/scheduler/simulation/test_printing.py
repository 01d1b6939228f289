"""Parts that several commands print alike."""

import io

from scheduler.simulation import printing


def test_a_hint_that_is_wrapped_goes_on_below_its_text() -> None:
    to = io.StringIO()
    printing.arrow(printing.console(to, width=24), "write one device less for gpu")
    assert to.getvalue().splitlines() == ["  → write one device", "    less for gpu"]
