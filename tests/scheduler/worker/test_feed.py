"""What a replica is told, and what again after a restart."""

import msgspec

from scheduler.worker.frames import Feed
from tests.support.builders import node, pod
from tests.support.cluster_builders import gone, seen

NODE = node("n1")
CORDONED = msgspec.structs.replace(NODE, is_unschedulable=True)


def test_changes_are_told_once_and_in_order() -> None:
    feed = Feed()
    feed.note(seen(NODE))
    feed.note(seen(pod("p")))

    assert feed.take() == (seen(NODE), seen(pod("p")))
    assert feed.take() == ()


def test_of_an_object_that_changed_often_only_the_last_state_is_told() -> None:
    feed = Feed()
    feed.note(seen(NODE))
    feed.note(seen(pod("p")))
    feed.note(seen(CORDONED))

    assert feed.take() == (seen(pod("p")), seen(CORDONED))


def test_a_deletion_is_told() -> None:
    feed = Feed()
    feed.start_over()
    feed.note(seen(NODE))
    feed.take()
    feed.note(gone(NODE))

    assert feed.take() == (gone(NODE),)


def test_the_replica_has_what_it_was_told_and_nothing_newer() -> None:
    feed, told = Feed(), seen(pod("p"))
    feed.note(told)
    assert not feed.has_told(told.kind, told.key, told.value)
    feed.take()
    assert feed.has_told(told.kind, told.key, told.value)
    assert not feed.has_told(told.kind, told.key, pod("p"))
    feed.note(seen(pod("p", priority=1)))
    assert not feed.has_told(told.kind, told.key, told.value)


def test_a_new_replica_is_told_everything_that_exists() -> None:
    feed = Feed()
    feed.note(seen(NODE))
    feed.note(seen(pod("p")))
    feed.take()

    feed.start_over()

    assert feed.take() == (seen(NODE), seen(pod("p")))


def test_a_new_replica_is_not_told_of_what_is_gone() -> None:
    feed = Feed()
    feed.note(seen(NODE))
    feed.take()
    feed.note(gone(NODE))

    feed.start_over()

    assert feed.take() == ()


def test_while_there_is_no_replica_nothing_is_kept_of_what_is_gone() -> None:
    """A process that cannot be started for hours must not cost the memory of every pod that ended meanwhile."""
    feed = Feed()
    feed.start_over()
    feed.note(seen(NODE))
    feed.take()
    feed.note(gone(NODE))
    feed.lose()
    for number in range(1000):
        feed.note(seen(pod(f"p{number}")))
        feed.note(gone(pod(f"p{number}")))

    assert len(feed) == 0
    feed.start_over()
    assert feed.take() == ()


def test_what_changed_while_there_was_no_replica_is_told_to_the_next_one() -> None:
    feed = Feed()
    feed.start_over()
    feed.note(seen(NODE))
    feed.take()
    feed.lose()
    feed.note(seen(CORDONED))

    feed.start_over()
    assert feed.take() == (seen(CORDONED),)
