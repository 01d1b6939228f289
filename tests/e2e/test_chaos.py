"""The judge of a chaos run finds what must never happen, and says nothing of what may."""

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from e2e.audit.inventory import Inventory
from e2e.audit.reading import Finding, Json, Key
from e2e.chaos.cluster import HOSTILE_NAMESPACE, Cluster
from e2e.chaos.decay import Decay
from e2e.chaos.ending import _is_whole
from e2e.chaos.hostile_tenant import GiantTenant, HostileTenant
from e2e.chaos.judge import Judge, Rules
from e2e.objects import object_path

RULES = Rules(
    scheduler="dovetail",
    most_evictions=2,
    partial_seconds=30.0,
    least={"none": 99, "some": 1},
    peer="default-scheduler",
    peer_prefix="peer-",
)


@pytest.fixture
def judge() -> Judge:
    return Judge(RULES, Inventory([]))


def claim(name: str, device: str = "", **result: Any) -> Json:
    results = [{"request": "r", "driver": "d", "pool": "n1", "device": device, **result}] if device else []
    status = {"allocation": {"devices": {"results": results}}} if device else {}
    return {"metadata": {"namespace": "chaos", "name": name, "uid": name}, "spec": {}, "status": status}


def pod(name: str, node: str = "", *, priority: int = 0, nominated: str = "", gang: int = 0, budget: str = "") -> Json:
    annotations = {"dovetail.dev/gang-minimum": str(gang)} if gang else {}
    labels = {**({"budget": budget} if budget else {}), **({"dovetail.dev/gang": "g"} if gang else {})}
    ready = [{"type": "Ready", "status": "True"}] if node else []
    return {
        "metadata": {
            "namespace": "chaos",
            "name": name,
            "uid": name,
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {"schedulerName": "dovetail", "priority": priority, **({"nodeName": node} if node else {})},
        "status": {
            "phase": "Running" if node else "Pending",
            "conditions": ready,
            **({"nominatedNodeName": nominated} if nominated else {}),
        },
    }


def evicted(victim: Json, second: int = 0) -> Json:
    when = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=second)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "lastTransitionTime": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {**victim, "status": {**victim["status"], "conditions": [*victim["status"]["conditions"], condition]}}


def rules(findings: list[Finding]) -> list[str]:
    return [each.rule for each in findings]


def preempt(judge: Judge, *victims: str, second: int = 0, budget: str = "") -> None:
    """A pod waits for a node, and these go from there."""
    judge.pod(pod("high", priority=10, nominated="n1"), second)
    for name in victims:
        judge.pod(pod(name, "n1", budget=budget), second)
    for name in victims:
        judge.pod(evicted(pod(name, "n1", budget=budget), second), second)


def test_a_device_in_two_claims_at_once_is_found(judge: Judge) -> None:
    judge.claim(claim("a", "gpu-0"))
    judge.claim(claim("b", "gpu-0"))
    assert rules(judge.findings) == ["twice"]


def test_a_device_that_was_given_back_first_may_be_given_again(judge: Judge) -> None:
    judge.claim(claim("a", "gpu-0"))
    judge.claim(claim("a"))
    judge.claim(claim("b", "gpu-0"))
    judge.claim(claim("b", "gpu-0"), is_gone=True)
    judge.claim(claim("c", "gpu-0"))
    assert (judge.findings, judge.allocations) == ([], 3)


def test_pods_of_one_scheduler_on_nodes_of_the_other_are_found(judge: Judge) -> None:
    judge.pod(pod("p", "peer-0"), 0)
    judge.pod(pod("q", "n1"), 0)
    assert rules(judge.findings) == ["foreign"]


def test_more_evictions_in_a_minute_than_allowed_are_found_whatever_restarts_between(judge: Judge) -> None:
    preempt(judge, "a", "b", second=0)
    preempt(judge, "c", second=50)
    assert rules(judge.findings) == ["rate"]


def test_evictions_of_two_minutes_are_not_counted_together(judge: Judge) -> None:
    preempt(judge, "a", "b", second=0)
    preempt(judge, "c", second=60)
    assert judge.findings == []


