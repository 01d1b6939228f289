"""What a request consumes, policy by policy (KEP-5075)."""

import pytest

from solver.domain import Capacity, DeviceId
from solver.verify.devices import consumption
from solver.verify.pools import Published
from tests.support import builders as b

STEPS = b.capacity("40Gi", default="10Gi", minimum="10Gi", maximum="30Gi", step="10Gi")
RANGE = b.capacity("40Gi", default="10Gi", minimum="10Gi", maximum="30Gi")
VALUES = b.capacity("40Gi", default="10Gi", valid_values=("5Gi", "10Gi", "20Gi"))
DEFAULT = b.capacity("40Gi", default="10Gi")
FREE = b.capacity("40Gi")

ROWS: tuple[tuple[str, Capacity, b.Amount | None, b.Amount | None], ...] = (
    ("what is not asked for is the default", STEPS, None, "10Gi"),
    ("what is not asked for and has no default is everything", FREE, None, "40Gi"),
    ("without a policy it is as asked", FREE, "3Gi", "3Gi"),
    ("nothing may be asked for", FREE, 0, 0),
    ("more than there is", FREE, "41Gi", None),
    ("a policy of a default alone does not round", DEFAULT, "3Gi", "3Gi"),
    ("below the range is its minimum", RANGE, "3Gi", "10Gi"),
    ("without a step it is as asked", RANGE, "11Gi", "11Gi"),
    ("above the range", RANGE, "31Gi", None),
    ("on the range's end", RANGE, "30Gi", "30Gi"),
    ("the default passes even above the range", b.capacity(8, default=5, minimum=1, maximum=4), 5, 5),
    ("above the range and its default", b.capacity(8, default=5, minimum=1, maximum=4), 6, None),
    ("below the steps is the minimum", STEPS, "1Gi", "10Gi"),
    ("on a step it stays", STEPS, "20Gi", "20Gi"),
    ("between steps it is the next", STEPS, 20 * 2**30 + 1, "30Gi"),
    ("the next step is above the range", STEPS, 30 * 2**30 + 1, None),
    ("steps are counted in whole units", b.capacity(10, default=2, minimum=2, step=3), "2500m", 5),
    ("fractional steps", b.capacity(1, default="100m", minimum="100m", step="100m"), "250m", "300m"),
    (
        "fractional steps before Kubernetes 1.37",
        b.capacity(1, default="100m", minimum="100m", step="100m", counts_whole_units=True),
        "250m",
        1,
    ),
    ("less than a thousandth", b.capacity(1, default="100m", minimum="100m", step="100m"), "250500u", None),
    ("a range of less than thousandths", b.capacity(4, default=1, minimum="500u", step="500u"), "1500m", 2),
    ("a step of zero", b.capacity(4, default=1, minimum=1, step=0), 2, 2),
    ("a listed value stays", VALUES, "5Gi", "5Gi"),
    ("between listed values it is the next", VALUES, "11Gi", "20Gi"),
    ("above the listed values", VALUES, "21Gi", None),
)


@pytest.mark.parametrize(("capacity", "asked", "consumed"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_amount_follows_the_policy(capacity: Capacity, asked: b.Amount | None, consumed: b.Amount | None) -> None:
    device = b.device("card", is_shareable=True, capacities={"memory": capacity})
    published = Published(DeviceId("d", "p", "card"), device, b.scope("n1"))
    expected = None if consumed is None else {"memory": b.quantity(consumed).nano}
    assert consumption(published, b.quantities({} if asked is None else {"memory": asked})) == expected


def test_every_capacity_has_to_suffice() -> None:
    device = b.device("card", is_shareable=True, capacities={"engines": 4, "memory": "4Gi"})
    published = Published(DeviceId("d", "p", "card"), device, b.scope("n1"))
    assert consumption(published, b.quantities({"engines": 5, "memory": "1Gi"})) is None
    assert consumption(published, b.quantities({"engines": 1, "memory": "5Gi"})) is None


def test_a_capacity_that_is_asked_for_by_two_names_is_refused() -> None:
    device = b.device("card", is_shareable=True, capacities={"memory": "4Gi"})
    published = Published(DeviceId("d", "p", "card"), device, b.scope("n1"))
    assert consumption(published, b.quantities({"memory": "1Gi", "d/memory": "1Gi"})) is None
