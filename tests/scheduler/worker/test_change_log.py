"""What a replica is told, and what again after a restart."""

import msgspec

from scheduler.worker.change_log import ChangeLog
from tests.support.builders import node, pod
from tests.support.cluster_builders import gone, seen

NODE = node("n1")
CORDONED = msgspec.structs.replace(NODE, is_unschedulable=True)


def test_changes_are_told_once_and_in_order() -> None:
    changes = ChangeLog()
    changes.append(seen(NODE))
    changes.append(seen(pod("p")))

    assert changes.take_unsent() == (seen(NODE), seen(pod("p")))
    assert changes.take_unsent() == ()


def test_of_an_object_that_changed_often_only_the_last_state_is_told() -> None:
    changes = ChangeLog()
    changes.append(seen(NODE))
    changes.append(seen(pod("p")))
    changes.append(seen(CORDONED))

    assert changes.take_unsent() == (seen(pod("p")), seen(CORDONED))


def test_a_deletion_is_told() -> None:
    changes = ChangeLog()
    changes.attach()
    changes.append(seen(NODE))
    changes.take_unsent()
    changes.append(gone(NODE))

    assert changes.take_unsent() == (gone(NODE),)


def test_the_replica_has_what_it_was_told_and_nothing_newer() -> None:
    changes, told = ChangeLog(), seen(pod("p"))
    changes.append(told)
    assert not changes.is_sent(told.kind, told.key, told.value)
    changes.take_unsent()
    assert changes.is_sent(told.kind, told.key, told.value)
    assert not changes.is_sent(told.kind, told.key, pod("p"))
    changes.append(seen(pod("p", priority=1)))
    assert not changes.is_sent(told.kind, told.key, told.value)


def test_a_new_replica_is_told_everything_that_exists() -> None:
    changes = ChangeLog()
    changes.append(seen(NODE))
    changes.append(seen(pod("p")))
    changes.take_unsent()

    changes.attach()

    assert changes.take_unsent() == (seen(NODE), seen(pod("p")))


def test_a_new_replica_is_not_told_of_what_is_gone() -> None:
    changes = ChangeLog()
    changes.append(seen(NODE))
    changes.take_unsent()
    changes.append(gone(NODE))

    changes.attach()

    assert changes.take_unsent() == ()


def test_while_there_is_no_replica_nothing_is_kept_of_what_is_gone() -> None:
    """A process that cannot be started for hours must not cost the memory of every pod that ended meanwhile."""
    changes = ChangeLog()
    changes.attach()
    changes.append(seen(NODE))
    changes.take_unsent()
    changes.append(gone(NODE))
    changes.detach()
    for number in range(1000):
        changes.append(seen(pod(f"p{number}")))
        changes.append(gone(pod(f"p{number}")))

    assert len(changes) == 0
    changes.attach()
    assert changes.take_unsent() == ()


def test_what_changed_while_there_was_no_replica_is_told_to_the_next_one() -> None:
    changes = ChangeLog()
    changes.attach()
    changes.append(seen(NODE))
    changes.take_unsent()
    changes.detach()
    changes.append(seen(CORDONED))

    changes.attach()
    assert changes.take_unsent() == (seen(CORDONED),)
