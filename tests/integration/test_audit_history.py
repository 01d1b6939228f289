"""The API server's own audit log gives the history of allocations: no write of Dovetail is missed or misread."""

import pytest

from e2e.audit.history import History
from e2e.audit.reading import Key
from e2e.audit.writes import read_writes
from tests.support.controlplane import wait_until
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane


def history(world: World) -> History:
    assert world.plane.audit_log is not None
    lines = world.plane.audit_log.read_text(encoding="utf-8").splitlines(keepends=True)
    return History.of(read_writes(lines), lease=Key(world.namespace, world.word), left_seconds=60.0)


def test_a_device_that_two_pods_have_one_after_the_other_has_two_holders_in_turn(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    start()
    for name in ("first", "second"):
        world.pod(name)
    wait_until(lambda: len(world.bound()) == 1)
    (first,) = world.bound()
    world.delete_pod(first)
    wait_until(lambda: bool(world.bound()) and first not in world.bound())
    found = history(world)
    mine = sorted((each for each in found.holdings if each.device[0] == world.driver), key=lambda each: each.since)
    assert [each.consumers for each in mine] == [(f"pods/{first}",), *((f"pods/{name}",) for name in world.bound())]
    assert mine[0].until < mine[1].since
    assert mine[1].until == 0
    assert [each for each in found.findings if world.driver in each.subject or world.namespace in each.subject] == []
