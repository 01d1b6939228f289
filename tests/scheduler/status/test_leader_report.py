"""What the leader says in its Lease of reserved nodes, and how commands read it."""

import datetime as dt
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.history.recent_work import RecentWork
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.status.leader_report import LeaderReport, LeaderReporter, ReportSources, decode_report
from solver.domain import NodeReservation, Pod
from tests.support import builders as b

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def reservation(pod: Pod, *nodes: str, **fields: Any) -> NodeReservation:
    return replace(NodeReservation(pod=pod.id, uids=(pod.uid,), priority=3, nodes=nodes), **fields)


def written(*reservations: NodeReservation) -> tuple[LeaderReport, str]:
    """The report of a leader with these reservations, as it is read, and its text."""
    recent = RecentWork(lambda: 0.0)
    sources = ReportSources(
        Health(), Metrics(), WatchAges(180.0), (), recent, dict, tuple, lambda: reservations, 2.0, "digest"
    )
    text = msgspec.json.encode(LeaderReporter("me", "1", sources, print, lambda: NOW).report(NOW)).decode()
    report = decode_report(text)
    assert report is not None
    return report, text


def test_reservations_come_back_as_they_were_without_naming_a_pod() -> None:
    first, second = b.pod("secret-one"), b.pod("secret-two")
    made = (
        reservation(first, "n1", "n2", requests=(("cpu", 4000),), uids=(first.uid, second.uid)),
        reservation(b.pod("third", uid="third"), "n3", takes_devices=False),
    )
    report, text = written(*made)
    pods = [first, second, b.pod("third", uid="third")]
    assert report.reservations_for(pods) == made
    opaque, said = written(reservation(b.pod("secret", uid="u"), "n1"))
    assert "secret" not in said
    assert (opaque.more_reserved, opaque.configuration) == (0, "digest")
    assert text


def test_what_is_reserved_for_a_pod_that_runs_or_is_gone_is_over() -> None:
    pod = b.pod("p")
    report, _ = written(reservation(pod, "n1"))
    assert report.reservations_for([]) == ()
    assert report.reservations_for([replace(pod, node_name="n1")]) == ()
    assert report.reservations_for([replace(pod, uid="another of its name")]) == ()


def test_a_report_has_room_for_the_pods_that_have_waited_longest_and_counts_the_other_nodes() -> None:
    pods = [b.pod(f"p{number}") for number in range(400)]
    report, text = written(*(reservation(pod, f"node-{pod.id.name}") for pod in pods))
    shown = report.reservations_for(pods)
    assert [each.pod for each in shown] == [pod.id for pod in pods[: len(shown)]]
    assert (len(shown), report.more_reserved, report.more_pods) == (300, 100, 100)
    assert len(text) < 48 * 1024


def test_a_gang_without_room_hides_no_other_reservation() -> None:
    def gang(name: str, size: int) -> tuple[list[Pod], NodeReservation]:
        pods = [b.pod(f"{name}-{number}", uid=f"{name}-{number}") for number in range(size)]
        nodes = [f"{name}-node-{number}" for number in range(size)]
        return pods, reservation(pods[0], *nodes, uids=tuple(pod.uid for pod in pods))

    (large, large_reserved), (fits, fits_reserved), alone = gang("large", 301), gang("fits", 160), b.pod("alone")
    report, _ = written(large_reserved, fits_reserved, reservation(alone, "n1"))
    shown = report.reservations_for([*large, *fits, alone])
    assert [each.pod for each in shown] == [fits[0].id, alone.id]
    assert (report.more_reserved, report.more_pods) == (301, 301)
