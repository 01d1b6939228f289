"""Which tolerations tolerate which taints, and which taints exclude pods."""

import pytest

from solver.domain import BINDING_FAILED_TAINT, Taint, Toleration
from solver.rules.taints.values import first_untolerated_taint, tolerates
from tests.support import builders as b

TAINT = b.taint("key", "value", "NoSchedule")

COVERS: tuple[tuple[str, Toleration, bool], ...] = (
    ("the same key and value", b.toleration("key", "Equal", "value"), True),
    ("the same key and value, no operator", Toleration(key="key", operator="", value="value"), True),
    ("the same key and another value", b.toleration("key", "Equal", "other"), False),
    ("the same key and no value", b.toleration("key", "Equal"), False),
    ("the key exists", b.toleration("key"), True),
    ("the key exists, whatever value is written", b.toleration("key", "Exists", "other"), True),
    ("another key exists", b.toleration("other"), False),
    ("an empty key covers every key", b.toleration(""), True),
    ("an empty key with Equal compares the value", b.toleration("", "Equal", "value"), True),
    ("an empty key with Equal and another value", b.toleration("", "Equal", "other"), False),
    ("the same effect", b.toleration("key", effect="NoSchedule"), True),
    ("another effect", b.toleration("key", effect="NoExecute"), False),
    ("an empty key with another effect", b.toleration("", effect="NoExecute"), False),
    ("an operator that is not known", b.toleration("key", "Like", "value"), False),
)


@pytest.mark.parametrize(("toleration", "covers"), [row[1:] for row in COVERS], ids=[row[0] for row in COVERS])
def test_a_toleration_covers_a_taint(toleration: Toleration, *, covers: bool) -> None:
    assert tolerates(toleration, TAINT) is covers


@pytest.mark.parametrize(
    ("effect", "blocks"),
    [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False), ("None", False), ("Later", False)],
)
def test_an_effect_keeps_work_away(effect: str, *, blocks: bool) -> None:
    assert (first_untolerated_taint([b.taint("key", effect=effect)], ()) is not None) is blocks


def test_the_first_taint_that_nothing_covers_is_named() -> None:
    found = [b.taint("a"), b.taint("soft", effect="None"), b.taint("c"), b.taint("d")]
    assert first_untolerated_taint(found, (b.toleration("a"),)) == b.taint("c")


def test_how_long_a_taint_is_tolerated_plays_no_part() -> None:
    toleration = Toleration(key="key", operator="Exists", toleration_seconds=0)
    assert first_untolerated_taint([TAINT], (toleration,)) is None


def test_every_taint_needs_its_toleration() -> None:
    both: list[Taint] = [TAINT, b.taint("key", "value", "NoExecute")]
    assert first_untolerated_taint(both, (b.toleration("key", effect="NoSchedule"),)) == both[1]


@pytest.mark.parametrize(("key", "covers"), [("", False), ("other", False), (BINDING_FAILED_TAINT, True)])
def test_a_device_that_did_not_get_ready_is_tolerated_by_name_alone(key: str, *, covers: bool) -> None:
    assert tolerates(b.toleration(key), b.taint(BINDING_FAILED_TAINT)) is covers
