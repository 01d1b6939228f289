"""When replicas of Dovetail are being replaced."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler import run
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube.discovery import DiscoveredKinds
from scheduler.observe.health import Health
from scheduler.observe.metrics import Metrics
from scheduler.repair.upgrades import Rollouts
from scheduler.replica import Replica
from scheduler.settings import default
from scheduler.watches import See
from scheduler.worker.fork_server import ForkServers
from solver.domain import Controller, Pod, PodId
from tests.support.cluster_builders import gone, seen

LABELS = (("app.kubernetes.io/name", "dovetail"),)
UPGRADE = "an upgrade runs: there are replicas of Dovetail of 2 revisions"


def replica(name: str, revision: str, *, namespace: str = "dovetail-system") -> Pod:
    controller = Controller(kind="ReplicaSet", uid=revision)
    return Pod(id=PodId(namespace, name), uid=name, labels=LABELS, controller=controller)


OLD, NEW = replica("a", "old"), replica("c", "new")


def rollouts(*pods: Pod, namespace: str = "dovetail-system") -> Rollouts:
    found = Rollouts(namespace)
    found.see([seen(pod) for pod in pods])
    return found


def test_replicas_of_two_revisions_are_an_upgrade_until_those_of_one_are_gone() -> None:
    old = OLD, replica("b", "old")

    assert rollouts(*old).message == ""
    found = rollouts(*old, NEW)
    assert found.message == UPGRADE
    found.see([gone(old[0])])
    assert found.message == UPGRADE
    found.see([gone(old[1])])
    assert found.message == ""


@pytest.mark.parametrize(
    "other",
    [
        replica("c", "new", namespace="team"),
        replica("c", "new", namespace="dovetail-system-2"),
        replace(NEW, is_terminal=True),
        replace(NEW, labels=(("app.kubernetes.io/name", "kueue"),)),
        replace(NEW, controller=None),
    ],
    ids=["of another namespace", "of one with a longer name", "that has ended", "of another program", "of nobody"],
)
def test_other_pods_are_none(other: Pod) -> None:
    assert rollouts(OLD, other).message == ""


def test_a_replica_that_ends_is_none_any_more() -> None:
    found = rollouts(OLD, NEW)
    found.see([seen(replace(OLD, is_terminal=True))])

    assert found.message == ""


def test_replicas_are_those_beside_the_scheduler_wherever_its_lease_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taking: list[See] = []
    monkeypatch.setattr("scheduler.replica.Watches", lambda source, *_: taking.append(source[2]))
    own = tmp_path / "namespace"
    own.write_text("team-a\n", encoding="utf-8")
    monkeypatch.setattr(run, "_NAMESPACE_FILE", own)
    settings = replace(default(), leader_election=replace(default().leader_election, lease_namespace="leases"))
    connections: Any = (None, SimpleNamespace(client=None))
    process = run.Process(settings, connections, (Health(), Metrics()), ForkServers(512), None)
    elector = process._elector()  # noqa: SLF001 - as below
    made = Replica(process._context, DiscoveredKinds(), elector, None, DeviceUsage(1))  # noqa: SLF001 - no server
    assert elector.namespace == "leases"

    for namespace, expected in (("leases", ""), ("team-a", UPGRADE)):
        taking[0]([seen(replica(name, name, namespace=namespace)) for name in ("old", "new")])
        assert made._upgrade() == expected  # noqa: SLF001 - what the loop of repairs asks
