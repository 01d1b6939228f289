"""PodDisruptionBudgets, and what pods say of their own eviction."""

import json
from typing import Any

from scheduler.change import Kind
from scheduler.kube.decode.objects import decode
from solver.domain import Pod, PodDisruptionBudget


def budget(status: dict[str, Any] | None = None, **spec: Any) -> PodDisruptionBudget:
    body = {"metadata": {"namespace": "ml", "name": "b", "generation": 2}, "spec": spec, "status": status or {}}
    found = decode(Kind.BUDGETS, json.dumps(body).encode())
    assert isinstance(found, PodDisruptionBudget)
    return found


def pod(annotations: dict[str, str] | None = None, **status: Any) -> Pod:
    body = {"metadata": {"namespace": "ml", "name": "p", "uid": "u", "annotations": annotations}, "status": status}
    found = decode(Kind.PODS, json.dumps(body).encode())
    assert isinstance(found, Pod)
    return found


def test_what_it_allows_and_which_pods_it_selects() -> None:
    expressions = [{"key": "tier", "operator": "NotIn", "values": ["test"]}]
    found = budget(
        {"disruptionsAllowed": 3, "observedGeneration": 2, "disruptedPods": {"x": "2026-01-01T00:00:00Z"}},
        selector={"matchLabels": {"app": "web"}, "matchExpressions": expressions},
    )

    assert (found.namespace, found.name, found.allowed, found.is_stale) == ("ml", "b", 3, False)
    assert found.selects("ml", {"app": "web"})
    assert not found.selects("ml", {"app": "web", "tier": "test"})
    assert not found.selects("ml", {"app": "db"})
    assert not found.selects("other", {"app": "web"})


def test_an_empty_selector_selects_all_and_none_selects_none() -> None:
    assert budget(selector={}).selects("ml", {})
    assert not budget().selects("ml", {})


def test_a_status_that_is_older_than_the_spec_grants_nothing() -> None:
    assert budget({"disruptionsAllowed": 3, "observedGeneration": 1}).is_stale


def test_a_pod_says_whether_it_may_be_evicted() -> None:
    assert pod().is_preemptible
    assert pod({"dovetail.dev/preemptible": "true"}).is_preemptible
    assert not pod({"dovetail.dev/preemptible": "false"}).is_preemptible


def test_a_pod_says_since_when_it_runs() -> None:
    assert pod().started == 0
    assert pod(startTime="1970-01-01T00:01:40Z").started == 100
    assert pod(startTime="some day").started == 0


def test_room_is_held_by_what_the_status_says_and_by_no_annotation() -> None:
    reserved = {"type": "dovetail.dev/node-reserved", "status": "True", "message": "n1"}
    assert pod({"dovetail.dev/reserve-node": "n1", "dovetail.dev/node-reserved": "n1"}).nominated_node_name == ""
    assert pod(nominatedNodeName="n2").nominated_node_name == "n2"
    assert pod(conditions=[reserved]).nominated_node_name == "n1"
    assert pod(conditions=[reserved], nominatedNodeName="n2").nominated_node_name == "n2"
    assert pod(conditions=[{**reserved, "status": "False"}]).nominated_node_name == ""
