"""Commands with the rights of people: with the shipped roles they work, with `view` they say what is missing."""

import json
from pathlib import Path

import pytest

from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.people import kubeconfig_of
from tests.support.shell_world import World

pytestmark = pytest.mark.controlplane

Capture = pytest.CaptureFixture[str]
COMMANDS = (
    ("simulate", "--from-cluster"),
    ("explain", "pod/waits"),
    ("repair", "plan", "--for", "pod/waits"),
)


@pytest.fixture
def waiting(world: World, account: Path) -> World:
    """A pod that needs two devices of a node with one; the roles are installed."""
    del account
    world.add_nodes(1, devices=1)
    world.template("two", count=2)
    world.pod("waits", template="two")
    wait_until(lambda: all(pod["status"].get("resourceClaimStatuses") for pod in world.pods()))
    return world


def options(world: World, command: str, kubeconfig: Path) -> list[str]:
    found = ["--kubeconfig", str(kubeconfig), "-o", "json"]
    return found + (["--scheduler-name", world.scheduler] if command == "simulate" else ["-n", world.namespace])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_a_viewer_can_ask_everything(command: tuple[str, ...], waiting: World, capsys: Capture) -> None:
    kubeconfig = kubeconfig_of(waiting.plane, "dovetail-viewer")

    status = m.run(*command, *options(waiting, command[0], kubeconfig))

    printed = capsys.readouterr()
    assert "forbidden" not in printed.err
    assert status == 1
    assert json.loads(printed.out)["apiVersion"] == "output.dovetail.dev/v1alpha1"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_with_view_alone_what_is_missing_is_said_by_kind(
    command: tuple[str, ...], waiting: World, capsys: Capture
) -> None:
    kubeconfig = kubeconfig_of(waiting.plane, "view")

    status = m.run(*command, *options(waiting, command[0], kubeconfig))

    printed = capsys.readouterr()
    assert status == 3
    assert json.loads(printed.out)["apiVersion"] == "output.dovetail.dev/v1alpha1"
    missing = set(printed.err.partition("cannot list ")[2].partition(": forbidden")[0].split(", "))
    assert {"nodes", "persistentvolumes", "storageclasses", "priorityclasses"} <= missing
    assert not {"pods", "resourceclaims", "resourceslices", "deviceclasses"} & missing
    assert "ClusterRole dovetail-viewer" in printed.err


def test_versions_are_those_of_the_cluster(waiting: World, capsys: Capture) -> None:
    kubeconfig = kubeconfig_of(waiting.plane, "dovetail-viewer")

    assert m.run("version", "--kubeconfig", kubeconfig) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"Kubernetes v{waiting.plane.kubernetes}")
    assert "at https://" in lines[1]
    none = "scheduler: no running pod has the label app.kubernetes.io/name=dovetail, and no Lease in dovetail-system"
    assert lines[2] == f"{none} that you may read has a leader"