def test_an_eviction_that_a_budget_forbids_is_found(judge: Judge) -> None:
    preempt(judge, "a", "b", budget="some")
    assert rules(judge.findings) == ["budget"]


def test_an_eviction_that_a_budget_allows_is_not(judge: Judge) -> None:
    judge.pod(pod("stays", "n2", budget="some"), 0)
    preempt(judge, "a", budget="some")
    assert judge.findings == []


def test_pods_of_other_namespaces_are_not_left_of_a_budget(judge: Judge) -> None:
    elsewhere = pod("stays", "n2", budget="some")
    elsewhere["metadata"]["namespace"] = "other"
    judge.pod(elsewhere, 0)
    preempt(judge, "a", budget="some")
    assert rules(judge.findings) == ["budget"]


@pytest.mark.parametrize("waiting", [pod("p", priority=10, nominated="n2"), pod("p", priority=0, nominated="n1")])
def test_an_eviction_from_a_node_that_no_pod_of_more_priority_waits_for_is_found(judge: Judge, waiting: Json) -> None:
    judge.pod(waiting, 0)
    judge.pod(pod("a", "n1"), 0)
    judge.pod(evicted(pod("a", "n1")), 0)
    assert rules(judge.findings) == ["in vain"]


@pytest.mark.parametrize(("shares", "found"), [("chaos", []), ("other", ["in vain"])])
def test_a_pod_of_the_same_quota_may_go_from_any_node(shares: str, found: list[str]) -> None:
    judge = Judge(replace(RULES, sharing={"chaos": frozenset({shares})}), Inventory([]))
    judge.pod(pod("high", priority=10, nominated="n2"), 0)
    judge.pod(pod("a", "n1"), 0)
    judge.pod(evicted(pod("a", "n1")), 0)
    assert rules(judge.findings) == found


def test_a_gang_goes_whole_for_a_pod_that_wants_the_node_of_one_member(judge: Judge) -> None:
    judge.pod(pod("high", priority=10, nominated="n1"), 0)
    members = (pod("m0", "n1", gang=2), pod("m1", "n2", gang=2))
    for each in members:
        judge.pod(each, 0)
    for each in members:
        judge.pod(evicted(each), 0)
    assert judge.findings == []


def test_an_eviction_for_a_pod_that_waits_for_ever_is_found_in_the_end(judge: Judge) -> None:
    preempt(judge, "a")
    assert judge.findings == []
    assert rules(judge.finish()) == ["in vain"]


@pytest.mark.parametrize("is_gone", [False, True], ids=["bound", "gone"])
def test_an_eviction_for_a_pod_that_is_bound_or_gone_was_none_in_vain(judge: Judge, is_gone: bool) -> None:  # noqa: FBT001
    preempt(judge, "a")
    judge.pod(pod("high", "n1", priority=10), 1, is_gone=is_gone)
    assert judge.finish() == []


def test_a_gang_in_two_parts_is_found_after_a_while(judge: Judge) -> None:
    judge.pod(pod("m0", "n1", gang=2), 0)
    judge.pod(pod("m1", gang=2), 0)
    for second in range(0, 60, 5):
        judge.tick(second)
    assert rules(judge.findings) == ["part"]


@pytest.mark.parametrize("how", ["deleted", "finished", "completed"])
def test_a_gang_that_lost_members_or_became_whole_is_not(judge: Judge, how: str) -> None:
    judge.pod(pod("m0", "n1", gang=2), 0)
    judge.pod(pod("m1", gang=2), 0)
    judge.tick(0)
    if how == "deleted":
        judge.pod(pod("m1", gang=2), 5, is_gone=True)
        judge.pod({**pod("m2", gang=2)}, 6)
    elif how == "finished":
        done = pod("m0", "n1", gang=2)
        judge.pod({**done, "status": {"phase": "Succeeded"}}, 5)
        judge.pod(pod("m2", "n1", gang=2), 6)
    else:
        judge.pod(pod("m1", "n1", gang=2), 5)
    for second in range(5, 90, 5):
        judge.tick(second)
    assert judge.findings == []


