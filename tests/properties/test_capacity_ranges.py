"""Ranges of request policies: the smallest multiple of a step that is enough, found by counting up."""

from fractions import Fraction
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from solver.domain import Capacity, DeviceId, Quantity, RequestPolicy, ValidRange
from solver.feasibility import capacity
from solver.verify.devices import consumption
from solver.verify.pools import Published
from tests.support import builders as b

MICRO = 1000
MILLI = 1000 * MICRO
ONE = 1000 * MILLI


def amounts(least: int = 0) -> st.SearchStrategy[Quantity]:
    """Whole units, thousandths and, now and then, millionths."""
    sizes = st.sampled_from((ONE, 250 * MILLI, 100 * MILLI, MILLI, 500 * MICRO))
    return st.builds(lambda count, size: Quantity(nano=count * size, text=""), st.integers(least, 30), sizes)


@st.composite
def ranges(draw: st.DrawFn) -> ValidRange:
    return ValidRange(
        min=draw(amounts()),
        max=draw(st.none() | amounts()),
        step=draw(amounts(1)),
        counts_whole_units=draw(st.booleans()),
    )


def counted_up(limits: ValidRange, asked: int) -> int | None:
    """What the API's documentation says, in units that hold the whole range."""
    assert limits.step is not None
    if asked < limits.min.nano:
        found = limits.min.nano
    else:
        ends = (limits.min.nano, limits.step.nano, limits.max.nano if limits.max is not None else 0)
        unit = ONE if limits.counts_whole_units or any(end % MILLI for end in ends) else MILLI
        if unit == MILLI and asked % MILLI:
            return None
        low, step, wanted = (ceil(Fraction(each, unit)) for each in (limits.min.nano, limits.step.nano, asked))
        value = low
        while value < wanted:
            value += step
        found = value * unit
    return None if limits.max is not None and found > limits.max.nano else found


@settings(max_examples=500)
@given(limits=ranges(), asked=amounts())
def test_a_request_consumes_the_next_step(limits: ValidRange, asked: Quantity) -> None:
    plenty = Capacity(value=b.quantity(1000), request_policy=RequestPolicy(valid_range=limits))
    expected = counted_up(limits, asked.nano)
    assert capacity.consumed(plenty, asked) == expected
    device = b.device("card", is_shareable=True, capacities={"cores": plenty})
    published = Published(DeviceId("d", "p", "card"), device, b.scope("n1"))
    checked = consumption(published, (("cores", asked),))
    assert checked == (None if expected is None else {"cores": expected})
