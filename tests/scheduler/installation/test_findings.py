"""What `dovetail status` says of a scheduler, by what was read of its pods and its Lease."""

import datetime as dt
import io
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.history.recent_work import WorkCounts
from scheduler.installation import findings, status_output
from scheduler.installation.account_rights import MissingRights
from scheduler.installation.findings import FindingState
from scheduler.installation.installed_pods import InstalledPods, ReplicaPod
from scheduler.observe.health import CheckState
from scheduler.status.leader_lease import SeenLease
from scheduler.status.leader_report import CheckReport, LeaderReport, ReservationReport, WatchReport

NOW = dt.datetime(2026, 1, 1, 12, 0, tzinfo=dt.UTC)
REPORT = LeaderReport(
    leader="dovetail-0_uid",
    version="0.2.0",
    time=NOW - dt.timedelta(seconds=3),
    since=NOW - dt.timedelta(hours=5),
    watches=WatchReport(9, "pods", 12.0, 180.0),
    work=WorkCounts(decisions=4, bound=7, evicted=1, slowest_seconds=0.5),
    budget_seconds=2.0,
)
LEASE = SeenLease("dovetail-0_uid", is_renewed=True, age_seconds=1.0, is_drained=False, report=REPORT)
PODS = tuple(
    ReplicaPod(f"dovetail-{number}", "dovetail:0.2.0", "n1", is_ready=True, restarts=0, account="dovetail")
    for number in range(2)
)
HEALTHY = InstalledPods("v1.37.2", True, PODS, LEASE, (), {}, ())  # noqa: FBT003 - a tuple of what was read


def found(**changed: Any) -> dict[str, tuple[FindingState, str]]:
    seen = HEALTHY._replace(**changed)
    return {each.about: (each.state, each.message) for each in findings.of_scheduler(seen, "dovetail-system", NOW)}


def with_report(**changed: Any) -> SeenLease:
    return LEASE._replace(report=replace(REPORT, **changed))


def test_a_healthy_scheduler() -> None:
    said = found()
    assert {state for state, _ in said.values()} == {FindingState.OK}
    assert said["replicas"][1] == "2 of 2 ready"
    assert said["leader"][1] == "dovetail-0 for 5h"
    assert said["watches"][1] == "9 kinds, the oldest news 12 s ago (pods); stale after 180 s"
    assert said["decisions"][1] == "in 10 minutes: 4 decisions, the longest 0.5 s; 7 pods bound, 1 evicted"


EVICTIONS = MissingRights("preemption", ("delete pods",), "no pod is evicted", "deploy/components/preemption")


def test_reserved_nodes_have_a_line() -> None:
    assert "reservations" not in found()
    lease = with_report(reservations=(ReservationReport(uids=("u",), nodes=("h100-2",)),))
    text = "1 node is reserved for 1 pod that waited too long: h100-2"
    assert found(lease=lease)["reservations"] == (FindingState.OK, text)
    lease = with_report(reservations=(ReservationReport(uids=("u", "v"), nodes=("a", "b")),), more_reserved=1)
    text = "3 nodes are reserved for 2 pods that waited too long: a, b and 1 more"
    assert found(lease=lease)["reservations"][1] == text
    lease = with_report(more_reserved=161, more_pods=160)
    assert found(lease=lease)["reservations"][1] == "161 nodes are reserved for 160 pods that waited too long"


BROKEN = PODS[1]._replace(is_ready=False, why="ImagePullBackOff: no such image")