class Admitting(Cluster):
    """A cluster that admits everything."""

    def __init__(self) -> None:
        self.made: list[Json] = []
        self.requests: list[tuple[str, str]] = []
        self.real = frozenset()

    def create(self, manifest: Json) -> Json:
        self.made.append(manifest)
        return manifest

    def request(self, method: str, path: str, body: Any = None, *, content: str = "application/json") -> Any:
        del body, content
        self.requests.append((method, path))


def test_a_hostile_tenant_creates_what_a_tenant_may_and_can_be_removed() -> None:
    cluster = Admitting()
    tenant = HostileTenant(cluster, seed=11)
    for number in range(3000):
        tenant.create(number)
    assert tenant.admitted > 1000
    assert {each["metadata"]["namespace"] for each in cluster.made} == {HOSTILE_NAMESPACE}
    assert not any("finalizers" in each["metadata"] or "priority" in each["spec"] for each in cluster.made)


def test_a_giant_is_edited_and_deleted_again() -> None:
    cluster = Admitting()
    tenant = GiantTenant(cluster)
    for number in range(28):
        tenant.step(number)
    assert tenant.admitted == 7
    assert {each["metadata"]["namespace"] for each in cluster.made} == {HOSTILE_NAMESPACE}
    assert {each["kind"] for each in cluster.made} == {"Pod", "ResourceClaim", "PodDisruptionBudget"}
    deleted = [path for method, path in cluster.requests if method == "DELETE"]
    assert deleted == [object_path(each) for each in cluster.made[:3]]
    assert sum(method == "PATCH" for method, _ in cluster.requests) == 21


def test_the_ending_waits_only_for_gangs_that_can_be_whole() -> None:
    members = [pod("m0", gang=2), pod("m1", gang=2)]
    assert _is_whole(members[0], members, set())
    assert not _is_whole(members[0], members[:1], set())
    of_group = pod("w0")
    of_group["spec"]["schedulingGroup"] = {"podGroupName": "w"}
    of_group["metadata"]["annotations"] = {"chaos.dovetail.dev/minimum": "1"}
    assert _is_whole(of_group, [of_group], {Key("chaos", "w")})
    assert not _is_whole(of_group, [of_group], set())


def movable(victim: Json) -> Json:
    """The pod of a ReplicaSet: repairs may move it."""
    return {**victim, "metadata": {**victim["metadata"], "ownerReferences": [{"kind": "ReplicaSet"}]}}


def test_a_pod_that_a_repair_moves_is_evicted_for_no_other_pod_and_counts_in_its_budget_only(judge: Judge) -> None:
    for second, name in enumerate(("a", "b", "c")):
        judge.pod(movable(evicted(pod(name, "n1"), second)), second)
    moves = [{"uid": "a", "state": "Moved"}, {"uid": "b", "state": "Evicting"}]
    judge.plan({"metadata": {"name": "plan"}, "status": {"state": "Running", "moves": moves}})

    assert judge.findings == []
    assert [each.subject for each in judge.finish()] == ["chaos/c"]
    judge.pod(movable(evicted(pod("d", "n1", budget="some"))), 4.0)
    assert [each.rule for each in judge.findings] == ["budget"]


def test_a_plan_counts_as_carried_out_when_it_is_done_and_has_moved_pods(judge: Judge) -> None:
    moves = [{"uid": "a", "state": "Moved"}, {"uid": "b", "state": "Evicting"}]
    judge.plan({"metadata": {"name": "half"}, "status": {"state": "Running", "moves": moves}})
    judge.plan({"metadata": {"name": "none"}, "status": {"state": "Done", "moves": []}})
    assert (judge.settled, judge.carried_out) == ({"a"}, set())
    judge.plan({"metadata": {"name": "half"}, "status": {"state": "Done", "moves": moves[:1]}})
    assert judge.carried_out == {"half"}


@pytest.mark.parametrize(("cases", "moves", "rules"), [(2, 0, []), (3, 0, ["idle"]), (3, 1, [])])
def test_a_run_with_decay_in_which_no_pod_was_moved_has_shown_nothing(cases: int, moves: int, rules: list[str]) -> None:
    decay = Decay(Admitting(), seed=1)
    decay.cases = cases
    assert [each.rule for each in decay.findings(plans=0, moves=moves)] == rules
