"""The document of the map: columns that say what the fleet says, and the numbers of `dovetail free`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from scheduler.kube.pod_writes import PendingPod, PodScheduled
from scheduler.page.fleet_map import FleetMap, MapOrigin, map_of
from scheduler.page.map_page import encoded
from scheduler.simulation import devices_output, queue_listing, supply_output
from scheduler.simulation.devices_output import FleetAnswer
from solver import fleet_of, grouped_supply
from solver.domain import GangId, Snapshot
from solver.domain.fleet import CounterLeft, DeviceState, Fleet, FleetDevice, Grouping
from tests.support import builders as b

ORIGIN = MapOrigin(read_at="2026-01-03T05:00:00Z", source="a test", version="0.0.0")
CLIQUE = {"nvidia.com/gpu.clique": "x", "rack": "r1"}


def cluster() -> Snapshot:
    """A held, a free and a tainted device, a share, a cordoned node, an incomplete pool, and a node without devices."""
    card = b.device("card-0", capacities={"memory": "40Gi"}, is_shareable=True)
    share = b.result("gpu", "card-0", "n3", share_id=b.share_id(1), consumed={"memory": "10Gi"})
    job = b.held("job", b.result("gpu", "gpu-0", "n1"), node_name="n1", namespace="red")
    return b.snapshot(
        b.node("n1", labels=CLIQUE),
        b.node("n2", labels={"rack": ""}, is_unschedulable=True),
        b.node("n3"),
        b.node("n4"),
        b.node("n5"),
        b.gpu_slice("n1", count=3),
        b.gpu_slice("n2", count=1),
        b.resource_slice("n3", card),
        replace(b.gpu_slice("n4", count=1), slice_count=2),
        b.taint_rule("repair", b.taint("ecc"), pool="n1", device_name="gpu-2"),
        b.gpu_class(),
        replace(job, requests=(b.request("gpu", count=1),), reserved_for=(b.consumer("job", "red"),)),
        replace(b.held("notebook", share, namespace="blue"), reserved_for=(b.consumer("notebook", "blue"),)),
        b.claim("big", b.request("gpu", count=2), namespace="red"),
    )


def answer(snapshot: Snapshot | None = None) -> FleetAnswer:
    snapshot = snapshot or cluster()
    return FleetAnswer(
        fleet=fleet_of(snapshot, node_group_label="rack"),
        node_labels={node.name: dict(node.labels) for node in snapshot.nodes},
        pods=snapshot.pods,
    )


def found(given: FleetAnswer | None = None) -> FleetMap:
    return map_of(given or answer(), (), ORIGIN)


def texts(document: FleetMap, column: Sequence[int]) -> list[str | None]:
    return [None if each < 0 else document.texts[each] for each in column]


def rows(document: FleetMap, table: Any, *names: str) -> list[tuple[str | None, ...]]:
    return list(zip(*(texts(document, getattr(table, name)) for name in names), strict=True))


def test_each_device_has_its_node_its_state_and_why() -> None:
    document = found()
    nodes = texts(document, document.nodes.name)
    places = [nodes[row] for row in document.devices.node]
    of_pool = "pool gpu.example.com/n4 is incomplete: 1 of 2 slices of generation 1 are published"
    states = rows(document, document.devices, "name", "state", "cause", "why")
    assert list(zip(places, states, strict=True)) == [
        ("n1", ("gpu-0", "held", None, None)),
        ("n1", ("gpu-1", "free", None, None)),
        ("n1", ("gpu-2", "unusable", "tainted", "taint ecc:NoSchedule of DeviceTaintRule repair")),
        ("n2", ("gpu-0", "unusable", "node-cordoned", "node n2 is cordoned")),
        ("n3", ("card-0", "shared", None, None)),
        ("n4", ("gpu-0", "unusable", "pool-incomplete", of_pool)),
    ]
    assert document.devices.tainted == (0, 0, 1, 0, 0, 0)


def test_every_node_is_there_with_its_labels() -> None:
    document = found()
    assert texts(document, document.nodes.name) == ["n1", "n2", "n3", "n4", "n5"]
    assert texts(document, document.nodes.labels["rack"]) == ["r1", "", None, None, None]
    assert texts(document, document.nodes.group) == ["r1", None, None, None, None]
    assert texts(document, document.nodes.domain) == ["x", None, None, None, None]
    assert document.nodes.exists == (1, 1, 1, 1, 1)


def test_a_node_that_devices_name_and_that_does_not_exist_is_there() -> None:
    document = found(answer(b.snapshot(b.node("n1"), b.gpu_slice("gone", count=1))))
    assert texts(document, document.nodes.name) == ["gone", "n1"]
    assert document.nodes.exists == (0, 1)


def test_holders_lead_to_claims_and_pods() -> None:
    document = found()
    claims = rows(document, document.claims, "namespace", "name", "since", "source")
    pods = rows(document, document.pods, "namespace", "name")
    held = [
        (document.devices.node[device], claims[claim], [pods[row] for row in document.claims.pods[claim]])
        for device, claim in zip(document.holders.device, document.holders.claim, strict=True)
    ]
    assert held == [
        (0, ("red", "job", b.TIMESTAMP, "allocation"), [("red", "job")]),
        (2, ("blue", "notebook", b.TIMESTAMP, "allocation"), [("blue", "notebook")]),
    ]


def test_a_share_is_a_part_of_its_device() -> None:
    document = found()
    assert document.holders.part == (1000, 250)
    assert texts(document, document.holders.share) == [None, "10Gi memory"]
    assert document.devices.used == (-1, -1, -1, -1, 250, -1)
    assert texts(document, document.devices.left)[4] == "30Gi memory"


def test_pods_have_their_gang() -> None:
    pod = replace(b.pod("job", namespace="red", node_name="n1"), gang=GangId("dovetail.dev", "red", "training"))
    given = answer()
    document = map_of(FleetAnswer(given.fleet, given.node_labels, pods=(pod,)), (), ORIGIN)
    assert texts(document, document.pods.gang) == [str(pod.gang), None]


def partition(name: str, **takes: int) -> FleetDevice:
    counters = tuple(CounterLeft("card", counter, amount, 7, 7) for counter, amount in takes.items())
    return FleetDevice(id=b.device_id(name, "n1"), node="n1", nodes=("n1",), counters=counters)


def test_a_partition_takes_a_part_of_its_card() -> None:
    """A whole device draws on all counters, a partition on its own slices of memory only."""
    whole, half = partition("whole", cores=7, slice0=7, slice1=7), partition("half", cores=3, slice0=7)
    document = found(FleetAnswer(Fleet(devices=(whole, half)), {"n1": {}}))
    assert texts(document, document.devices.card) == ["card", "card"]
    assert dict(zip(texts(document, document.devices.name), document.devices.part, strict=True)) == {
        "half": round(1000 * (3 / 7 + 1) / 3),
        "whole": 1000,
    }


def test_partitions_that_were_cut_before_are_equal_parts_of_their_parent() -> None:
    cuts = tuple(FleetDevice(id=b.device_id(f"mig-{at}", "n1"), node="n1", parent="GPU-7") for at in range(4))
    document = found(FleetAnswer(Fleet(devices=cuts), {"n1": {}}))
    assert texts(document, document.devices.card) == ["GPU-7"] * 4
    assert document.devices.part == (250,) * 4


def test_the_numbers_are_those_of_free() -> None:
    document, given = found(), answer()
    by = (Grouping.CLASS, Grouping.TYPE, Grouping.GROUP)
    assert document.supply == supply_output.document(grouped_supply(given.fleet, given.fleet.devices, by), given.fleet)
    total = {key: document.total[key] for key in ("total", "held", "free", "shared", "blocked", "unusable", "tainted")}
    assert total == {"total": 6, "held": 1, "free": 2, "shared": 1, "blocked": 0, "unusable": 3, "tainted": 1}
    assert document.unusable == {"node-cordoned": 1, "pool-incomplete": 1, "tainted": 1}


def test_without_claims_no_device_is_called_free() -> None:
    given = answer()
    document = found(FleetAnswer(given.fleet, given.node_labels, forbidden=("resourceclaims",)))
    states = dict(zip(texts(document, document.devices.name), texts(document, document.devices.state), strict=True))
    assert states["gpu-1"] == "unknown"
    assert (document.knows_holders, document.forbidden) == (False, ("resourceclaims",))


def test_devices_of_several_nodes_have_no_node() -> None:
    wide = FleetDevice(id=b.device_id("link", "fabric"), nodes=("n1", "n2"))
    every = FleetDevice(id=b.device_id("web", "fabric"), nodes=None)
    document = found(FleetAnswer(Fleet(devices=(wide, every)), {"n1": {}, "n2": {}}))
    assert (document.devices.node, document.devices.reach) == ((-1, -1), (2, -1))


def test_an_empty_cluster_has_a_document() -> None:
    document = found(FleetAnswer(Fleet()))
    assert (document.nodes.name, document.devices.name, document.total, document.texts) == ((), (), {}, ())


def test_the_queue_is_that_of_the_command() -> None:
    why = "0/5 nodes are available: 5 cannot allocate all claims. Request gpu: no device is free."
    late = replace(b.pod("late", namespace="red"), scheduler_name="dovetail")
    pod = PendingPod(late, PodScheduled("False", "Unschedulable", why))
    queue = queue_listing.listed([pod], {"dovetail"})
    document = json.loads(encoded(map_of(answer(), queue, ORIGIN)))
    (listed,) = document["queue"]
    assert (listed["namespace"], listed["name"], listed["position"]) == ("red", "late", 1)
    assert (listed["reason"], listed["message"]) == ("Unschedulable", why)
    assert json.loads(encoded(map_of(answer(), None, ORIGIN)))["queue"] is None


def test_a_document_is_what_its_schema_says() -> None:
    document = json.loads(encoded(found()))
    assert (document.pop("apiVersion"), document.pop("kind")) == ("output.dovetail.dev/v1alpha1", "FleetMap")
    Draft202012Validator(msgspec.json.schema(FleetMap)).validate(document)


def lengths(table: Any) -> set[int]:
    """The lengths of the columns of a table."""
    columns = [getattr(table, name) for name in table.__struct_fields__]
    flat = [each for column in columns for each in (column.values() if isinstance(column, Mapping) else [column])]
    return set(map(len, flat))


@pytest.mark.parametrize("name", ["nodes", "devices", "holders", "claims", "pods"])
def test_the_columns_of_a_table_are_equally_long(name: str) -> None:
    assert len(lengths(getattr(found(), name))) == 1


def test_states_are_those_of_the_fleet() -> None:
    """The front end has a colour for each of these."""
    assert {each.value for each in DeviceState} == {"free", "shared", "held", "blocked", "unusable"}
    assert devices_output.UNKNOWN == "unknown"
