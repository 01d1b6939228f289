"""What changed between two tuples of a snapshot, by identity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain.changed_objects import ChangedObjects, changed_objects


class Each:
    """An object that equals all others: only its identity counts."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


OBJECTS = tuple(Each() for _ in range(500))
CHOICES = st.lists(st.integers(0, 39), unique=True)


def chosen(indices: list[int]) -> tuple[Each, ...]:
    return tuple(OBJECTS[index] for index in indices)


def check(was: tuple[Each, ...], now: tuple[Each, ...]) -> None:
    found = changed_objects(was, now)
    before, after = {id(each) for each in was}, {id(each) for each in now}
    assert [id(each) for each in found.gone] == [id(each) for each in was if id(each) not in after]
    assert [id(each) for each in found.added] == [id(each) for each in now if id(each) not in before]


@given(was=CHOICES, now=CHOICES)
def test_gone_and_added_are_the_differences_in_the_order_of_their_tuples(was: list[int], now: list[int]) -> None:
    check(chosen(was), chosen(now))


@given(gone=st.sets(st.integers(0, 399)), places=st.lists(st.integers(0, 399), max_size=20))
def test_objects_that_leave_and_come_in_a_long_tuple_are_found(gone: set[int], places: list[int]) -> None:
    now = [index for index in range(400) if index not in gone]
    for number, place in enumerate(places):
        now.insert(place, 400 + number)
    check(OBJECTS[:400], chosen(now))


@pytest.mark.parametrize("step", [2, 3, 40])
def test_many_differences_are_found_too(step: int) -> None:
    check(OBJECTS, OBJECTS[::step])
    check(OBJECTS[::step], OBJECTS)
    check(OBJECTS[:250] + OBJECTS[400:], OBJECTS[100:])


@given(indices=CHOICES)
def test_a_tuple_that_kept_its_objects_has_not_changed(indices: list[int]) -> None:
    objects = chosen(indices)
    assert changed_objects(objects, objects) == ChangedObjects((), ())
    assert changed_objects(objects, (*objects,)) == ChangedObjects((), ())
    assert changed_objects(objects, objects[::-1]) == ChangedObjects((), ())


def test_an_equal_object_that_is_another_one_is_gone_and_added() -> None:
    first, second, third = OBJECTS[:3]
    found = changed_objects((first, second), (first, third))
    assert found.gone[0] is second
    assert found.added[0] is third
