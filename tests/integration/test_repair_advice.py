"""`repair.mode: advise` on the real API server: a plan as an object, what people decide about it, and nothing moves."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.access import RequestError
from tests.support import manifests as m
from tests.support.controlplane import wait_until
from tests.support.repair_world import PLANS, configured, install_component, plans, remove_plans, scatter
from tests.support.shell_world import Start, World

pytestmark = pytest.mark.controlplane
MERGE = "application/merge-patch+json"


@pytest.fixture
def advised(world: World, start: Start, account: Path, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Start Dovetail in a decayed fleet; gives the plan that it makes."""
    install_component(world.plane)
    start(account, configured(world, tmp_path, "advise"))
    scatter(world)
    wait_until(lambda: len(plans(world)) == 1)
    yield lambda: plans(world)[0]
    remove_plans(world)


def test_a_plan_is_made_and_nothing_moves(
    world: World, advised: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    before = world.bound()
    spec = advised()["spec"]

    assert spec["goal"] == {
        "kind": "Waiting",
        "subject": f"pod {world.namespace}/large",
        "value": "it gets a place",
    }
    (move,) = spec["moves"]
    assert (spec["least"], spec["proven"], move["from"] != move["to"]) == (1, True, True)
    assert len(move["devices"]) == 1
    access = ("--kubeconfig", world.plane.kubeconfig)
    name = advised()["metadata"]["name"]
    assert m.run("repair", "list", *access) == 0
    assert name in capsys.readouterr().out.replace("\n", "")
    assert m.run("repair", "show", name, *access) == 0
    shown = capsys.readouterr().out
    assert "1 move (proven: it cannot be done with fewer)." in shown
    for action in ("show", "approve"):
        assert m.run("repair", action, f"{name}x", *access) == 2
        assert f"there is no RepairPlan {name}x: did you mean {name}?" in capsys.readouterr().err
    assert m.run("repair", "show", name, *access, "-o", "json") == 0
    assert "plan" not in json.loads(capsys.readouterr().out)["spec"]

    assert m.run("repair", "approve", name, *access) == 0
    wait_until(lambda: advised()["spec"].get("decision") == "Approved")
    assert advised()["spec"]["decidedBy"]
    assert world.bound() == before
    assert world.problems() == []


def test_the_leader_saves_what_a_plan_was_made_from_and_replay_finds_its_moves_again(
    world: World, advised: Callable[[], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = advised()
    logged = (
        line for file in tmp_path.glob("dovetail-*.log") for line in file.read_text(encoding="utf-8").splitlines()
    )
    (event,) = (json.loads(line) for line in logged if '"event":"repair_planned"' in line)
    saved = Path(event["file"])
    assert (event["plan"], saved.parent) == (plan["metadata"]["name"], tmp_path / "saved")
    wait_until(saved.exists)

    world.delete_pod("large")  # what is replayed is the file's cluster, and not this one
    assert m.run("replay", saved, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    (move,), (planned,) = found["moves"], plan["spec"]["moves"]
    assert (move["pod"], move["from"], move["to"]) == (
        f"{planned['namespace']}/{planned['name']}",
        planned["from"],
        planned["to"],
    )
    assert move["devices"] == planned["devices"]
    assert (found["goal"], found["least"], found["proven"]) == ("Waiting", 1, True)


def test_a_plan_that_nobody_needs_goes(world: World, advised: Callable[[], Any]) -> None:
    assert advised()
    world.delete_pod("large")
    wait_until(lambda: plans(world) == [])


def test_a_cancelled_plan_stays_cancelled_and_moves_never_change(world: World, advised: Callable[[], Any]) -> None:
    path = f"{PLANS}/{advised()['metadata']['name']}"
    for body, message in (
        ({"spec": {"moves": [*advised()["spec"]["moves"], advised()["spec"]["moves"][0]]}}, "the moves never change"),
        ({"spec": {"goal": {"kind": "Nodes"}}}, "the goal never changes"),
        ({"spec": {"plan": "other"}}, "the plan never changes"),
        ({"spec": {"decision": "Maybe"}}, "Unsupported value"),
    ):
        with pytest.raises(RequestError, match=message):
            world.plane.request("PATCH", path, body, content=MERGE)

    world.plane.request("PATCH", path, {"spec": {"decision": "Cancelled"}}, content=MERGE)
    wait_until(lambda: advised().get("status", {}).get("state") == "Cancelled")
    with pytest.raises(RequestError, match="a cancelled plan stays cancelled"):
        world.plane.request("PATCH", path, {"spec": {"decision": "Approved"}}, content=MERGE)
