import pytest

from scheduler.change import Change, Kind
from scheduler.kube.client import Version
from scheduler.kube.discovery import DiscoveredKinds, group_kinds, served_kinds
from tests.support import builders as b

V1 = frozenset({"deviceclasses", "resourceclaims", "resourceclaims/status", "resourceslices"})
RULES = frozenset({"devicetaintrules"})
SERVER = Version(major="1", minor="37+", git="v1.37.2-gke.1")


def test_a_server_with_the_api_is_watched_for_every_kind_but_taint_rules() -> None:
    served = served_kinds((("v1", V1),), SERVER)
    assert not served.problem
    assert {kind for kind, _ in served.paths} == set(Kind) - {
        Kind.TAINT_RULES,
        Kind.POD_GROUPS,
        Kind.COSCHEDULING_GROUPS,
        Kind.HOLDS,
        Kind.QUOTAS,
    }
    assert not served.has(Kind.TAINT_RULES)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ((("v1", V1), ("v1alpha3", RULES)), "v1alpha3"),
        ((("v1", V1), ("v1alpha3", RULES), ("v1beta2", RULES)), "v1beta2"),
        ((("v1", V1 | RULES), ("v1beta2", RULES)), "v1"),
    ],
)
def test_taint_rules_are_watched_in_the_newest_version_there_is(versions: object, expected: str) -> None:
    served = served_kinds(versions, SERVER)  # type: ignore[arg-type] # a column of the table
    assert dict(served.paths)[Kind.TAINT_RULES] == f"/apis/resource.k8s.io/{expected}/devicetaintrules"


@pytest.mark.parametrize(
    "versions", [(), (("v1beta1", V1),), (("v1", V1 - {"resourceclaims"}),)], ids=["no group", "only beta", "a part"]
)
def test_a_server_without_the_api_is_one_clear_problem(versions: object) -> None:
    served = served_kinds(versions, SERVER)  # type: ignore[arg-type] # a column of the table
    assert "resourceclaims" in served.problem
    assert "Kubernetes 1.34 or newer does" in served.problem
    assert served.paths == ()


GROUPS = frozenset({"podgroups", "podgroups/status", "workloads"})
CLASSES = frozenset({"priorityclasses"})
OWN, OTHER = "/apis/scheduling.k8s.io", "/apis/scheduling.x-k8s.io"


@pytest.mark.parametrize(
    ("scheduling", "coscheduling", "expected"),
    [
        ((("v1", CLASSES), ("v1alpha2", GROUPS)), (), {Kind.POD_GROUPS: f"{OWN}/v1alpha2/podgroups"}),
        (
            (("v1", CLASSES), ("v1alpha3", GROUPS), ("v1beta1", GROUPS)),
            (),
            {Kind.POD_GROUPS: f"{OWN}/v1beta1/podgroups"},
        ),
        ((("v1", CLASSES), ("v2", GROUPS)), (), {}),
        ((("v1", CLASSES), ("v1alpha1", frozenset({"workloads"}))), (), {}),
        ((("v1", CLASSES),), (("v1alpha1", GROUPS),), {Kind.COSCHEDULING_GROUPS: f"{OTHER}/v1alpha1/podgroups"}),
        ((), (("v1", GROUPS),), {}),
    ],
    ids=["1.36", "1.37", "only unknown versions", "1.35", "coscheduling", "another coscheduling"],
)
def test_groups_are_watched_where_the_server_has_them(
    scheduling: object, coscheduling: object, expected: object
) -> None:
    assert dict(group_kinds(scheduling, coscheduling)) == expected  # type: ignore[arg-type] # columns of the table


def test_the_minor_version_is_a_number_also_where_a_cloud_adds_a_sign() -> None:
    served = served_kinds((("v1", V1),), SERVER)
    assert (served.minor, served.git_version) == (37, "v1.37.2-gke.1")


def test_a_patch_of_the_server_changes_nothing_and_another_minor_version_does() -> None:
    before = served_kinds((("v1", V1),), SERVER)
    assert before.has_same_api(served_kinds((("v1", V1),), Version(minor="37", git="v1.37.3")))
    assert not before.has_same_api(served_kinds((("v1", V1),), Version(minor="38", git="v1.38.0")))
    assert not before.has_same_api(served_kinds((("v1", V1), ("v1beta2", RULES)), SERVER))
    assert not before.has_same_api(DiscoveredKinds(problem="x", minor=37))


@pytest.mark.parametrize(("minor", "counts_whole_units"), [(36, True), (37, False)])
def test_before_1_37_capacity_steps_are_counted_in_whole_units(minor: int, counts_whole_units: bool) -> None:  # noqa: FBT001 - a column of the table
    stepped = b.capacity(1, default="500m", minimum="250m", step="250m")
    published = b.resource_slice("n1", b.device("card", capacities={"cores": stepped}, is_shareable=True))
    others = (Change(kind=Kind.NODES, key="n1", value=b.node("n1")), Change(kind=Kind.SLICES, key="gone", value=None))

    first, *rest = DiscoveredKinds(minor=minor).as_meant((Change(kind=Kind.SLICES, key="s", value=published), *others))

    expected = b.capacity(1, default="500m", minimum="250m", step="250m", counts_whole_units=counts_whole_units)
    device = b.device("card", capacities={"cores": expected}, is_shareable=True)
    assert first.value == b.resource_slice("n1", device)
    assert tuple(rest) == others


def test_a_slice_without_steps_stays_the_same_object() -> None:
    published = b.resource_slice("n1", b.device("card", capacities={"cores": b.capacity(4, default=1, minimum=1)}))
    (change,) = DiscoveredKinds(minor=34).as_meant((Change(kind=Kind.SLICES, key="s", value=published),))
    assert change.value is published
