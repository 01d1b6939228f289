import pytest

from scheduler.change import Kind
from scheduler.kube.discovery import served_kinds

V1 = frozenset({"deviceclasses", "resourceclaims", "resourceclaims/status", "resourceslices"})
RULES = frozenset({"devicetaintrules"})


def test_a_server_with_the_api_is_watched_for_every_kind_but_taint_rules() -> None:
    served = served_kinds((("v1", V1),))
    assert not served.problem
    assert {kind for kind, _ in served.paths} == set(Kind) - {Kind.TAINT_RULES}
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
    served = served_kinds(versions)  # type: ignore[arg-type] # a column of the table
    assert dict(served.paths)[Kind.TAINT_RULES] == f"/apis/resource.k8s.io/{expected}/devicetaintrules"


@pytest.mark.parametrize(
    "versions", [(), (("v1beta1", V1),), (("v1", V1 - {"resourceclaims"}),)], ids=["no group", "only beta", "a part"]
)
def test_a_server_without_the_api_is_one_clear_problem(versions: object) -> None:
    served = served_kinds(versions)  # type: ignore[arg-type] # a column of the table
    assert "resourceclaims" in served.problem
    assert "Kubernetes 1.34 or newer does" in served.problem
    assert served.paths == ()
