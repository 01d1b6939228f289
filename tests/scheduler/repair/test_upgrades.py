"""When replicas of Dovetail are being replaced."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.kube.discovery import ApiChange
from scheduler.repair.upgrades import Rollouts
from scheduler.replica import Replica
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
