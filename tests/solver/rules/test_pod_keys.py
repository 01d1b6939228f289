"""Selectors of running pods cost a decision no more than those that may select its pods."""

import pytest

from solver.domain import LabelSelector, PodAffinityTerm
from solver.feasibility.selector_index import LabelMatcher, matched_labels
from solver.rules.forms.domains import Topology
from solver.rules.inter_pod.inter_pod_context import Topologies
from solver.rules.inter_pod.running_pods import RunningPods
from tests.support import builders as b
from tests.support import solver_problems as s
from tests.support.calls import counted
from tests.support.neighbour_builders import HOST, neighbour, requirement, selector, term, zoned

EVERY = LabelSelector()


def test_wide_terms_that_demand_what_no_pod_of_a_batch_has_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def wide(number: int) -> list[object]:
        demands = (requirement("own", "NotIn", "x"), requirement(f"none-{number}", "Exists"))
        return [requirement("app", "In", "web"), *demands]

    running = [
        neighbour(
            f"h{k}",
            namespace="aaa",
            on="n1",
            anti_affinity=[term(HOST, *wide(16 * k + i), namespaces=[], of=EVERY) for i in range(16)],  # type: ignore[arg-type]
        )
        for k in range(20)
    ]
    pods = [neighbour(f"v{i}", app="web", own=f"{i}", cpu=1) for i in range(10)]
    looked = counted(monkeypatch, LabelMatcher, "holds")
    problem = s.problem([zoned("n1")], running, pods=pods)

    assert len(problem.classes) > 0
    assert len(looked) <= 2 * len(pods)  # of 320 terms


def test_own_terms_cost_pods_of_other_namespaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(number: int) -> PodAffinityTerm:
        return term(HOST, requirement(f"none-{number}", "DoesNotExist"), app="web", namespaces=["aaa"])

    running = [neighbour(f"h{k}", namespace="aaa", on="n1", anti_affinity=[own(k)]) for k in range(20)]
    pods = [neighbour(f"v{i}", app="web", cpu=1 + i) for i in range(10)]
    looked = counted(monkeypatch, LabelMatcher, "holds")
    s.problem([zoned("n1")], running, pods=pods)

    assert looked == []


@pytest.mark.parametrize(
    ("labels", "of_namespace", "is_kept_away"),
    [({"app": "web"}, {}, False), ({"app": "web", "tier": "t3"}, {}, True), ({"app": "web"}, {"team": "t3"}, True)],
)
def test_whether_terms_of_running_pods_keep_a_pod_away_is_looked_up(
    labels: dict[str, str], of_namespace: dict[str, str], *, is_kept_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terms(number: int) -> list[PodAffinityTerm]:
        by_namespace = selector(requirement("team", "In", f"t{number}"))
        return [
            term(HOST, requirement("tier", "In", f"t{number}"), app="web"),
            term(HOST, app="web", namespaces=[], of=by_namespace),
        ]

    pods = tuple(neighbour(f"h{k}", on="n1", anti_affinity=terms(k)) for k in range(20))
    residents = RunningPods.of(pods, {"n1": 0})
    looked = counted(monkeypatch, LabelMatcher, "holds")

    assert residents.keep_away(matched_labels(b.NAMESPACE, of_namespace.items(), labels.items())) == is_kept_away
    assert len(looked) <= 2  # of 40


def test_terms_by_labels_that_no_node_has_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = [term(f"key-{i}", namespaces=[], of=EVERY) for i in range(16)]
    running = [neighbour("h", namespace="aaa", on="n1", anti_affinity=terms)]
    asked: list[str] = []
    plain = Topologies.of

    def of(each: Topologies, key: str) -> Topology:
        asked.append(key)
        return plain(each, key)

    monkeypatch.setattr(Topologies, "of", of)
    s.problem([zoned("n1")], running, pods=[neighbour("v", app="web")])

    assert asked == []
