"""Which pods a label selector selects: the same as by trying each pod, without doing so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solver.domain import LabelRequirement, LabelSelector, Pod
from solver.verify import label_groups
from solver.verify.label_groups import LabelGroups, selected
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


def crowded(*pods: tuple[str, dict[str, str]]) -> tuple[LabelGroups, tuple[Pod, ...]]:
    found = LabelGroups()
    made = tuple(b.pod(f"p{i}", namespace=namespace, labels=labels) for i, (namespace, labels) in enumerate(pods))
    found.follow(made)
    return found, made


@given(
    st.lists(st.tuples(st.sampled_from(["ml", "lab"]), st.dictionaries(KEYS, VALUES)), max_size=6),
    st.none() | SELECTORS,
    st.none() | st.sets(st.sampled_from(["ml", "lab", "x"])),
)
def test_groups_are_selected_as_pods_are(
    pods: list[tuple[str, dict[str, str]]], wanted: LabelSelector | None, names: set[str] | None
) -> None:
    found, made = crowded(*pods)
    said = {pod.id for group in found.select(wanted, names) for pod in group}
    asked = {
        pod.id for pod in made if selected(wanted, dict(pod.labels)) and (names is None or pod.id.namespace in names)
    }
    assert said == asked


@given(
    st.lists(st.tuples(st.sampled_from(["ml", "lab"]), st.dictionaries(KEYS, VALUES)), min_size=1, max_size=6),
    st.lists(st.sets(st.integers(0, 5)), min_size=2, max_size=4),
    SELECTORS,
)
def test_groups_follow_pods_that_go_and_come(
    pods: list[tuple[str, dict[str, str]]], present: list[set[int]], wanted: LabelSelector
) -> None:
    found, made = crowded(*pods)
    for chosen in present:
        now = tuple(pod for index, pod in enumerate(made) if index in chosen)
        found.follow(now)
        said = {pod.id for group in found.select(wanted) for pod in group}
        assert said == {pod.id for pod in now if selected(wanted, dict(pod.labels))}


def test_no_pod_is_asked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = crowded(*(("ml", {"app": "web", "own": f"{i}"}) for i in range(50)))
    monkeypatch.setattr(label_groups, "requirement_holds", lambda *_: pytest.fail("asked pod by pod"))

    absent = [requirement(f"none-{i}", "DoesNotExist") for i in range(100)]
    assert len(list(found.select(selector(*absent, app="web")))) == 50
    assert list(found.select(selector(*absent, requirement("own", "NotIn", "1"), own="1"))) == []
