"""DeviceHolds on the real API server: room that only its pods get, until it is used, given free or over."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.controlplane import wait_until
from tests.support.hold_world import HOLDS, config_map, devices_of, hold, holds, labelled, pod_as_owner, remove_holds
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane

HIGH = {"priorityClassName": "system-cluster-critical"}
PLACE = "dovetail.dev/place"
MERGE = "application/merge-patch+json"


@pytest.fixture(autouse=True)
def no_holds_left(world: World) -> Iterator[None]:
    """Other worlds share the API server."""
    yield
    remove_holds(world)


def device_of(world: World, pod: str) -> str:
    """The device of a pod's one claim."""
    claim = next(each for each in world.claims() if each["metadata"]["name"].startswith(f"{pod}-devices-"))
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    return str(result["device"])


def names(world: World) -> list[str]:
    """The devices of the world's first node."""
    return devices_of(world, world.nodes[0])


def test_room_is_for_its_pods_alone_and_ends_with_their_coming(world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    made = hold(
        world, {"labels": {"app": "train"}}, (world.nodes[0], names(world)[:1]), owner=config_map(world, "train")
    )
    start()

    for name in ("first", "second"):
        world.pod(name)
    wait_until(lambda: len(world.bound()) == 1)
    wait_until(lambda: any(world.condition(each).get("reason") == "RoomHeld" for each in ("first", "second")))
    (waiting,) = {"first", "second"} - world.bound().keys()
    assert "held for other pods to come" in world.condition(waiting)["message"]

    labelled(world, "wanted", "train")
    wait_until(lambda: "wanted" in world.bound())
    assert device_of(world, "wanted") == names(world)[0]
    wanted = world.get_pod("wanted")
    assert wanted is not None
    assert wanted["metadata"]["annotations"][PLACE] == f"{made['metadata']['uid']}/0"

    wait_until(lambda: holds(world) == [])
    world.delete_pod("wanted")
    wait_until(lambda: waiting in world.bound())
    assert world.problems() == []


def test_room_is_free_after_the_deadline(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    owner = config_map(world, "train")
    hold(world, {"labels": {"app": "train"}}, (world.nodes[0], names(world)), owner=owner, seconds=4)
    start()

    world.pod("other")
    wait_until(lambda: "other" in world.bound())

    assert holds(world) == []


def test_a_hold_ends_with_its_owner(world: World, start: Start) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    hold(world, {"labels": {"app": "train"}}, (world.nodes[0], names(world)), owner=pod_as_owner(world, "owner"))
    start()
    world.pod("other")
    wait_until(lambda: world.condition("other").get("reason") == "RoomHeld")

    world.delete_pod("owner")

    wait_until(lambda: "other" in world.bound())
    assert holds(world) == []


def test_a_higher_priority_takes_the_room_and_the_place_is_lost(world: World, start: Start) -> None:
    world.add_nodes(1, devices=2)
    world.template()
    owner = config_map(world, "train")
    hold(world, {"labels": {"app": "train"}}, *((world.nodes[0], [each]) for each in names(world)), owner=owner)
    start()
    world.pod("other")
    wait_until(lambda: world.condition("other").get("reason") == "RoomHeld")

    world.pod("critical", **HIGH)
    wait_until(lambda: "critical" in world.bound())

    wait_until(lambda: [each["status"].get("lost") for each in holds(world) if "status" in each] != [])
    ((lost,),) = [each["status"]["lost"] for each in holds(world)]
    assert names(world)[lost["place"]] == device_of(world, "critical")
    assert device_of(world, "critical") in lost["message"]
    assert "other" not in world.bound()
    world.pod("more", **HIGH)
    wait_until(lambda: "more" in world.bound())
    wait_until(lambda: holds(world) == [])


@pytest.mark.usefixtures("account")
def test_a_hold_survives_the_leader_that_followed_it(world: World, start: Start, own_lease: Path) -> None:
    world.add_nodes(1, devices=1)
    world.template()
    hold(world, {"labels": {"app": "train"}}, (world.nodes[0], names(world)), owner=config_map(world, "train"))
    leader = start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)
    world.pod("other")
    wait_until(lambda: world.condition("other").get("reason") == "RoomHeld")
    os.kill(leader.pid, signal.SIGKILL)
    start(world.plane.kubeconfig, f"--config={own_lease}", leader_elect=True)

    labelled(world, "wanted", "train")

    wait_until(lambda: "wanted" in world.bound())
    assert "other" not in world.bound()
    wait_until(lambda: holds(world) == [])


def test_what_a_departing_pod_leaves_is_held(world: World, start: Start) -> None:
    """A hold may name pods that still have its room: nobody else gets what they free."""
    world.add_nodes(1, devices=1)
    world.template()
    start()
    world.pod("leaving")
    wait_until(lambda: "leaving" in world.bound())
    leaving = world.get_pod("leaving")
    assert leaving is not None
    hold(
        world,
        {"labels": {"app": "train"}},
        (world.nodes[0], names(world)),
        owner=config_map(world, "train"),
        departing=[leaving["metadata"]["uid"]],
    )
    world.pod("other")
    wait_until(lambda: world.condition("other") != {})
    assert holds(world)[0].get("status", {}).get("lost", []) == []

    world.delete_pod("leaving")
    wait_until(lambda: not any(each["metadata"]["name"].startswith("leaving-") for each in world.claims()))

    world.pod("later")  # held room wakes no other pod: only a pod that is decided now says RoomHeld
    wait_until(lambda: world.condition("later").get("reason") == "RoomHeld")
    labelled(world, "wanted", "train")
    wait_until(lambda: "wanted" in world.bound())
    assert world.bound().keys() == {"wanted"}


@pytest.mark.usefixtures("account")
def test_a_hold_never_changes(world: World) -> None:
    world.add_nodes(1, devices=1)
    made = hold(world, {"labels": {"app": "train"}}, (world.nodes[0], ["a"]), owner=config_map(world, "train"))
    path = f"{HOLDS}/{made['metadata']['name']}"

    with pytest.raises(Exception, match="a DeviceHold never changes"):
        world.plane.request("PATCH", path, {"spec": {"priority": 7}}, content=MERGE)
