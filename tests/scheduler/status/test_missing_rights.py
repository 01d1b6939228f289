"""What pods, the log and `/readyz` say about features that the scheduler's account lacks rights for."""

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from scheduler.features import Feature, MissingFeature, Right
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.observe import logs
from scheduler.observe.health import Health
from scheduler.status import missing_rights
from scheduler.status.conditions import condition_message
from scheduler.status.missing_rights import FeatureReport, possible, with_missing_rights
from solver.domain import DOVETAIL_GROUP, SCHEDULING_GROUP, GangId, Policy, PreemptionRules, Reason, ReasonCode
from tests.support.builders import pod

MISSING = tuple(MissingFeature(each, (Right("list", "", "things"),)) for each in Feature)
VOLUME = Reason(
    code=ReasonCode.VOLUME_CLAIM_MISSING,
    message='persistentvolumeclaim "c" not found',
    status='persistentvolumeclaim "c" not found',
)
MEMBERS = Reason(code=ReasonCode.GANG_INCOMPLETE, message="gang g waits")


def test_a_volume_claim_that_is_not_seen_comes_with_the_component() -> None:
    (reason,) = with_missing_rights(pod("p"), (VOLUME,), MISSING)
    assert condition_message((reason,), 3) == (
        '0/3 nodes are available: persistentvolumeclaim "c" not found. Hint: the scheduler\'s account may not list '
        "things: pods with PersistentVolumeClaims wait; deploy/components/volumes grants it."
    )


def test_with_all_rights_nothing_is_added() -> None:
    assert with_missing_rights(pod("p"), (VOLUME, MEMBERS), ()) == [VOLUME, MEMBERS]


@pytest.mark.parametrize(("source", "is_hinted"), [(SCHEDULING_GROUP, True), (DOVETAIL_GROUP, False)])
def test_only_gangs_with_a_pod_group_miss_it(source: str, *, is_hinted: bool) -> None:
    member = replace(pod("p"), gang=GangId(namespace="default", name="g", source=source))
    (reason,) = with_missing_rights(member, (MEMBERS,), MISSING)
    assert (reason != MEMBERS) is is_hinted


def test_nothing_is_preempted_without_the_right_to_evict() -> None:
    policy = Policy(preemption=PreemptionRules(is_enabled=True))
    assert possible(policy, DiscoveredKinds()) is policy
    assert not possible(policy, DiscoveredKinds(missing=MISSING)).preemption.is_enabled
    assert possible(policy, DiscoveredKinds(missing=MISSING[1:])) is policy


def test_what_is_missing_is_logged_each_time_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    log = SimpleNamespace(warning=lambda event, feature, message: lines.append(f"{event} {feature}: {message}"))
    monkeypatch.setattr(missing_rights, "_log", log)
    health = Health()
    report = FeatureReport(health)
    for missing in (MISSING[:1], MISSING[:1], (), MISSING[:2]):
        report.report(DiscoveredKinds(missing=missing))
    logged = (MISSING[0], MISSING[0], MISSING[1])
    assert lines == [f"{logs.RIGHT_MISSING} {each.feature}: {each}" for each in logged]
    assert health.ready("rights").line().startswith("[~]rights degraded")
    report.report(DiscoveredKinds())
    assert health.ready("rights").line().startswith("[+]rights ok")
