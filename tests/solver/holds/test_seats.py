"""Which place is for which pod: one for each, the narrowest that there is, and never one for two."""

import pytest
from msgspec.structs import replace

from solver.domain import Claim, ClaimId, DeviceHold, Pod, PodId
from solver.holds.seats import assigned
from tests.support import builders as b
from tests.support import hold_builders as h


def seats(holds: list[DeviceHold], *pods: Pod, claims: dict[ClaimId, Claim] | None = None) -> dict[str, str]:
    return {key.name: seat.id for key, seat in assigned(holds, pods, claims or {}).items()}


def test_no_two_pods_have_one_place() -> None:
    pods = [h.owned(b.pod(name), "job") for name in ("a", "b", "c")]
    held = h.hold("h", h.place(h.of_owner("job"), "n1"), h.place(h.of_owner("job"), "n2"))
    assert seats([held], *pods) == {"a": "uid-h/0", "b": "uid-h/1"}


def test_a_used_or_lost_place_is_for_nobody() -> None:
    places = [h.place(h.of_owner("job"), f"n{i}") for i in range(3)]
    held = h.hold("h", *places, used=(0,), lost=(2,))
    pods = [h.owned(b.pod(name), "job") for name in ("a", "b")]
    assert seats([held], *pods) == {"a": "uid-h/1"}


@pytest.mark.parametrize("order", [("ranked", "any"), ("any", "ranked")])
def test_a_pod_with_a_narrow_choice_comes_before_one_with_a_wide_one(order: tuple[str, str]) -> None:
    pods = {
        "ranked": h.owned(b.pod("ranked", labels={"rank": "0"}), "job"),
        "any": h.owned(b.pod("any"), "job"),
    }
    held = h.hold("h", h.place(h.of_owner("job"), "n1"), h.place(h.of_owner("job", {"rank": "0"}), "n2"))
    assert seats([held], *(pods[name] for name in order)) == {"ranked": "uid-h/1", "any": "uid-h/0"}


def test_a_pod_s_own_place_goes_before_one_of_its_owner() -> None:
    held = h.hold("h", h.place(h.of_owner("job"), "n1"), h.place("a", "n2"))
    assert seats([held], h.owned(b.pod("a"), "job")) == {"a": "uid-h/1"}


def test_a_pod_gets_the_place_whose_devices_it_has_already() -> None:
    held = h.hold("h", h.place(h.of_owner("job"), "n1", "gpu-0"), h.place(h.of_owner("job"), "n2", "gpu-0"))
    mine = b.held("c", b.result("gpu", "gpu-0", "n2"), node_name="n2")
    pods = [h.owned(b.pod("first"), "job"), h.owned(b.pod("late", "c"), "job")]
    assert seats([held], *pods, claims={mine.id: mine}) == {"first": "uid-h/0", "late": "uid-h/1"}


@pytest.mark.parametrize(
    ("pod", "is_meant"),
    [
        pytest.param(b.pod("a", labels={"x": "1", "y": "2"}), True, id="more labels"),
        pytest.param(b.pod("a", labels={"x": "2"}), False, id="another value"),
        pytest.param(b.pod("a", namespace="other", labels={"x": "1"}), False, id="another namespace"),
    ],
)
def test_labels_select_within_the_namespace(pod: Pod, is_meant: bool) -> None:  # noqa: FBT001 - a parameter
    held = h.hold("h", h.place(h.labelled({"x": "1"}), "n1"))
    assert bool(assigned([held], [pod], {})) is is_meant


def test_everything_that_is_set_has_to_hold() -> None:
    matcher = replace(h.of_owner("job", {"x": "1"}), annotations=(("kueue.x-k8s.io/workload", "w"),))
    held = h.hold("h", h.place(matcher, "n1"))
    pod = h.owned(b.pod("a", labels={"x": "1"}), "job")
    assert assigned([held], [pod], {}) == {}
    assert assigned([held], [replace(pod, annotations=(("kueue.x-k8s.io/workload", "w"),))], {}).keys() == {
        PodId("default", "a")
    }


def test_a_matcher_without_a_criterion_selects_no_pod() -> None:
    held = h.hold("h", h.place(replace(h.for_pod("a"), pod_uid=""), "n1"))
    assert assigned([held], [b.pod("a")], {}) == {}


def test_a_hold_that_is_being_made_is_for_nobody_yet() -> None:
    held = replace(h.hold("h", h.place("a", "n1")), uid="")
    assert assigned([held], [b.pod("a")], {}) == {}
