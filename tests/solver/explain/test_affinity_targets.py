"""Required pod affinity that selects no running pod: the message names the term and the nearest label."""

import pytest

from solver import solve
from solver.domain import Batch, LabelSelectorOperator, Pod, Policy, Snapshot
from tests.support import builders as b
from tests.support.neighbour_builders import HOST, ZONE, neighbour, requirement, term, zoned
from tests.support.solver_problems import PATIENT

NODES = (zoned("n1", "a"), zoned("n2", "b"))

NO_POD = "no pod that it selects runs in namespace"


def hints(snapshot: Snapshot, *pods: Pod) -> dict[str, list[str]]:
    """What is said beside kube-scheduler's words."""
    plan = solve(snapshot, Batch(pods=pods), Policy(), PATIENT)
    return {
        each.pod.name: [reason.message for reason in each.reasons if not reason.node_count] for each in plan.unplaced
    }


def test_the_nearest_label_of_running_pods_is_named() -> None:
    snapshot = b.snapshot(NODES, neighbour("web-0", app="webserver", on="n1"))

    assert hints(snapshot, neighbour("p", affinity=[term(app="web-server")])) == {
        "p": [f"pod affinity app=web-server: {NO_POD} {b.NAMESPACE}: did you mean webserver?"],
    }


def test_a_label_that_no_pod_has_is_put_right_by_the_nearest() -> None:
    snapshot = b.snapshot(NODES, neighbour("web-0", app="web", on="n1"))
    wanted = term(HOST, requirement("apps", "In", "web"))

    (said,) = hints(snapshot, neighbour("p", affinity=[wanted]))["p"]
    here = f"no pod that it selects runs in namespace {b.NAMESPACE}"
    assert said == f"pod affinity apps=web: {here}, none has a label apps: did you mean app?"


def test_pods_of_other_namespaces_are_not_named() -> None:
    snapshot = b.snapshot(NODES, neighbour("web-0", app="webserver", on="n1", namespace="secret"))

    assert hints(snapshot, neighbour("p", affinity=[term(app="web-server")])) == {
        "p": [
            f"pod affinity app=web-server: no pod that it selects runs in namespace {b.NAMESPACE}, none has a label app"
        ]
    }


def test_a_topology_that_no_node_knows_is_the_trouble() -> None:
    snapshot = b.snapshot(NODES, neighbour("web-0", app="web", on="n1"))

    assert hints(snapshot, neighbour("p", affinity=[term("zoen", app="web")])) == {
        "p": [f"pod affinity over zoen: no node has a label zoen: did you mean {ZONE}?"]
    }


def test_the_pods_that_it_selects_may_wait_too() -> None:
    server, client = neighbour("web-0", app="web", cpu=1000), neighbour("p", affinity=[term(app="web")])

    assert hints(b.snapshot(NODES), server, client)["p"] == [
        "pod affinity app=web: the pods that it selects wait too (web-0)"
    ]


def test_nothing_is_said_where_such_a_pod_runs() -> None:
    snapshot = b.snapshot(NODES, neighbour("web-0", app="web", on="n1", cpu=60))

    said = hints(snapshot, neighbour("p", affinity=[term(app="web")], cpu=10))
    assert said == {"p": []}


def test_a_pod_that_answers_its_own_affinity_is_not_said_to_miss_it() -> None:
    said = hints(b.snapshot(NODES), neighbour("p", app="web", affinity=[term(app="web")], cpu=1000))

    assert not [each for each in said["p"] if "pod affinity" in each]


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        (LabelSelectorOperator.IN, ("a",), "k=a"),
        (LabelSelectorOperator.IN, ("a", "b"), "k in (a, b)"),
        (LabelSelectorOperator.NOT_IN, ("a",), "k notin (a)"),
        (LabelSelectorOperator.EXISTS, (), "k"),
        (LabelSelectorOperator.DOES_NOT_EXIST, (), "!k"),
    ],
)
def test_selectors_are_written_as_kubectl_takes_them(
    operator: LabelSelectorOperator, values: tuple[str, ...], expected: str
) -> None:
    assert str(term(HOST, requirement("k", operator, *values)).selector) == expected
