"""Why a hold may not be made: each limit of the configuration, counted beside open places alone."""

import pytest
from msgspec.structs import replace

from scheduler.cluster import Cluster
from scheduler.holds.hold_bounds import HoldBounds
from scheduler.settings import HoldLimits
from solver.domain import DeviceHold, PodMatcher
from tests.support import hold_builders as h
from tests.support.cluster_builders import show

LIMITS = HoldLimits(
    max_holds=3,
    max_holds_per_namespace=2,
    max_places=9,
    max_places_per_namespace=8,
    max_devices=6,
    max_devices_per_namespace=4,
    max_seconds=600,
)


def hold(name: str, *devices: int, namespace: str = "a", used: tuple[int, ...] = ()) -> DeviceHold:
    """A hold with so many devices in each of its places."""
    pods = h.labelled({"app": name}, namespace)
    places = [h.place(pods, "n1", *(f"{name}-{place}-{n}" for n in range(n))) for place, n in enumerate(devices)]
    return h.hold(name, *places, used=used)


def why_not(wanted: DeviceHold, *others: DeviceHold, seconds: float = 60.0, has_quota: bool = False) -> list[str]:
    cluster = Cluster()
    show(cluster, others)
    return list(HoldBounds(cluster.holds, LIMITS).refusals(wanted, seconds, has_quota=has_quota))


def test_a_hold_within_all_limits_is_made() -> None:
    assert why_not(hold("new", 2), hold("x", 2), hold("y", 2, namespace="b"), seconds=600) == []


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (
            [hold("x", 0), hold("y", 0)],
            "there are 2 holds for pods of namespace a, and deviceHolds.maxHoldsPerNamespace is 2",
        ),
        ([hold(n, 0, namespace="b") for n in "xyz"], "there are 3 holds, and deviceHolds.maxHolds is 3"),
        (
            [hold("x", 3)],
            (
                "it needs 2 devices beside 3 that are held for pods of namespace a, "
                "and deviceHolds.maxDevicesPerNamespace is 4"
            ),
        ),
        (
            [hold("x", *(0,) * 7)],
            (
                "it needs 2 places beside 7 that are held for pods of namespace a, "
                "and deviceHolds.maxPlacesPerNamespace is 8"
            ),
        ),
        (
            [hold("x", *(0,) * 8, namespace="b")],
            "it needs 2 places beside 8 that are held, and deviceHolds.maxPlaces is 9",
        ),
        ([hold("x", 5, namespace="b")], "it needs 2 devices beside 5 that are held, and deviceHolds.maxDevices is 6"),
    ],
)
def test_a_limit_is_named_with_what_is_held(others: list[DeviceHold], said: str) -> None:
    assert why_not(hold("new", 1, 1), *others) == [said]


def test_an_owner_with_quota_is_bound_by_it_instead_of_the_limits_for_a_namespace() -> None:
    others = [hold("x", 3), hold("y", 0)]
    assert len(why_not(hold("new", 2), *others)) == 2
    assert why_not(hold("new", 2), *others, has_quota=True) == []
    assert why_not(hold("new", 4), *others, has_quota=True) == [
        "it needs 4 devices beside 3 that are held, and deviceHolds.maxDevices is 6"
    ]


def test_places_that_are_used_up_or_lost_count_no_more() -> None:
    ended = [replace(hold(n, 4), used=(0,)) for n in "vwxyz"]
    lost = h.hold("lost", h.place(h.labelled({"app": "l"}, "a"), "n1", "g"), lost=(0,))
    assert why_not(hold("new", 4), *ended, lost) == []


def test_a_hold_without_devices_needs_none() -> None:
    assert why_not(hold("new", 0), hold("x", 9, namespace="b")) == []


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(601.0, "it is for 601 s, and deviceHolds.maxSeconds is 600"), (0.0, "its deadline has passed")],
)
def test_the_time_is_bounded(seconds: float, said: str) -> None:
    assert why_not(hold("new", 1), seconds=seconds) == [said]


@pytest.mark.parametrize("pods", [PodMatcher(namespace="a"), h.labelled({"app": "x"}, namespace="")])
def test_a_place_says_which_pods_it_is_for(pods: PodMatcher) -> None:
    (said,) = why_not(h.hold("new", h.place(h.labelled({"app": "x"}, "a"), "n1"), h.place(pods, "n1")))
    assert said.startswith("place 1 is for no pods")


def test_a_hold_has_a_place() -> None:
    assert why_not(h.hold("new")) == ["it has no place: name a node for each pod"]
