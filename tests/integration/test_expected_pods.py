"""A profile that expects pods (`expectedPods`) leaves them room on the real API server."""

from pathlib import Path

import pytest
import yaml

from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

CONFIGURATION = """
apiVersion: config.dovetail.dev/v1alpha1
kind: DovetailConfiguration
profiles:
  - schedulerName: {scheduler}
    expectedPods:
      - devices: [{{deviceClassName: {device_class}, count: 3}}]
"""


@pytest.mark.parametrize(("expects", "nodes"), [(True, 2), (False, 1)], ids=["expected", "none"])
def test_pods_that_come_one_by_one_leave_room_for_expected_ones(
    world: World, start: Start, tmp_path: Path, *, expects: bool, nodes: int
) -> None:
    """Of four devices a node can lose one, and still have three together."""
    world.add_nodes(2, devices=4)
    world.template()
    path = tmp_path / "config.yaml"
    path.write_text(CONFIGURATION.format(scheduler=world.scheduler, device_class=world.driver), encoding="utf-8")
    start(world.plane.kubeconfig, *([f"--config={path}"] if expects else []))
    for name in ("first", "second"):
        world.pod(name)
        wait_until(lambda: name in world.bound())  # noqa: B023 - called at once

    assert len(set(world.bound().values())) == nodes
    assert world.problems() == []


def test_the_pods_of_the_cluster_say_what_to_expect(
    world: World, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    """One runs, one waits; what is printed goes into a profile."""
    world.add_nodes(1, devices=2)
    world.template()
    world.template("three", count=3)
    start()
    world.pod("runs")
    world.pod("waits", template="three")
    wait_until(lambda: "runs" in world.bound() and len(world.claims()) == 2)

    assert m.run("expect", "-n", world.namespace, f"--kubeconfig={world.plane.kubeconfig}") == 0

    (profile,) = yaml.safe_load_all(capsys.readouterr().out)
    devices = [[{"deviceClassName": world.driver}], [{"deviceClassName": world.driver, "count": 3}]]
    assert profile == {"expectedPods": [{"share": 500, "devices": each} for each in devices]}
