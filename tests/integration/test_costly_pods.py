"""Pods that are costly to decide about, beside good ones of another namespace, on the real API server."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Json, Start, World

pytestmark = pytest.mark.controlplane

GOOD = 8
PATTERN = "(.*)" * 600 + "x"
TEXT = "a" * 5000


def long_regex(world: World) -> Json:
    """A selector that takes seconds for each device: the API server admits it, by its own estimate."""
    expression = f'(device.attributes["{world.driver}"].serial + "{TEXT}").matches("{PATTERN}")'
    selectors = [{"cel": {"expression": expression}}]
    exactly = {"deviceClassName": world.driver, "count": 1, "selectors": selectors}
    return {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}


def many_ways(world: World) -> Json:
    """Alternatives and constraints whose combinations nothing can count out."""
    alternatives = [{"name": f"a{each}", "deviceClassName": world.driver, "count": 1} for each in range(8)]
    requests = [{"name": f"r{each}", "firstAvailable": alternatives} for each in range(32)]
    constraints = [
        {"requests": [f"r{each}", f"r{each + 1}"], "matchAttribute": f"{world.driver}/serial"} for each in range(31)
    ]
    return {"devices": {"requests": requests, "constraints": constraints}}


def serials(world: World) -> None:
    """Give every device a serial number of its own, so that what is known of one says nothing of the others."""
    for node in world.nodes:
        path = f"{RESOURCE}/resourceslices/{node}-{world.word}"
        found = world.plane.request("GET", path)
        for device in found["spec"]["devices"]:
            device["attributes"] = {"serial": {"string": f"{node}-{device['name']}"}}
        world.plane.request("PUT", path, found)


def is_bound(world: World, name: str) -> bool:
    return name in world.bound()


@pytest.fixture
def other_namespace(world: World) -> str:
    name = f"{world.namespace}-other"
    world.plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.mark.parametrize("hostile", [long_regex, many_ways])
def test_good_pods_are_bound_beside_a_costly_one_which_is_decided_or_told_why_not(
    world: World, start: Start, other_namespace: str, hostile: Callable[[World], Json]
) -> None:
    world.add_nodes(4, devices=8)
    serials(world)
    world.template()
    start()
    world.pod("first")
    wait_until(lambda: "first" in world.bound())
    bad = World(world.plane, other_namespace)
    bad.word, bad.driver, bad.scheduler = world.word, world.driver, world.scheduler
    path = f"{RESOURCE}/namespaces/{bad.namespace}/resourceclaims"
    world.plane.request("POST", path, {"metadata": {"name": "costly"}, "spec": hostile(world)})
    bad.pod("costly", claim="costly")

    for name in (f"good-{number}" for number in range(GOOD)):
        world.pod(name)
        wait_until(partial(is_bound, world, name))

    wait_until(lambda: "costly" in bad.bound() or bool(bad.condition("costly")), seconds=120)
    assert world.problems() == []


def test_the_next_pod_of_a_spec_that_broke_the_limit_is_not_tried_with_others(
    world: World, start: Start, other_namespace: str
) -> None:
    world.add_nodes(2, devices=2)
    serials(world)
    world.template()
    start()
    bad = World(world.plane, other_namespace)
    bad.word, bad.driver, bad.scheduler = world.word, world.driver, world.scheduler
    claims = f"{RESOURCE}/namespaces/{bad.namespace}/resourceclaims"
    for name in ("one", "two"):
        world.plane.request("POST", claims, {"metadata": {"name": name}, "spec": many_ways(world)})
    bad.pod("one", claim="one")
    wait_until(lambda: "one" in bad.bound() or bool(bad.condition("one")), seconds=120)

    bad.pod("two", claim="two")
    world.pod("good")

    wait_until(lambda: "good" in world.bound())
    wait_until(lambda: "two" in bad.bound() or bool(bad.condition("two")), seconds=120)
