"""Which schedulers `dovetail version` names: pods in the cluster, and the process outside of it that leads."""

import pytest

from scheduler.simulation.server_versions import LeaderVersion, SchedulerImage, ServerVersions, leader_version
from scheduler.status.leader_lease import SeenLease
from tests.support import manifests as m
from tests.support.lease_server import HOLDER, reporting

NAMESPACE = "dovetail-system"
LEADER = LeaderVersion(name="host", namespace=NAMESPACE, version="0.2.0")
REPLICA = SchedulerImage(image="dovetail:0", namespace=NAMESPACE, pods=2)
ELSEWHERE = SchedulerImage(image="dovetail:0", namespace="blue", pods=1)
LEADS = f"scheduler 0.2.0: host leads outside of the cluster, by the Lease in {NAMESPACE}"

NOBODY = (
    "scheduler: no running pod has the label app.kubernetes.io/name=dovetail, and no Lease in dovetail-system that you "
    "may read has a leader"
)


@pytest.mark.parametrize(
    ("schedulers", "leader", "lines"),
    [
        pytest.param((REPLICA,), LEADER, [f"scheduler dovetail:0, 2 running in {NAMESPACE}"], id="pods"),
        pytest.param((), LEADER, [LEADS], id="outside"),
        pytest.param((ELSEWHERE,), LEADER, ["scheduler dovetail:0, 1 running in blue", LEADS], id="both"),
        pytest.param(
            None,
            LEADER,
            ["scheduler: you may not list pods", f"scheduler 0.2.0: host leads, by the Lease in {NAMESPACE}"],
            id="pods not known",
        ),
        pytest.param(
            (),
            LeaderVersion(name="host", namespace=NAMESPACE, version=""),
            [LEADS.replace("0.2.0", "of a version that it has not said yet")],
            id="silent",
        ),
        pytest.param(
            (),
            None,
            [NOBODY],
            id="none",
        ),
    ],
)
def test_schedulers_by_pods_and_by_the_lease(
    schedulers: tuple[SchedulerImage, ...] | None,
    leader: LeaderVersion | None,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = ServerVersions(kubernetes="v1.37.0", address="https://a", schedulers=schedulers, leader=leader)
    monkeypatch.setattr("scheduler.simulation.server_versions.read", lambda *_, **__: found)
    monkeypatch.setattr("scheduler.cli.version.cluster_access", lambda _: None)
    assert m.run("version") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["Kubernetes v1.37.0 at https://a", *lines]


def test_the_version_is_that_of_the_replica_that_leads_now() -> None:
    lease = SeenLease(HOLDER, is_renewed=True, age_seconds=1, is_drained=False, report=reporting())
    assert leader_version(lease, NAMESPACE) == LeaderVersion(name="dovetail-0", namespace=NAMESPACE, version="1")
    before = lease._replace(holder="other_uid")
    assert leader_version(before, NAMESPACE) == LeaderVersion(name="other", namespace=NAMESPACE, version="")
    assert leader_version(lease._replace(is_renewed=False), NAMESPACE) is None
    assert leader_version(None, NAMESPACE) is None
