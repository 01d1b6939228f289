"""What the components of a replica tell each other: each connection has a test that fails without it."""

from typing import cast

import pytest
from msgspec.structs import replace

from scheduler import run
from scheduler.change import Kind
from scheduler.components import Components, assemble
from scheduler.kube.client import Client
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.kube.leader_election.lease_thread import LeaseThread
from scheduler.kube.watching.watch_ages import WatchAges
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.placement_check.placement_check import PlacementCheck
from scheduler.settings import default
from scheduler.settings.policies import AdmissionCheckSettings
from scheduler.worker.fork_server import ForkServers
from solver.domain import Claim, Pod
from tests.support import builders as b
from tests.support.cluster_builders import seen

HELD = b.held("old", b.result("r", "gpu-0", "n1"), node_name="n1")


def assembled() -> Components:
    """The components of a replica with the admission check, in a cluster that has the kind DeviceHold."""
    settings = replace(default(), admission_check=AdmissionCheckSettings(enabled=True))
    doors = cast("Client", None), cast("LeaseThread", None)
    process = run.Process(settings, doors, (Health(), Metrics()), ForkServers(512), None)
    served = DiscoveredKinds(paths=((Kind.HOLDS, "/apis/dovetail.dev/v1alpha1/deviceholds"),))
    return assemble(process._context, served, None, WatchAges(60.0))  # noqa: SLF001 - no server


def show(parts: Components, *objects: Pod | Claim) -> None:
    for each in objects:
        transitions = parts.cluster.apply(seen(each))
        if isinstance(each, Pod):
            parts.queue.offer(each, 0.0)
        parts.waker.wake(transitions)


def test_what_comes_free_moves_the_line_of_workloads_that_limits_keep_back(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = list[PlacementCheck]()

    def look(check: PlacementCheck) -> None:
        looks.append(check)

    monkeypatch.setattr(PlacementCheck, "held_may_be_less", look)
    parts = assembled()
    show(parts, HELD)
    assert parts.placement_check is not None
    assert looks == [parts.placement_check]
