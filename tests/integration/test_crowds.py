"""More equal pods wait than are tried at once: each device that is freed goes to one, and many devices to many."""

from functools import partial

import pytest

from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Start, World

pytestmark = pytest.mark.controlplane

PODS = [f"p-{number:03}" for number in range(90)]


def waits(world: World, name: str) -> bool:
    return world.condition(name).get("status") == "False"


def grow(world: World, count: int) -> None:
    """Let the driver of the one node publish more devices."""
    path = f"{RESOURCE}/resourceslices/{world.nodes[0]}-{world.word}"
    body = {"spec": {"devices": [{**world.device, "name": f"gpu-{index}"} for index in range(count)]}}
    world.plane.request("PATCH", path, body, content="application/merge-patch+json")


def is_settled(world: World) -> bool:
    """Whether two pods run, and all others were told why they wait."""
    bound = world.bound()
    return len(bound) == 2 and all(waits(world, name) for name in PODS if name not in bound)


def has_one_more(world: World, before: set[str]) -> bool:
    return len(world.bound().keys() - before) == 1


def test_what_comes_free_reaches_a_crowd_one_by_one_and_in_numbers(world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    for name in PODS:
        world.pod(name)
    start()
    wait_until(
        lambda: len(world.bound()) == 2 and all(waits(world, name) for name in PODS if name not in world.bound())
    )

    for count in (1, 2, 3):
        before = set(world.bound())
        world.delete_pod(min(before))
        wait_until(partial(has_one_more, world, before))
        assert len(world.pods()) == len(PODS) - count

    grow(world, 80)
    wait_until(lambda: len(world.bound()) == 80)
    assert world.problems() == []
    assert sum(waits(world, each["metadata"]["name"]) for each in world.pods()) == len(PODS) - 3 - 80
