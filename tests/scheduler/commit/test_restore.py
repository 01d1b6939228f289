"""What cannot be read of the state of an earlier process is named in the log, and hides nothing else."""

import datetime as dt
from typing import Any, cast

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from scheduler.cluster import Cluster
from scheduler.commit.restore import restore_waiting_times
from scheduler.kube.client import Client
from scheduler.queue import StarvationTracker
from scheduler.status.status_writer import StatusWriter
from solver.domain import PASSED_OVER
from tests.support import builders as b
from tests.support.cluster_builders import seen
from tests.support.kube_objects import encoded

SINCE = "2026-01-01T00:00:00Z"


def manifest(name: str, since: Any = SINCE) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-default-{name}"}
    return {"metadata": metadata, "status": {"conditions": [condition]}}


class Server:
    """Lists these pods."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.pods = pods

    async def request(self, *_: object, **__: object) -> bytes:
        return encoded({"metadata": {"resourceVersion": "1"}, "items": list(self.pods)})


class Restored:
    def __init__(self) -> None:
        self.since: dict[str, dt.datetime] = {}
        self.waiting: list[str] = []

    def restore_since(self, uid: str, since: dt.datetime) -> None:
        self.since[uid] = since

    def restore(self, waiting: list[Any], *_: object) -> None:
        self.waiting = [pod.id.name for pod, _ in waiting]


@pytest.mark.parametrize("since", ["yesterday", 7, {"a": []}])
async def test_a_condition_that_cannot_be_read_is_named_and_the_others_count(since: Any) -> None:
    cluster, found = Cluster(), Restored()
    for name in ("good", "bad"):
        cluster.apply(seen(b.pod(name, namespace="default")))
    server = Server(manifest("bad", since), manifest("good"))
    with capture_logs() as lines:
        await restore_waiting_times(
            cast("Client", server),
            cluster,
            (cast("StarvationTracker", found), cast("StatusWriter", found)),
            ("dovetail",),
        )
    assert (found.waiting, list(found.since)) == (["good"], ["uid-default-good"])
    assert [(each["event"], each["object"], each["field"]) for each in lines] == [
        ("state_unreadable", "pods default/bad", "status.conditions[PodScheduled]")
    ]


async def test_a_time_out_of_range_is_named_and_the_others_count() -> None:
    """No clock has the year 1 of another time zone in UTC: a new leader would end there, and the next one too."""
    cluster, found = Cluster(), Restored()
    for name in ("good", "bad"):
        cluster.apply(seen(b.pod(name, namespace="default")))
    server = Server(manifest("bad", "0001-01-01T00:00:00+14:00"), manifest("good"))
    with capture_logs() as lines:
        await restore_waiting_times(
            cast("Client", server),
            cluster,
            (cast("StarvationTracker", found), cast("StatusWriter", found)),
            ("dovetail",),
        )
    assert (found.waiting, list(found.since)) == (["good"], ["uid-default-good"])
    assert [each["object"] for each in lines] == ["pods default/bad"]


async def test_a_reason_of_another_version_is_named_and_its_wait_counts_from_now() -> None:
    """After a roll-back, conditions have the reasons of the newer version."""
    cluster, found = Cluster(), Restored()
    for name in ("good", "new", "theirs"):
        scheduler = "other" if name == "theirs" else "dovetail"
        cluster.apply(seen(replace(b.pod(name, namespace="default"), scheduler_name=scheduler)))
    pods = [manifest(name) for name in ("good", "new", "theirs")]
    for each in pods[1:]:
        each["status"]["conditions"][0]["reason"] = "WaitingForTheMoon"
    with capture_logs() as lines:
        await restore_waiting_times(
            cast("Client", Server(*pods)),
            cluster,
            (cast("StarvationTracker", found), cast("StatusWriter", found)),
            ("dovetail",),
        )
    assert (found.waiting, list(found.since)) == (["good"], ["uid-default-good", "uid-default-new"])
    assert [(each["event"], each["object"], each["field"]) for each in lines] == [
        ("state_unreadable", "pods default/new", "status.conditions[PodScheduled].reason")
    ]
    assert "WaitingForTheMoon" in lines[0]["error"]


@pytest.mark.parametrize("set_ahead", [-86_400.0, 86_400.0], ids=["set back", "set ahead"])
async def test_a_pod_whose_nodes_were_reserved_is_overdue_soon_whatever_the_clock_was_set_to(set_ahead: float) -> None:
    """Set back, its wait would begin in a day."""
    cluster, tracker, now = Cluster(), StarvationTracker(60.0), 500.0
    waiting = b.pod("p", namespace="default")
    cluster.apply(seen(waiting))
    body = manifest("p")
    body["status"]["conditions"][0]["message"] = PASSED_OVER
    since = dt.datetime.fromisoformat(SINCE).timestamp()
    await restore_waiting_times(
        cast("Client", Server(body)),
        cluster,
        (tracker, cast("StatusWriter", Restored())),
        ("dovetail",),
        wall_clock=lambda: since + 10.0 + set_ahead,
        clock=lambda: now,
    )

    assert tracker.is_overdue(waiting, now + 61.0)
