"""What a unit takes of held room, as the cache has it before the first write."""

import pytest
from msgspec.structs import replace

from scheduler.cluster import Cluster
from solver.domain import Placement, Pod
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import cluster_of, show, unit
from tests.support.preemption_cases import running


def cluster(*waiting: Pod) -> Cluster:
    """A node of 8 cpu, where 6 are in use and are left to `large`; 2 are held for `next`."""
    leaver = running("leaver", "n1", cpu=6)
    hold = h.hold("later", h.place("large", "n1", cpu=6), h.place("next", "n1", cpu=2))
    found = cluster_of(b.node("n1", cpu=8), leaver, *waiting)
    show(found, replace(hold, departing=(leaver.uid,)))
    return found


@pytest.mark.parametrize(("place", "is_refused"), [("uid-later/1", False), ("", True)])
def test_a_pod_comes_to_its_place_though_a_departing_pod_is_still_there(place: str, *, is_refused: bool) -> None:
    pod = b.pod("next" if place else "other", cpu=2)
    mirror = cluster(pod)
    taken = unit(Placement(pod=pod.id, pod_uid=pod.uid, node="n1", place=place))
    mirror.assume(taken)
    messages = [each.message for each in mirror.check(taken)]
    assert bool(messages) == is_refused, messages
    assert all(each.startswith("room is held for other pods") for each in messages)
