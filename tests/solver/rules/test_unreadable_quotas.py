"""A quota of which something cannot be read: its namespaces get no more devices, and nobody else notices."""

import pytest
from msgspec.structs import replace

from scheduler.change import Kind
from scheduler.cluster.quota_usage import QuotaUsage
from scheduler.kube.decode.json_parts import JsonObject
from scheduler.kube.decode.objects import decode
from scheduler.kube.decode.partial_objects import substitute_in_pieces
from scheduler.kube.decode.pieces import at_once
from solver import solve
from solver.domain import Batch, Budget, DeviceQuota, Placement, Policy, QuotaTree, ReasonCode
from solver.verify import check
from tests.solver.rules.test_quotas import asking, cluster, decide, holding
from tests.support import builders as b
from tests.support.quota_cases import devices, namespaces, quota

BAD = b"""{"metadata": {"name": "red", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {
  "parent": "root", "namespaceSelector": {"matchLabels": {"team": "red"}}, "resources": "many"}}"""
NEWER = b"""{"metadata": {"name": "red", "uid": "u"}, "spec": {"namespaceSelector": {"matchLabels": {"team": "red"}},
  "resources": [{"deviceClass": "gpu", "limit": 4}, {"deviceClass": "gpu", "shape": "racks", "limit": 1}]}}"""


def unreadable(raw: bytes = BAD) -> DeviceQuota:
    found = at_once(substitute_in_pieces(Kind.QUOTAS, JsonObject(raw), "red", None, "spec.resources: it is no list"))
    assert isinstance(found, DeviceQuota)
    return found


def test_what_can_be_read_of_a_bad_quota_says_whose_it_is() -> None:
    found = unreadable()
    assert (found.name, found.uid, found.parent, found.resources) == ("red", "u", "root", ())
    assert found.selector == quota("red", team="red").selector
    assert found.invalid == "spec.resources: it is no list"


def test_with_an_unreadable_selector_it_stops_nobody() -> None:
    found = unreadable(b'{"metadata": {"name": "red"}, "spec": {"namespaceSelector": 7}}')
    assert (found.name, found.selector) == ("red", None)
    assert QuotaTree.of((found,), namespaces()).leaf_of == {}


@pytest.mark.parametrize("raw", [BAD, NEWER])
def test_its_namespaces_get_no_devices_with_the_reason_and_others_do(raw: bytes) -> None:
    bad = unreadable() if raw is BAD else decode(Kind.QUOTAS, raw)
    assert isinstance(bad, DeviceQuota)
    (red, red_pod), (blue, blue_pod) = asking("red", team="red"), asking("blue", team="blue")
    cpu = b.pod("cpu", namespace="red")
    snapshot = cluster(red, blue, holding("held", "gpu-0"), quotas=(bad, quota("blue", devices(2), team="blue")))

    plan = decide(snapshot, red_pod, blue_pod, cpu)

    assert {each.pod.name for each in plan.placements} == {"blue", "cpu"}
    (waits,) = plan.unplaced
    (reason,) = waits.reasons
    assert reason.code is ReasonCode.QUOTA_EXCEEDED
    assert reason.message == f"{bad.refusal}"
    assert ("spec.resources: it is no list" if raw is BAD else "spec.resources[1] (shape racks)") in reason.message


def test_pods_that_have_their_devices_already_start() -> None:
    claim = holding("old", "gpu-0")
    plan = decide(cluster(claim, quotas=(unreadable(),)), b.pod("old", "old", namespace="red"))
    assert len(plan.placements) == 1


def test_below_an_unreadable_parent_nobody_gets_devices_and_a_gang_waits_as_a_whole() -> None:
    parent = replace(unreadable(), name="root", parent="", selector=None)
    (one, first), (two, second) = asking("one", team="red"), asking("two", team="red")
    gang = b.gang("g", 2, namespace="red")
    pods = tuple(replace(each, gang=gang.id) for each in (first, second))  # type: ignore[type-var]
    quotas = (parent, quota("red", devices(4), parent="root", team="red"))
    snapshot = cluster(one, two, quotas=quotas)
    batch = Batch(pods=pods, gangs=(gang,))  # type: ignore[arg-type]
    plan = solve(snapshot, batch, Policy(), Budget(seconds=60.0, deterministic_seconds=10.0))
    assert plan.placements == ()
    assert {each.reasons[0].message for each in plan.unplaced} == {parent.refusal}


def test_the_checks_find_a_plan_that_gives_devices_all_the_same() -> None:
    claim, pod = asking("red", team="red")
    free = cluster(claim)
    batch = Batch(pods=(pod,))  # type: ignore[arg-type]
    plan = solve(free, batch, Policy(), Budget(seconds=60.0, deterministic_seconds=10.0))
    assert isinstance(plan.placements[0], Placement)
    (violation,) = check(replace(free, quotas=(unreadable(),)), batch, plan, Policy())
    assert violation.rule == "QuotaLimit"

    usage = QuotaUsage()
    usage.follow((unreadable(),), namespaces())
    made = plan.allocations[0].claim
    assert list(usage.exceeded((made,))) == [unreadable().refusal]


def test_it_is_a_finding() -> None:
    (finding,) = (each for each in QuotaTree.of((unreadable(),), namespaces()).findings if each.reason == "Unreadable")
    assert finding.message.startswith("spec: spec.resources: it is no list; its namespaces get no more devices")
