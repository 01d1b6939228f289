"""The rows of the map: all that the columns have, and nothing that shifts when others come and go."""

from typing import Any

import msgspec

from scheduler.kube.pod_writes import PendingPod
from scheduler.page import fleet_map, fleet_rows
from scheduler.page.fleet_map import FleetMap, MapOrigin
from scheduler.page.watched_document import WatchedDocument, operations
from scheduler.simulation import queue_listing
from scheduler.simulation.devices_output import FleetAnswer
from solver import fleet_of
from solver.domain import Pod
from tests.support import builders as b

ORIGIN = MapOrigin(read_at="2026-01-01T00:00:00Z", source="a test", version="0")


def shown(held: list[str], waiting: list[str] | None = None, labels: dict[str, str] | None = None) -> FleetMap:
    """Four nodes with two devices each, of which some are held: each by a claim with the device's name."""
    claims = [
        b.held(name, b.result("gpu", f"gpu-{name[-1]}", name[:2]), node_name=name[:2], namespace=f"team-{name}")
        for name in held
    ]
    names = ("n1", "n2", "n3", "n4")
    slices = [b.gpu_slice(name, count=2) for name in names]
    world = b.snapshot(*(b.node(name) for name in names), *slices, b.gpu_class(), *claims)
    pods: list[Pod] = [b.pod(name) for name in waiting or ()]
    queue = None if waiting is None else queue_listing.listed([PendingPod(pod, None) for pod in pods], {"dovetail"})
    found = FleetAnswer(
        fleet=fleet_of(world), node_labels={name: {"rack": "r1", **(labels or {})} for name in names}, pods=world.pods
    )
    return fleet_map.map_of(found, queue, ORIGIN)


def sent(before: FleetMap, after: FleetMap) -> dict[str, int]:
    """How many rows are sent by table."""
    old, new = fleet_rows.watched(before), fleet_rows.watched(after)
    return {name: count for name in new.version.tables if (count := _new_rows(old, new, name))}


def _new_rows(old: WatchedDocument, new: WatchedDocument, name: str) -> int:
    hashes = new.version.tables[name]
    made = operations(old.version.tables[name], hashes, [b"0"] * len(hashes))
    return sum(len(each) for each in made if isinstance(each, list))


def cells(found: FleetMap) -> Any:
    return msgspec.json.decode(msgspec.json.encode(fleet_rows.tables(found)))


def test_the_rows_have_what_the_columns_have() -> None:
    found = cells(shown(["n10"], ["late"]))
    assert found["nodes"][0] == ["n1", "", "", 1, {"rack": "r1"}]
    assert [row[0] for row in found["devices"]] == ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"]
    first = dict(zip((*fleet_map.DeviceColumns.__struct_fields__, "holders"), found["devices"][0], strict=True))
    assert (first["name"], first["state"], first["part"]) == ("gpu-0", "held", 1000)
    assert first["holders"] == [["team-n10", "n10", "gpu", "", 1000, 0]]
    assert found["devices"][1][-1] == []
    assert found["claims"][0][:2] == ["team-n10", "n10"]
    assert [[*pod] for pod in found["claims"][0][4]] == [row[:2] for row in found["pods"]]
    assert found["queue"][0][0] == 1
    assert found["queue"][0][1]["name"] == "late"
    assert "position" not in found["queue"][0][1]


def test_a_claim_that_goes_changes_one_device_and_no_other_row() -> None:
    held = ["n10", "n20", "n30", "n40"]
    assert sent(shown(held), shown(held[1:])) == {"devices": 1}


def test_a_claim_that_comes_changes_one_device_and_brings_its_claim_and_pod() -> None:
    held = ["n20", "n30", "n40"]
    assert sent(shown(held), shown(["n10", *held])) == {"devices": 1, "claims": 1, "pods": 1}


def test_a_pod_that_leaves_the_head_of_the_queue_sends_no_row() -> None:
    waiting = [f"w{at}" for at in range(9)]
    assert sent(shown([], waiting), shown([], waiting[1:])) == {}
    assert sent(shown([], waiting), shown([], ["new", *waiting])) == {"queue": 1}


def test_a_queue_that_may_not_be_listed_is_no_table() -> None:
    assert "queue" not in fleet_rows.tables(shown([]))
    assert "queue" in fleet_rows.tables(shown([], []))


def test_a_label_of_all_nodes_is_sent_with_the_nodes_alone() -> None:
    assert sent(shown(["n10"]), shown(["n10"], labels={"zone": "a"})) == {"nodes": 4}


def test_each_field_of_the_map_is_a_field_or_a_table() -> None:
    found = fleet_rows.watched(shown([], []))
    document = msgspec.json.decode(found.document, type=dict[str, msgspec.Raw])
    columns = {"holders", "texts", "apiVersion", "kind"}
    assert {*found.version.fields, *found.version.tables, *columns} == set(document)
