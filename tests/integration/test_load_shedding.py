"""More pods wait than the budget of memory holds: they are left out, that is said, and all are placed in the end."""

from pathlib import Path

import pytest

from e2e.dovetail import Dovetail
from tests.support.controlplane import wait_until
from tests.support.series import series
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

PODS = 150
"""One MiB holds about fifty of one namespace."""


def test_what_is_left_out_is_taken_in_when_there_is_room(
    world: World, start: Start, account: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
    config.write_text(f"{head}queue: {{maxWaitingMiB: 1}}\n", encoding="utf-8")
    world.template()
    for number in range(PODS):
        world.pod(f"p-{number:03}")
    dovetail = start(account, f"--config={config}")
    wait_until(lambda: series(dovetail, "dovetail_shed_objects", resource="pods") > 0)
    assert f"most of them of namespace {world.namespace}" in detail(dovetail)

    world.add_nodes(2, devices=80)
    wait_until(lambda: len(world.bound()) == PODS, seconds=90)
    # What another test has left on the API server may be larger than all of this budget, and counts, too.
    wait_until(lambda: series(dovetail, "dovetail_shed_objects", resource="pods") == 0)
    wait_until(lambda: world.namespace not in detail(dovetail))
    assert world.problems() == []


def detail(dovetail: Dovetail) -> str:
    """What is not well, by the scheduler; of what is left out it names the namespace that has most."""
    return dovetail.get("/readyz?verbose")[1]
