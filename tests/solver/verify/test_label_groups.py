"""Which pods a label selector selects: the same as by trying each pod, without doing so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain import LabelRequirement, LabelSelector
from solver.verify import inter_pod
from solver.verify.inter_pod import LabelGroups, PodOnNode, selected
from tests.support import builders as b
from tests.support.neighbour_builders import requirement, selector

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
REQUIREMENTS = st.builds(
    lambda key, operator, values: LabelRequirement(key=key, operator=operator, values=tuple(values)),
    KEYS,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"]),
    st.lists(VALUES, max_size=3),
)
SELECTORS = st.lists(REQUIREMENTS, max_size=4).map(lambda each: LabelSelector(requirements=tuple(each)))
NODE = b.node("n1")


def crowded(*pods: tuple[str, dict[str, str]]) -> tuple[LabelGroups, list[PodOnNode]]:
    found = LabelGroups()
    seats = [
        PodOnNode(b.pod(f"p{i}", namespace=namespace, labels=labels), NODE, {}, is_new=True)
        for i, (namespace, labels) in enumerate(pods)
    ]
    for each in seats:
        found.add(each)
    return found, seats


@given(
    st.lists(st.tuples(st.sampled_from(["ml", "lab"]), st.dictionaries(KEYS, VALUES)), max_size=6),
    st.none() | SELECTORS,
    st.none() | st.sets(st.sampled_from(["ml", "lab", "x"])),
)
def test_groups_are_selected_as_pods_are(
    pods: list[tuple[str, dict[str, str]]], wanted: LabelSelector | None, names: set[str] | None
) -> None:
    found, seats = crowded(*pods)
    said = {seat.pod.id for group in found.select(wanted, names) for seat in group}
    asked = {
        seat.pod.id
        for seat in seats
        if selected(wanted, dict(seat.pod.labels)) and (names is None or seat.pod.id.namespace in names)
    }
    assert said == asked


def test_no_pod_is_asked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = crowded(*(("ml", {"app": "web", "own": f"{i}"}) for i in range(50)))
    monkeypatch.setattr(inter_pod, "requirement_holds", lambda *_: pytest.fail("asked pod by pod"))

    absent = [requirement(f"none-{i}", "DoesNotExist") for i in range(100)]
    assert len(list(found.select(selector(*absent, app="web")))) == 50
    assert list(found.select(selector(*absent, requirement("own", "NotIn", "1"), own="1"))) == []
