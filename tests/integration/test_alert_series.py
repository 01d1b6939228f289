"""The series of alerts move when the fault is caused on the real API server; `make alerts` tests the rules."""

import re
import urllib.request
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

NO_TIME: Final = 0.0001
"""A budget that every decision breaks."""


def value(dovetail: Dovetail, series: str) -> float:
    """Read a series by its beginning, all of its labels summed."""
    with urllib.request.urlopen(f"{dovetail.address}/metrics", timeout=5) as answer:  # noqa: S310 - our own process
        text = answer.read().decode()
    return sum(map(float, re.findall(rf"^{re.escape(series)}\S* (\S+)$", text, re.MULTILINE)))


def test_leader_budget_and_waiting_pods_are_seen(world: World, start: Start, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    document = {
        "apiVersion": "config.dovetail.dev/v1alpha1",
        "kind": "DovetailConfiguration",
        "leaderElection": {"leaseName": world.word, "leaseNamespace": world.namespace},
        "solver": {"budgetSeconds": NO_TIME},
        "metrics": {"intervalSeconds": 1},
    }
    config.write_text(yaml.safe_dump(document))
    leader = start(world.plane.kubeconfig, f"--config={config}", leader_elect=True)
    wait_until(lambda: value(leader, "leader_election_master_status") == 1)
    standby = start(world.plane.kubeconfig, f"--config={config}", leader_elect=True)
    assert value(standby, "leader_election_master_status") == 0
    world.add_nodes(1, devices=1)
    world.template("two", count=2)
    world.pod("too-large", template="two")
    wait_until(lambda: value(leader, "dovetail_decisions_over_budget_total") > 0)
    wait_until(lambda: value(leader, "dovetail_oldest_waiting_pod_seconds") > 1)
    leader.stop()
    wait_until(lambda: value(standby, "leader_election_master_status") == 1)
