"""What a request consumes of a capacity, branch by branch of its policy."""

import pytest

from solver.domain import Capacity, Device
from solver.feasibility import capacity
from solver.feasibility.capacity import Consumption
from tests.support import builders as b

STEPPED = b.capacity(20, default=2, minimum=2, step=3)
RANGED = b.capacity(20, default=4, minimum=4, maximum=12)
TENTHS = b.capacity(1, default="100m", minimum="100m", maximum="900m", step="100m")
WHOLE = b.capacity(4, default="100m", minimum="100m", step="100m", counts_whole_units=True)
TINY = b.capacity(4, default=1, minimum="500u", step="500u")
LISTED = b.capacity(20, default=4, valid_values=(2, 4, 8))
OPEN = b.capacity(20, default=4)
PLAIN = b.capacity(20)

CONSUMED: tuple[tuple[str, Capacity, b.Amount | None, b.Amount | None], ...] = (
    ("nothing asked, no policy: the whole value", PLAIN, None, 20),
    ("nothing asked, a policy with default", OPEN, None, 4),
    ("no policy: as asked", PLAIN, 7, 7),
    ("no policy: zero is zero", PLAIN, 0, 0),
    ("a default alone does not round", OPEN, "2500m", "2500m"),
    ("below the minimum: the minimum", RANGED, 1, 4),
    ("zero: the minimum", RANGED, 0, 4),
    ("a range without step: as asked", RANGED, "4500m", "4500m"),
    ("the maximum", RANGED, 12, 12),
    ("above the maximum: refused", RANGED, 13, None),
    ("on a step", STEPPED, 5, 5),
    ("between steps: the next one", STEPPED, 6, 8),
    ("a fraction counts as the whole above it", STEPPED, "2500m", 5),
    ("below a stepped minimum: the minimum", STEPPED, 1, 2),
    ("on a fractional step", TENTHS, "300m", "300m"),
    ("between fractional steps: the next one", TENTHS, "250m", "300m"),
    ("above the last fractional step: refused", TENTHS, "901m", None),
    ("steps of whole units, before Kubernetes 1.37", WHOLE, "250m", 1),
    ("the minimum is not rounded, before Kubernetes 1.37", WHOLE, "50m", "100m"),
    ("a default that is asked for is rounded, before Kubernetes 1.37", WHOLE, "100m", 1),
    ("less than a thousandth cannot be counted: refused", TENTHS, "250500u", None),
    ("a range with less than a thousandth counts whole units", TINY, "1500m", 2),
    ("a listed fraction", b.capacity(1, default="250m", valid_values=("250m", "500m")), "300m", "500m"),
    ("a listed value", LISTED, 4, 4),
    ("between listed values: the next one", LISTED, 5, 8),
    ("below the smallest listed value", LISTED, 1, 2),
    ("above the largest listed value: refused", LISTED, 9, None),
    ("an unlisted default that is asked for is rounded", b.capacity(20, default=3, valid_values=(2, 4)), 3, 4),
    ("the default passes above the maximum", b.capacity(20, default=9, minimum=2, maximum=8), 9, 9),
    ("a step beyond the maximum: refused", b.capacity(20, default=2, minimum=2, maximum=6, step=3), 6, None),
    ("a step of zero does not round", b.capacity(20, default=2, minimum=2, step=0), 6, 6),
)


@pytest.mark.parametrize(
    ("published", "asked", "expected"), [row[1:] for row in CONSUMED], ids=[row[0] for row in CONSUMED]
)
def test_a_policy_decides_what_is_consumed(
    published: Capacity, asked: b.Amount | None, expected: b.Amount | None
) -> None:
    found = capacity.consumed(published, None if asked is None else b.quantity(asked))
    assert found == (None if expected is None else b.quantity(expected).nano)


@pytest.mark.parametrize(("published", "asked"), [row[1:3] for row in CONSUMED], ids=[row[0] for row in CONSUMED])
def test_a_share_that_is_not_given_has_a_reason_and_every_other_has_none(
    published: Capacity, asked: b.Amount | None
) -> None:
    requested = b.quantity(published.value.text if asked is None else asked)
    is_given = capacity.consumption(b.GPU_DRIVER, shared(a=published), {"a": requested}) is not None
    assert (capacity.refusal(published, requested) == "") is is_given


@pytest.mark.parametrize(
    ("published", "asked", "reason"),
    [
        (LISTED, 9, "the largest share is 8"),
        (RANGED, 13, "the largest share is 12"),
        (TENTHS, "250500u", "shares are counted in thousandths"),
        (b.capacity(20, default=2, minimum=2, maximum=6, step=3), 6, "in steps of 3 it is above the largest share, 6"),
        (b.capacity(6, default=2, minimum=2, step=3), 6, "its share would be 8, and the device has 6"),
        (b.capacity("7Ei", default="1Ei", minimum="1Ei", step="5Ei"), "6.5Ei", "above 64 bits"),
    ],
)
def test_the_reason_says_what_the_policy_allows(published: Capacity, asked: b.Amount, reason: str) -> None:
    assert reason in capacity.refusal(published, b.quantity(asked))


def shared(**capacities: Capacity) -> Device:
    return b.device("d", is_shareable=True, capacities=capacities)


def nano(**amounts: b.Amount) -> Consumption:
    return tuple((name, b.quantity(amount).nano) for name, amount in sorted(amounts.items()))


DEVICES: tuple[tuple[str, Device, dict[str, b.Amount], Consumption | None], ...] = (
    ("every capacity is consumed, asked or not", shared(a=PLAIN, b=OPEN), {"a": 3}, nano(a=3, b=4)),
    ("a capacity that the device lacks", shared(a=PLAIN), {"b": 1}, None),
    ("a name with the driver's domain", shared(a=PLAIN), {"gpu.example.com/a": 1}, nano(a=1)),
    ("a name with another domain", shared(a=PLAIN), {"other.example.com/a": 1}, None),
    ("more than the device has", shared(a=PLAIN), {"a": 21}, None),
    ("more than the device has after rounding", shared(a=b.capacity(6, default=2, minimum=2, step=3)), {"a": 6}, None),
    ("no capacities at all", shared(), {}, ()),
    ("an exclusive device consumes nothing", b.device("d", capacities={"a": 20}), {"a": 3}, ()),
    ("of an exclusive device the request is a minimum", b.device("d", capacities={"a": 20}), {"a": 20}, ()),
    ("an exclusive device that is too small", b.device("d", capacities={"a": 20}), {"a": 21}, None),
    ("an exclusive device without the capacity", b.device("d"), {"a": 0}, None),
)


@pytest.mark.parametrize(("device", "asked", "expected"), [row[1:] for row in DEVICES], ids=[row[0] for row in DEVICES])
def test_a_device_answers_a_request(device: Device, asked: dict[str, b.Amount], expected: Consumption | None) -> None:
    assert (
        capacity.consumption(b.GPU_DRIVER, device, {name: b.quantity(amount) for name, amount in asked.items()})
        == expected
    )


def test_amounts_beyond_64_bits_are_exact() -> None:
    eight_eighty = b.device("d", is_shareable=True, capacities={"memory": b.capacity("880Gi")})
    assert capacity.consumption(b.GPU_DRIVER, eight_eighty, {}) == (("memory", 880 * 2**30 * 10**9),)
