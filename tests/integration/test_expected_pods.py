"""A profile that expects pods (`expectedPods`) leaves them room on the real API server."""

from pathlib import Path

import pytest

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