@pytest.mark.parametrize(
    ("changed", "about", "state", "message"),
    [
        pytest.param(
            {"replicas": (), "lease": None, "has_namespace": False},
            "replicas",
            FindingState.FAILED,
            "namespace dovetail-system does not exist: nothing schedules pods for Dovetail",
            id="no namespace",
        ),
        pytest.param(
            {"replicas": (PODS[0], BROKEN)},
            "replicas",
            FindingState.WARNING,
            "1 of 2 ready; dovetail-1: ImagePullBackOff: no such image",
            id="one is not ready",
        ),
        pytest.param(
            {"replicas": (BROKEN,)},
            "replicas",
            FindingState.FAILED,
            "0 of 1 ready; dovetail-1: ImagePullBackOff: no such image",
            id="none is ready",
        ),
        pytest.param(
            {"replicas": PODS[:1]},
            "replicas",
            FindingState.WARNING,
            "1 of 1 ready; no other one takes over when it ends",
            id="one replica",
        ),
        pytest.param({"replicas": None}, "replicas", FindingState.UNKNOWN, "you may not list pods", id="no right"),
        pytest.param(
            {"lease": LEASE._replace(is_drained=True)},
            "leader",
            FindingState.FAILED,
            "Dovetail is paused: every replica stands by, and no pod is placed",
            id="paused",
        ),
        pytest.param(
            {"lease": LEASE._replace(is_renewed=False, age_seconds=40.0)},
            "leader",
            FindingState.FAILED,
            "no replica holds the Lease; dovetail-0 renewed it 40 s ago",
            id="no leader",
        ),
        pytest.param(
            {"lease": with_report(time=NOW - dt.timedelta(seconds=90))},
            "leader",
            FindingState.FAILED,
            "dovetail-0 renews the Lease, and has not said how it does for 90 s: it may stand still",
            id="it stands still",
        ),
        pytest.param(
            {"lease": None, "forbidden": ("the Lease a/b",)},
            "leader",
            FindingState.UNKNOWN,
            "you may not read the Lease a/b",
            id="no right to read the Lease",
        ),
        pytest.param(
            {"lease": with_report(leader="dovetail-1_other")},
            "watches",
            FindingState.UNKNOWN,
            "the leader has not said yet",
            id="the report of the leader before",
        ),
        pytest.param(
            {"replicas": (PODS[0], PODS[1]._replace(image="dovetail:0.3.0"))},
            "versions",
            FindingState.WARNING,
            "image dovetail:0.2.0 and dovetail:0.3.0",
            id="two images",
        ),
        pytest.param(
            {"missing": (MissingRights("", ("list pods",), "it schedules nothing", "deploy/base"),)},
            "rights",
            FindingState.FAILED,
            "rights for scheduling are missing (list pods): it schedules nothing",
            id="a right of the base",
        ),
        pytest.param(
            {"missing": (EVICTIONS,)},
            "rights",
            FindingState.WARNING,
            "rights for preemption are missing (delete pods): no pod is evicted",
            id="a right of a feature",
        ),
        pytest.param(
            {"missing": None, "lease": with_report(checks=(CheckReport("rights", CheckState.DEGRADED, 9, "may not"),))},
            "rights",
            FindingState.WARNING,
            "may not",
            id="rights that the leader lacks",
        ),
        pytest.param(
            {"lease": with_report(checks=(CheckReport("solver", CheckState.DEGRADED, 9, "no worker"),))},
            "solver",
            FindingState.WARNING,
            "no worker",
            id="a check is degraded",
        ),
        pytest.param(
            {"lease": with_report(checks=(CheckReport("pods", CheckState.FAILED, 9, "stale: why"),))},
            "pods",
            FindingState.FAILED,
            "stale: why",
            id="a check has failed",
        ),
        pytest.param(
            {"lease": with_report(watches=WatchReport(9, "pods", 200.0, 180.0))},
            "watches",
            FindingState.FAILED,
            "stale, so nothing is written",
            id="a stale watch",
        ),
        pytest.param(
            {"lease": with_report(work=WorkCounts(decisions=1, slowest_seconds=3.5))},
            "decisions",
            FindingState.WARNING,
            "the longest 3.5 s; 0 pods bound. solver.budgetSeconds is 2 s",
            id="over the budget",
        ),
        pytest.param(
            {"lease": with_report(defects=2, saved=("/tmp/x.json",))},  # noqa: S108 - a name in a report
            "defects",
            FindingState.WARNING,
            "2 defects since dovetail-0 started; saved in its container: /tmp/x.json",
            id="saved defects",
        ),
    ],
)
def test_what_is_wrong_is_said(changed: dict[str, Any], about: str, state: FindingState, message: str) -> None:
    said = found(**changed)[about]
    assert said[0] is state
    assert message in said[1]


def test_defects_of_a_leader_that_is_gone_are_still_said() -> None:
    lease = with_report(defects=1)._replace(is_renewed=False)
    assert found(lease=lease, replicas=())["defects"][0] is FindingState.WARNING


def test_many_missing_rights_are_one_line_with_the_command_that_grants_them() -> None:
    rights = tuple(f"{verb} workloads.kueue.x-k8s.io" for verb in ("get", "list", "watch", "patch"))
    lacking = MissingRights("Kueue's admission check", rights, "nothing is let in", "deploy/components/kueue")
    (line,) = (
        each
        for each in findings.of_scheduler(HEALTHY._replace(missing=(lacking,)), "dovetail-system", NOW)
        if each.about == "rights"
    )
    assert line.message == "rights for Kueue's admission check are missing (4): nothing is let in"
    assert line.next_step == "kubectl apply -k deploy/components/kueue"


def test_a_scheduler_outside_of_the_cluster_that_is_paused() -> None:
    lease = LEASE._replace(is_drained=True, is_renewed=False, holder="")
    seen = HEALTHY._replace(replicas=(), lease=lease, missing=None)
    said = tuple(findings.of_scheduler(seen, "dovetail-system", NOW))
    to = io.StringIO()
    status_output.show(status_output.InstallationStatus("dovetail-system", seen.runs, seen, None, said), to)
    assert to.getvalue().splitlines()[0] == "Dovetail in namespace dovetail-system is paused: dovetail resume"
    assert "dovetail check says what an installation needs" not in to.getvalue()
    assert {each.about: each.state for each in said}["replicas"] is FindingState.UNKNOWN
