"""Maintenance of one card. Tainted: nothing new arrives, what runs goes on. Untainted: waiting pods are placed."""

from collections.abc import Iterator

import pytest

from e2e.controlplane import versions
from tests.support.controlplane import wait_until
from tests.support.shell_world import RESOURCE, Json, Start, World

pytestmark = pytest.mark.controlplane

BY_RULES = pytest.mark.kubernetes(gates=("DRADeviceTaintRules",))
RULES = f"/apis/{versions.taint_rules()}/devicetaintrules"


@pytest.fixture
def tainted(world: World) -> Iterator[World]:
    """A world of one node with one device, whose taint rule is gone afterwards."""
    world.add_nodes(1, devices=1)
    yield world
    if any(each["metadata"]["name"] == world.word for each in world.plane.request("GET", RULES)["items"]):
        untaint(world)


def taint(world: World, effect: str = "NoSchedule") -> None:
    """Taint the world's devices by a rule."""
    taint = {"key": "example.com/maintenance", "value": "yes", "effect": effect}
    spec = {"deviceSelector": {"driver": world.driver}, "taint": taint}
    world.plane.request("POST", RULES, {"metadata": {"name": world.word}, "spec": spec})


def untaint(world: World) -> None:
    """Take the rule away."""
    world.plane.request("DELETE", f"{RULES}/{world.word}")


def taint_in_the_slice(world: World, taints: list[Json]) -> None:
    """Publish the first device with taints, as its driver would."""
    path = f"{RESOURCE}/resourceslices/{world.nodes[0]}-{world.word}"
    found = world.plane.request("GET", path)
    found["spec"]["devices"][0]["taints"] = taints
    world.plane.request("PUT", path, found)


def message(world: World, pod: str) -> str:
    """Give the text of a pod's PodScheduled condition."""
    return str(world.condition(pod).get("message", ""))


@BY_RULES
def test_nothing_new_arrives_at_a_device_that_a_rule_taints_until_the_rule_goes(tainted: World, start: Start) -> None:
    tainted.template()
    taint(tainted)
    start()
    tainted.pod("p")
    wait_until(lambda: "1 tainted with example.com/maintenance=yes:NoSchedule" in message(tainted, "p"))
    assert tainted.bound() == {}

    untaint(tainted)
    wait_until(lambda: "p" in tainted.bound())

    assert tainted.problems() == []


@BY_RULES
def test_a_claim_whose_device_was_tainted_since_takes_no_new_pod(tainted: World, start: Start) -> None:
    tainted.claim("shared")
    start()
    tainted.pod("first", claim="shared")
    wait_until(lambda: "first" in tainted.bound())
    taint(tainted)
    tainted.template()
    tainted.pod("probe")  # once it hears of the taint, the scheduler has seen the rule
    wait_until(lambda: "tainted" in message(tainted, "probe"))

    tainted.pod("second", claim="shared")
    wait_until(lambda: "has taint example.com/maintenance now" in message(tainted, "second"))
    assert list(tainted.bound()) == ["first"]

    tainted.delete_pod("probe")
    untaint(tainted)
    wait_until(lambda: "second" in tainted.bound())
    assert tainted.problems() == []


@pytest.mark.kubernetes(gates=("DRADeviceTaints",))
def test_a_taint_in_the_slice_keeps_pods_away_until_the_driver_withdraws_it(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    taint_in_the_slice(world, [{"key": "example.com/hot", "effect": "NoSchedule"}])
    start()
    world.pod("p")
    wait_until(lambda: "1 tainted" in message(world, "p"))

    taint_in_the_slice(world, [])
    wait_until(lambda: "p" in world.bound())


@pytest.mark.kubernetes(since="1.35", gates=("DRADeviceTaintRules",))
def test_a_rule_whose_effect_is_none_keeps_no_pod_away(tainted: World, start: Start) -> None:
    tainted.template()
    taint(tainted, effect="None")
    start()
    tainted.pod("p")

    wait_until(lambda: "p" in tainted.bound())
